"""Causes: each is planted in records, and found with what says so."""

import pytest
from records import row, small_study, tables, write_records

from kernelbench.analysis.causes import _name_kernels, _shorten
from kernelbench.study.study import Study

SAME = [{"name": "gemm", "count": 1.0, "time": 30.0}]
OTHER = [{"name": "fused", "count": 1.0, "time": 15.0}]
NO_GRAPH = {"inputs": 0, "peak": 0, "between_calls": 0, "graph_pools": 0}
SLOWER = [{"name": "slower", "count": 1.0, "time": 50.0}]
COPIED = [*SAME, {"name": "Memcpy DtoD (Device -> Device)", "count": 2.0, "time": 40.0}]


@pytest.fixture
def study(monkeypatch):
    return small_study(monkeypatch)


def planted(device: float, host: float, kernels: list, change=lambda job, entry: None):
    """Return a change of records: compile takes `device` and `host` times eager's 40 and 20 µs, and waits for both."""

    def plant(job, entry):
        factors = (device, host) if job.mode == "compile" else (1, 1)
        jitter = entry["samples"]["first_call"]["values"][0] * 10 / TIME[job.mode]
        times = {"device": 40 * factors[0] * jitter, "host": 20 * factors[1] * jitter}
        times |= {metric: times["device"] + times["host"] for metric in ("latency", "event", "throughput")}
        for metric, time in times.items():
            entry["samples"][metric] = {"unit": "us", "values": [time], "flags": [""]}
        copied = any("Memcpy" in kernel["name"] for kernel in kernels)
        pools = 2**20 if copied and job.mode == "compile" else 0
        entry["memory"] = {"inputs": 0, "peak": 0, "between_calls": 0, "graph_pools": pools}
        entry["generated_code"] = "a"
        entry["clocks"] = {"single": 1980, "throughput": 1980, "graph": 1980}
        if job.repeat == 0:
            listed = kernels if job.mode == "compile" else SAME
            entry["profile"] = {"kernels": listed, "checked": True}
        change(job, entry)

    return plant


TIME = {"eager": 40.0, "eager-control": 40.0, "compile": 20.0, "triton": 80.0}


def only(modes, **keys):
    """Return a change that gives the records of some modes these entries."""

    def change(job, entry):
        if job.mode in modes:
            entry.update(keys)

    return change


def tuned(job, entry):
    if job.mode == "compile" and job.repeat > 2:
        entry["generated_code"] = "b"
        entry["samples"]["device"]["values"] = [value * 1.1 for value in entry["samples"]["device"]["values"]]


def each_its_code(job, entry):
    """The code of compile differs in each repeat, and so does, by chance, its time."""
    if job.mode == "compile":
        entry["generated_code"] = f"code {job.repeat // 2}"
        jitter = 1 + 0.03 * (job.repeat % 2)
        entry["samples"]["device"]["values"] = [value * jitter for value in entry["samples"]["device"]["values"]]


def held_back(job, entry):
    """Calls of compile that follow one another take twice as long, at a lower clock."""
    if job.mode == "compile":
        entry["samples"]["throughput"]["values"] = [value * 2 for value in entry["samples"]["throughput"]["values"]]
        entry["clocks"] = {"single": 1980, "throughput": 1700, "graph": 1980}


def back_to_back(job, entry):
    """Calls that follow one another take as long as the device, but twice that of compile."""
    time = entry["samples"]["device"]["values"][0]
    entry["samples"]["throughput"]["values"] = [time * (2 if job.mode == "compile" else 1)]


def off_stream(job, entry):
    """Compile is a runtime off PyTorch's stream, without timers of the host and the device."""
    if job.mode == "compile":
        for metric in ("device", "host", "event"):
            del entry["samples"][metric]


def overlapping(job, entry):
    """Calls that keep the host longer than the device, while that works; compile saves time of both."""
    jitter = entry["samples"]["first_call"]["values"][0] * 10 / TIME[job.mode]
    times = {"device": 18, "host": 40, "latency": 46, "throughput": 40}
    if job.mode == "compile":
        times = {"device": 6, "host": 35, "latency": 42, "throughput": 35}
    for metric, time in times.items():
        entry["samples"][metric]["values"] = [time * jitter]


def idle(job, entry):
    """Off the stream, calls that follow one another, of which kernels take little."""
    jitter = entry["samples"]["first_call"]["values"][0] * 10 / TIME[job.mode]
    entry["samples"]["throughput"]["values"] = [(80 if job.mode == "compile" else 100) * jitter]
    off_stream(job, entry)


SLOW = {"single": 1700, "throughput": 1980, "graph": 1980}


PLANTED = [
    ("device", planted(0.5, 1, OTHER), "kernel", "gemm 30 µs and fused 15 µs"),
    ("device", planted(2, 1, COPIED), "graph input copy", "copies 0 and 40 µs"),
    ("device", planted(4, 1, COPIED), "graph input copy", "copies 0 and 40 µs"),
    ("device", planted(2, 1, [*OTHER, COPIED[1] | {"time": 10.0}]), "graph input copy", "copies 0 and 10 µs"),
    ("device", planted(2, 1, [*SLOWER, COPIED[1] | {"time": 21.0}]), "graph input copy", "21 µs; gemm 30 µs and"),
    ("device", planted(2, 1, [*SLOWER, COPIED[1] | {"time": 19.0}]), "kernel", "slower 50 µs + 2 × Memcpy"),
    ("device", planted(2, 1, COPIED, only({"compile"}, memory=NO_GRAPH)), "kernel", "2 × Memcpy"),
    ("device", planted(2, 1, [{"name": "kernel_cutlass_TiledCopy", "count": 1.0, "time": 60.0}]), "kernel", "gemm"),
    ("throughput", planted(1, 1.5, SAME, back_to_back), "unexplained", "throughput"),
    ("device", planted(2, 1, SAME), "unexplained", "the same kernels: gemm 30 µs"),
    ("device", planted(2, 1, SAME, only({"compile"}, clocks=SLOW)), "clocks", "the SM clock was lower in compile"),
    ("device", planted(2, 1, SAME, only({"eager"}, clocks=SLOW)), "unexplained", "the same kernels"),
    ("device", planted(2, 1, SAME, only(set(TIME), clocks=SLOW)), "unexplained", "the same kernels"),
    ("device", planted(2, 1, SAME, tuned), "autotune", "repeats with other generated code differ"),
    ("device", planted(2, 1, SAME, each_its_code), "unexplained", "the same kernels"),
    ("device", planted(2, 1, OTHER, only({"compile"}, profile=None)), "unexplained", "not profiled"),
    ("host", planted(1, 3, SAME), "host", "the call returns after 27.4 and 82.2 µs"),
    ("latency", planted(1, 3, SAME), "host", "the call returns after 27.4 and 82.2 µs"),
    ("latency", planted(0.5, 1, OTHER), "kernel", "gemm"),
    ("latency", planted(0.75, 3, OTHER), "host", "the call returns after"),
    ("latency", planted(0.5, 1, OTHER, off_stream), "kernel", "gemm 30 µs and fused 15 µs"),
    ("throughput", planted(1, 3, SAME, off_stream), "host", "of which kernels take 30 and 30 µs"),
    ("throughput", planted(1, 1, OTHER, idle), "host", "of which kernels take 30 and 15 µs"),
    ("latency", planted(1, 1, OTHER, overlapping), "host", "the call returns after"),
    ("throughput", planted(1, 1, OTHER, overlapping), "host", "the call returns after"),
    ("throughput", planted(0.25, 1.5, OTHER), "kernel", "kernels 30 and 15 µs"),
    ("throughput", planted(1, 1, SAME, held_back), "clocks", "the SM clock was lower in compile"),
    ("first_call", planted(1, 1, SAME), "compilation", "first call"),
]


def first_of_each() -> list:
    """Return what is planted; of each cause of a metric's difference all but the first are nightly."""
    pairs = [(metric, cause) for metric, _, cause, _ in PLANTED]
    firsts = {pairs.index(pair) for pair in pairs}
    return [
        pytest.param(*row, marks=() if place in firsts else pytest.mark.nightly) for place, row in enumerate(PLANTED)
    ]


@pytest.mark.parametrize(("metric", "plant", "cause", "evidence"), first_of_each())
def test_a_planted_cause_is_found(study, tmp_path, metric, plant, cause, evidence):
    def change(job, entry):
        plant(job, entry)
        if entry.get("profile") is None:
            entry.pop("profile", None)

    write_records(study, tmp_path, change)
    _, speedups, document = tables(study, tmp_path)
    wanted = {"op": "softmax", "size": "512", "mode": "compile", "baseline": "eager", "metric": metric}
    assert row(speedups, **wanted).verdict in ("faster", "slower")
    assert row(speedups, **wanted).cause == cause
    (said,) = [c for c in document["causes"] if all(c[key] == value for key, value in wanted.items())]
    assert said["cause"] == cause and evidence in said["evidence"]


def test_the_first_call_of_a_graph_is_its_capture_beside_eager_and_no_compilation(study, tmp_path):
    captured = {"runner": "cuda_graph", "devices": ["cuda"]}
    own = Study({**study.config, "baselines": ["eager", "compile"], "modes": study.modes | {"triton": captured}})
    write_records(own, tmp_path, planted(1, 1, SAME))
    _, speedups, _ = tables(own, tmp_path)
    wanted = {"op": "softmax", "size": "512", "mode": "triton", "metric": "first_call"}
    causes = [row(speedups, **wanted, baseline=baseline).cause for baseline in ("eager", "compile")]
    assert causes == ["graph capture", "compilation"]


def test_what_does_not_differ_has_no_cause(study, tmp_path):
    write_records(study, tmp_path, planted(1, 3, SAME))
    _, speedups, _ = tables(study, tmp_path)
    wanted = {"op": "softmax", "size": "512", "mode": "compile", "baseline": "eager"}
    assert row(speedups, **wanted, metric="device").verdict == "equivalent"
    assert row(speedups, **wanted, metric="device").cause == ""
    control = speedups[(speedups["mode"] == "eager-control") & (speedups.baseline == "eager")]
    assert set(control.cause) == {""}


def test_a_mean_over_sizes_has_the_causes_of_its_sizes(study, tmp_path):
    """Waited for, 512 takes longer by its kernel and 1024 by the host."""

    def change(job, entry):
        plant = planted(2, 1, [SLOWER[0] | {"time": 70.0}]) if job.cell.size == "512" else planted(1, 3, SAME)
        plant(job, entry)

    write_records(study, tmp_path, change)
    _, speedups, _ = tables(study, tmp_path)
    wanted = {"op": "softmax", "mode": "compile", "baseline": "eager", "metric": "latency"}
    assert [row(speedups, **wanted, size=size).cause for size in ("512", "1024")] == ["kernel", "host"]
    assert row(speedups, **wanted, size="all").verdict == "slower"
    assert row(speedups, **wanted, size="all").cause == "host and kernel"


def test_without_a_timer_of_the_host_no_cause_is_given(study, tmp_path):
    write_records(study, tmp_path)
    _, speedups, document = tables(study, tmp_path)
    assert set(speedups.cause) == {""} and document["causes"] == []


def test_kernels_are_named_without_templates():
    name = "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::Half, (a::B)2>(c10::Half*, int)"
    assert _shorten(name) == "cunn_SoftMaxForward"
    assert _shorten("triton_red_fused__softmax_0") == "triton_red_fused__softmax_0"
    many = [{"name": f"k{i}", "count": 2.0, "time": float(i)} for i in range(5)]
    assert _name_kernels(many) == "2 × k4 4 µs + 2 × k3 3 µs + 2 × k2 2 µs + 2 more"
