"""Targets: what a mode is to reach, and what it does, from records with planted times."""

import pytest
from records import kernel_study, tables, write_records

from kernelbench.analysis.targets import meets
from kernelbench.notes import Raised
from kernelbench.study.study import Study

WHY = Raised("MemoryError", "").to_json()

HOST = {"eager": 8.0, "triton": 10.0}


@pytest.fixture
def judged(monkeypatch, tmp_path) -> dict:
    """The targets of the study of kernels, by what the kernel is compared with; at 1024 it takes 10 % longer."""

    def change(job, entry):
        if job.mode == "triton" and job.cell.size == "1024":
            values = [value * 1.1 for value in entry["samples"]["device"]["values"]]
            entry["samples"]["device"]["values"] = values
        host = HOST.get(job.mode, 9.0) + int((job.mode, job.cell.size) == ("triton", "512"))
        entry["samples"]["host"] = {**entry["samples"]["latency"], "values": [host] * 5}

    study = kernel_study(monkeypatch)
    write_records(study, tmp_path, change)
    rows = tables(study, tmp_path)[2]["targets"]
    return {row["of"] if row["kind"] == "ratios" else f"{row['of']} calls": row for row in rows}


def test_the_worst_size_counts_with_its_interval(judged):
    row = judged["liger"]
    assert (row["op"], row["mode"], row["must"], row["aim"], row["worst"]) == ("softmax", "triton", 0.4, 1.2, "1024")
    assert row["reached"] == pytest.approx(100 / 80 / 1.1, rel=0.01)
    assert row["low"] < 100 / 80 / 1.1 < row["high"] and row["n"] == 5
    assert row["sizes"] == ["512", "1024"]


def test_the_limit_is_the_rate_of_the_copy(judged):
    row = judged["limit"]
    assert row["sizes"] == ["1024"] and row["aim"] is None
    # Both move their bytes twice: 8 x 1024 elements in 88 µs, 512 Ki elements in 40 µs.
    assert row["reached"] == pytest.approx((8 * 1024 / 88) / (2**19 / 40), rel=0.01)


def test_a_mean_is_that_of_the_pairs(judged):
    row = judged["compile"]
    assert row["worst"] is None and row["must"] is None
    assert row["reached"] == pytest.approx(20 / 80 / 1.1**0.5, rel=0.01)


def test_the_cost_of_a_call_is_a_difference_in_microseconds_and_less_is_better(judged):
    row = judged["eager calls"]
    assert [row["low"], row["reached"], row["high"]] == pytest.approx([3, 3, 3])
    assert (row["worst"], row["must"], row["aim"], meets(row)) == ("512", 5, 2.5, "must")
    assert [meets({**row, "reached": reached}) for reached in (2.4, 5.1)] == ["aim", "missed"]


def test_a_row_that_did_not_run_reaches_nothing(monkeypatch, tmp_path):
    study = kernel_study(monkeypatch)

    def change(job, entry):
        if (job.mode, job.cell.size) == ("triton", "512"):
            entry.update(status="incorrect", reason=WHY)

    write_records(study, tmp_path, change)
    found = {row["of"]: row for row in tables(study, tmp_path)[2]["targets"]}
    assert [found[of]["reached"] for of in ("eager", "liger", "compile")] == [None, None, None]
    assert (found["eager"]["worst"], meets(found["eager"])) == ("512", "missed")
    assert found["limit"]["reached"] > 0, "of 1024 alone"


@pytest.mark.parametrize("size", ["512", "1024"])
def test_a_call_stands_to_no_mode_that_failed(monkeypatch, tmp_path, size):
    study = kernel_study(monkeypatch)

    def change(job, entry):
        entry["samples"]["host"] = entry["samples"]["latency"]
        if (job.mode, job.cell.size) == ("eager", size):
            entry.update(status="oom", reason=WHY)

    write_records(study, tmp_path, change)
    (row,) = (row for row in tables(study, tmp_path)[2]["targets"] if row["kind"] == "calls")
    assert row["sizes"] == [{"512": "1024", "1024": "512"}[size]] and row["n"] == 5 and row["reached"] > 0


def test_one_repeat_has_no_interval(monkeypatch, tmp_path):
    study = kernel_study(monkeypatch)
    study = Study({**study.config, "repeats": 1})
    write_records(study, tmp_path)
    row = tables(study, tmp_path)[2]["targets"][0]
    assert row["reached"] > 0 and row["low"] is row["high"] is None


def test_without_a_mode_that_ran_there_is_no_ratio(monkeypatch, tmp_path):
    study = kernel_study(monkeypatch)

    def change(job, entry):
        if job.mode == "liger":
            entry.update(status="unsupported", reason=WHY)

    write_records(study, tmp_path, change)
    assert {row["of"] for row in tables(study, tmp_path)[2]["targets"]} == {"eager", "limit", "compile"}
