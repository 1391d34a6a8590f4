"""What an owner of an A100 or a T4 meets, as far as it can be shown without one.

Each card has a stand-in (other_gpus.py), which says what is unsupported and what does not fit. The times of all else
are those of an H200: they stand for numbers, and say nothing of the card.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pypdf
import pytest
import yaml
from checkout import ROOT, TINY, Checkout
from other_gpus import A100, T4, Card, measured
from recorded import rebuilt
from records import code_of
from test_gpus import DRIVER, uuid_of

from kernelbench.analysis.recommendation import recommend
from kernelbench.harness import compiler, record
from kernelbench.harness.measure import measure
from kernelbench.notes import NeedsCapability, NothingCompiled, RuntimeRefused, load
from kernelbench.page.page import render
from kernelbench.records import restore
from kernelbench.study import yaml_files
from kernelbench.study.config import RECORDED
from kernelbench.study.study import Study

REPEATS = 5
# A study of a card: the recorded one that lends its times, the ops of that, and what is added to it.
DEFAULT = ("h200", {"softmax": [1024, 16384], "matmul": [512], "attention": [128], "copy": ["1GiB"]}, {})
BOTH = ("eager", "compile")
# Two inputs of 8 GiB each.
TOO_LARGE = {
    "workload": "softmax",
    "rows": 16384,
    "dtypes": ["float32"],
    "sizes": [131071],
    "modes": ["eager", "compile"],
}
DTYPES = (
    "h200-dtypes",
    {"matmul": [4096], "scaled_matmul": [1024], "softmax": [1024], "copy": ["1GiB"]},
    {"too_large": TOO_LARGE},
)

NVML = """
NVMLError = RuntimeError
nvmlInit = lambda: None
nvmlDeviceGetHandleByUUID = nvmlDeviceGetUUID = lambda uuid: uuid
"""
# The build of torch that the tests have says in its version that it has no CUDA.
CUDA_BUILD = """
from importlib import metadata
version = metadata.version
metadata.version = lambda name: version(name).removesuffix("+cpu")
"""


def cut(name: str, ops: dict, directory: Path) -> Path:
    """Make `directory` a part of the recorded study `name`: these ops and sizes, in few repeats."""
    whole = yaml.safe_load((RECORDED / name / "study.yaml").read_text(encoding="utf-8"))
    chosen = {op: {**whole["ops"][op], "sizes": sizes} for op, sizes in ops.items()}
    modes = {mode: entry for mode, entry in whole["modes"].items() if set(ops) & set(entry.get("only", ops))}
    for entry in modes.values():
        if "only" in entry:
            entry["only"] = {op: [size for size in entry["only"].get(op, ()) if size in ops[op]] for op in ops}
            entry["only"] = {op: sizes for op, sizes in entry["only"].items() if sizes}
    part = {**whole, "ops": chosen, "modes": modes, "repeats": REPEATS}
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(RECORDED / name, directory)
    (directory / "study.yaml").write_text(yaml.safe_dump(part, sort_keys=False), encoding="utf-8")
    cells = pd.MultiIndex.from_tuples([(op, size) for op, sizes in ops.items() for size in map(str, sizes)])
    for table in ("jobs", "samples"):
        rows = pd.read_parquet(directory / f"{table}.parquet")
        mine = pd.MultiIndex.from_frame(rows[["op", "size"]]).isin(cells) & rows["mode"].isin(modes)
        rows[mine & (rows.repeat < REPEATS)].to_parquet(directory / f"{table}.parquet")
    return directory


def restored(recorded: Path, scratch: Path) -> dict[tuple, dict]:
    """Return the records of a recorded study by op, dtype, size, mode and repeat."""
    found, _ = restore.restore(recorded, scratch)
    entries = map(record.read, (found / "records").rglob("*.json"))
    return {tuple(entry[key] for key in ("op", "dtype", "size", "mode", "repeat")): entry for entry in entries}


def write_records(card: Card, study: Study, recorded: dict[tuple, dict], results: Path) -> None:
    """Write the record of each job: as the card's stand-in ends it, with the recorded times where it is supported."""
    told = {}
    environment = next(iter(recorded.values()))["environment"]
    del environment["software"]["sources"]
    environment["gpu"] = {"name": card.name, "uuid": uuid_of("GPU", 1), "memory": card.memory, "driver": "580.95.05"}
    for place, job in enumerate(study.jobs):
        settings, key = study.settings(job), (job.cell, job.mode)
        if key not in told:
            told[key] = measured(card, settings)
        own = recorded[*vars(job.cell).values(), *key[1:], job.repeat] if told[key]["status"] == "ok" else told[key]
        about = {"machine": study.machine, "settings": settings, "place": place, "repeat": job.repeat}
        about |= {"started": f"2026-01-01T00:{place // 60:02d}:{place % 60:02d}+00:00", "environment": environment}
        about |= {"code": code_of(settings), "seconds": {**own["seconds"], "wall": 1.0}}
        record.write(results / job.path, {key: value for key, value in own.items() if key != "restored_with"} | about)


class Walk(Checkout):
    """A copy of the checkout, committed, on a machine that has the card as far as the workflow asks."""

    def __init__(self, path: Path, card: Card, name: str, ops: dict, more: dict):
        super().__init__(path, recorded=(name,))
        recorded = cut(name, ops, path / "results" / "recorded" / name)
        config = yaml.safe_load((recorded / "study.yaml").read_text(encoding="utf-8"))
        verify = {"study": name, "minutes": 15, "repeats": REPEATS, "seed": 1}
        config |= {"machine": card.label, "ops": config["ops"] | more, "verify": verify, "recorded": [name]}
        (path / "walk.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        self.card, self.study = card, Study(config, here=False)
        write_records(card, self.study, restored(recorded, path.with_name("restored")), self.results)
        (path / "cuda.c").write_text(DRIVER)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", "libcuda.so.1", "cuda.c"], cwd=path, check=True)
        (path / "pynvml.py").write_text(NVML)
        (path / "sitecustomize.py").write_text(CUDA_BUILD)
        gpu = {"FAKE_GPUS": f"{card.name}|{'1' * 32}", "LD_LIBRARY_PATH": str(path), "CUDA_VISIBLE_DEVICES": "0"}
        self.environment |= gpu

    def start(self, *arguments, **options) -> subprocess.Popen:
        return super().start(*arguments, "--configfile", "walk.yaml", **options)

    @property
    def results(self) -> Path:
        return self.path / self.study.results

    def table(self, name: str) -> pd.DataFrame:
        return pd.read_csv(self.results / f"{name}.csv", dtype={"size": str})


def walk(directory: Path, card: Card, *study) -> Walk:
    """Return a walk that has tables and a report of its records."""
    done = Walk(directory / "checkout", card, *study)
    before = done.records()
    done.run(f"{done.study.results}/report.pdf", f"{done.study.results}/summary.csv", cores=2)
    assert done.records() == before, "nothing is measured: the records are those of this study, sources and GPU"
    return done


# The second walk, of the default study, is for the night.
CARDS = [pytest.param("a100", marks=pytest.mark.nightly), "t4"]


@pytest.fixture(scope="module")
def a100(tmp_path_factory) -> Walk:
    return walk(tmp_path_factory.mktemp("a100"), A100, *DEFAULT)


@pytest.fixture(scope="module")
def t4(tmp_path_factory) -> Walk:
    return walk(tmp_path_factory.mktemp("t4"), T4, *DTYPES)


def statuses(walk: Walk) -> dict[tuple, set]:
    """Return the statuses of each (op, dtype, mode) in the table of times, derived figures left out."""
    rows = walk.table("summary")
    rows = rows[rows.metric.isin(["device", "latency"])]
    return rows.groupby(["op", "dtype", "mode"]).status.agg(set).to_dict()


@pytest.mark.parametrize("card", CARDS)
def test_all_is_filed_under_the_label_of_the_card(card, request):
    walk = request.getfixturevalue(card)
    assert walk.results.name in (card, f"{card}-dtypes")
    assert set(walk.table("summary").machine) == set(walk.table("speedups").machine) == {walk.results.name}
    environment = json.loads((walk.results / "environment.json").read_text())
    assert environment["gpu"]["name"] == walk.card.name and environment["gpu"]["memory"] == walk.card.memory
    assert list((walk.results / "figures").glob("*.svg"))


@pytest.mark.parametrize("card", CARDS)
def test_a_report_shows_the_card_beside_what_is_recorded(card, request):
    walk = request.getfixturevalue(card)
    pdf = pypdf.PdfReader(walk.results / "report.pdf")
    text = " ".join(" ".join(page.extract_text() for page in pdf.pages).split())
    (recorded,) = walk.study.recorded
    assert walk.card.name in text and f"above those of {recorded}" in text
    beside, _, ran = text.partition("1 What ran")
    assert f"GPU {walk.card.name} NVIDIA H200" in beside, "what differs from the recorded machine"
    assert ran and "NVIDIA H200" not in ran, "the H200 is the recorded machine, and not what ran"


@pytest.mark.nightly
def test_an_a100_runs_all_of_the_default_study(a100):
    assert set().union(*statuses(a100).values()) == {"ok"}


def test_a_t4_has_no_tf32_float8_and_compiled_bfloat16(t4):
    found = statuses(t4)
    refused = {key for key, own in found.items() if own == {"unsupported"}}
    modes = ("eager", "eager-control", "compile")
    compiled = {(op, "bfloat16", "compile") for op in ("matmul", "softmax")}
    assert refused == {
        *(("matmul", "tf32", mode) for mode in (*modes, "compile-max-autotune")),
        *(("scaled_matmul", "float8", mode) for mode in modes),
        *compiled,
        ("matmul", "bfloat16", "compile-max-autotune"),
    }
    assert all(found[op, "bfloat16", "eager"] == {"ok"} for op in ("matmul", "softmax", "copy"))
    jobs = pd.read_parquet(t4.results / "jobs.parquet")
    notes = {dtype: {load(json.loads(text)) for text in own.dropna()} for dtype, own in jobs.groupby("dtype").reason}
    assert notes["tf32"] == {NeedsCapability("tf32", "8.0", "7.5")}
    assert notes["float8"] == {NeedsCapability("float8", "8.9", "7.5")}
    assert notes["bfloat16"] == {NothingCompiled()}


def test_what_does_not_fit_a_t4_is_a_row_that_says_so(t4):
    rows = t4.table("summary")
    rows = rows[rows.op == "too_large"]
    assert set(rows["mode"]) == set(BOTH) and set(rows.status) == {"oom"}
    assert rows.estimate.isna().all() and rows.reason.notna().all()


@pytest.mark.parametrize("card", CARDS)
def test_the_gate_finds_no_defect(card, request):
    walk = request.getfixturevalue(card)
    said = walk.run("check")
    assert (
        f"{walk.study.results}: no defects" in said and f"results/recorded/{walk.study.recorded[0]}: no defects" in said
    )


@pytest.mark.parametrize("card, other", [pytest.param("a100", "t4", marks=pytest.mark.nightly), ("t4", "a100")])
def test_a_study_of_another_gpu_is_planned_by_the_recorded_times_and_not_run(card, other, request):
    walk = request.getfixturevalue(card)
    named = ["--config", f"machine={other}"]
    (recorded,) = walk.study.recorded
    said = walk.run("plan", *named)
    assert f"{other}{'-dtypes' if card == 't4' else ''}: " in said and f"Times measured on {recorded}" in said
    refused = walk.refuse(*named)
    assert other in refused and walk.card.label in refused and walk.card.name in refused


@pytest.mark.nightly
def test_what_an_h200_measured_is_not_verified_on_an_a100(a100):
    process = a100.start("verify")
    said = process.communicate()[0]
    assert process.returncode == 1 and "Traceback" not in said
    (line,) = (line for line in said.splitlines() if line.startswith("config: verify.study"))
    assert "NVIDIA H200" in line and A100.name in line


@pytest.mark.nightly  # The last of this walk: it adds to what is recorded.
def test_a_finished_study_is_filed_under_its_label(a100):
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@b", *command], cwd=a100.path, check=True)
    command = [sys.executable, "workflow/scripts/promote.py", a100.study.results]
    subprocess.run(command, cwd=a100.path, env=a100.variables, check=True)
    recorded = a100.path / "results" / "recorded" / "a100"
    environment = json.loads((recorded / "environment.json").read_text())
    assert environment["gpu"]["name"] == A100.name and len(environment["commit"]) == 40
    assert "results/recorded/a100: no defects" in a100.run("check", "--config", "recorded=[a100,h200]")


# Without the workflow


def settings(card: Card, name: str, op: str, size: str, mode: str, dtype: str = "float16") -> dict:
    """Return the settings of a job of a study of workflow/studies on the card."""
    config = yaml_files.read(ROOT / "workflow" / "studies" / f"{name}.yaml")
    study = Study({**config, "machine": card.label, "recorded": []}, here=False)
    return study.settings(study.job(op, dtype, size, mode, 0))


@pytest.mark.parametrize("card", [A100, T4], ids=lambda card: card.label)
def test_the_page_of_a_model_names_the_card(card):
    document = rebuilt("h200-resnet")
    document["study"]["machine"] = document["study"]["machine"].replace("h200", card.label)
    document["environment"]["gpu"]["name"] = card.name
    page = render(recommend(document))
    assert card.name in page and "H200" not in page


@pytest.mark.parametrize("mode, on_t4", [("sdpa-flash", False), ("sdpa-cudnn", False), ("sdpa-efficient", True)])
def test_a_t4_lacks_two_implementations_of_attention(mode, on_t4):
    for card, expected in ((A100, True), (T4, on_t4)):
        entry = measured(card, settings(card, "kernels", "attention_d64", "4096", mode))
        assert entry["status"] == ("ok" if expected else "unsupported")
        assert expected or isinstance(load(entry["reason"]), RuntimeRefused)


@pytest.mark.nightly
@pytest.mark.parametrize("card", [A100, T4], ids=lambda card: card.label)
@pytest.mark.parametrize("name", ["config", "dtypes", "kernels"])
def test_no_single_operation_crashes_or_runs_out_of_memory(card, name):
    path = ROOT / ("config.yaml" if name == "config" else f"workflow/studies/{name}.yaml")
    config = {**yaml_files.read(path), "machine": card.label, "recorded": []}
    config.pop("verify", None)
    study = Study(config, here=False)
    wrong = []
    for job in study.jobs_of(0):
        chosen = study.modes[job.mode]["runner"] in ("eager", "kernel") and "transformer" not in job.cell.op
        if chosen and (entry := measured(card, study.settings(job)))["status"] not in ("ok", "unsupported"):
            wrong.append((job, entry["status"], entry["reason"]))
    assert not wrong


@pytest.fixture(scope="module", params=["choose", pytest.param("compile", marks=pytest.mark.nightly)])
def ways(request, tmp_path_factory) -> list[dict]:
    """Return what kernel_ways.py prints; to compile takes minutes."""
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton"))}
    environment |= {"PYTHONPATH": os.pathsep.join(map(str, (ROOT / "workflow", ROOT, ROOT / "tests")))}
    environment.pop("TRITON_INTERPRET", None)
    command = [sys.executable, "tests/kernel_ways.py", request.param]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_cell_of_a_study_has_a_kernel_that_fits_into_shared_memory(ways):
    for gpu in (80, 75):
        own = [way for way in ways if way["gpu"] == gpu]
        assert {way["op"] for way in own} == {"matmul", "softmax", "layer_norm", "attention"}
        assert {"float16", "bfloat16"} <= {way["dtype"] for way in own}, "a T4 has the kernels in bfloat16 as well"
    assert [way for way in ways if way["shared"] is not None and not _fits(way)] == []


def _fits(way: dict) -> bool:
    return isinstance(way["shared"], int) and way["shared"] <= way["limit"]


def test_inductor_leaves_bfloat16_to_eager_mode(monkeypatch):
    """Where the GPU has none, which on a CPU it is told; what other_gpus._compiled says of a T4 follows from it."""
    import torch._inductor.compile_fx as inductor

    check = inductor._check_triton_bf16_support
    gpu = SimpleNamespace(
        is_bf16_supported=lambda including_emulation: including_emulation,
        get_device_properties=lambda device: SimpleNamespace(name=T4.name),
    )

    def check_as_on_a_gpu(graph):
        with monkeypatch.context() as patch:
            patch.setattr(inductor, "is_gpu", lambda device: True)
            patch.setattr(inductor, "get_interface_for_device", lambda device: gpu)
            check(graph)

    monkeypatch.setattr(inductor, "_check_triton_bf16_support", check_as_on_a_gpu)
    compiler.forget()
    config = {**TINY, "dtypes": ["bfloat16"], "modes": {**TINY["modes"], "compile": {"runner": "compile"}}}
    study = Study(config)
    with pytest.warns(UserWarning, match=T4.name):
        entry = measure(study.settings(study.job("softmax", "bfloat16", "128", "compile", 0)))
    assert (entry["status"], load(entry["reason"])) == ("unsupported", NothingCompiled())
    compiler.forget()
