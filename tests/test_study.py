"""The study: its cells and jobs, their order, and what a job depends on."""

import re
from itertools import groupby
from pathlib import Path

import pytest
import yaml

from kernelbench import code_digest, imports
from kernelbench.errors import InputError
from kernelbench.study import machine
from kernelbench.study.cells import find_diagnosed
from kernelbench.study.study import Study, load

CONFIG = yaml.safe_load((Path(__file__).parents[1] / "config.yaml").read_text(encoding="utf-8"))


@pytest.fixture
def gpu_study(monkeypatch) -> Study:
    monkeypatch.setattr(machine, "present", lambda: ("h200", "cuda", "NVIDIA H200"))
    return Study({**CONFIG, "recorded": []})


def study_with(monkeypatch, **changes) -> Study:
    monkeypatch.setattr(machine, "present", lambda: ("h200", "cuda", "NVIDIA H200"))
    return Study({**CONFIG, "recorded": [], **changes})


def files_of(study: Study, *job) -> list[str]:
    """Return the files that measure the job of the first repeat with this op, dtype, size and mode."""
    return code_digest.files_of_job(study.settings(study.job(*job, 0)))


def test_the_default_study_is_the_published_one_with_copy(gpu_study):
    cells = gpu_study.cells()
    assert len([c for c in cells if c.op != "copy"]) == 19
    assert {c.dtype for c in cells} == {"float16"}
    arms = {mode for mode in CONFIG["modes"] if find_diagnosed(CONFIG, mode)}
    assert len([job for job in gpu_study.jobs if job.mode not in arms]) == (19 * 6 + 1) * 10 == 1150
    assert len([job for job in gpu_study.jobs if job.mode in arms]) == 9 * 10


def test_repeats_are_blocks_and_the_modes_of_a_cell_stand_together(gpu_study):
    jobs = gpu_study.jobs
    assert [repeat for repeat, _ in groupby(job.repeat for job in jobs)] == list(range(10))
    assert len(list(groupby((job.repeat, job.cell) for job in jobs))) == 20 * 10
    orders = {tuple(job.cell for job in jobs if job.repeat == r and job.mode == "eager") for r in range(10)}
    assert len(orders) == 10
    first = [list(group) for _, group in groupby(jobs, key=lambda job: (job.repeat, job.cell))]
    assert len({tuple(job.mode for job in group) for group in first}) > 100


def test_priority_follows_the_order_and_never_falls_to_snakemakes_default(gpu_study):
    priorities = [gpu_study.priority(job) for job in gpu_study.jobs]
    assert priorities == sorted(priorities, reverse=True)
    assert priorities[-1] > 0


def test_growing_the_study_leaves_order_and_settings_of_the_rest_unchanged(monkeypatch):
    small = study_with(monkeypatch, repeats=2)
    ops = {**CONFIG["ops"], "matmul": {"sizes": [512, 1024, 2048, 4096, 8192]}}
    large = study_with(monkeypatch, repeats=3, ops=ops, modes={**CONFIG["modes"], "new": {"runner": "eager"}})
    known = set(small.jobs)
    assert [job for job in large.jobs if job in known] == small.jobs
    assert all(small.settings(job) == large.settings(job) for job in small.jobs)


def test_a_mode_that_is_only_for_some_cells_has_no_jobs_at_others(monkeypatch):
    arm = {"runner": "compile", "skip_guards": True, "diagnoses": "compile", "only": {"softmax": [1024, 4096]}}
    study = study_with(monkeypatch, modes={**CONFIG["modes"], "compile-arm": arm})
    of_arm = [job for job in study.jobs if job.mode == "compile-arm"]
    assert {(job.cell.op, job.cell.size) for job in of_arm} == {("softmax", "1024"), ("softmax", "4096")}
    assert len(of_arm) == 2 * study.repeats
    assert study.settings(of_arm[0])["run"] == {"runner": "compile", "skip_guards": True}
    with pytest.raises(InputError, match="mode: compile-arm is not known"):
        study.job("matmul", "float16", "512", "compile-arm", 0)


def test_the_study_as_run_can_be_run_again_whatever_a_preset_leaves_out(monkeypatch):
    monkeypatch.setattr(machine, "present", lambda: ("cpu-x", "cpu", "X"))
    arms = {
        "arm": {"runner": "eager", "only": {"softmax": [1024, 16384], "matmul": [512]}},
        "gone": {"runner": "eager", "only": {"softmax": [65536]}},
        "elsewhere": {"runner": "eager", "only": {"layer_norm": [256]}},
    }
    cpu = {"repeats": 3, "ops": {"softmax": {"sizes": [1024]}, "layer_norm": {"sizes": [256], "modes": ["eager"]}}}
    modes = {"eager": {"runner": "eager"}, "compile": {"runner": "compile"}, **arms}
    study = Study({**CONFIG, "recorded": [], "modes": modes, "presets": {"cpu": cpu}})
    again = Study(yaml.safe_load(yaml.safe_dump(study.config)))
    assert again.jobs == study.jobs and again.config == study.config
    assert study.modes["arm"]["only"] == {"softmax": [1024], "matmul": [512]}
    assert not {"gone", "elsewhere"} & {job.mode for job in study.jobs}


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[1] / "workflow" / "studies").glob("*.yaml")), ids=str)
def test_the_other_studies_are_accepted_and_file_their_results_apart(path, monkeypatch):
    monkeypatch.setattr(machine, "present", lambda: ("h200", "cuda", "NVIDIA H200"))
    study = load(path)
    assert study.results == f"results/h200-{path.stem}"
    # The held-out study has jobs enough with one repeat less, and no exact intervals.
    assert study.repeats >= (5 if path.stem == "heldout" else 6), "what an exact interval needs"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("seed: 1\n? [a, b]\n: 1\n", r"config.yaml: line 2: a list is not allowed as a key; allowed: text"),
        ("ops:\n  ? {a: b}\n  : 1\n", r"config.yaml: line 2: a mapping is not allowed as a key; allowed: text"),
        ("seed: !seed 1\n", r".*/config.yaml: not valid YAML: could not determine a constructor for .* '!seed' .*"),
        ("ops: [\n", r".*/config.yaml: not valid YAML: .*"),
        ("", r"config: null is not allowed; it should be a mapping"),
    ],
)
def test_a_file_that_is_no_mapping_of_names_gives_one_line(tmp_path, text, line):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        load(path)
    assert re.fullmatch(line, str(refused.value))


def test_another_seed_is_another_order(monkeypatch):
    assert study_with(monkeypatch, seed=1).jobs != study_with(monkeypatch, seed=2).jobs


def test_a_job_depends_on_its_own_workload_and_kernel_only(gpu_study):
    def files(op, size, mode):
        return files_of(gpu_study, op, "float16", size, mode)

    triton, eager = files("softmax", "1024", "triton"), files("softmax", "1024", "eager")
    kernel = {f"kernels/{name}.py" for name in ("softmax", "launch", "ring", "rowwise")}
    assert set(triton) - set(eager) == kernel | {"workflow/kernelbench/harness/runners/kernel.py"}
    assert set(eager) - set(triton) == {"workflow/kernelbench/harness/runners/eager.py"}
    assert {Path(s).name for s in eager if "workloads/" in s} == {"__init__.py", "softmax.py"}
    assert all((Path(__file__).parents[1] / source).is_file() for source in triton)


def test_a_kernel_in_the_language_of_a_library_is_a_source_of_that_library_alone(monkeypatch):
    modes = {name: {"runner": "library", "library": name, "devices": ["cuda"]} for name in ("liger", "helion")}
    ops = {"softmax": {"sizes": [128]}, "layer_norm": {"sizes": [128]}}
    study = study_with(monkeypatch, ops=ops, modes={"eager": {"runner": "eager"}, **modes}, baselines=["eager"])
    liger, helion = (files_of(study, "softmax", "float16", "128", name) for name in modes)
    assert set(helion) - set(liger) == {"workflow/kernelbench/harness/libraries/helion.py"}
    assert set(liger) <= set(helion)


def test_a_kernel_is_its_file_and_those_that_it_imports(tmp_path):
    files = {
        "one": "from . import three, two",
        "two": "from .four import f",
        "four": "def f():\n    from kernels import one\n    from kernels.six import f",
        "five": "import torch\nfrom torch import one\nfrom .. import two\nfrom ..kernels import four",
        "six": "",
        "broken": "def",
    }
    package = tmp_path / "kernels"
    package.mkdir()
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)

    def imported(name: str) -> list[str]:
        return [path.stem for path in imports.files_of(package / f"{name}.py", tmp_path)]

    assert imported("one") == ["four", "one", "six", "two"]
    assert imported("five") == ["five"]
    assert imported("broken") == ["broken"]
    assert imported("three") == []


def test_without_a_gpu_the_preset_applies(monkeypatch):
    monkeypatch.setattr(machine, "present", lambda: ("cpu-x", "cpu", "X"))
    study = Study({**CONFIG, "recorded": []})
    assert study.results == "results/cpu-x"
    assert {c.dtype for c in study.cells()} == {"float32"}
    assert study.repeats == 3
    for cell in (cell for cell in study.cells() if cell.op in CONFIG["ops"]):  # The models have the sizes of the log.
        shapes = study.workloads[cell.op].shapes(cell.size, 4)
        assert sum(_elements(shape) for shape in shapes.values()) * 4 >= 2**20


def test_what_the_command_line_gives_is_laid_over_the_preset(monkeypatch):
    monkeypatch.setattr(machine, "present", lambda: ("cpu-x", "cpu", "X"))
    given = {"repeats": 7, "dtypes": ["bfloat16"], "sampling": {"samples": 20}, "recorded": [], "draft": True}
    study = Study(CONFIG, given=given)
    assert study.repeats == study.config["repeats"] == 7
    assert {cell.dtype for cell in study.cells()} == {"bfloat16"}
    preset = CONFIG["presets"]["cpu"]["sampling"]
    assert study.config["sampling"] == {**CONFIG["sampling"], **preset, "samples": 20}
    assert study.draft and not {"recorded", "draft"} & set(study.config)
    assert Study(study.config).jobs == study.jobs


def _elements(shape) -> int:
    total = 1
    for edge in shape:
        total *= edge
    return total


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("Tesla T4", "t4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
    ],
)
def test_the_label_of_a_gpu_comes_from_its_name(name, label):
    assert machine.gpu_label(name) == label


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("AMD EPYC", "cpu-amd-epyc"),
        ("Intel(R) Xeon(R) Gold 6226 CPU @ 2.70GHz", "cpu-intel-xeon-gold-6226"),
        ("AMD EPYC 7763 64-Core Processor", "cpu-amd-epyc-7763-64-core"),
    ],
)
def test_the_label_of_a_cpu_comes_from_its_name(name, label):
    assert machine.cpu_label(name) == label


def test_a_label_may_go_on_with_the_name_of_a_study(monkeypatch):
    monkeypatch.setattr(machine, "present", lambda: ("h200", "cuda", "NVIDIA H200"))
    assert machine.resolve("h200-start", here=True) == ("h200-start", "cuda")
    machine.require("h200-start")
    with pytest.raises(InputError, match="machine: h200x is not what this machine has"):
        machine.require("h200x")


@pytest.mark.parametrize(("label", "model"), [("h200", "h200"), ("h200-start", "h200"), ("cpu-amd-epyc", "")])
def test_a_cluster_is_asked_for_the_gpu_of_the_label(monkeypatch, label, model):
    assert study_with(monkeypatch, machine=label).gpu_model == model


@pytest.mark.parametrize("visible", ["", "-1"])
def test_hidden_gpus_are_no_gpus(monkeypatch, visible):
    monkeypatch.setattr(machine.metadata, "version", lambda name: "2.13.0")
    monkeypatch.setattr(machine.cuda, "devices", lambda: pytest.fail("it asked"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert machine.present.__wrapped__()[1] == "cpu"


def test_a_job_that_the_study_does_not_have_is_named(gpu_study):
    with pytest.raises(InputError, match=r"size: 1000 is not known.*allowed: 512, 1024, 2048, 4096"):
        gpu_study.job("matmul", "float16", "1000", "eager", 0)
    with pytest.raises(InputError, match=r"op: matmull is not known \(did you mean matmul\?\)"):
        gpu_study.job("matmull", "float16", "512", "eager", 0)


def test_a_workload_that_builds_on_another_depends_on_both(monkeypatch):
    study = study_with(
        monkeypatch,
        ops={"gpt_training": {"sizes": [1]}},
        dtypes=["bfloat16"],
        modes={"eager": {"runner": "eager"}},
        baselines=["eager"],
    )
    files = code_digest.files_of_job(study.settings(study.jobs[0]))
    assert {Path(s).name for s in files if "workloads/" in s} == {"gpt.py", "gpt_training.py", "__init__.py"}
