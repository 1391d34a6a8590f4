"""Targets: what a mode is to reach, and what it does, from records with planted times."""

import pytest
from records import kernel_study, tables, write_records


@pytest.fixture
def judged(monkeypatch, tmp_path) -> dict:
    """The targets of the study of kernels, by what the kernel is compared with; at 1024 it takes 10 % longer."""

    def change(job, entry):
        if job.mode == "triton" and job.cell.size == "1024":
            values = [value * 1.1 for value in entry["samples"]["device"]["values"]]
            entry["samples"]["device"]["values"] = values

    study = kernel_study(monkeypatch)
    write_records(study, tmp_path, change)
    return {row["of"]: row for row in tables(study, tmp_path)[2]["targets"]}


def test_the_worst_size_counts_with_its_interval(judged):
    row = judged["liger"]
    assert (row["op"], row["mode"], row["must"], row["aim"], row["worst"]) == ("softmax", "triton", 0.4, 1.2, "1024")
    assert row["ratio"] == pytest.approx(100 / 80 / 1.1, rel=0.01)
    assert row["low"] < 100 / 80 / 1.1 < row["high"] and row["n"] == 5
    assert row["sizes"] == ["512", "1024"]


def test_the_limit_is_the_rate_of_the_copy(judged):
    row = judged["limit"]
    assert row["sizes"] == ["1024"] and row["aim"] is None
    # Both move their bytes twice: 8 x 1024 elements in 88 µs, 512 Ki elements in 40 µs.
    assert row["ratio"] == pytest.approx((8 * 1024 / 88) / (2**19 / 40), rel=0.01)


def test_a_mean_is_that_of_the_pairs(judged):
    row = judged["compile"]
    assert row["worst"] is None and row["must"] is None
    assert row["ratio"] == pytest.approx(20 / 80 / 1.1**0.5, rel=0.01)


def test_without_a_mode_that_ran_there_is_no_ratio(monkeypatch, tmp_path):
    study = kernel_study(monkeypatch)

    def change(job, entry):
        if job.mode == "liger":
            entry.update(status="unsupported", reason="not installed")

    write_records(study, tmp_path, change)
    assert {row["of"] for row in tables(study, tmp_path)[2]["targets"]} == {"eager", "limit", "compile"}
