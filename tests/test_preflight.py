"""Preflight: what a host is found to do, what it is then good for, and how its first jobs are told."""

import json
import math
import os
import re
from types import SimpleNamespace

import pytest
import torch
from checkout import TINY, Checkout
from fake_nvml import FakeNVML

from kernelbench import notes
from kernelbench.errors import InputError
from kernelbench.harness.core import SLOW
from kernelbench.notes import (
    CoresWorthLess,
    FewCores,
    Heat,
    LaunchesVary,
    NotMonitored,
    OtherProcesses,
    PowerCap,
    TurnsTakenAgain,
    Unsettled,
)
from kernelbench.planning import host_probe
from kernelbench.planning.host_verdict import LIMITS, format_host, format_verdict, judge
from kernelbench.running import pace, snakemake_progress
from kernelbench.running.snakemake_progress import LogHandler, announce
from kernelbench.running.tally import Job, Tally

QUICK = {"CORES_SECONDS": 0.05, "CORE_SECONDS": 0.01, "LAUNCH_SECONDS": 0.05}
LAUNCH = {
    "median": 20.0,
    "p95": 24.0,
    "worst": 90.0,
    "samples": 900,
    "turns": 100,
    "again": 8,
    "slow": 0,
    "settled": True,
}
IDLE = {
    "host": {"cpu": "X", "load": 0.5},
    "cores": {"count": 8, "free": 8, "worth": 5.0, "stolen": 0.0},
    "gpu": None,
    "processes": [],
    "suspect": [],
    "launch": LAUNCH,
    "copy": {"gbps": 3000.0},
    "load": None,
}


def changed(part: str, **values) -> dict:
    """Return what was found on an idle host, with other values in a part of it."""
    return {**IDLE, part: {**IDLE[part], **values}}


@pytest.fixture
def quick(monkeypatch):
    for name, seconds in QUICK.items():
        monkeypatch.setattr(host_probe, name, seconds)
    monkeypatch.setitem(host_probe.COPIED, "cpu", "1MiB")


# What is found


def test_a_core_is_free_that_works_at_full_speed_alone():
    alone = [(0.01, 100.0), (0.01 / SLOW * 0.99, 100.0), (0.005, 100.0)]
    found = host_probe.summarize_cores(alone, [(0.005, 110.0)] * 3)
    assert (found["count"], found["free"]) == (3, 1)
    assert found["worth"] == pytest.approx(1.5), "three that share the work of one and a half"
    assert found["alone"][2] == pytest.approx(0.5)


def test_cores_that_are_all_shared_are_not_free():
    """Each works as fast as the others, but only half of the time: the fastest moment says so."""
    assert host_probe.summarize_cores([(0.005, 100.0)] * 2, [(0.0025, 100.0)] * 2)["free"] == 0


def test_a_cpu_is_asked_for_all_but_a_gpu(quick):
    found = host_probe.probe("cpu", TINY["sampling"])
    assert json.loads(json.dumps(found)) == found
    assert found["gpu"] is found["load"] is None and found["suspect"] == []
    launch = found["launch"]
    assert launch["samples"] >= 3 and launch["median"] <= launch["p95"] and launch["again"] == 0
    assert found["copy"]["gbps"] > 0
    assert found["cores"]["count"] == len(found["cores"]["alone"]) == len(found["cores"]["together"])
    assert found["host"]["affinity"] == sorted(os.sched_getaffinity(0)), "all cores are allowed again"


def test_a_gpu_that_others_use_is_left_alone(quick, nvml, monkeypatch):
    monkeypatch.setattr(host_probe, "_time", lambda *_: pytest.fail("it timed"))
    nvml(FakeNVML(processes=2))
    found = host_probe.probe("cuda", TINY["sampling"])
    assert notes.load(found["suspect"]) == [OtherProcesses(2)]
    assert found["processes"] == [100, 101] and found["launch"] is None
    found["verdict"] = judge(found, "cuda")
    assert found["verdict"]["good_for"] == []
    assert {"100", "101"} <= set(re.findall(r"\d+", format_verdict(found))), "it names them"


def test_a_gpu_is_watched_while_it_works(quick, nvml, monkeypatch):
    library = FakeNVML()
    nvml(library)
    monkeypatch.setattr(host_probe, "_time", lambda *_: {"launch": LAUNCH, "copy": {"gbps": 1.0}})

    def work() -> dict:
        library.processes, library.held = 1, (4_000_000, 2_000_000)
        return {"sm_clock": 1500, "power": None, "temperature": 80}

    monkeypatch.setattr(host_probe, "find_load", work)
    found = host_probe.probe("cuda", TINY["sampling"])
    assert notes.load(found["suspect"]) == [PowerCap(4), Heat(2)], "the probe itself is no other process"
    found["verdict"] = judge(found, "cuda")
    assert notes.load(found["verdict"]["doubts"]) == [Heat(2)], "a power cap is the load's own doing"
    assert all(isinstance(line, str) for line in format_host(found)), "what NVML does not answer is no error"


def test_no_memory_is_one_line(quick, monkeypatch):
    def fail(device: str) -> float:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(host_probe, "find_copy_rate", fail)
    with pytest.raises(InputError, match=r"^preflight: "):
        host_probe.probe("cpu", TINY["sampling"])


# What it is good for


@pytest.mark.parametrize(
    ("found", "device", "good_for", "said"),
    [
        (IDLE, "cuda", ["device", "latency"], None),
        (IDLE, "cpu", ["latency"], None),
        (changed("launch", again=60), "cuda", ["device"], TurnsTakenAgain),
        (changed("launch", p95=40.0), "cuda", ["device"], LaunchesVary),
        (changed("launch", p95=40.0), "cpu", [], LaunchesVary),
        (changed("launch", settled=False), "cuda", ["device"], Unsettled),
        (changed("cores", free=LIMITS["cores"] - 1), "cuda", ["device"], FewCores),
        (changed("cores", worth=LIMITS["worth"] * 0.9), "cpu", [], CoresWorthLess),
        ({**IDLE, "suspect": notes.dump([Heat(3.0)])}, "cuda", [], Heat),
        ({**IDLE, "suspect": notes.dump([NotMonitored()])}, "cuda", [], NotMonitored),
        ({**IDLE, "suspect": notes.dump([PowerCap(3.0)])}, "cuda", ["device", "latency"], None),
    ],
)
def test_a_host_is_good_for_what_its_noise_and_doubts_leave(found, device, good_for, said):
    verdict = judge(found, device)
    assert verdict["good_for"] == good_for
    assert [type(note) for note in notes.load(verdict["doubts"] + verdict["noise"])] == ([said] if said else [])
    assert json.loads(json.dumps(verdict)) == verdict
    line = format_verdict({**found, "verdict": verdict})
    assert "\n" not in line and notes.say(verdict["doubts"] + verdict["noise"]) in line


def test_snakemake_preflight_writes_what_it_prints_each_time(tmp_path):
    checkout = Checkout(tmp_path / "a study", TINY)
    probe = checkout.path / "workflow/kernelbench/planning/host_probe.py"
    shown = "".join(f"{name} = {seconds}\n" for name, seconds in QUICK.items())
    probe.write_text(probe.read_text().replace("\n\n\ndef probe(", f"\n{shown}\n\ndef probe(", 1))
    path, asked = checkout.path / "results/cpu-test/preflight.json", set()
    for _ in range(2):
        output = checkout.run("preflight")
        found = json.loads(path.read_text())
        assert set(format_host(found)) <= set(output.splitlines())
        asked.add(found["asked"])
    assert len(asked) == 2 and found["device"] == "cpu" and not checkout.records()
    assert "jobs done" not in output


def test_a_host_without_the_gpu_of_the_study_is_refused_in_one_line(tmp_path):
    checkout = Checkout(tmp_path / "a study", {**TINY, "machine": "gtx1080"})
    process = checkout.start("preflight")
    output = process.communicate()[0]
    assert process.returncode == 1 and "Traceback" not in output
    assert "config: machine: gtx1080 is not what this machine has" in output
    assert not (checkout.path / "results/gtx1080/preflight.json").exists()


# The pace of a run


@pytest.fixture
def told(monkeypatch) -> list:
    """What was told of the pace: (jobs, s, s planned, s left)."""
    told = []
    monkeypatch.setattr(pace, "describe", lambda *given: told.append(given) or "the pace")
    return told


def measurements(tally: Tally, count: int, record="a record") -> None:
    """Run jobs of 3 s each one after the other, for which 2 s are planned."""
    for _ in range(count):
        began = 3.0 * tally.done.total()
        tally.start(0, Job("a job", "eager", record, "", began, 2.0))
        tally.end(0, "ok", began + 3)


def test_the_pace_is_that_of_the_first_measurements(told):
    tally = Tally(["eager"] * 30, 0)
    measurements(tally, 5, record=None)
    measurements(tally, pace.FIRST - 1)
    assert tally.describe_pace(42) is None and told == []
    measurements(tally, 1)
    assert tally.describe_pace(45) == "the pace"
    assert told == [(10, 30, 20, pytest.approx(15 * 3))]
    measurements(tally, 5)
    tally.describe_pace(60)
    assert told[-1][:3] == (10, 30, 20)


def test_the_pace_is_told_once(told, capsys):
    settings = {"stdout": False, "nocolor": True, "quiet": None, "dryrun": False, "verbose": False}
    handler = LogHandler(SimpleNamespace(**settings), None)
    handler.begin(["eager"] * 30, None, 0)
    for _ in range(15):
        measurements(handler.tally, 1)
        handler.tell_pace(100)
    assert len(told) == 1 and capsys.readouterr().err.count("the pace") == 1


def test_a_slow_host_is_told_what_to_do():
    slow = pace.describe(10, 66, 26, 7800)
    assert "snakemake preflight" in slow and "2 h 10 min" in slow
    for planned in (66, 66 / pace.SLOWER, math.nan, 0):
        assert "snakemake" not in pace.describe(10, 66, planned, 7800)


@pytest.mark.parametrize(("count", "asks"), [(pace.FIRST - 1, 0), (pace.FIRST, 1)])
def test_a_run_of_few_measurements_does_not_read_what_is_planned(monkeypatch, count, asks):
    asked, said = [], []
    monkeypatch.setattr(snakemake_progress.logger, "info", lambda text, extra: said.append(extra["planned"]))
    jobs = [SimpleNamespace(wildcards_dict={"mode": "eager"}, rule=SimpleNamespace(name="measure"))] * count

    def expect():
        asked.append(1)
        raise InputError("a record that cannot be read")

    announce("results/x", jobs, expect)
    assert len(asked) == asks and said == [{}]
