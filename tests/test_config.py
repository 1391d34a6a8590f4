"""Bad configs: each ends with one clear line and a non-zero exit, and touches nothing."""

import copy
import importlib
import json
import math
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
import yaml
from checkout import TINY, Checkout

from kernelbench.errors import InputError
from kernelbench.study.config import BACKENDS
from kernelbench.study.study import Study, load

ROOT = Path(__file__).parents[1]
CONFIG = (ROOT / "config.yaml").read_text(encoding="utf-8")
LOADED = yaml.safe_load(CONFIG)

ONLY_NOWHERE = {mode: {"runner": mode, "only": {}} for mode in ("eager", "compile")}

# What to change in config.yaml ({dotted key: value, None takes it out}, or text that replaces the file), and what the
# line must say.
BAD = {
    "unknown key": ({"repeat": 3}, "repeat is not a known key (did you mean repeats?)"),
    "misspelt sampling key": ({"sampling.sample": 3}, "sample is not a known key (did you mean samples?)"),
    "rows twice": ({"ops.softmax.bytes": "1MiB"}, "ops.softmax: rows and bytes are both given; allowed: one of them"),
    "bytes without a unit": (
        {"ops.layer_norm": {"sizes": [8], "bytes": "256MB"}},
        "ops.layer_norm.sizes: 256MB is not allowed; allowed: an integer and KiB, MiB or GiB, as in 1GiB",
    ),
    "bytes that are no whole rows": (
        {"ops.layer_norm": {"sizes": [24], "bytes": "1MiB"}},
        "ops.layer_norm.sizes: bytes: 48 does not divide 1,048,576; allowed: a divisor of it",
    ),
    "tokens that are no whole sequences": (
        {"ops.attention": {"sizes": [100], "tokens": 128}},
        "ops.attention.sizes: tokens: 100 does not divide 128; allowed: a divisor of it",
    ),
    "layout of something else": (
        {"ops.matmul.layout": "nm"},
        "ops.matmul.sizes: layout: nm is not allowed; allowed: nn, nt, tn, tt",
    ),
    "queries of a causal op": (
        {"ops.attention": {"sizes": [128], "causal": True, "queries": 1}},
        "ops.attention.sizes: queries: not allowed with causal: true; allowed: one of the two",
    ),
    "heads that are no whole groups": (
        {"ops.attention.kv_heads": 3},
        "ops.attention.sizes: kv_heads: 3 does not divide 16; allowed: a divisor of it",
    ),
    "no queries": (
        {"ops.attention.queries": 0},
        "ops.attention: queries: 0 is not allowed; allowed: an integer of at least 1",
    ),
    "more sizes drawn than there are": (
        {"ops.copy.draw": 2},
        "ops.copy.draw: 2 of 1 sizes; allowed: at most 1",
    ),
    "no size drawn": (
        {"ops.matmul.draw": 0},
        "ops.matmul.draw: 0 is not allowed; it should be greater than or equal to 1",
    ),
    "product of two": (
        {"ops.matmul.sizes": ["16x32"]},
        "size 16x32 is not allowed; allowed: an integer of at least 1, or three as in 16x4096x4096",
    ),
    "target of an op that is not there": (
        {"targets": {"mode": "triton", "ratios": [{"ops": ["sofmax"], "of": ["limit"], "must": 1}]}},
        "targets.ratios.ops: sofmax is not known (did you mean softmax?)",
    ),
    "target of a size that is not there": (
        {"targets": {"mode": "triton", "ratios": [{"ops": ["softmax"], "sizes": [7], "of": ["limit"], "must": 1}]}},
        "targets.ratios.sizes of softmax: 7 is not known; allowed: ",
    ),
    "target without a ratio": (
        {"targets": {"mode": "triton", "ratios": [{"ops": ["softmax"], "of": ["limit"]}]}},
        'targets.ratios.0: {"of": ["limit"], "ops": ["softmax"]} is not allowed; allowed: must or aim',
    ),
    "target of a mode that is not there": (
        {"targets": {"mode": "triton", "ratios": [{"ops": ["softmax"], "of": ["eagre"], "best": True, "must": 1}]}},
        "targets.ratios.of: eagre is not known (did you mean eager?)",
    ),
    "floor without a mean": (
        {"targets": {"mode": "triton", "ratios": [{"ops": ["softmax"], "of": ["eager"], "must": 1, "floor": 0.5}]}},
        '"of": ["eager"], "ops": ["softmax"]} is not allowed; allowed: a floor with mean: true',
    ),
    "floor above the goal": (
        {
            "targets": {
                "mode": "triton",
                "ratios": [{"ops": ["softmax"], "of": ["eager"], "must": 1, "aim": 2, "floor": 1.1, "mean": True}],
            }
        },
        '"ops": ["softmax"]} is not allowed; allowed: a floor of at most must',
    ),
    "limit as one of several modes": (
        {"targets": {"mode": "triton", "ratios": [{"ops": ["softmax"], "of": ["limit"], "must": 1, "best": True}]}},
        '"ops": ["softmax"]} is not allowed; allowed: best: true without limit',
    ),
    "group that is called as an op": (
        {"targets": {"mode": "triton", "ratios": [{"ops": ["copy"], "of": ["eager"], "must": 1, "group": "softmax"}]}},
        "targets.ratios.group: softmax is an op; allowed: a name that no op has",
    ),
    "floor of a call": (
        {
            "targets": {
                "mode": "triton",
                "ratios": [{"ops": ["softmax"], "of": ["eager"], "must": 1}],
                "calls": [{"ops": ["softmax"], "of": ["eager"], "must": 1, "floor": 1}],
            }
        },
        "targets.calls.0: floor is not a known key",
    ),
    "misspelt library": (
        {"modes.liger": {"runner": "library", "library": "lige"}},
        "modes.liger.library: lige is not known (did you mean liger?)",
    ),
    "library of another op": (
        {"modes.liger": {"runner": "library", "library": "liger"}, "ops.matmul.modes": ["eager", "liger"]},
        "ops.matmul.modes: liger: library: liger is not known; allowed: none",
    ),
    "no library": (
        {"modes.liger": {"runner": "library"}},
        "modes.liger: library is missing",
    ),
    "library to a compiler": (
        {"modes.compile.library": "liger"},
        "modes.compile: library is not a known key",
    ),
    "misspelt parameter": ({"ops.softmax.row": 3}, "ops.softmax: row is not a known key (did you mean rows?)"),
    "misspelt workload": ({"ops.sofmax": {"sizes": [8]}}, "workload sofmax is not known (did you mean softmax?)"),
    "misspelt mode": ({"ops.copy.modes": ["eagre"]}, "ops.copy.modes: eagre is not known (did you mean eager?)"),
    "misspelt baseline": ({"baselines": ["compil"]}, "baselines: compil is not known (did you mean compile?)"),
    "misspelt runner": ({"modes.triton.runner": "kernle"}, "runner kernle is not known (did you mean kernel?)"),
    "misspelt backend": (
        {"modes.compile.backend": "inducter"},
        "modes.compile.backend: inducter is not known (did you mean inductor?)",
    ),
    "misspelt dtype": ({"dtypes": ["flaot16"]}, "dtypes: flaot16 is not known (did you mean float16?)"),
    "float8 of an op that has none": (
        {"ops.softmax.dtypes": ["float8"]},
        "ops.softmax: dtypes: float8 is not known (did you mean float",
    ),
    "size 0": ({"ops.matmul.sizes": [0]}, "ops.matmul.sizes: size 0 is not allowed; allowed: an integer of at least 1"),
    "size as text": ({"ops.matmul.sizes": ["big"]}, "ops.matmul.sizes: size big is not allowed"),
    "size without unit": (
        {"ops.copy.sizes": [100]},
        "ops.copy.sizes: size 100 is not allowed; allowed: an integer and KiB",
    ),
    "size too large": ({"ops.matmul.sizes": [100000]}, "size 100000 gives a 10,000,000,000 elements"),
    "duplicate size": ({"ops.matmul.sizes": [512, 512]}, "ops.matmul.sizes: [512, 512] is not allowed"),
    "no sizes": ({"ops.matmul.sizes": []}, "ops.matmul.sizes: [] is not allowed"),
    "negative repeats": ({"repeats": -1}, "repeats: -1 is not allowed; it should be greater than or equal to 1"),
    "text for a number": ({"seed": "one"}, 'seed: "one" is not allowed; it should be a valid integer'),
    "seed beyond 64 bits": (
        {"seed": 2**63},
        "seed: 9223372036854775808 is not allowed; it should be less than",
    ),
    "seed beyond all": ({"seed": 1e40}, "seed: 1e+40 is not allowed; it should be a valid integer"),
    "date for a seed": (
        {"seed": date(2026, 11, 20)},
        'seed: "2026-11-20" is not allowed; it should be a valid integer',
    ),
    "repeats with a point": ({"repeats": 3.0}, "repeats: 3.0 is not allowed; it should be a valid integer"),
    "threads with a point": ({"threads": 1.0}, "threads: 1.0 is not allowed; it should be a valid integer"),
    "size with a point": (
        {"ops.matmul.sizes": [512.0]},
        "ops.matmul.sizes.0: 512.0 is not allowed; allowed: an integer, or text",
    ),
    "no number of seconds": (
        {"sampling.max_seconds": math.nan},
        "sampling.max_seconds: NaN is not allowed; it should be a finite number",
    ),
    "no number for a tolerance": (
        {"sampling.warmup_tolerance": math.nan},
        "sampling.warmup_tolerance: NaN is not allowed; it should be a finite number",
    ),
    "negative rows": (
        {"ops.softmax.rows": -5},
        "ops.softmax: rows: -5 is not allowed; allowed: an integer of at least 1",
    ),
    "text for yes or no": ({"ops.attention.causal": "yes"}, "causal: 'yes' is not allowed; allowed: true or false"),
    "delta above 1": ({"equivalence.device": 1.5}, "equivalence.device: 1.5 is not allowed"),
    "no ops": ({"ops": {}}, "ops: {} is not allowed"),
    "list for a mapping": ({"modes": ["eager"]}, 'modes: ["eager"] is not allowed'),
    "machine with spaces": ({"machine": "my gpu"}, 'machine: "my gpu" is not allowed; allowed: auto, cpu, or'),
    "unknown recorded study": ({"recorded": ["h2000"]}, "recorded: h2000 is not known (did you mean"),
    "text for a draft": ({"draft": "yes"}, 'draft: "yes" is not allowed; it should be true or false'),
    "zero seconds": (
        {"sampling.max_seconds": 0},
        "sampling.max_seconds: 0 is not allowed; it should be greater than 0",
    ),
    "misspelt required key": ({"repeats": None, "repeat": 3}, "repeat is not a known key (did you mean repeats?)"),
    "no repeats": ({"repeats": None}, "repeats is missing"),
    "misspelt metric": ({"equivalence.devise": 0.01}, "equivalence: devise is not known (did you mean device?)"),
    "incomplete sampling": ({"sampling": {"samples": 5}}, "sampling: min_samples is missing"),
    "the same size as text": (
        {"ops.matmul.sizes": [512, "512"]},
        'ops.matmul.sizes: [512, "512"] is not allowed; allowed: each value once',
    ),
    "option of another runner": ({"modes.eager.mode": "default"}, "modes.eager: mode is not a known key"),
    "misspelt compile mode": (
        {"modes.compile.mode": "max-autotun"},
        '"max-autotun" is not allowed (did you mean max-auto',
    ),
    "a compiler's key of a kernel": (
        {"modes.triton.skip_guards": True},
        "modes.triton: skip_guards is not a known key",
    ),
    "misspelt flush": ({"modes.eager.flush": "reed"}, '"reed" is not allowed (did you mean read?)'),
    "diagnosis of itself": ({"modes.eager.diagnoses": "eager"}, "modes.eager.diagnoses: eager is not known"),
    "only for an op that is not there": ({"modes.eager.only": {"sofmax": [1024]}}, "only: sofmax is not known (did"),
    "only for a size that is not there": ({"modes.eager.only": {"softmax": [1000]}}, "only.softmax: 1000 is not known"),
    "baseline that diagnoses": (
        {"baselines": ["eager", "compile-skip-guards"]},
        "baselines: compile-skip-guards is not allowed, as it diagnoses another mode; allowed: compile, ",
    ),
    "first baseline for some cells": (
        {"modes.eager.only": {"softmax": [1024]}, "modes.eager-control.only": {"softmax": [1024]}},
        "baselines: eager is not allowed, as it is only for some cells; allowed: compile, ",
    ),
    "control that is no twin": (
        {"modes.eager-control.runner": "compile"},
        "modes.eager-control: {'runner': 'compile'}",
    ),
    "control without its twin": (
        {"baselines": ["compile"], "modes.eager-control.only": {"softmax": [1024]}},
        "modes.eager-control is compared with eager alone; add eager to baselines",
    ),
    "control as a baseline": (
        {"baselines": ["eager", "eager-control"]},
        "baselines: eager-control is not allowed, as it is eager again; allowed: compile, ",
    ),
    "preset's only for an op that is not there": (
        {"presets.cpu.modes.jit.only": {"mpl": [4]}},
        "modes.jit.only: mpl is not known (did you mean mlp?)",
    ),
    "machine that ends in a line break": ({"machine": "cpu\n"}, "machine: "),
    "only for an op that has modes of its own": (
        {"modes.compile-skip-guards.only": {"copy": ["1GiB"]}},
        "modes.compile-skip-guards.only: copy has modes of its own without compile-skip-guards; add ",
    ),
    "no job": (
        {"presets": None, "ops": {"copy": {"sizes": ["1MiB"]}}, "baselines": ["eager"], "modes": ONLY_NOWHERE},
        "modes: no mode applies to any cell; check each mode's `only`",
    ),
    "duplicate op": (CONFIG.replace("  softmax: ", "  matmul: ", 1), "matmul is given twice; allowed: each key once"),
    "empty file": ("", "Config file must be given as JSON or YAML with keys at top level"),
    "not YAML": ("ops: [", "Config file is not valid JSON or YAML"),
}
# What is said by Snakemake, which reads the file first.
OF_SNAKEMAKE = {"empty file", "not YAML"}


def changed(changes: dict) -> str:
    """Return config.yaml with each dotted key set."""
    config = copy.deepcopy(LOADED)
    for dotted, value in changes.items():
        *parents, last = dotted.split(".")
        inner = config
        for parent in parents:
            inner = inner[parent]
        if value is None:
            del inner[last]
        else:
            inner[last] = value
    return yaml.safe_dump(config)


STUDY = "results/cpu-test/study.yaml"


@pytest.fixture
def checkout(tmp_path) -> Checkout:
    return Checkout(tmp_path / "a study", TINY)


def snakemake(*arguments) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--resources", "gpu=1", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def written(name: str, tmp_path: Path) -> tuple[Path, str]:
    """Return the path of a bad config, and what the line must say of it."""
    change, line = BAD[name]
    path = tmp_path / "config.yaml"
    path.write_text(change if isinstance(change, str) else changed(change), encoding="utf-8")
    return path, line


@pytest.mark.parametrize("name", [name for name in BAD if name not in OF_SNAKEMAKE])
def test_a_bad_config_is_refused_in_one_line(name, tmp_path):
    path, line = written(name, tmp_path)
    with pytest.raises(InputError) as refused:
        load(path)
    said = str(refused.value)
    assert line in said and len(said.splitlines()) == 1


@pytest.mark.parametrize("name", [*sorted(OF_SNAKEMAKE), "unknown key", "duplicate op"])
def test_a_bad_config_ends_the_run_with_its_line_and_touches_nothing(name, tmp_path):
    path, line = written(name, tmp_path)
    before = sorted((ROOT / "results").rglob("*"))
    done = snakemake("--dry-run", "--configfile", path)
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert "Traceback" not in output
    said = [text for text in output.splitlines() if line in text]
    assert len(said) == 1, output
    assert len(output.strip().splitlines()) <= 3, output
    assert sorted((ROOT / "results").rglob("*")) == before


WORKLOAD = "from kernelbench.harness.workload import Workload\n\n\nclass Own(Workload):\n    pass\n"
# Fails when it is asked for its shapes, and not when it is loaded.
FAILING = WORKLOAD.replace("pass", "shapes = lambda self, size, itemsize: no_such_name\n    call = flops = shapes")


OWN = [
    ("workload", "def (", "workloads/own.py: SyntaxError: invalid syntax (own.py, line 1)"),
    ("workload", "import no_such_thing", "No module named 'no_such_thing' in <module> (own.py:1)"),
    ("workload", WORKLOAD, "workloads/own.py: AttributeError: module 'kernelbench.harness.workloads.own' has no"),
    ("workload", WORKLOAD + "\n\nWORKLOAD = Own\n", "workloads/own.py has no shapes"),
    ("workload", FAILING + "\n\nWORKLOAD = Own\n", "name 'no_such_name' is not defined in <lambda>"),
    ("runner", "1 / 0", "runners/own.py: ZeroDivisionError: division by zero in <module> (own.py:1)"),
]


def with_own(root: Path, kind: str, code: str) -> dict:
    """Write a file of one's own below `root`, and return the study that uses it."""
    folder = root / "workflow" / "kernelbench" / "harness" / f"{kind}s"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "own.py").write_text(code, encoding="utf-8")
    added = {"workload": {"ops": {"own": {"sizes": [8]}}}, "runner": {"modes": {"own": {"runner": "own"}}}}[kind]
    return TINY | {section: TINY[section] | entry for section, entry in added.items()}


def assert_named(line: str, said: str) -> None:
    assert said in line and line.startswith("config: ") and "; allowed: " in line


@pytest.mark.parametrize(("kind", "code", "said"), OWN)
def test_a_file_of_ones_own_that_cannot_be_used_is_named_in_one_line(tmp_path, monkeypatch, kind, code, said):
    package = importlib.import_module(f"kernelbench.harness.{kind}s")
    config = with_own(tmp_path, kind, code)
    folder = tmp_path / "workflow" / "kernelbench" / "harness" / f"{kind}s"
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    importlib.invalidate_caches()
    try:
        with pytest.raises(InputError) as refused:
            Study(config)
    finally:
        sys.modules.pop(f"{package.__name__}.own", None)
    (line,) = str(refused.value).splitlines()
    assert_named(line, said)


def test_a_file_of_ones_own_that_cannot_be_used_ends_the_run(tmp_path):
    checkout = Checkout(tmp_path)
    *file, said = OWN[0]
    checkout.configure(with_own(tmp_path, *file))
    assert_named(checkout.refuse("--dry-run"), said)


def test_backends_are_those_of_pytorch():
    import torch._dynamo

    assert set(BACKENDS) <= set(torch._dynamo.list_backends(exclude_tags=()))


def test_numbers_inside_of_what_the_command_line_gives_are_numbers(checkout):
    given = {
        "sampling": "{samples: 20, max_seconds: 0.2}",
        "equivalence": "{default: 0.05}",
        "ops": "{copy: {sizes: [2MiB], modes: [eager]}, softmax: {rows: 16, sizes: [64, 128]}}",
        "modes": "{compile: {runner: compile, dynamic: true}}",
    }
    checkout.run(STUDY, "--config", *(f"{key}={value}" for key, value in given.items()))
    study = yaml.safe_load((checkout.path / STUDY).read_text(encoding="utf-8"))
    assert (study["sampling"]["samples"], study["sampling"]["max_seconds"]) == (20, 0.2)
    assert study["equivalence"]["default"] == 0.05
    assert study["ops"]["copy"]["sizes"] == ["2MiB"]
    assert study["ops"]["softmax"] == {"rows": 16, "sizes": [64, 128]}
    assert study["modes"]["compile"]["dynamic"] is True


def test_what_the_command_line_gives_is_laid_over_the_preset_of_a_cpu(checkout):
    checkout.configure({**TINY, "presets": {"cpu": {"repeats": 3, "dtypes": ["float16"]}}})
    output = checkout.run("plan", "--config", "repeats=7", "dtypes=[bfloat16]")
    assert "2 cells, 4 modes, 7 repeats: 35 jobs" in output
    checkout.run(STUDY, "--config", "repeats=7", "dtypes=[bfloat16]")
    assert yaml.safe_load((checkout.path / STUDY).read_text(encoding="utf-8"))["dtypes"] == ["bfloat16"]


def test_a_job_is_measured_with_what_the_command_line_gives(checkout):
    name = "results/cpu-test/records/copy/float32/1MiB/eager/0.json"
    checkout.run(name, "--config", "sampling={samples: 6}", "ops={copy: {sizes: [1MiB, 2MiB]}}")
    assert json.loads((checkout.path / name).read_text())["settings"]["sampling"]["samples"] == 6


def test_the_gate_is_told_what_the_command_line_gives_but_for_a_draft(checkout):
    """Its repairs name it: without it they would measure the study of the file."""
    shown = checkout.run("check", "--dry-run", "--printshellcmds", "--config", "study=other", "repeats=7", "draft=True")
    (command,) = (line for line in shown.splitlines() if "check.py" in line)
    assert "--config study=other repeats=7 " in command and "draft" not in command.partition("--config ")[2]


def test_a_number_that_is_not_allowed_inside_of_what_the_command_line_gives_is_named():
    done = snakemake("--dry-run", "--config", "verify={minutes: 0}")
    assert done.returncode != 0
    assert "config: verify.minutes: 0 is not allowed; it should be greater than 0" in done.stderr


def test_text_of_a_config_file_that_looks_like_a_number_stays_text(checkout):
    checkout.configure({**TINY, "ops": {**TINY["ops"], "softmax": {"rows": "64", "sizes": [128]}}})
    process = checkout.start("plan", "--config", "sampling={samples: 20}")
    assert "ops.softmax: rows: '64' is not allowed" in process.communicate()[0]
    assert process.returncode != 0


def test_another_gpu_is_refused_in_one_line(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(changed({"machine": "gtx1080"}), encoding="utf-8")
    done = snakemake("--dry-run", "--configfile", path)
    assert done.returncode != 0
    assert "config: machine: gtx1080 is not what this machine has" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (ROOT / "results" / "gtx1080").exists()


def test_the_config_of_the_default_study_is_accepted_as_it_is():
    assert snakemake("--dry-run", "--quiet").returncode == 0


def test_a_study_whose_sizes_are_drawn_is_planned():
    done = snakemake("--dry-run", "--quiet", "--configfile", ROOT / "workflow" / "studies" / "heldout.yaml")
    assert done.returncode == 0, done.stderr
