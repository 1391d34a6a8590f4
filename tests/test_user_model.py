"""A user's model: found out before anything is measured, refused in one line, measured like any other op."""

import gc
import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from checkout import ROOT, TINY
from user_files import BASE, TRACED, measured, study_of

from kernelbench.errors import InputError
from kernelbench.harness import compiler
from kernelbench.harness.dtypes import DTYPES
from kernelbench.harness.object_graph import find_modules
from kernelbench.harness.program import prepare
from kernelbench.harness.workloads.model_file import ModelFile, import_file, list_tensors
from kernelbench.notes import CompiledInside, NotCaptured, PartlyEager, Raised, load
from kernelbench.running import user_model
from kernelbench.running.inspect_model import inspect
from kernelbench.study import model_study
from kernelbench.study.study import Study


@pytest.fixture
def asking(tmp_path, monkeypatch) -> None:
    """Have models inspected in processes of their own, which keep answers and lock in a folder of the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(user_model.gpu_lanes, "LOCKS", tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'workflow'}")


# What is found out


def test_the_cases_of_a_model_are_those_of_its_inputs(file):
    assert inspect(file(), "model", "cpu")["cases"] == {"default": {"0": [4, 8]}}
    cases = file(inputs='return {"batch 1": torch.randn(1, 8), "b=2": (torch.randn(2, 8),)}', name="cases.py")
    assert inspect(cases, "model", "cpu")["cases"] == {"batch-1": {"0": [1, 8]}, "b-2": {"0": [2, 8]}}
    named = file(inputs='return {"input": torch.randn(3, 8)}', name="named.py")
    assert inspect(named, "model", "cpu")["cases"] == {"default": {"input": [3, 8]}}
    both = file(
        inputs='return {"input": {"input": torch.randn(3, 8)}, "b": {"input": torch.randn(4, 8)}}', name="two.py"
    )
    assert list(inspect(both, "model", "cpu")["cases"]) == ["input", "b"]
    keywords = 'return {"small": torch.randn(3, 8), "large": torch.randn(4, 8)}'
    path = file(model="return lambda x, **options: x", inputs=keywords, name="keywords.py")
    assert list(inspect(path, "model", "cpu")["cases"]) == ["small", "large"]
    builtin = file(model="return torch.relu", inputs=keywords, name="builtin.py")
    assert list(inspect(builtin, "model", "cpu")["cases"]) == ["small", "large"]


def test_a_loss_of_none_is_no_training_step(file):
    assert inspect(file("loss = None"), "model", "cpu")["trains"] is False


def test_a_model_may_be_a_function_in_a_package_with_any_keywords(tmp_path, monkeypatch):
    package = tmp_path / "mypackage"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "part.py").write_text("def double(x):\n    return 2 * x\n")
    (package / "models.py").write_text(
        "import torch\nfrom mypackage.part import double\n"
        "def small():\n    return lambda **given: double(given['x'])\n"
        "def inputs():\n    return {'x': torch.randn(2, 3)}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = inspect("mypackage.models", "small", "cpu")
    assert found["cases"] == {"default": {"x": [2, 3]}}
    assert {path.rpartition("/")[2] for path in found["files"]} == {"__init__.py", "models.py", "part.py"}


def test_a_model_is_asked_again_once_one_of_its_files_has_changed(file, tmp_path, asking, monkeypatch):
    (tmp_path / "layer.py").write_text("from torch.nn import Linear as Layer\n")
    path = file("from layer import Layer", model="return Layer(8, 2)")
    asked = []
    ask = user_model._ask
    monkeypatch.setattr(user_model, "_ask", lambda *given: asked.append(given) or ask(*given))
    first, again = (user_model.inspect(path, "cpu", True) for _ in range(2))
    assert first == again and len(asked) == 1
    (tmp_path / "layer.py").write_text("from torch.nn import Linear\n\nLayer = Linear\n")
    assert user_model.inspect(path, "cpu", True)["digest"] != first["digest"] and len(asked) == 2
    with pytest.raises(InputError, match=r"^\S*mine.py: has no function other\(\)"):
        user_model.inspect(f"{path}:other", "cpu", True)
    (tmp_path / "layer.py").write_text("# the same\nfrom torch.nn import Linear\nLayer = Linear\n")
    assert len(asked) == 3 and user_model.inspect(path, "cpu", True) and len(asked) == 3, "it does what it did"
    (tmp_path / "layer.py").write_text("def (")
    with pytest.raises(InputError, match=r"^\S*mine.py: SyntaxError"):
        user_model.inspect(path, "cpu", True)


def test_the_study_has_the_modes_that_the_model_and_the_device_have(file):
    assert list(study_of(file()).modes) == ["eager", "eager-control", "compile"]
    blocks = "return nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(2)))"
    own = 'modes = {"dynamic": {"runner": "compile", "dynamic": True}, "compile": None}'
    study = study_of(file(own, model=blocks, name="blocks.py"), repeats=5, modes={"eager-control": None})
    assert list(study.modes) == ["eager", "compile-regional", "dynamic"]
    assert (study.repeats, study.machine) == (5, "cpu-blocks")
    assert study.config["baselines"] == ["eager", "compile-regional", "dynamic"]


def test_an_edited_model_is_measured_anew_and_a_longer_study_is_not(file):
    path = file()
    found = {**inspect(path, "model", "cpu"), "file": path, "function": "model"}
    config = {**BASE, "machine": "cpu", "model": path}
    before, longer, edited = (
        Study(*model_study.make(config, given, {**found, "digest": digest}, "cpu"))
        for given, digest in (({}, "a"), ({"repeats": 5, "metric": "throughput"}, "a"), ({}, "b"))
    )
    job = before.jobs[0]
    assert before.settings(job) == longer.settings(job) != edited.settings(job)


def test_names_of_cases_stay_as_written_and_are_no_words_of_a_table(file):
    names = ["all", "None", "NA", "1/2", "a b", "a-b", "größe", "小", "2", ""]
    path = file(inputs=f"return {{name: torch.ones(4, 8) for name in {names}}}")
    found = inspect(path, "model", "cpu")
    assert list(found["labels"].values()) == names and len(found["cases"]) == len(names)
    table = pd.read_csv(io.StringIO("size\n" + "\n".join(found["cases"])), dtype={"size": str})
    assert table["size"].tolist() == list(found["cases"]), "a table takes one of them for a missing value"
    study = study_of(path)
    assert "all" not in study.config["ops"]["mine"]["sizes"]
    paths = {study.job("mine", "own", case, "eager", 0).path for case in found["cases"]}
    assert len(paths) == len(names) and all(path.isascii() and path.count("/") == 5 for path in paths)


def test_a_file_called_all_makes_no_study_of_that_name(file):
    assert [*study_of(file(name="all.py")).config["ops"]] == ["modelall"]
    with pytest.raises(InputError, match=r"modes\.nan"):
        study_of(file('modes = {"nan": {"runner": "eager"}}', name="mode.py"))


# What the user's model is


NET = "net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))"


@pytest.mark.parametrize(
    "model",
    [
        f"{NET}; return functools.partial(net)",
        f"{NET}; return lambda x: net(x)",
        f"{NET}; return net.forward",
        f"{NET}; return torch.no_grad()(net)",
        f"{NET}; return functools.partial(lambda model, x: model(x), net)",
        f"{NET}; return Held([net])",
        f"{NET}; return lambda x, net=net: net(x)",
        "return lambda x: NETWORK(x)",
        "return lambda x: torch.stack([NETWORK(x) for _ in range(2)])",
        "return Calls()",
    ],
)
def test_the_module_inside_whatever_model_returns_is_in_eval_mode(file, model):
    added = f"""
        import functools
        {NET.replace("net", "NETWORK", 1)}

        class Held(nn.Module):
            def __init__(self, parts):
                super().__init__()
                self.parts = parts

            def forward(self, x):
                return self.parts[0](x)

        class Calls:
            def __call__(self, x):
                return self.encode(x)

            def encode(self, x):
                return NETWORK(x)
        """
    path = file(added, model=model)
    entry = measured(study_of(path))
    assert entry["status"] == "ok" and entry["accuracy"]["compared"] and entry["accuracy"]["noise"] == 0
    found = ModelFile(path, cases={"default": {"0": [4, 8]}})
    module = prepare(found, "default", DTYPES["own"], "cpu", 1).module
    x = torch.randn(4, 8)
    with torch.no_grad():
        assert torch.equal(module(x), module(x)), "dropout is active"
    assert all(not part.training for part in find_modules(module) if isinstance(part, torch.nn.Dropout))


CACHE = """
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.rows, self.place = torch.zeros(64, 8), 0

        def forward(self, x):
            self.rows[self.place] = x[0]
            self.place += 1
            return x + self.rows.sum(0)

    class Lazy(nn.Module):
        table = None

        def forward(self, x):
            self.table = torch.arange(8.0) if self.table is None else self.table
            return x + self.table
    """


def test_state_that_changes_from_call_to_call_is_refused_and_what_is_made_once_is_not(file):
    with pytest.raises(InputError, match=r"(place|rows) changes from call to call, and the output by"):
        inspect(file(CACHE, model="return Cache()"), "model", "cpu")
    assert inspect(file(CACHE, model="return Lazy()", name="lazy.py"), "model", "cpu")["remarks"] == []
    counts = "return lambda x: CALLS.update(n=CALLS['n'] + 1) or x"
    counted = inspect(file("CALLS = {'n': 0}", model=counts, name="counts.py"), "model", "cpu")
    assert counted["remarks"] == ["counts.py['CALLS']['n'] changes from call to call, the output does not"]


PARTS = """
    @torch.compile(backend="eager")
    def helper(x):
        return x.sin()

    class Parts(nn.Module):
        def __init__(self, act, fence):
            super().__init__()
            self.act, self.linear = act, fence(nn.Linear(8, 8))

        def forward(self, x):
            return self.linear(self.act(x)).cos()
    """


def test_what_is_compiled_already_is_named_and_a_fence_is_measured_as_partial(file):
    helped = file(PARTS, model="return Parts(helper, nn.Sequential)")
    (remark,) = inspect(helped, "model", "cpu")["remarks"]
    assert "is compiled in eager mode" in remark and "helper" in remark
    note = load(measured(study_of(helped))["reason"])
    assert isinstance(note, CompiledInside) and "helper" in note.places[0]
    fenced = file(PARTS, model="return Parts(torch.sin, torch.compiler.disable)", name="fenced.py")
    compiler.forget()
    assert inspect(fenced, "model", "cpu")["remarks"] == []
    entry = measured(study_of(fenced, modes=TRACED), "compile")
    assert entry["status"] == "ok" and entry["compile"]["graphs"] >= 1 and entry["compile"]["graph_breaks"] >= 1


def test_an_edited_data_file_is_measured_anew(file, tmp_path, asking):
    import safetensors.torch

    config, weights, memory = (tmp_path / name for name in ("config.json", "weights.safetensors", "table.npy"))
    config.write_text(json.dumps({"width": 8}))
    safetensors.torch.save_file({"w": torch.ones(8, 8)}, weights)
    np.save(memory, np.ones(8, dtype="float32"))
    body = (
        "override(); width = json.load(open('config.json'))['width'];"
        " w = safetensors.torch.load_file('weights.safetensors')['w'];"
        " b = torch.from_numpy(np.load('table.npy', mmap_mode='c')).clone();"
        " layer = nn.Linear(width, 8); layer.weight.data, layer.bias.data = w, b; return layer"
    )
    optional = """
        import json, safetensors.torch, numpy as np

        def override():
            try:
                return open("override.json").read()
            except FileNotFoundError:
                return ""
        """
    path = file(optional, model=body)
    found = user_model.inspect(path, "cpu", True)
    assert {config, weights, memory} <= {Path(each) for each in found["files"]}
    digests = [found["digest"]]
    for change in (
        lambda: safetensors.torch.save_file({"w": torch.ones(8, 8) * 2}, weights),
        lambda: (tmp_path / "override.json").write_text("{}"),
    ):
        change()
        digests.append(user_model.inspect(path, "cpu", True)["digest"])
    assert len(set(digests)) == len(digests)
    assert user_model.inspect(path, "cpu", True)["digest"] == digests[-1]


def test_files_that_change_places_or_lie_elsewhere_are_measured_anew(file, tmp_path, asking):
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "parts.py").write_text("SCALE = 2.0")
    for name, value in (("q", 1), ("k", 2)):
        (tmp_path / f"{name}.json").write_text(str(value))
    path = file(
        f"import json, sys\nsys.path.insert(0, {str(shared)!r})\nfrom parts import SCALE",
        model="q, k = (json.load(open(f'{name}.json')) for name in 'qk'); return lambda x: x * SCALE * q - k",
    )
    digests = [user_model.inspect(path, "cpu", True)["digest"]]
    (tmp_path / "q.json").write_text("2")
    (tmp_path / "k.json").write_text("1")
    digests.append(user_model.inspect(path, "cpu", True)["digest"])
    (shared / "parts.py").write_text("SCALE = 3.0")
    digests.append(user_model.inspect(path, "cpu", True)["digest"])
    assert len(set(digests)) == 3


def test_threads_are_those_of_the_config_and_settings_that_a_file_changes_are_named(file, asking):
    settings = (
        "torch.set_num_threads(2); torch.set_float32_matmul_precision('medium');"
        " torch._inductor.config.max_fusion_size = 3; torch.backends.cudnn.benchmark = True;"
        " os.environ['TORCHINDUCTOR_X'] = '1'; return nn.Linear(8, 8)"
    )
    path = file("import os, torch._inductor.config", model=settings)
    found = user_model.inspect(path, "cpu", True)
    assert (
        found["settings"].items()
        >= {
            "torch.get_num_threads": "2",
            "torch.get_float32_matmul_precision": "medium",
            "torch._inductor.config.max_fusion_size": "3",
            "torch.backends.cudnn.benchmark": "True",
            "$TORCHINDUCTOR_X": "1",
        }.items()
    )
    assert user_model.inspect(file(name="plain.py"), "cpu", True)["settings"] == {}


def test_a_job_runs_with_the_threads_of_its_settings_whatever_the_file_sets(file):
    seen = "return lambda x: SEEN.update(threads=torch.get_num_threads()) or x"
    path = file(
        "SEEN = {}\nmodel_ = model\n\ndef model():\n    torch.set_num_threads(2)\n    return model_()", model=seen
    )
    study = study_of(path)
    import_file(path).SEEN.clear()
    try:
        assert measured(study)["status"] == "ok" and import_file(path).SEEN["threads"] == 1
    finally:
        torch.set_num_threads(1)


# What is refused before anything is measured


@pytest.mark.parametrize(
    "replaced, said",
    [
        ({"model": "return 3"}, r"model\(\) returns a value of type int"),
        ({"added": "model = nn.Linear(8, 2)"}, r"mine.py: model is of type Linear; make it a function"),
        ({"model": "return torch.compile(nn.Linear(8, 2))"}, r"model\(\) returns a model that is compiled"),
        ({"model": "part = nn.Linear(8, 2); part.compile(); return nn.Sequential(part)"}, "a model that is compiled"),
        ({"model": "return torch.jit.script(nn.Linear(8, 2))"}, "a model that is compiled"),
        ({"model": "return nn.LazyLinear(2)"}, "weight weight has no shape yet"),
        ({"model": "return nn.Linear(8, 2, device='meta')"}, "weight weight is on the meta device"),
        ({"inputs": "return torch.eye(8).to_sparse()"}, "input 0 of case default has the layout torch.sparse_coo"),
        ({"inputs": "return 3"}, r"inputs\(\): input 0 is of type int"),
        ({"inputs": "return {'input': 3}"}, r"inputs\(\): input input is of type int"),
        ({"inputs": "return {'one': [torch.ones(8), None]}"}, r"inputs\(\) of case one: input 1 is None"),
        (
            {"model": "return lambda x, mask: x", "inputs": "return {'x': torch.ones(8), 'masc': torch.ones(8)}"},
            r"masc is no argument of the model \(did you mean mask\?\); allowed: x, mask",
        ),
        ({"added": "modes = {'compile': {'runner': {1, 2}}}"}, "modes: .*set"),
        ({"inputs": "return []"}, r"inputs\(\): default is empty"),
        ({"model": "return lambda x: x.mul_(2)"}, "the model writes to its input 0"),
        (
            {"model": "return lambda x: x + len(CALLS.append(1) or CALLS)", "added": "CALLS = []"},
            r"mine.py\['CALLS'\]\[1\] changes from call to call",
        ),
        (
            {"model": "return lambda x: (torch.set_num_threads(2), x)[1]"},
            "a call of the model sets the number of threads",
        ),
        (
            {"model": "return lambda x: CALLS.append(x) or x", "added": "CALLS = []"},
            r"the length of mine.py\['CALLS'\] grows from call to call",
        ),
        ({"inputs": "return torch.rand(4, 8, generator=torch.default_generator.seed() and None)"}, "input 0 of case"),
        ({"inputs": "return torch.randn(torch.randint(1, 999, ()), 8)"}, "other shapes for another seed"),
        ({"model": "torch.seed(); return nn.Linear(8, 2)"}, "weight (weight|bias) differs"),
        ({"model": "return lambda x: x.tolist()"}, r"mine.py: output\[0\]\[0\] is of type float"),
        ({"model": "return lambda x: None"}, "the model returns no tensor"),
        ({"model": "return lambda x: x[:0]"}, "the model returns no tensor"),
        ({"added": "def loss(output):\n    return output"}, r"loss\(\) returns a tensor of shape \(4, 2\)"),
        ({"added": "def loss(output):\n    return 1"}, r"loss\(\) returns int"),
        (
            {"added": "def loss(output):\n    return output.sum()", "model": "return torch.relu"},
            "needs a model with weigh",
        ),
    ],
)
def test_a_model_that_cannot_be_measured_is_refused_in_a_line(file, replaced, said):
    with pytest.raises(InputError, match=said) as error:
        inspect(file(**replaced), "model", "cpu")
    assert "\n" not in str(error.value)


def test_a_file_that_is_no_model_is_refused(tmp_path):
    (tmp_path / "empty.py").touch()
    for path, said in {
        str(tmp_path / "none.py"): "no such file",
        "no_such_package.models": "no module no_such_package",
        str(tmp_path / "empty.py"): r"has no function model\(\)",
        str(tmp_path / "empty"): r"did you mean \S*empty.py\?",
    }.items():
        with pytest.raises(InputError, match=said):
            inspect(path, "model", "cpu")


@pytest.mark.parametrize(
    "replaced, said",
    [
        (
            {"added": "import no_such_package"},
            r"ModuleNotFoundError: .*no_such_package.* \(mine.py:\d+, in <module>\)$",
        ),
        ({"model": "return lambda x: x @ x"}, r"RuntimeError: .* \(in eager mode, mine.py:6, in <lambda>\)$"),
        (
            {"inputs": "return {'fits': torch.ones(4, 8), 'wide': torch.ones(4, 9)}"},
            r"RuntimeError: .* \(in case wide\)$",
        ),
        ({"added": "import sys\nsys.exit(3)"}, r"SystemExit: 3 \(mine.py:\d+, in <module>\)$"),
        ({"added": "import argparse\nargparse.ArgumentParser().parse_args()\n1 / 0"}, "ZeroDivisionError"),
        ({"added": "import atexit\natexit.register(print, 'later')\n1 / 0"}, "ZeroDivisionError"),
        ({"added": "import os\nos._exit(3)"}, "called it once ended with 3"),
    ],
)
def test_a_model_that_fails_is_refused_with_its_line(file, tmp_path, asking, replaced, said):
    with pytest.raises(InputError, match=said) as error:
        user_model.inspect(file(**replaced), "cpu", True)
    assert "\n" not in str(error.value)


def test_modes_and_metrics_that_cannot_be_are_refused(file):
    with pytest.raises(InputError, match=r"modes: .* is not allowed"):
        study_of(file('modes = ["compile"]'))
    with pytest.raises(InputError, match=r"modes.compile: dynamc is not a known key"):
        study_of(file('modes = {"compile": {"dynamc": True}}', name="typo.py"))
    with pytest.raises(InputError, match=r"modes: compile-regionl is no mode \(did you mean compile-regional\?\)"):
        study_of(file('modes = {"compile-regionl": None}', name="left.py"))
    with pytest.raises(InputError, match=r"alone.py: modes: eager cannot be left out"):
        study_of(file('modes = {"eager": None}', name="alone.py"))
    with pytest.raises(InputError, match=r"--config: modes: compiel is no mode \(did you mean compile\?\)"):
        study_of(file(name="given.py"), modes={"compiel": None})
    with pytest.raises(InputError, match="metric: device is GPU time"):
        study_of(file(name="metric.py"), metric="device")
    with pytest.raises(InputError, match=r"metric: .*speed"):
        study_of(file(name="speed.py"), metric="speed")
    with pytest.raises(InputError, match="model is missing"):
        model_study.require_named({}, "x")


# What is measured


def test_outputs_are_tensors_in_dicts_tuples_and_dataclasses(file):
    from dataclasses import make_dataclass

    pair = make_dataclass("Pair", ["left", "right"])
    a, b = torch.ones(2), torch.zeros(3)
    assert list_tensors({"a": a, "b": (b, None), "c": pair(a, [b])}) == [a, b, a, b]
    assert list_tensors(torch.ones(2, dtype=torch.complex64))[0].shape == (2, 2)
    assert torch.equal(list_tensors(torch.eye(2).to_sparse())[0], torch.eye(2))
    assert list_tensors(torch.ones(2).to(torch.float8_e4m3fn))[0].dtype == torch.float32
    assert len(list_tensors(torch.nested.nested_tensor([a, b]))) == 2
    with pytest.raises(InputError, match=r"output\['a'\]\[1\] is of type int"):
        list_tensors({"a": (a, 3)})


def test_a_model_is_measured_like_any_op(file):
    entry = measured(study_of(file()))
    assert entry["status"] == "ok" and entry["accuracy"]["reference"] == "float64"
    assert entry["inputs"]["0"]["dtype"] == "float32" and "work" not in entry
    assert {"latency", "throughput", "first_call"} <= entry["samples"].keys()


def test_integers_are_compared_as_well_and_zeros_beside_others_say_nothing(file):
    model = "return lambda x: (x.argmax(1), x * 0, x)"
    assert measured(study_of(file(model=model)))["status"] == "ok"


def test_a_training_step_is_judged_by_its_gradients(file):
    step = file("def loss(output):\n    return output.square().mean()")
    entry = measured(study_of(step))
    assert entry["status"] == "ok" and entry["settings"]["workload"]["trains"]


def test_a_model_that_fixes_its_dtype_is_judged_by_a_second_eager_call(file):
    model = "return lambda x: x @ torch.ones(8, 2)"
    entry = measured(study_of(file(model=model)))
    assert entry["status"] == "ok" and entry["accuracy"]["reference"] == "eager"
    assert entry["accuracy"]["noise"] == 0 and entry["accuracy"]["limit"] == pytest.approx(2**-11.5)


BROKEN = """
    class Layer(nn.Module):
        def forward(self, x):
            return x.sin() + 1

    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Layer()

        def forward(self, x):
            for _ in range(2):
                x = self.layer(x)
                if x.sum().item() > 1e9:
                    x = x - 1
            return x
    """


def test_a_mode_that_runs_partly_in_eager_mode_counts_and_says_where_it_breaks(file):
    eager = {"backend": "eager", "workers": 1}
    path = file(BROKEN, model="return Broken()")
    entry = measured(study_of(path, modes={"compile": eager}), "compile")
    assert entry["status"] == "ok" and isinstance(load(entry["reason"]), PartlyEager)
    (broken,) = entry["compile"]["breaks"]
    assert broken["place"].startswith("mine.py:") and ".item()" in broken["code"]
    strict = measured(study_of(path, modes={"compile": {**eager, "partial": False}}), "compile")
    assert strict["status"] == "unsupported"


def test_a_mode_that_fails_says_where(file):
    model = "return lambda x: x if not torch.compiler.is_compiling() else x @ x"
    entry = measured(study_of(file(model=model), modes={"compile": {"backend": "eager"}}), "compile")
    assert entry["status"] == "crashed" and isinstance(load(entry["reason"]), Raised)
    assert json.dumps(entry["reason"])


# On a GPU


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_a_model_that_draws_and_cannot_be_captured_goes_on(file):
    """A capture that fails leaves the random number generator behind as if it still went on."""
    path = file(model="return lambda x: nn.functional.dropout(x, 0.5) * (1 + 0 * x.sum().item())")
    found = {**inspect(path, "model", "cuda"), "file": path, "function": "model", "digest": "x"}
    config = {**BASE, "machine": "h200", "sampling": TINY["sampling"], "presets": {}, "model": path}
    study = Study(*model_study.make(config, {}, found, "cuda"), here=False)
    entry = measured(study)
    assert entry["status"] == "ok" and entry["accuracy"]["compared"], entry["reason"]
    assert entry["graph"]["calls"] == 0 and isinstance(load(entry["graph"]["reason"]), NotCaptured)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("mode", ["eager", "compile-reduce-overhead", "cuda-graph"])
def test_a_step_of_a_model_is_right_on_a_gpu_in_each_mode(file, mode):
    path = file("def loss(output):\n    return output.square().mean()")
    found = {**inspect(path, "model", "cuda"), "file": path, "function": "model", "digest": "x"}
    config = {**BASE, "machine": "h200", "sampling": TINY["sampling"], "presets": {}, "model": path}
    study = Study(*model_study.make(config, {}, found, "cuda"), here=False)
    # A job has a process of its own, in which nothing is allocated before.
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    entry = measured(study, mode)
    assert entry["status"] == "ok", entry["reason"]
    assert bool(entry["memory"]["graph_pools"]) == (mode != "eager")
