"""From records to tables: what is refused, what is estimated, how failures show, and filing a study."""

import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import old_digests
import pandas as pd
import pytest
import yaml
from records import row, small_study, tables, write_records
from scipy import stats

from kernelbench import code_digest
from kernelbench.analysis.job_report import list_packages
from kernelbench.analysis.summary import write_csv
from kernelbench.errors import InputError
from kernelbench.harness import record
from kernelbench.notes import (
    ExactIntervalDisagrees,
    NearFloor,
    NotCompared,
    NotDeterministic,
    OfBaseline,
    OffStream,
    OtherProcesses,
    OwnGraphs,
    ProfileIncomplete,
    Raised,
    SizesNotMeasured,
    SizesNotOk,
    SomeRepeats,
    Uncovered,
    WorkersDiffer,
    ZeroValue,
    find,
)
from kernelbench.paths import ROOT
from kernelbench.records import promote, restore
from kernelbench.records.collect import FLAGS, SAME, collect
from kernelbench.records.job_table import read as read_jobs
from kernelbench.study.config import RECORDED
from kernelbench.study.metrics import FLOOR_FACTOR
from kernelbench.study.study import Study


@pytest.fixture
def study(monkeypatch) -> Study:
    """Two sizes of one op and a copy, four modes, five repeats, on a GPU."""
    return small_study(monkeypatch)


def test_times_and_speedups_are_those_of_the_records(study, tmp_path):
    write_records(study, tmp_path)
    summary, speedups, document = tables(study, tmp_path)
    # The median ignores the outlier; the geometric mean over the repeats is over 1, 1.2, … 1.8 times the time.
    expected = 40 * np.exp(np.mean(np.log([1, 1.2, 1.4, 1.6, 1.8])))
    eager = row(summary, op="softmax", size="512", mode="eager", metric="device")
    assert eager.estimate == pytest.approx(expected, rel=0.01)
    compiled = row(speedups, size="512", mode="compile", baseline="eager", metric="device")
    # Blocks of 80 % cancel in the pairs: only the jitter is left.
    assert compiled.speedup == pytest.approx(2, rel=0.01)
    assert compiled.ci_high - compiled.ci_low < 0.03
    assert (compiled.n, compiled.verdict, compiled.delta) == (5, "faster", 0.01)
    assert row(speedups, size="512", mode="triton", baseline="eager", metric="device").verdict == "slower"
    control = row(speedups, size="512", mode="eager-control", baseline="eager", metric="latency")
    assert control.verdict == "equivalent"
    assert document["control"]["latency"]["supports_delta"]
    against = row(speedups, size="512", mode="triton", baseline="compile", metric="device")
    assert against.speedup == pytest.approx(0.25, rel=0.01)


def test_the_mean_over_sizes_is_geometric_and_from_the_repeats(study, tmp_path):
    def slow_at_512(job, entry):
        if job.mode == "compile" and job.cell.size == "512":
            entry["samples"]["device"]["values"] = [v * 4 for v in entry["samples"]["device"]["values"]]

    write_records(study, tmp_path, slow_at_512)
    _, speedups, _ = tables(study, tmp_path)
    whole = row(speedups, size="all", mode="compile", baseline="eager", metric="device")
    assert whole.speedup == pytest.approx(np.sqrt(2 * 0.5), rel=0.01)
    assert whole.n == 5


def test_rates_are_work_per_time_and_shares_of_the_copy(study, tmp_path):
    write_records(study, tmp_path)
    summary, _, document = tables(study, tmp_path)
    time = row(summary, op="copy", mode="eager", metric="device").estimate
    copied = row(summary, op="copy", mode="eager", metric="gbps")
    assert copied.estimate == pytest.approx(2 * 2**20 / time / 1e3)
    assert row(summary, op="copy", mode="eager", metric="roofline").estimate == pytest.approx(1)
    softmax = row(summary, op="softmax", size="512", mode="eager", metric="roofline")
    assert softmax.estimate == pytest.approx(2 * 8 * 512 * 2 / (2 * 2**20), rel=0.01)
    assert document["ceilings"]["float16"]["memory"]["op"] == "copy"


def test_holm_families_leave_out_controls_and_means(study, tmp_path):
    write_records(study, tmp_path)
    _, speedups, _ = tables(study, tmp_path)
    family = speedups[(speedups.baseline == "eager") & (speedups.metric == "device") & (speedups["size"] != "all")]
    cells = family[family["mode"] != "eager-control"]
    assert len(cells) == 4
    assert cells.p_holm.min() == pytest.approx(cells.p.min() * 4)


def test_a_diagnostic_arm_is_compared_with_what_it_diagnoses_and_in_a_family_of_its_own(study, tmp_path):
    arm = {"runner": "compile", "skip_guards": True, "diagnoses": "compile", "only": {"softmax": [512]}}
    study = Study({**study.config, "machine": "h200", "modes": {**study.modes, "compile-arm": arm}})
    write_records(study, tmp_path)
    _, speedups, _ = tables(study, tmp_path)
    of_arm = speedups[(speedups["mode"] == "compile-arm") & (speedups.metric == "device")]
    assert of_arm[["size", "baseline"]].to_numpy().tolist() == [["512", "compile"]]
    assert of_arm.p_holm.iloc[0] == of_arm.p.iloc[0]
    assert of_arm.speedup.iloc[0] == pytest.approx(20 / 18, rel=0.01)
    family = speedups[(speedups.baseline == "compile") & (speedups.metric == "device") & (speedups["size"] != "all")]
    judged = family[~family["mode"].isin(["eager-control", "compile-arm"])]
    assert len(judged) == 4
    assert judged.p_holm.min() == pytest.approx(judged.p.min() * 4)


def test_the_mean_of_a_diagnostic_arm_is_over_its_cells(study, tmp_path):
    arm = {"runner": "compile", "skip_guards": True, "diagnoses": "compile", "only": {"softmax": [512, 1024]}}
    study = Study({**study.config, "machine": "h200", "modes": {**study.modes, "compile-arm": arm}})
    write_records(study, tmp_path)
    _, speedups, document = tables(study, tmp_path)
    (mean,) = (row for row in document["arms"] if row["metric"] == "device")
    of_arm = speedups[(speedups["mode"] == "compile-arm") & (speedups.metric == "device")]
    assert (mean["mode"], mean["baseline"], mean["cells"], mean["n"]) == ("compile-arm", "compile", 2, 5)
    assert mean["speedup"] == pytest.approx(np.exp(np.log(of_arm.speedup).mean()), rel=1e-5)
    assert mean["ci_low"] < mean["speedup"] < mean["ci_high"]


def test_speedups_that_differ_between_gpus_are_counted(study, tmp_path):
    """Only by latency, and of compile alone, is the second GPU another one."""
    study = Study({**study.config, "machine": "h200", "repeats": 8})
    write_records(study, tmp_path, on_gpus(2, "latency", 1.2))
    _, _, document = tables(study, tmp_path)
    found = document["by_gpu"]
    assert found["latency"]["of"] == found["device"]["of"] == 6 and "peak_memory" not in found
    assert found["latency"]["apart"] - found["device"]["apart"] == 2
    assert found["latency"]["p95"] > 0.15 > found["device"]["p95"] >= found["device"]["median"] > 0
    write_records(study, tmp_path)
    _, _, document = tables(study, tmp_path)
    assert document["by_gpu"] == {}, "of one GPU there is nothing to compare"


def test_what_the_first_repeats_say_is_compared_with_what_all_say(study, tmp_path):
    """Compiled code turns from twice as fast to half as fast after five repeats, but by latency alone."""
    study = Study({**study.config, "repeats": 16, "looks": [3, 5]})

    def change(job, entry):
        late = job.repeat >= 5 and job.mode == "compile"
        series = entry["samples"]["latency"]
        entry["samples"]["latency"] = {**series, "values": [v * (16 if late else 1) for v in series["values"]]}

    write_records(study, tmp_path, change)
    every = tables(study, tmp_path)[2]["first_repeats"]
    assert {row["repeats"] for row in every} == {3, 5}
    found = {row["metric"]: row for row in every if row["repeats"] == 5}
    assert found["device"]["opposite"] == 0 < found["device"]["same"] == found["device"]["decided"]
    assert found["latency"]["opposite"] > 0
    for own in found.values():
        assert own["same"] + own["undecided"] + own["opposite"] == own["decided"]
    planned = Study({key: value for key, value in study.config.items() if key != "looks"} | {"repeats": 6})
    write_records(planned, tmp_path / "planned")
    assert tables(planned, tmp_path / "planned")[2]["first_repeats"] == []


def on_gpus(count, timer, factor):
    """Return what puts repeats on so many GPUs in turn, and makes compiled calls slower on the last one, by a timer."""

    def change(job, entry):
        gpu = job.repeat % count
        entry["environment"]["gpu"]["uuid"] = f"GPU-{gpu}"
        if gpu == count - 1 and job.mode == "compile":
            taken = entry["samples"][timer]
            entry["samples"][timer] = {**taken, "values": [v * factor for v in taken["values"]]}

    return change


def test_a_mode_without_a_graph_says_why_and_has_no_speedup_by_it(study, tmp_path):
    def graph(job, entry):
        own = job.mode == "compile"
        entry["graph"] = {"calls": 0 if own else 20, "reason": OwnGraphs().to_json() if own else None}
        if not own:
            entry["samples"]["graph"] = entry["samples"]["device"]

    write_records(study, tmp_path, graph)
    summary, speedups, _ = tables(study, tmp_path)
    found = row(summary, op="softmax", size="512", mode="compile", metric="graph")
    assert (found.n, found.status, found.notes) == (0, "unsupported", [OwnGraphs()])
    assert row(summary, op="softmax", size="512", mode="compile", metric="device").status == "ok"
    pair = row(speedups, size="512", mode="compile", baseline="eager", metric="graph")
    assert (pair.n, pair.status, pair.verdict) == (0, "unsupported", "")
    other = row(speedups, size="512", mode="triton", baseline="compile", metric="graph")
    assert (other.status, other.notes) == ("unsupported", [OfBaseline("compile", OwnGraphs())])
    assert row(speedups, size="512", mode="triton", baseline="eager", metric="graph").verdict == "slower"


WHY = Raised("MemoryError", "")


def fail(status, repeats, mode="compile"):
    """Return a change that gives these repeats of a mode at 512 a status, and the reason WHY."""

    def change(job, entry):
        if job.mode == mode and job.cell.size == "512" and job.repeat in repeats:
            entry.update(status=status, reason=WHY.to_json())

    return change


def test_one_incorrect_repeat_voids_its_cell_and_mode(study, tmp_path):
    write_records(study, tmp_path, fail("incorrect", {2}))
    summary, speedups, _ = tables(study, tmp_path)
    found = row(summary, op="softmax", size="512", mode="compile", metric="device")
    assert np.isnan(found.estimate) and found.n == 0
    assert (found.status, found.notes) == ("incorrect", [SomeRepeats(1, 5, WHY)])
    assert row(speedups, size="512", mode="compile", baseline="eager", metric="device").verdict == ""


def test_a_mode_of_which_one_repeat_was_not_compared_says_so_and_keeps_its_times(study, tmp_path):
    note = NotCompared(NotDeterministic(0.5))

    def change(job, entry):
        if job.mode == "compile" and job.cell.size == "512" and job.repeat == 2:
            entry["reason"] = note.to_json()
            entry["accuracy"] |= {"compared": False, "reason": note.note.to_json()}

    write_records(study, tmp_path, change)
    summary, speedups, _ = tables(study, tmp_path)
    found = row(summary, op="softmax", size="512", mode="compile", metric="device")
    assert (found.status, found.n, found.compared, found.notes) == ("ok", 5, False, [SomeRepeats(1, 5, note)])
    compared = {
        (size, mode): row(speedups, size=size, mode=mode, baseline="eager", metric="device").compared
        for size in ("512", "1024", "all")
        for mode in ("compile", "triton")
    }
    assert {key for key, yes in compared.items() if not yes} == {("512", "compile"), ("all", "compile")}
    write_csv(speedups, tmp_path / "speedups.csv")
    assert set(pd.read_csv(tmp_path / "speedups.csv").compared) == {"yes", "no"}


def test_other_failures_leave_the_ok_repeats_without_a_verdict(study, tmp_path):
    write_records(study, tmp_path, fail("oom", {0, 3}))
    summary, speedups, _ = tables(study, tmp_path)
    found = row(summary, op="softmax", size="512", mode="compile", metric="device")
    assert (found.n, found.status, found.notes) == (3, "oom", [SomeRepeats(2, 5, WHY)])
    pair = row(speedups, size="512", mode="compile", baseline="eager", metric="device")
    assert (pair.n, pair.verdict, pair.status) == (3, "", "oom")
    whole = row(speedups, size="all", mode="compile", baseline="eager", metric="device")
    assert (whole.n, whole.status, whole.notes) == (0, "oom", [SizesNotOk(["512"])])


def test_where_the_exact_interval_says_otherwise_the_row_says_so(study, tmp_path):
    # Nine pairs a little above 1 and one far above it: the ranks see a difference, the mean is lost in the spread.
    study = Study({**study.config, "machine": "h200", "repeats": 10})

    def stray(job, entry):
        if job.mode == "compile":
            factor = 40 / (20 * (1.02 + 0.001 * job.repeat) * (3 if job.repeat == 9 else 1))
            entry["samples"]["device"]["values"] = [v * factor for v in entry["samples"]["device"]["values"]]

    write_records(study, tmp_path, stray)
    _, speedups, _ = tables(study, tmp_path)
    found = row(speedups, size="512", mode="compile", baseline="eager", metric="device")
    assert found.ci_low < 1 < found.ci_high and found.hl_low > 1
    assert find(found.notes, ExactIntervalDisagrees)
    other = row(speedups, size="512", mode="triton", baseline="eager", metric="device")
    assert not find(other.notes, ExactIntervalDisagrees)


def test_a_short_device_time_is_marked(study, tmp_path):
    def short(job, entry):
        entry["samples"]["device"]["values"] = [v / 10 for v in entry["samples"]["device"]["values"]]

    write_records(study, tmp_path, short)
    summary, speedups, _ = tables(study, tmp_path)
    found = row(summary, op="softmax", size="512", mode="eager", metric="device")
    assert found.notes == [NearFloor(1.0, FLOOR_FACTOR)]
    short = row(speedups, size="512", mode="compile", baseline="eager", metric="device")
    assert short.speedup > 1.9 and short.ci_low > 1.9, "the value stands, and no verdict rests on it"
    assert (short.verdict, short.status) == ("", "ok") and np.isnan(short.p_holm) and find(short.notes, NearFloor)
    assert row(speedups, size="all", mode="compile", baseline="eager", metric="device").verdict == ""
    by_latency = row(speedups, size="512", mode="compile", baseline="eager", metric="latency")
    assert by_latency.verdict == "faster" and not find(by_latency.notes, NearFloor)


def test_what_is_near_the_floor_takes_no_part_in_the_correction(study, tmp_path):
    def short(job, entry):
        if job.cell.size == "512":
            entry["samples"]["device"]["values"] = [v / 10 for v in entry["samples"]["device"]["values"]]

    write_records(study, tmp_path, short)
    _, speedups, _ = tables(study, tmp_path)
    tested = speedups[(speedups.metric == "device") & (speedups["size"] == "1024") & (speedups.baseline == "eager")]
    tested = tested[tested["mode"] != "eager-control"].sort_values("p")
    assert tested.p_holm.tolist() == pytest.approx((tested.p * [2, 1]).cummax().tolist())


def test_samples_that_hold_the_hosts_time_do_not_count(study, tmp_path):
    """Most of eager's do, and then the repeat has no device time; of compiled calls two of five, five times as long."""

    def uncover(job, entry):
        flagged = {"eager": 3, "compile": 2}.get(job.mode, 0)
        series = entry["samples"]["device"]
        values = [value * (5 if place < flagged else 1) for place, value in enumerate(series["values"])]
        flags = ["uncovered" if place < flagged else flag for place, flag in enumerate(series["flags"])]
        entry["samples"]["device"] = {**series, "values": values, "flags": flags}

    write_records(study, tmp_path, uncover)
    summary, speedups, _ = tables(study, tmp_path)
    at = {"op": "softmax", "size": "512", "metric": "device"}
    eager, compiled = (row(summary, mode=mode, **at) for mode in ("eager", "compile"))
    assert (eager.n, eager.status, eager.notes) == (0, "unsupported", [Uncovered(0.6)]) and np.isnan(eager.estimate)
    assert compiled.notes == [Uncovered(0.4)]
    assert compiled.estimate == pytest.approx(20 * np.exp(np.mean(np.log([1, 1.2, 1.4, 1.6, 1.8]))), rel=0.02)
    lost = row(speedups, mode="compile", baseline="eager", **at)
    assert (lost.n, lost.verdict, lost.notes) == (0, "", [OfBaseline("eager", Uncovered(0.6))])
    assert row(speedups, size="512", mode="compile", baseline="eager", metric="latency").verdict == "faster"


def profiled(times: dict, repeats=range(5), checked=True):
    """Return what gives records a profile of two kernels, which take so many µs together by mode."""

    def change(job, entry):
        if job.repeat in repeats and job.mode in times:
            time = times[job.mode] * (1 + 0.001 * job.repeat)
            kernels = [{"name": name, "count": 1.0, "time": time / 2} for name in "ab"]
            entry["profile"] = {"kernels": kernels, "launches": 2.0, "checked": checked}

    return change


def test_kernel_time_is_the_sum_of_the_kernels_of_each_profile(study, tmp_path):
    write_records(study, tmp_path, profiled({"eager": 30.0, "compile": 10.0}))
    summary, speedups, _ = tables(study, tmp_path)
    found = row(summary, op="softmax", size="512", mode="eager", metric="kernels")
    assert (found.n, found.unit, found.status) == (5, "µs", "ok")
    assert found.ci_low < found.estimate < found.ci_high
    assert found.estimate == pytest.approx(30 * 1.002, rel=1e-5)
    compared = row(speedups, size="512", mode="compile", baseline="eager", metric="kernels")
    assert (compared.n, compared.verdict, compared.delta) == (5, "faster", 0.01)
    assert compared.speedup == pytest.approx(3)
    none = row(summary, op="softmax", size="512", mode="triton", metric="kernels")
    assert (none.n, none.status, none.notes) == (0, "unsupported", [OffStream()])


def test_one_profile_has_a_value_and_neither_interval_nor_verdict(study, tmp_path):
    write_records(study, tmp_path, profiled({"eager": 30.0, "compile": 10.0}, repeats=[0]))
    _, speedups, _ = tables(study, tmp_path)
    found = row(speedups, size="512", mode="compile", baseline="eager", metric="kernels")
    assert (found.n, found.speedup, found.verdict) == (1, pytest.approx(3), "inconclusive")
    assert np.isnan([found.ci_low, found.ci_high, found.p, found.p_holm]).all()


def test_a_profile_that_lost_kernels_is_no_kernel_time(study, tmp_path):
    lost, whole = profiled({"eager": 30.0}, checked=False), profiled({"compile": 10.0})

    def change(job, entry):
        lost(job, entry)
        whole(job, entry)

    write_records(study, tmp_path, change)
    summary, _, _ = tables(study, tmp_path)
    found = row(summary, op="softmax", size="512", mode="eager", metric="kernels")
    assert (found.status, found.notes) == ("unsupported", [ProfileIncomplete()])


def on_boots(names, shift=0.0, gpus=None):
    """Return what puts repeats on boots of these names; on each, compiled calls are slower than on the one before."""

    def change(job, entry):
        entry["environment"]["host"]["boot"] = names[job.repeat]
        entry["environment"]["gpu"]["uuid"] = gpus[job.repeat] if gpus else f"GPU-{names[job.repeat]}"
        place = list(dict.fromkeys(names)).index(names[job.repeat])
        if job.mode == "compile":
            series = entry["samples"]["latency"]
            entry["samples"]["latency"] = {**series, "values": [v * np.exp(shift * place) for v in series["values"]]}

    return change


def test_intervals_are_over_boots_where_there_are_five(study, tmp_path):
    """Two repeats a boot: ten values over repeats and five over boots have the same mean, and not the same interval."""
    study = Study({**study.config, "repeats": 10})
    names = ["a", "b", "c", "d", "e"] * 2
    write_records(study, tmp_path / "over", on_boots(names, 0.01))
    write_records(study, tmp_path / "unknown", on_boots([None] * 10))
    _, over, document = tables(study, tmp_path / "over")
    at = {"size": "512", "mode": "compile", "baseline": "eager", "metric": "latency"}
    found, pairs = row(over, **at), []
    samples = pd.read_parquet(tmp_path / "over" / "samples.parquet")
    own = samples[(samples.op == "softmax") & (samples["size"] == "512") & (samples.timer == "latency")]
    medians = own.groupby(["mode", "repeat"], observed=True)["value"].median()
    pairs = np.log(medians["eager"] / medians["compile"]).to_numpy()
    means = (pairs[:5] + pairs[5:]) / 2
    half = stats.t.ppf(0.975, 4) * means.std(ddof=1) / np.sqrt(5)
    assert (found.n, found.boots, document["boots"]) == (10, 5, 5)
    assert np.log([found.ci_low, found.ci_high]) == pytest.approx([means.mean() - half, means.mean() + half])
    assert row(tables(study, tmp_path / "over")[0], op="softmax", size="512", mode="eager", metric="latency").boots == 5
    _, unknown, document = tables(study, tmp_path / "unknown")
    assert document["boots"] is None and row(unknown, **at).boots is None and row(unknown, **at).n == 10


@pytest.mark.parametrize(
    ("names", "gpus", "boots"),
    [
        ("aaaaa", None, 1),
        ("abcda", None, 4),
        ("abcde", ["1", "2", "3", "4", "1"], 4),  # Boots that used one GPU are likely to be one host.
        ("abcde", ["1", "2", "2", "1", "3"], 3),
    ],
)
def test_with_fewer_boots_intervals_are_over_repeats(names, gpus, boots, study, tmp_path):
    write_records(study, tmp_path, on_boots(names, 0.01, gpus))
    _, speedups, document = tables(study, tmp_path)
    found = row(speedups, size="512", mode="compile", baseline="eager", metric="latency")
    assert (found.n, found.boots, document["boots"]) == (5, boots, boots)
    samples = pd.read_parquet(tmp_path / "samples.parquet")
    own = samples[(samples.op == "softmax") & (samples["size"] == "512") & (samples.timer == "latency")]
    medians = own.groupby(["mode", "repeat"], observed=True)["value"].median()
    pairs = np.log(medians["eager"] / medians["compile"]).to_numpy()
    half = stats.t.ppf(0.975, 4) * pairs.std(ddof=1) / np.sqrt(5)
    assert np.log([found.ci_low, found.ci_high]) == pytest.approx([pairs.mean() - half, pairs.mean() + half])


def test_verdicts_over_gpus_are_compared_with_those_over_repeats(study, tmp_path):
    """On the last of three GPUs compiled calls are slower: over GPUs that is undecided, and nothing turns round."""
    study = Study({**study.config, "repeats": 9})
    write_records(study, tmp_path, on_gpus(3, "latency", 1.4))
    found = {row["metric"]: row for row in tables(study, tmp_path)[2]["clustered"]}
    assert {row["gpus"] for row in found.values()} == {3}
    assert found["device"]["same"] == found["device"]["decided"] > 0 == len(found["device"]["changed"])
    changed = [each for each in found["latency"]["changed"] if each["mode"] == "compile"]
    assert [(each["verdict"], each["clustered"]) for each in changed] == [("faster", "inconclusive")] * 2
    assert found["latency"]["undecided"] == len(found["latency"]["changed"]) and found["latency"]["opposite"] == 0


def test_first_calls_compare_only_where_as_many_processes_compiled(monkeypatch, tmp_path):
    small = small_study(monkeypatch)
    modes = {mode: small.config["modes"][mode] for mode in ("eager", "compile")}
    arm = {"runner": "compile", "workers": 1, "diagnoses": "compile"}
    own = {"baselines": ["eager", "compile"], "recorded": [], "repeats": 3}
    modes |= {"triton": {"runner": "compile", "workers": 8}, "compile-arm": arm}
    study = Study({**small.config, **own, "modes": modes})

    def compiled(job, entry):
        if job.mode != "eager":
            entry["compile"] = {"graphs": 1, **({"workers": 8} if job.mode == "triton" else {})}

    write_records(study, tmp_path, compiled)
    _, speedups, _ = tables(study, tmp_path)
    cell = {"op": "softmax", "size": "512", "metric": "first_call"}
    refused = row(speedups, **cell, mode="triton", baseline="compile")
    assert (refused.n, refused.status) == (0, "unsupported")
    assert refused.notes == [WorkersDiffer(8, "compile", 1)]
    assert row(speedups, **cell, mode="triton", baseline="eager").n == 3
    assert row(speedups, **cell, mode="compile-arm", baseline="compile").n == 3
    assert row(speedups, **(cell | {"metric": "latency"}), mode="triton", baseline="compile").n == 3


def test_where_the_control_strays_nothing_is_equivalent(study, tmp_path):
    def stray(job, entry):
        if job.mode == "eager-control":
            entry["samples"]["device"]["values"] = [v * 1.02 for v in entry["samples"]["device"]["values"]]
        if job.mode == "compile":
            entry["samples"]["device"]["values"] = [40 * (1 + 0.2 * job.repeat)] * 5

    write_records(study, tmp_path, stray)
    _, speedups, document = tables(study, tmp_path)
    assert document["control"]["device"]["supports_delta"] is False
    assert "equivalent" not in set(speedups[speedups.metric == "device"].verdict)


@pytest.mark.parametrize(
    ("part", "name", "value", "message"),
    [
        *[
            (
                *column.split(".")[1:],
                2 if "memory" in column else "other",
                f"records of different {name} cannot be mixed: ",
            )
            for column, name in SAME.items()
        ],
        ("variables", "OMP_NUM_THREADS", "2", "records of different variables cannot be mixed: "),
        ("gpu", "uuid", "GPU-2", "repeat 1 has two GPUs: GPU-"),
    ],
)
def test_records_of_different_machines_are_never_mixed(study, tmp_path, part, name, value, message):
    def change(job, entry):
        if job.repeat == 1 and job.mode == "compile":
            entry["environment"][part][name] = value

    write_records(study, tmp_path, change)
    with pytest.raises(InputError, match=message):
        collect(study, tmp_path)


def test_a_package_may_set_variables_in_some_jobs(study, tmp_path):
    """scikit-learn sets this one when it is imported, and a warm parent hands it on to the jobs that follow."""

    def change(job, entry):
        if job.mode == "compile" and job.repeat:
            entry["environment"]["variables"] = {"KMP_INIT_AT_FORK": "FALSE"}

    write_records(study, tmp_path, change)
    *_, environment = collect(study, tmp_path)
    assert "KMP_INIT_AT_FORK" not in environment["variables"]


def test_records_of_different_packages_are_never_mixed_and_not_each_mode_needs_one(study, tmp_path):
    versions = {"compile": "1"}

    def change(job, entry):
        if job.mode in versions:
            entry["library"] = {"transformers": versions[job.mode]}

    write_records(study, tmp_path, change)
    collect(study, tmp_path)
    versions["triton"] = "2"
    write_records(study, tmp_path, change)
    with pytest.raises(InputError, match="records of different transformers cannot be mixed"):
        collect(study, tmp_path)


def test_repeats_may_differ_in_their_gpu(study, tmp_path):
    def change(job, entry):
        entry["environment"]["gpu"]["uuid"] = f"GPU-{job.repeat}"

    write_records(study, tmp_path, change)
    _, _, environment = collect(study, tmp_path)
    assert environment["gpu_uuids"] == [f"GPU-{repeat}" for repeat in range(5)]


def test_hosts_of_several_sizes_are_all_told(study, tmp_path):
    def change(job, entry):
        entry["environment"]["host"]["cores"] = 16 if job.repeat == 3 else 8

    write_records(study, tmp_path, change)
    _, _, environment = collect(study, tmp_path)
    assert environment["host"] == {"cpu": "X", "cores": [8, 16], "kernel": ["6"]}


def test_a_record_in_the_wrong_place_is_refused(study, tmp_path):
    write_records(study, tmp_path)
    shutil.copyfile(tmp_path / study.jobs[0].path, tmp_path / study.jobs[1].path)
    with pytest.raises(InputError, match=r"is the record of .*; delete it to measure it again"):
        collect(study, tmp_path)


def test_a_record_of_other_settings_is_refused(study, tmp_path):
    def other(job, entry):
        entry["settings"] = {**entry["settings"], "threads": 7}

    write_records(study, tmp_path, other)
    with pytest.raises(InputError, match="was measured with other threads; delete it to measure it again"):
        collect(study, tmp_path)


def test_samples_with_flags_of_other_samples_are_refused(study, tmp_path):
    def lose(job, entry):
        entry["samples"]["latency"] = {"unit": "us", "values": [1.0, 2.0], "flags": [""]}

    write_records(study, tmp_path, lose)
    with pytest.raises(
        InputError, match=r"json: samples\.latency: 2 values have 1 flags; delete it to measure it again"
    ):
        collect(study, tmp_path)


def test_samples_are_those_of_the_records(study, tmp_path):
    write_records(study, tmp_path, lambda job, entry: entry["samples"]["first_call"].update(flags=["outlier"]))
    samples, _, _ = collect(study, tmp_path)
    wanted = []
    for job in study.jobs:
        entry = record.read(tmp_path / job.path)
        key = [entry[name] for name in ("machine", "op", "dtype", "size", "mode", "repeat")]
        series = {**entry["samples"], "warm_up": {"values": entry["warm_up"]["values"], "flags": []}}
        for timer, data in series.items():
            flags = data["flags"] or [""] * len(data["values"])
            wanted += [[*key, timer, i, *pair] for i, pair in enumerate(zip(data["values"], flags, strict=True))]
    assert samples.astype(object).to_numpy().tolist() == wanted


def test_the_flags_of_samples_are_those_of_the_schema():
    samples = json.loads(record.SCHEMA.read_text(encoding="utf-8"))["properties"]["samples"]
    assert tuple(samples["additionalProperties"]["properties"]["flags"]["items"]["enum"]) == FLAGS


def test_a_study_of_which_nothing_ran_still_has_its_rows(study, tmp_path):
    def crash(job, entry):
        entry.update(status="crashed", reason=WHY.to_json())
        for part in ("work", "floors", "warm_up", "inputs", "accuracy"):
            del entry[part]

    write_records(study, tmp_path, crash)
    summary, speedups, _ = tables(study, tmp_path)
    assert set(summary.status) == set(speedups.status) == {"crashed"}
    assert all(told == [WHY] for told in summary.notes)
    assert summary.estimate.isna().all()


def test_the_control_is_paired_with_its_twin_whatever_the_first_baseline(study, tmp_path):
    write_records(study, tmp_path)
    study.config["baselines"] = ["compile", "eager"]
    _, _, document = tables(study, tmp_path)
    assert document["control"]["device"]["p95"] < 0.01


def test_a_failure_of_the_baseline_is_named_as_its(study, tmp_path):
    write_records(study, tmp_path, fail("oom", {0}, mode="eager"))
    _, speedups, _ = tables(study, tmp_path)
    found = row(speedups, size="512", mode="compile", baseline="eager", metric="device")
    assert (found.status, found.notes) == ("oom", [OfBaseline("eager", SomeRepeats(1, 5, WHY))])


def test_the_same_samples_give_the_same_tables(study, tmp_path):
    write_records(study, tmp_path)
    for name in ("a.csv", "b.csv"):
        write_csv(tables(study, tmp_path)[1], tmp_path / name)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def finished(study, directory: Path, change=lambda job, entry: None) -> Path:
    """Make `directory` a finished study that was measured by the code of the last commit."""

    def by_commit(job, entry):
        entry["code"]["files"] = {file: committed(file) for file in entry["code"]["files"]}
        change(job, entry)

    write_records(study, directory, by_commit)
    summary, speedups, document = tables(study, directory)
    write_csv(summary, directory / "summary.csv")
    write_csv(speedups, directory / "speedups.csv")
    (directory / "summary.json").write_text(json.dumps(document))
    return directory


@cache
def committed(file: str) -> str:
    """Return the digest that a file has in the last commit, "" where it is not there."""
    done = subprocess.run(["git", "show", f"HEAD:{file}"], cwd=ROOT, capture_output=True)
    return code_digest.of_source(done.stdout) if done.returncode == 0 else ""


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*/environment.json")), ids=lambda path: path.parent.name)
def test_a_recorded_digest_is_that_of_its_commit(path):
    environment = json.loads(path.read_text())
    if subprocess.run(["git", "cat-file", "-e", environment["commit"]], cwd=ROOT, capture_output=True).returncode:
        pytest.skip("this checkout has not the whole history")
    (digest,) = environment["sources"]
    scheme = 2 if digest.startswith(old_digests.MARK) else 1
    assert old_digests.digest_at(environment["commit"], scheme) == digest


def test_promote_files_a_study_with_the_commit_that_measured_it(study, tmp_path):
    results = finished(study, tmp_path / "results")
    commit = promote.promote(results, tmp_path / "recorded")
    assert len(commit) == 40
    environment = json.loads((tmp_path / "recorded" / "environment.json").read_text())
    assert environment["commit"] == commit
    assert (tmp_path / "recorded" / "samples.parquet").read_bytes() == (results / "samples.parquet").read_bytes()


def test_promote_leaves_nothing_that_was_made_of_other_data(study, tmp_path):
    results, recorded = finished(study, tmp_path / "results"), tmp_path / "recorded"
    recorded.mkdir()
    (recorded / "paper.pdf").write_text("of the old data")
    promote.promote(results, recorded)
    assert {path.name for path in recorded.iterdir()} == {*promote.FILES}


@pytest.mark.parametrize(
    ("torn", "message"),
    [
        (lambda study: {**study, "repeats": 6}, "summary.json is of another run than its study.yaml; run snakemake"),
        (None, "missing: softmax/float16/512/compile/3; repair: snakemake"),
    ],
)
def test_promote_refuses_a_study_that_is_not_whole(study, tmp_path, torn, message):
    results = finished(study, tmp_path / "results")
    if torn:
        config = torn(yaml.safe_load((results / "study.yaml").read_text()))
        (results / "study.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    else:
        jobs = pd.read_parquet(results / "jobs.parquet")
        lost = (jobs["size"] == "512") & (jobs["mode"] == "compile") & (jobs.repeat == 3)
        jobs[~lost].to_parquet(results / "jobs.parquet")
    with pytest.raises(InputError, match=re.escape(message)):
        promote.promote(results, tmp_path / "recorded")
    assert not (tmp_path / "recorded").exists()


TIMERS = "workflow/kernelbench/harness/timers.py"


def by_other_code(repeats: set[int]):
    """Return a change by which other code than that of any commit measured these repeats."""

    def change(job, entry):
        if job.repeat in repeats:
            entry["code"]["files"][TIMERS] = "0123456789abcdef"

    return change


def by_an_older_scheme(job, entry):
    if job.repeat == 1:
        del entry["code"]
        entry["environment"]["software"]["sources"] = "v2-0123456789abcdef"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (by_other_code({*range(5)}), rf"no commit has the code that measured this \({TIMERS}\); commit it before"),
        (by_other_code({1}), f"measured by 2 states of {TIMERS}; snakemake check says what to do"),
        (by_an_older_scheme, "has records of an older scheme, which do not say by file what measured them; delete"),
        (fail("incorrect", {2}), "incorrect: softmax/float16/512/compile/2; repair: rm"),
    ],
)
def test_promote_refuses_what_no_commit_measured_and_what_went_wrong(study, tmp_path, change, message):
    results = finished(study, tmp_path / "results", change)
    with pytest.raises(InputError, match=message):
        promote.promote(results, tmp_path / "recorded")
    assert not (tmp_path / "recorded").exists()


@pytest.mark.parametrize("code", [None, {}, {"files": {}}, {"files": {TIMERS: []}}])
def test_promote_refuses_what_does_not_say_which_code_measured_it(study, tmp_path, code):
    results = finished(study, tmp_path / "results")
    environment = json.loads((results / "environment.json").read_text())
    (results / "environment.json").write_text(json.dumps({**environment, "code": code}))
    with pytest.raises(InputError, match=r"names no code, as if no job had run|measured by 0 states of"):
        promote.promote(results, tmp_path / "recorded")


def test_a_commit_that_no_python_can_parse_measured_nothing(monkeypatch):
    monkeypatch.setattr(promote, "_ask_git", lambda *arguments: b"def (")
    assert promote._read_digest("blob") == ""


def test_records_restored_from_a_study_are_those_that_it_was_collected_from(study, tmp_path):
    """Among them jobs that are unsupported, that were killed and that ended with a number."""

    def change(job, entry):
        entry["process"] = {"start": "warm", "end": "exited", "code": 0, "left": []}
        if (job.mode, job.repeat) == ("compile", 1):
            fail("crashed", {1})(job, entry)
            entry["process"] |= {"end": "killed", "code": "SIGKILL"}

    results = finished(study, tmp_path / study.machine, change)
    before = {job.path: record.read(results / job.path) for job in study.jobs}
    shutil.rmtree(results / "records")
    assert restore.restore(results, tmp_path) == (results, len(study.jobs))
    restored = {path: record.read(results / path) for path in before}
    assert restored == before


def test_restore_refuses_what_is_no_study_and_what_would_be_lost(study, tmp_path):
    results = finished(study, tmp_path / study.machine)
    with pytest.raises(InputError, match=r"records: is there already; move it away to restore those of"):
        restore.restore(results, tmp_path)
    (results / "jobs.parquet").unlink()
    with pytest.raises(InputError, match=r"jobs\.parquet missing; allowed: results/recorded/<name>"):
        restore.restore(results, tmp_path)
    with pytest.raises(InputError, match="none: no such directory"):
        restore.restore(tmp_path / "none", tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("h200-modes", marks=pytest.mark.nightly),
        pytest.param("h200-models", marks=pytest.mark.nightly),
        "cpu-amd-epyc-models",
    ],
)
def test_a_recorded_study_is_collected_from_its_restored_records_as_it_was(name, tmp_path):
    recorded = RECORDED / name
    directory, _ = restore.restore(recorded, tmp_path)
    study = Study(yaml.safe_load((recorded / "study.yaml").read_text(encoding="utf-8")), here=False)
    samples, jobs, environment = collect(study, directory)
    for table, file in ((samples, "samples.parquet"), (jobs, "jobs.parquet")):
        read = read_jobs if file == "jobs.parquet" else pd.read_parquet
        table.to_parquet(tmp_path / file)
        # The notes of an older study are those of today; what it says of its version is not.
        found, known = (
            read(path).drop(columns="version", errors="ignore") for path in (tmp_path / file, recorded / file)
        )
        pd.testing.assert_frame_equal(found, known, check_exact=True, check_like=True)
    known = json.loads((recorded / "environment.json").read_text())
    assert environment == {key: value for key, value in known.items() if key != "commit"}


def test_records_of_another_version_are_not_restored(tmp_path):
    with pytest.raises(InputError, match="version: 2 is not 4, the one that this checkout reads"):
        restore.restore(RECORDED / "h200-start", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_metric_that_is_0_says_why_it_has_no_estimate(study, tmp_path):
    def change(job, entry):
        entry["samples"]["peak_memory"] = {"unit": "MiB", "values": [0.0], "flags": [""]}

    write_records(study, tmp_path, change)
    summary, speedups, _ = tables(study, tmp_path)
    for table in (summary, speedups):
        found = table[(table.metric == "peak_memory") & (table["mode"] == "compile") & (table["size"] == "512")]
        assert set(found.status) == {"unsupported"}
        assert all(isinstance(whose, ZeroValue) for told in found.notes for whose in told)
        assert (found.n == 0).all()


def test_a_payback_that_the_verdict_does_not_bear_out_is_open(study, tmp_path):
    """Compile's calls take less in every repeat, but by so little that they are equivalent."""

    def change(job, entry):
        if job.mode == "compile":
            entry["samples"]["first_call"]["values"] = [50.0]
        factor = 0.999 if job.mode == "compile" else 1.0
        entry["samples"]["latency"] = {"unit": "us", "values": [40 * factor + 1e-4 * job.repeat] * 5, "flags": [""] * 5}

    write_records(study, tmp_path, change)
    _, speedups, document = tables(study, tmp_path)
    wanted = {"op": "softmax", "size": "512", "mode": "compile", "baseline": "eager", "metric": "latency"}
    assert row(speedups, **wanted).verdict == "equivalent"
    (paid,) = [p for p in document["payback"] if all(p[k] == v for k, v in wanted.items() if k in p)]
    assert paid["kind"] == "open" and paid["calls"] is None and paid["low"] > 0


def test_a_mean_says_which_sizes_it_lacks_of_a_mode_or_a_baseline_that_has_only_some(monkeypatch, tmp_path):
    small = small_study(monkeypatch)
    ops = {**small.config["ops"], "softmax": {"rows": 8, "sizes": [512, 1024, 2048]}}
    modes = {**small.config["modes"], "triton": {**small.config["modes"]["triton"], "only": {"softmax": [512, 2048]}}}
    study = Study({**small.config, "ops": ops, "modes": modes, "baselines": ["eager", "triton"]})
    write_records(study, tmp_path)
    speedups = tables(study, tmp_path)[1]
    some = {"op": "softmax", "size": "all", "metric": "latency"}
    left = SizesNotMeasured(["1024"], 2)
    assert row(speedups, **some, mode="triton", baseline="eager").notes[0] == left
    assert row(speedups, **some, mode="compile", baseline="triton").notes[0] == left
    assert not find(row(speedups, **some, mode="compile", baseline="eager").notes, SizesNotMeasured)


def test_packages_are_told_with_their_versions():
    rows = pd.DataFrame({"mode": ["eager", "onnx", "jax"], "library.onnxruntime": [None, "1.2", None], "x": [1, 2, 3]})
    assert list_packages(rows.assign(**{"library.jax": [None, None, "0.3"]})) == {"onnxruntime": "1.2", "jax": "0.3"}
    assert list_packages(rows[["mode"]]) == {}


def test_attempts_that_were_left_out_are_kept_and_counted(tmp_path, monkeypatch):
    left_out = {"doubts": [OtherProcesses(1).to_json()], "seconds": 3.0, "medians": {"latency": 50.0}}

    def leave_out(job, entry):
        again = [left_out] if job.mode == "compile" and job.repeat == 2 else []
        entry["process"] = {"start": "warm", "end": "exited", "code": 0, "left": [], "again": again}

    study = small_study(monkeypatch)
    write_records(study, tmp_path, leave_out)
    document = tables(study, tmp_path)[2]
    tries = pd.read_parquet(tmp_path / "jobs.parquet").set_index(["mode", "repeat"])["process.again"].map(json.loads)
    assert all(found == ([left_out] if at == ("compile", 2) else []) for at, found in tries.items())
    assert [repeat["again"] for repeat in document["jobs"]["repeats"]] == [0, 0, 2, 0, 0]
