"""The plan: counts, durations from the nearest measurement there is, disk."""

import json
import math
import os

import pandas as pd
import pytest
import yaml
from checkout import TINY, Checkout
from records import code_of
from rich.console import Console

from kernelbench import code_digest
from kernelbench.errors import InputError
from kernelbench.notes import NeedsDevice
from kernelbench.planning import estimate as module
from kernelbench.planning.estimate import average_recorded, expect_seconds, format_plan
from kernelbench.running import pace
from kernelbench.study.study import Study

MODES = {**TINY["modes"], "compile-dynamic": {"runner": "compile", "dynamic": True}}


@pytest.fixture
def study() -> Study:
    """softmax in five modes, one of which a CPU has not, and copy in one: 6 × 2 jobs."""
    return Study({**TINY, "modes": MODES})


@pytest.fixture
def recordings(tmp_path):
    """A study recorded on another machine: eager takes 2 s, of copy 4 s, and compile 10 s."""
    rows = [("softmax", "eager", 2.0), ("copy", "eager", 4.0), ("softmax", "compile", 10.0)]
    return record(tmp_path / "recorded", "h200", rows)


def record(directory, machine, rows):
    (directory / machine).mkdir(parents=True)
    table = pd.DataFrame(
        [(*row, *[None] * (4 - len(row))) for row in rows], columns=["op", "mode", "seconds.wall", "reason"]
    )
    table.to_parquet(directory / machine / "jobs.parquet")
    (directory / machine / "study.yaml").write_text(yaml.safe_dump({"machine": machine, **named(machine)}))
    return directory


def named(label: str) -> dict:
    """Return the key of a study whose results are filed under `label`."""
    return {"study": label.rpartition("-")[2]} if label.endswith(("-mine", "-modes")) else {}


def measured(root, study, mode, **seconds):
    """Write records of all jobs of a mode."""
    for job in study.jobs:
        if job.mode == mode:
            path = root / job.path
            path.parent.mkdir(parents=True, exist_ok=True)
            entry = {"op": job.cell.op, "mode": mode, "seconds": seconds, "settings": study.settings(job)}
            path.write_text(json.dumps({**entry, "code": code_of(study.settings(job))}))


def said(study, root, recordings, gpus=1) -> list[str]:
    console = Console(width=100)
    with console.capture() as capture:
        for line in format_plan(study, root, recordings, gpus):
            console.print(line)
    return [" ".join(line.split()) for line in capture.get().splitlines()]


def test_before_the_first_job_the_recorded_study_says_how_long(study, tmp_path, recordings):
    lines = said(study, tmp_path / "none", recordings)
    assert lines[0] == "cpu-test: 2 cells, 5 modes, 2 repeats: 12 jobs, 0 done, 12 left"
    assert "eager 0 4 3.0 s 12 s h200" in lines
    assert "compile 0 2 10.0 s 20 s h200" in lines
    assert "compile-dynamic 0 2 10.0 s 20 s nothing; as compile on h200" in lines
    assert "triton 0 2 0.0 s 0 s unsupported on cpu" in lines
    assert "Times measured on h200; yours may differ." in lines
    assert any(line.startswith("time: 1 min; started now, measured by") for line in lines)  # 12 + 20 + 20 + 20
    assert any(line.endswith("; a repeat takes 36 s") for line in lines)
    assert "disk: 0.2 MB for records and logs, 16 kB a job typically" in lines


def test_this_machines_own_records_come_first(study, tmp_path, recordings):
    measured(tmp_path, study, "eager", wall=1.5)
    measured(tmp_path, study, "compile", wall=7.0)
    (tmp_path / study.jobs[0].path).parent.joinpath("9.json").write_text("of no job of the study")
    lines = said(Study({**TINY, "modes": MODES, "repeats": 3}), tmp_path, recordings)
    assert lines[0].endswith("18 jobs, 6 done, 12 left")
    assert "eager 4 2 1.5 s 3 s this machine" in lines
    assert "compile 2 1 7.0 s 7 s this machine" in lines
    assert "compile-dynamic 0 3 7.0 s 21 s nothing; as compile on this machine" in lines
    assert not any("yours may differ" in line for line in lines)
    assert any("kB a job as measured here" in line for line in lines)


def test_what_was_measured_with_other_settings_is_left(study, tmp_path, recordings):
    measured(tmp_path, study, "eager", wall=1.0)
    measured(tmp_path, study, "compile", wall=3.0)
    modes = {**MODES, "compile": {"runner": "compile", "fullgraph": True}}
    lines = said(Study({**TINY, "modes": modes}), tmp_path, recordings)
    assert lines[0].endswith("12 jobs, 4 done, 8 left")
    assert lines[1] == "2 of those left are measured again; changed since: run."
    assert "compile 0 2 3.0 s 6 s this machine, before a change" in lines
    other = Study({**TINY, "modes": MODES, "sampling": {**TINY["sampling"], "samples": 6}})
    assert said(other, tmp_path, recordings)[0].endswith("12 jobs, 0 done, 12 left")
    measured(tmp_path, other, "compile", wall=3.0)
    assert said(other, tmp_path, recordings)[0].endswith("12 jobs, 2 done, 10 left")


def test_of_a_mode_that_was_measured_again_in_part_each_record_is_asked(study, tmp_path, recordings):
    measured(tmp_path, study, "compile", wall=3.0)
    modes = {**MODES, "compile": {"runner": "compile", "fullgraph": True}}
    changed = Study({**TINY, "modes": modes})
    last = [job for job in changed.jobs if job.mode == "compile"][-1]
    entry = json.loads((tmp_path / last.path).read_text())
    (tmp_path / last.path).write_text(json.dumps({**entry, "settings": changed.settings(last)}))
    assert said(changed, tmp_path, recordings)[0].endswith("12 jobs, 1 done, 11 left")


def test_what_was_measured_before_its_sources_changed_is_left(study, tmp_path, recordings, monkeypatch):
    measured(tmp_path, study, "eager", wall=1.0)
    for job in study.jobs:
        if job.mode == "eager":
            os.utime(tmp_path / job.path, (1e9, 1e9))
    assert said(study, tmp_path, recordings)[0].endswith("12 jobs, 4 done, 8 left"), "dates say nothing"
    file, of_job = "workflow/kernelbench/harness/workloads/softmax.py", code_digest.of_job
    other = {file: "changed"}
    monkeypatch.setattr(
        code_digest, "of_job", lambda job: {path: other.get(path, own) for path, own in of_job(job).items()}
    )
    lines = said(study, tmp_path, recordings)
    assert lines[0].endswith("12 jobs, 2 done, 10 left"), "those of the copy"
    assert lines[1] == "2 of those left are measured again; changed since: harness/workloads/softmax.py."


def test_a_record_of_an_older_scheme_is_measured_again_and_a_restored_one_counts(study, tmp_path, recordings):
    measured(tmp_path, study, "eager", wall=1.0)
    for job in [job for job in study.jobs if job.mode == "eager"][:2]:
        entry = json.loads((tmp_path / job.path).read_text())
        files = entry.pop("code")["files"]
        restored = {"restored_with": files} if job.repeat else {"sources": "v2-0123456789abcdef"}
        (tmp_path / job.path).write_text(json.dumps(entry | restored))
    lines = said(study, tmp_path, recordings)
    old = sum(job.repeat == 0 for job in [job for job in study.jobs if job.mode == "eager"][:2])
    assert old and lines[0].endswith(f"12 jobs, {4 - old} done, {8 + old} left")
    assert lines[1].startswith(f"{old} of those left are measured again; changed since: harness/")


def test_the_same_machines_recorded_study_comes_before_others(study, tmp_path, recordings):
    record(recordings, "cpu-test", [("softmax", mode, 1.0) for mode in MODES])
    lines = said(study, tmp_path, recordings)
    assert "compile 0 2 1.0 s 2 s cpu-test" in lines
    assert not any("h200" in line for line in lines)


def test_what_was_not_asked_for_on_another_device_says_nothing_of_this_one(study, tmp_path):
    rows = [
        ("softmax", "eager", 2.0),
        ("softmax", "compile", 0.2, json.dumps(NeedsDevice("", ["cuda"], "cpu").to_json())),
    ]
    assert average_recorded(record(tmp_path, "cpu-other", rows), study)[0].by_mode == {"eager": 2.0}


@pytest.mark.parametrize(
    ("label", "order"),
    [
        ("h200-mine", ["h200", "h200-modes", "t4", "cpu-a", "cpu-test-modes"]),
        ("h200-modes", ["h200-modes", "h200", "t4", "cpu-a", "cpu-test-modes"]),
        ("a100", ["h200", "h200-modes", "t4", "cpu-a", "cpu-test-modes"]),
        ("cpu-test", ["cpu-test-modes", "cpu-a", "h200", "h200-modes", "t4"]),
        ("cpu-test-mine", ["cpu-test-modes", "cpu-a", "h200", "h200-modes", "t4"]),
    ],
)
def test_the_nearest_recorded_study_comes_first(tmp_path, label, order):
    for name in order:
        record(tmp_path, name, [("softmax", "eager", 1.0)])
    known = average_recorded(tmp_path, Study({**TINY, **named(label), "machine": label}))
    assert [source.name for source in known] == order


def test_a_mode_that_one_recorded_study_lacks_is_found_in_the_next(tmp_path):
    record(tmp_path, "cpu-a", [("softmax", mode, 1.0) for mode in MODES])
    record(tmp_path, "h200", [("softmax", "eager", 2.0), ("copy", "eager", 2.0)])
    record(tmp_path, "h200-modes", [("softmax", "eager", 7.0), ("softmax", "compile", 3.0)])
    lines = said(Study({**TINY, "machine": "a100", "modes": MODES}), tmp_path / "none", tmp_path)
    assert "eager 0 4 2.0 s 8 s h200" in lines
    assert "compile 0 2 3.0 s 6 s h200-modes" in lines
    assert "compile-dynamic 0 2 1.0 s 2 s cpu-a" in lines
    assert "Times measured on h200, h200-modes, cpu-a; yours may differ." in lines


def test_a_study_of_the_very_op_comes_before_one_of_others(tmp_path):
    record(tmp_path, "a100-models", [("bert", "eager", 9.0)])
    record(tmp_path, "h200", [("softmax", "eager", 2.0), ("copy", "eager", 1.0)])
    study = Study({**TINY, "machine": "a100"})
    assert "eager 0 4 1.5 s 6 s h200" in said(study, tmp_path / "none", tmp_path)


def test_what_a_run_expects_is_of_this_machine_or_of_such_a_device(study, tmp_path, recordings):
    record(recordings, "cpu-a", [("softmax", "eager", 5.0), ("copy", "eager", 6.0)])
    found = expect_seconds(study, tmp_path, recordings)
    assert (found["softmax", "eager"], found["copy", "eager"]) == (5, 6)
    assert math.isnan(found["softmax", "compile"]), "a GPU says nothing of what a CPU takes"
    measured(tmp_path, study, "eager", wall=1.5)
    assert expect_seconds(study, tmp_path, recordings)["softmax", "eager"] == 1.5


def test_second_tries_are_part_of_what_a_job_takes(study, tmp_path, recordings):
    measured(tmp_path, study, "eager", wall=1.5)
    for job in study.jobs:
        if job.mode == "eager":
            entry = json.loads((tmp_path / job.path).read_text())
            (tmp_path / job.path).write_text(json.dumps({**entry, "process": {"again": [{"seconds": 2.0}]}}))
    assert expect_seconds(study, tmp_path, recordings)["copy", "eager"] == 3.5


def test_the_plan_tells_the_pace_of_this_machine_from_ten_jobs_on(study, tmp_path, recordings, monkeypatch):
    told = []
    monkeypatch.setattr(pace, "describe", lambda *given: told.append(given) or "the pace")
    record(recordings, "cpu-a", [("softmax", "eager", 5.0), ("copy", "eager", 6.0)])
    for mode in ("eager", "eager-control", "compile"):
        measured(tmp_path, study, mode, wall=3.0)
    said(study, tmp_path, recordings)
    assert told == []
    more = Study({**TINY, "modes": {"eager": MODES["eager"]}, "repeats": 5})
    measured(tmp_path, more, "eager", wall=3.0)
    assert any("the pace" in line for line in said(more, tmp_path, recordings))
    assert told == [(10, 30, 5 * 5 + 5 * 6)]


def test_gpus_share_the_repeats(study, tmp_path, recordings):
    assert any(line.startswith("time: 1 min, 36 s on 4 GPUs; started") for line in said(study, tmp_path, recordings, 4))


def test_nothing_known_and_nothing_left_are_said(study, tmp_path):
    assert "time: unknown until jobs of this machine are measured" in said(study, tmp_path, tmp_path)
    for mode in MODES:
        measured(tmp_path, study, mode, wall=1.0)
    assert "time: nothing is left to measure" in said(study, tmp_path, tmp_path)


def test_a_bounded_number_of_records_is_read(study, tmp_path, recordings, monkeypatch):
    measured(tmp_path, study, "eager", wall=1.0)
    read = []
    average = module.average_records
    monkeypatch.setattr(module, "average_records", lambda paths, name="": read.append(len(paths)) or average([], name))
    monkeypatch.setattr(module, "READ", 2)
    assert said(study, tmp_path, recordings)[0].endswith("4 done, 8 left")
    assert read == [2, 0]


def test_a_broken_record_is_named_in_one_line(study, tmp_path, recordings):
    measured(tmp_path, study, "eager", wall=1.0)
    (tmp_path / study.jobs[0].path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / study.jobs[0].path).write_text("{")
    with pytest.raises(InputError, match=r"not a readable record .* delete it to measure it again"):
        said(study, tmp_path, recordings)


@pytest.mark.nightly
def test_snakemake_plan_costs_little_more_than_a_dry_run_and_measures_nothing(tmp_path):
    checkout, said = Checkout(tmp_path / "a study", TINY), []
    plan, dry_run = (checkout.work(lambda what=what: said.append(checkout.run(what))) for what in ("plan", "--dry-run"))
    assert plan.calls < 2 * dry_run.calls, "1.3 times as many were counted"
    output = said[0]
    assert "cpu-test: 2 cells, 4 modes, 2 repeats: 10 jobs, 0 done, 10 left" in output
    assert "time: " in output and "disk: " in output
    assert "rule plan" not in output and "jobs done" not in output
    assert not checkout.records()
