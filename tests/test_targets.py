"""Targets: what a mode is to reach, and what it does, from records with planted times."""

from collections import Counter
from math import exp, log
from pathlib import Path
from statistics import mean, stdev

import pytest
import yaml
from records import kernel_study, tables, write_records

from kernelbench import numbers
from kernelbench.analysis.targets import holds_floor, meets
from kernelbench.notes import Raised
from kernelbench.paper.checks import quality
from kernelbench.study.config import check_targets
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


# A group of four cells: device times in µs by mode, and by what each repeat's are multiplied. At the last one liger is
# faster than compile in the third repeat alone.
POOLED = {
    "softmax float16 512": {"eager": 100, "compile": 90, "liger": 120, "triton": 80},
    "softmax float16 1024": {"eager": 100, "compile": 130, "liger": 95, "triton": 100},
    "layer_norm float16 256": {"eager": 50, "compile": 60, "liger": 70, "triton": 40},
    "layer_norm bfloat16 256": {"eager": 61, "compile": 54, "liger": 55, "triton": 60},
}
REPEATS = {"triton": (1, 1.02, 0.98, 1.01, 1), "compile": (1, 1, 1.03, 1, 0.97)}
PEERS = ["eager", "compile", "liger"]
GROUP = {"ops": ["softmax", "layer_norm"], "of": PEERS, "best": True, "must": 1, "floor": 0.85, "mean": True}
T4 = 2.7764451  # The 97.5 % quantile of Student's t with four degrees of freedom.


def judge_group(monkeypatch, directory, target: dict, lost=()) -> dict:
    """Return the document of a study with one target; lost: (cell, mode, status) of what did not run."""
    study = kernel_study(monkeypatch)
    ops = {
        **study.config["ops"],
        "layer_norm": {"rows": 8, "sizes": [256], "dtypes": ["float16", "bfloat16"]},
    }
    study = Study({**study.config, "ops": ops, "targets": {"mode": "triton", "ratios": [target]}})
    statuses = {(cell, mode): status for cell, mode, status in lost}

    def change(job, entry):
        cell = " ".join(vars(job.cell).values())
        if cell in POOLED and job.mode in POOLED[cell]:
            time = POOLED[cell][job.mode] * REPEATS.get(job.mode, [1] * 5)[job.repeat]
            entry["samples"]["device"] = {**entry["samples"]["device"], "values": [time] * 5}
        if (cell, job.mode) in statuses:
            entry.update(status=statuses[cell, job.mode], reason=WHY)

    write_records(study, directory, change)
    return tables(study, directory)[2]


def stands(cell: str, peer: str) -> list[float]:
    """Return by repeat the log of how much faster than a peer the kernel is."""
    times = POOLED[cell]
    noise = zip(REPEATS.get(peer, [1] * 5), REPEATS["triton"], strict=True)
    return [log(times[peer] * other / (times["triton"] * own)) for other, own in noise]


def test_a_group_is_the_mean_over_its_cells_of_the_ratio_to_the_best_mode_of_each(monkeypatch, tmp_path):
    (row,) = judge_group(monkeypatch, tmp_path, {**GROUP, "group": "rows"})["targets"]
    best = dict(zip(POOLED, ("compile", "liger", "eager", "compile"), strict=True))
    logs = [mean(each) for each in zip(*(stands(*pair) for pair in best.items()), strict=True)]
    half = T4 * stdev(logs) / 5**0.5
    expected = [exp(mean(logs) + off) for off in (-half, 0, half)]
    assert [row["low"], row["reached"], row["high"]] == pytest.approx(expected, rel=1e-5)
    assert (row["op"], row["dtype"], row["of"], row["sizes"]) == ("rows", None, PEERS, list(POOLED))
    assert (row["n"], row["worst"], meets(row)) == (5, None, "must")
    assert (row["floor"], row["least_at"]) == (0.85, "layer_norm bfloat16 256")
    assert row["least"] == pytest.approx(exp(mean(stands("layer_norm bfloat16 256", "compile"))), rel=1e-5)


def test_a_missed_floor_is_a_missed_goal_whatever_the_mean(monkeypatch, tmp_path):
    document = judge_group(monkeypatch, tmp_path, {**GROUP, "group": "rows", "floor": 0.95})
    (row,) = document["targets"]
    assert row["reached"] > row["must"] and row["least"] < 0.95
    assert (holds_floor(row), meets(row)) == (False, "missed")
    assert (holds_floor({**row, "floor": row["least"]}), meets({**row, "floor": row["least"]})) == (True, "must")
    shown = list(quality(document))[-1]
    assert all(text in shown for text in ("`layer_norm bfloat16 256`", "0.950", numbers.value(row["least"])))


def test_the_best_is_of_the_modes_that_ran_and_a_cell_without_any_does_not_count(monkeypatch, tmp_path):
    nothing = [("layer_norm bfloat16 256", peer, "unsupported") for peer in PEERS]
    lost = [("softmax float16 1024", "liger", "unsupported"), ("softmax float16 512", "compile", "crashed"), *nothing]
    (row,) = judge_group(monkeypatch, tmp_path, {**GROUP, "group": "rows"}, lost)["targets"]
    cells = list(POOLED)[:3]
    assert row["sizes"] == cells
    assert row["reached"] == pytest.approx(exp(mean(mean(stands(cell, "eager")) for cell in cells)), rel=1e-5)
    assert row["least_at"] == "softmax float16 1024"
    assert row["least"] == pytest.approx(exp(mean(stands("softmax float16 1024", "eager"))), rel=1e-5)


def test_a_group_with_a_cell_that_did_not_run_reaches_nothing(monkeypatch, tmp_path):
    lost = [("layer_norm float16 256", "triton", "incorrect")]
    document = judge_group(monkeypatch, tmp_path, {**GROUP, "group": "rows"}, lost)
    (row,) = document["targets"]
    assert (row["worst"], row["reached"], row["least"], row["n"]) == ("layer_norm float16 256", None, None, 0)
    assert (holds_floor(row), meets(row)) == (False, "missed")
    assert "layer\\_norm float16 256" in list(quality(document))[-1]


def test_without_a_group_each_op_and_dtype_is_judged_by_itself(monkeypatch, tmp_path):
    rows = judge_group(monkeypatch, tmp_path, GROUP)["targets"]
    assert [(row["op"], row["dtype"]) for row in rows] == [
        ("softmax", "float16"),
        ("layer_norm", "float16"),
        ("layer_norm", "bfloat16"),
    ]
    softmax = mean([*stands("softmax float16 512", "compile"), *stands("softmax float16 1024", "liger")])
    assert rows[0]["reached"] == pytest.approx(exp(softmax), rel=1e-5)
    assert (rows[0]["least_at"], rows[2]["least"]) == ("1024", rows[2]["reached"])


def test_without_a_mean_the_worst_cell_of_a_group_counts_over_each_mode_by_itself(monkeypatch, tmp_path):
    target = {"group": "rows", "ops": GROUP["ops"], "of": PEERS, "must": 1}
    rows = judge_group(monkeypatch, tmp_path, target)["targets"]
    worst = {"eager": "softmax float16 1024", "compile": "layer_norm bfloat16 256", "liger": "layer_norm bfloat16 256"}
    assert {row["of"]: row["worst"] for row in rows} == worst
    for row in rows:
        assert row["reached"] == pytest.approx(exp(mean(stands(row["worst"], row["of"]))), rel=1e-5)
        assert "floor" not in row and holds_floor(row) is None


def test_each_op_of_the_held_out_suite_has_one_goal():
    path = Path(__file__).parents[1] / "workflow" / "studies" / "heldout.yaml"
    study = yaml.safe_load(path.read_text(encoding="utf-8"))
    check_targets(study)
    judged = Counter(op for target in study["targets"]["ratios"] for op in target["ops"])
    assert judged == Counter(op for op in study["ops"] if op != "copy")
    for target in study["targets"]["ratios"]:
        for op in target["ops"]:
            assert {*target["of"], "triton"} <= set(study["ops"][op]["modes"])
