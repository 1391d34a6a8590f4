"""Faults: nothing is lost, nothing wrong is kept, and a clear line says what happened."""

import base64
import ctypes
import importlib.util
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch
from checkout import PATIENCE, ROOT, TINY, Checkout, wait_for
from fake_nvml import FakeNVML

from kernelbench import notes
from kernelbench.errors import InputError
from kernelbench.harness import cuda, measure, provenance, record
from kernelbench.notes import (
    Exited,
    HardwareSlowdown,
    HardwareThermalSlowdown,
    Heat,
    Killed,
    NotMonitored,
    OtherProcesses,
    PowerBrake,
    PowerCap,
    Raised,
    RetryFailed,
    TimeLimit,
    Unsettled,
)
from kernelbench.records.collect import collect
from kernelbench.running import gpu_lanes, job_process, retries
from kernelbench.study import machine
from kernelbench.study.study import Study

pytestmark = pytest.mark.slow

RESULTS = Path("results/cpu-test")
TABLES = str(RESULTS / "jobs.parquet")
MODES = {
    "warm": {"runner": "eager"},
    "fresh": {"runner": "eager", "start": "fresh"},
    # Many times as long as such a job needs until it hangs.
    "short": {"runner": "eager", "timeout": 15},
    "short-fresh": {"runner": "eager", "start": "fresh", "timeout": 45},
}
# Capabilities that let root write where the permissions do not.
CAP_DAC_OVERRIDE, PR_CAPBSET_DROP = 1, 24


def op(fault: str, *modes: str) -> dict:
    """Return the entry of an op that has `fault`."""
    return {"workload": "faulty", "fault": fault, "sizes": [8], "modes": list(modes)}


def slow(count: int, *modes: str) -> dict:
    """Return the entries of `count` ops that each take a second."""
    return {f"slow{number}": op("slow", *modes) for number in range(count)}


def held(count: int, *modes: str) -> dict:
    """Return the entries of `count` ops whose jobs each wait until the test lets them through."""
    return {f"held{number}": op("held", *modes) for number in range(count)}


def study_of(ops: dict, **changes) -> dict:
    """Return the config of a study of faulty ops."""
    return {**TINY, "ops": ops, "modes": MODES, "baselines": ["warm"], "repeats": 1, **changes}


def copy(path: Path, config: dict, locks: Path | None = None, **environment: str) -> Checkout:
    """Return a checkout that has the faulty workload, and a TMPDIR of its own."""
    checkout = Checkout(path / "checkout", config, locks=locks)
    shutil.copyfile(ROOT / "tests/faulty.py", checkout.path / "workflow/kernelbench/harness/workloads/faulty.py")
    temporary = path / "tmp"
    temporary.mkdir(exist_ok=True)
    checkout.environment |= {"TMPDIR": str(temporary), **environment}
    return checkout


def read(checkout: Checkout) -> dict:
    """Return the records by (op, mode, repeat)."""
    entries = [record.read(checkout.path / path) for path in checkout.records()]
    return {(entry["op"], entry["mode"], entry["repeat"]): entry for entry in entries}


def started(checkout: Checkout) -> dict[str, str]:
    """Return when each job started by its record's path: a job that is measured twice starts twice."""
    return {path: record.read(checkout.path / path)["started"] for path in checkout.records()}


def log(checkout: Checkout, op: str, mode: str, repeat: int = 0) -> str:
    """Return the log of a job of size 8."""
    return (checkout.path / RESULTS / f"logs/{op}/float32/8/{mode}/{repeat}.log").read_text()


def scratch(checkout: Checkout) -> list[Path]:
    """Return the temporary directories of jobs that are there."""
    return list(Path(checkout.environment["TMPDIR"]).glob("kernelbench-job-*"))


@pytest.fixture(autouse=True)
def opened(tmp_path):
    """In the end let through all jobs that are held, also where the test failed."""
    yield
    if (tmp_path / "checkout").exists():
        (tmp_path / "checkout" / "open").touch()


# A job goes wrong.


@pytest.fixture(scope="module")
def faults(tmp_path_factory) -> Checkout:
    """A study of faults that has run to its end."""
    ops = {
        "sound": op("none", "warm", "fresh"),
        "hang": op("hang", "short", "short-fresh"),
        "kill": op("kill", "warm", "fresh"),
        "segfault": op("segfault", "warm"),
        "leave": op("leave", "warm"),
        "stray": op("stray", "warm", "fresh"),
        "exhaust": op("exhaust", "warm"),
    }
    checkout = copy(tmp_path_factory.mktemp("faults"), study_of(ops))
    checkout.run(TABLES)
    return checkout


@pytest.mark.parametrize(
    ("op", "mode", "status", "reason"),
    [
        ("hang", "short", "timeout", TimeLimit("first_call", 15)),
        ("hang", "short-fresh", "timeout", TimeLimit("first_call", 45)),
        ("kill", "warm", "crashed", Killed("first_call", "SIGKILL")),
        ("kill", "fresh", "crashed", Killed("first_call", "SIGKILL")),
        ("segfault", "warm", "crashed", Killed("first_call", "SIGSEGV")),
        ("leave", "warm", "crashed", Exited("first_call", 0)),
        ("exhaust", "warm", "oom", None),  # In the words of whoever found no room.
    ],
)
def test_a_job_that_goes_wrong_is_a_record_with_its_reason(faults, op, mode, status, reason):
    entry = read(faults)[op, mode, 0]
    assert entry["status"] == status
    told = notes.load(entry["reason"])
    assert told == reason or (reason is None and isinstance(told, Raised))
    assert entry["samples"] == {}
    assert entry["environment"]["software"]["torch"] == torch.__version__
    assert f"{status} {told}" in log(faults, op, mode)


def test_the_parent_survives_all_faults_of_its_jobs(faults):
    warm = [entry for entry in read(faults).values() if entry["process"]["start"] == "warm"]
    assert len({entry["process"]["parent"] for entry in warm}) == 1
    assert all(read(faults)["sound", mode, 0]["status"] == "ok" for mode in ("warm", "fresh"))


@pytest.mark.parametrize("mode", ["warm", "fresh"])
def test_what_a_job_leaves_behind_is_ended_and_named(faults, mode):
    entry = read(faults)["stray", mode, 0]
    assert entry["status"] == "ok"
    assert sorted(entry["process"]["left"]) == ["sleep 100000", "sleep 100001"]
    assert "ended what it left behind: sleep 100000" in log(faults, "stray", mode)


def test_no_process_and_no_temporary_directory_outlives_the_run(faults):
    faults.assert_nothing_is_alive()
    assert scratch(faults) == []


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
        MemoryError(),
    ],
)
def test_running_out_of_any_memory_is_oom(error):
    assert measure.classify(error, [])[0] == "oom"


@pytest.fixture(scope="module")
def restless(tmp_path_factory) -> tuple[Checkout, str]:
    """A study of a job whose warm-up settles at the second try and one whose never does; and what the run printed."""
    ops = {"once": op("restless once", "warm"), "always": op("restless", "fresh"), "sound": op("none", "warm")}
    checkout = copy(tmp_path_factory.mktemp("restless"), study_of(ops))
    return checkout, checkout.run(TABLES)


@pytest.mark.parametrize(("op", "mode"), [("once", "warm"), ("always", "fresh")])
def test_a_job_that_does_not_settle_is_measured_again_once_and_keeps_what_was_left_out(restless, op, mode):
    checkout, _ = restless
    entry = read(checkout)[op, mode, 0]
    assert entry["status"] == "ok" and entry["warm_up"]["settled"] is (op == "once")
    (earlier,) = entry["process"]["again"]
    assert notes.load(earlier["doubts"]) == [Unsettled()]
    assert earlier["medians"]["latency"] >= 1000
    assert (f"; {Unsettled()}" in log(checkout, op, mode)) is (op == "always")


def test_a_try_that_is_left_out_is_in_no_part_of_the_time_of_a_job(monkeypatch, tmp_path):
    """A job that waits 20 s for its device, of which one try takes 30 s and is left out, and the other 7."""
    spec = importlib.util.spec_from_file_location("measure", ROOT / "workflow/scripts/measure.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    now = 1000.0  # s since the machine started.

    @contextmanager
    def hold(gpu):
        nonlocal now
        now += 20
        yield 0

    def measured(*arguments):
        nonlocal now
        now += 30 + 7
        entry = {"reason": None, "suspect": [], "seconds": {"imports": 1, "first_call": 4, "timers": 2}}
        return SHARED | entry, {"left": [], "again": [LEFT_OUT | {"seconds": 30}]}

    clock = SimpleNamespace(perf_counter=lambda: now, clock_gettime=lambda _: now, CLOCK_BOOTTIME=0)
    monkeypatch.setattr(script, "time", clock)
    monkeypatch.setattr(script, "_started", lambda: 997.0)
    monkeypatch.setattr(gpu_lanes, "hold", hold)
    monkeypatch.setattr(retries, "measure", measured)
    monkeypatch.delenv(job_process.RUN, raising=False)
    settings = dict.fromkeys(script.SETTINGS, "") | {"device": "cpu", "run": {"runner": "compile"}}
    settings["workload"] = {"name": "softmax"}
    output = tmp_path / "0.json"
    monkeypatch.setattr(sys, "argv", ["measure.py", "--settings", json.dumps(settings), "--output", str(output)])
    script.main()
    seconds = json.loads(output.read_text())["seconds"]
    assert seconds | {"wall": 10, "waited": 20, "overhead": 4, "compilation": 4, "measurement": 2} == seconds


def test_a_job_that_stays_in_doubt_is_told_with_its_repair(restless):
    _, output = restless
    assert f"always 8 fresh float32 repeat 0: {Unsettled()} (log: " in output
    assert "1 in doubt: snakemake check has the command" in output


def test_a_job_is_tried_again_only_where_the_time_limit_leaves_room(monkeypatch):
    ended = []  # A try takes a second.

    def measured(*arguments):
        ended.append(arguments)
        return SHARED, {"end": "exited"}

    monkeypatch.setattr(job_process, "measure", measured)
    monkeypatch.setattr(retries, "time", SimpleNamespace(perf_counter=lambda: len(ended)))
    for timeout, tries in ((2.5, 1), (3.5, 2), (60, 3)):
        ended.clear()
        outcome = retries.measure({}, "cpu", 0, timeout)[1]
        assert len(ended) == tries
        assert outcome["again"] == [LEFT_OUT] * (tries - 1)
        assert [limit for *_, limit in ended] == [timeout - place for place in range(tries)], "a limit for all tries"


SHARED = {"status": "ok", "samples": {"latency": {"values": [1.0]}}, "suspect": [OtherProcesses(1).to_json()]}
LEFT_OUT = {"doubts": [OtherProcesses(1).to_json()], "seconds": 1, "medians": {"latency": 1.0}}
WHY = Raised("MemoryError", "").to_json()


def of_try(status: str) -> dict:
    return RetryFailed(status, notes.load(WHY)).to_json()


@pytest.mark.parametrize(
    ("last", "kept", "left_out"),
    [
        ({"status": "oom", "reason": WHY}, SHARED, {**LEFT_OUT, "doubts": [of_try("oom")], "medians": {}}),
        ({"status": "timeout", "reason": WHY}, SHARED, {**LEFT_OUT, "doubts": [of_try("timeout")], "medians": {}}),
        ({"status": "crashed", "reason": WHY}, {"status": "crashed", "reason": WHY}, LEFT_OUT),
        ({"status": "incorrect", "reason": WHY}, {"status": "incorrect", "reason": WHY}, LEFT_OUT),
    ],
)
def test_a_second_try_that_finds_no_room_is_no_result_and_one_that_fails_is(monkeypatch, last, kept, left_out):
    ended, entries = [], iter([SHARED, last])

    def measured(*arguments):
        ended.append(arguments)
        return next(entries), {"end": "exited"}

    monkeypatch.setattr(job_process, "measure", measured)
    monkeypatch.setattr(retries, "time", SimpleNamespace(perf_counter=lambda: len(ended)))
    assert retries.measure({}, "cpu", 0, 60) == (kept, {"end": "exited", "again": [left_out]})


def test_a_job_that_failed_or_runs_into_the_power_cap_is_not_tried_again(monkeypatch):
    for entry in (
        {"status": "crashed", "suspect": [OtherProcesses(1).to_json()]},
        {"status": "ok", "suspect": [PowerCap(9).to_json()]},
    ):
        monkeypatch.setattr(job_process, "measure", lambda *arguments, entry=entry: (entry, {}))
        assert retries.measure({}, "cpu", 0, 60) == (entry, {"again": []})


@pytest.fixture(scope="module")
def gpu_faults(tmp_path_factory) -> Checkout:
    faults = {"exhaust": op("exhaust", "warm"), "beyond": op("read_out_of_bounds", "warm")}
    ops = faults | {f"sound{number}": op("none", "warm") for number in range(4)}
    label = machine.present()[0]
    checkout = copy(tmp_path_factory.mktemp("gpu faults"), study_of(ops, machine=f"{label}-faults"))
    checkout.run(f"results/{label}-faults/jobs.parquet")
    return checkout


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_a_gpu_out_of_memory_or_crashed_does_not_reach_the_next_job(gpu_faults):
    entries = {op: entry for (op, _, _), entry in read(gpu_faults).items()}
    assert entries["exhaust"]["status"] == "oom"
    assert entries["beyond"]["status"] == "crashed"
    assert "CUDA error" in str(notes.load(entries["beyond"]["reason"]))
    sound = [entry for op, entry in entries.items() if op.startswith("sound")]
    assert {entry["status"] for entry in sound} == {"ok"}
    assert max(sound, key=lambda entry: entry["place"])["place"] > entries["beyond"]["place"], "it had no next job"
    assert len({entry["process"]["parent"] for entry in entries.values()}) == 1


# A run is cut short.


def unfinished(checkout: Checkout) -> set[str]:
    """Return the outputs that Snakemake does not know to be whole."""
    marks = (checkout.path / ".snakemake/incomplete").glob("*")
    return {base64.b64decode(mark.name, altchars=b"-_").decode(errors="replace") for mark in marks}


def cut_short(checkout: Checkout, how: str, jobs: int, after: float) -> None:
    """Start a run, cut it short `after` seconds in its next job after so many `jobs`, and wait for all to be quiet."""
    before = len(checkout.records())
    process = checkout.start(TABLES)
    wait_for(lambda: len(checkout.records()) >= before + jobs, process)
    wait_for(lambda: checkout.processes("scripts/measure.py"), process)
    time.sleep(after)
    assert process.poll() is None, "the study is too short for this test"
    if how == "kill only snakemake":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGINT if how == "interrupt" else signal.SIGKILL)
    assert process.wait(timeout=PATIENCE) != 0
    checkout.assert_nothing_is_alive()
    process.stdout.close()


@pytest.mark.parametrize(
    "cuts",
    [
        (("interrupt", 0), ("kill all", 1)),
        pytest.param((("kill only snakemake", 0), ("interrupt", 1), ("kill all", 1)), marks=pytest.mark.nightly),
    ],
    ids=len,
)
def test_a_run_that_is_cut_short_loses_nothing_and_measures_nothing_twice(tmp_path, cuts):
    checkout = copy(tmp_path, study_of(slow(4, "warm", "fresh")))
    chance, known = random.Random(20261120), {}
    for how, jobs in cuts:
        # Half of the jobs are left, whatever the host does meanwhile: they take a second each and more.
        cut_short(checkout, how, jobs, after=chance.uniform(0, 2))
        if list((checkout.path / ".snakemake/locks").glob("*")):
            checkout.run("--unlock")
        there = started(checkout)
        assert {path: there.get(path) for path in known} == known, f"lost or measured twice after: {how}"
        assert all(entry["status"] == "ok" for entry in read(checkout).values())
        known = {path: begun for path, begun in there.items() if path not in unfinished(checkout)}
    for left in scratch(checkout):
        os.utime(left, (0, 0))  # Young ones are left alone: they may be about to be used.
    checkout.run(TABLES)
    there = started(checkout)
    assert {path: there[path] for path in known} == known
    assert len(there) == 8
    assert scratch(checkout) == []
    assert not list(checkout.path.glob("results/**/.*.json.*")), "a half-written record stays"


def test_a_job_that_waits_for_the_device_ends_with_its_run(tmp_path, monkeypatch):
    checkout = copy(tmp_path, study_of({"sound": op("none", "warm")}))
    path = checkout.path / RESULTS / "logs/sound/float32/8/warm/0.log"
    monkeypatch.setattr(tempfile, "tempdir", checkout.environment["TMPDIR"])
    monkeypatch.setattr(gpu_lanes, "LOCKS", checkout.locks)
    with gpu_lanes.hold("cpu"):
        process = checkout.start(TABLES)
        wait_for(lambda: path.exists() and "waiting: another job computes on cpu" in path.read_text(), process)
        process.kill()
        process.wait()
        checkout.assert_nothing_is_alive()
        process.stdout.close()
    assert checkout.records() == {}
    assert path.read_text().splitlines()[-1] == "terminated"


def parent_of_a_job(checkout: Checkout) -> int | None:
    """Return the id of a warm parent that has forked a job."""
    above = {}
    for pid in checkout.processes("kernelbench.running.fork_server"):
        with suppress(psutil.NoSuchProcess):  # It has just ended.
            above[pid] = psutil.Process(pid).ppid()
    return next((parent for parent in above.values() if parent in above), None)


def test_a_job_whose_parent_is_killed_leaves_no_record_and_the_others_go_on(tmp_path):
    checkout = copy(tmp_path, study_of(held(3, "warm")))
    process = checkout.start(TABLES)
    os.kill(wait_for(lambda: parent_of_a_job(checkout), process), signal.SIGKILL)
    (checkout.path / "open").touch()
    output = process.communicate()[0]
    assert process.returncode != 0
    logs = "".join(path.read_text() for path in checkout.path.glob("results/*/logs/held*/**/*.log"))
    assert logs.count("the warm parent ended before the job did") == 1
    assert "the warm parent ended before the job did" in output
    first = started(checkout)
    assert len(first) == 2
    assert scratch(checkout) == []
    checkout.run(TABLES)
    there = started(checkout)
    assert {path: there[path] for path in first} == first
    assert {entry["status"] for entry in read(checkout).values()} == {"ok"} and len(there) == 3
    checkout.assert_nothing_is_alive()


# A record is not what it should be.


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Checkout:
    """A sound study that has run to its end."""
    checkout = copy(tmp_path_factory.mktemp("measured"), study_of({"sound": op("none", "warm")}, repeats=2))
    checkout.run(TABLES)
    return checkout


def changed(*keys, to):
    """Return what sets a nested field of a record."""

    def change(text: str) -> str:
        entry = json.loads(text)
        inner = entry
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = to
        return json.dumps(entry)

    return change


DAMAGES = {
    "truncated": (lambda text: text[:-100], "not a readable record"),
    "empty": (lambda text: "", "not a readable record"),
    "not text": (lambda text: "\udcff", "not a readable record"),
    "of another version": (changed("version", to=1), "version: 1 is not"),
    "of another machine": (changed("machine", to="h200"), "is the record of h200/sound/"),
    "of another job": (changed("mode", to="fresh"), "is the record of cpu-test/sound/float32/8/fresh/0"),
    "of other settings": (changed("settings", "seed", to=2), "was measured with other seed"),
    "text for a sample": (changed("samples", "latency", "values", 0, to="1"), "samples.latency.values.0: '1' is not"),
    "text for a warm-up": (changed("warm_up", "values", 0, to="1"), "warm_up.values.0: '1' is not of type 'number'"),
    "text for a second": (changed("seconds", "wall", to="1"), "seconds.wall: '1' is not of type 'number'"),
    "text for the work": (changed("work", "bytes", to="many"), "work.bytes: 'many' is not of type 'number'"),
    "text for the host": (changed("environment", "host", to="mine"), "environment.host: 'mine' is not"),
    "a status of its own": (changed("status", to="fine"), "status: 'fine' is not one of"),
    "no number": (changed("samples", "latency", "values", 0, to=float("nan")), "NaN is no number"),
    "a sample more": (changed("samples", "latency", "values", to=[1.0] * 99), "samples.latency: 99 values have"),
    "of other hardware": (changed("environment", "host", "cpu", to="A CPU"), "records of different CPU cannot be"),
    "of other software": (changed("environment", "software", "torch", to="1.0"), "records of different torch"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_refused_with_file_and_repair(measured, monkeypatch, tmp_path, damage):
    change, line = DAMAGES[damage]
    shutil.copytree(measured.path / RESULTS / "records", tmp_path / "records")
    path = tmp_path / "records/sound/float32/8/warm/0.json"
    path.write_text(change(path.read_text()), encoding="utf-8", errors="surrogateescape")
    # Only a workload of the checkout's own is missing here.
    own = SimpleNamespace(check_size=lambda *_: None, only_dtype=None)
    monkeypatch.setattr("kernelbench.study.config.workload_of", lambda op, entry: own)
    study = Study(study_of({"sound": op("none", "warm")}, repeats=2))
    with pytest.raises(InputError) as refused:
        collect(study, tmp_path)
    said = str(refused.value)
    assert "\n" not in said and len(said) < 1000
    assert str(path) in said and line in said and "delete" in said


@pytest.mark.nightly
def test_a_truncated_record_stops_the_tables_and_is_measured_again_once_deleted(measured):
    other, path = (measured.path / RESULTS / f"records/sound/float32/8/warm/{repeat}.json" for repeat in (0, 1))
    before = record.read(other)["started"]
    path.write_bytes(path.read_bytes()[:1000])
    process = measured.start(TABLES)
    output = process.communicate()[0]
    assert process.returncode != 0
    assert "warm/1.json: not a readable record" in output and "delete it to measure it again" in output
    assert "Traceback" not in output
    path.unlink()
    measured.run(TABLES)
    assert record.read(path)["status"] == "ok"
    assert record.read(other)["started"] == before


# The disk is full.


def test_a_record_that_does_not_fit_is_refused_in_one_line_and_leaves_no_half_file(tmp_path):
    program = (
        "import resource, sys; from pathlib import Path; from kernelbench.errors import run;"
        "from kernelbench.harness import record;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        "run(lambda: record.write(Path(sys.argv[1]), {'samples': ['x' * 100_000]}))"
    )
    path = tmp_path / "records" / "0.json"
    done = subprocess.run([sys.executable, "-c", program, str(path)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == f"{path}: File too large\n"
    assert list(path.parent.iterdir()) == []


@pytest.fixture
def small_disk(tmp_path):
    """A study whose results are on a disk of 200 KB."""
    checkout = copy(tmp_path, study_of(held(3, "warm")))
    results = checkout.path / RESULTS
    results.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(results)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root can mount")
    yield checkout
    subprocess.run(["umount", "--lazy", str(results)], check=True)


def test_a_full_disk_is_said_and_the_study_goes_on_once_there_is_room(small_disk):
    (small_disk.path / "ticket").touch()
    process = small_disk.start(TABLES)
    wait_for(small_disk.records, process)
    first = started(small_disk)
    filler = small_disk.path / RESULTS / "filler"
    with filler.open("wb", buffering=0) as stream, pytest.raises(OSError, match="No space left on device"):
        while True:
            stream.write(bytes(4096))
    (small_disk.path / "open").touch()
    output = process.communicate()[0]
    assert process.returncode != 0
    assert f"{RESULTS}: No space left on device" in output
    assert "Traceback" not in output
    there = started(small_disk)
    assert there == first and len(there) == 1
    assert not list(small_disk.path.glob("results/**/.*.json.*"))
    filler.unlink()
    small_disk.run(TABLES)
    last = started(small_disk)
    assert {path: last[path] for path in there} == there and len(last) == 3


# Something is wrong with the GPU.


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ({}, []),
        ({"reasons": 0x40}, [HardwareThermalSlowdown(None)]),
        ({"reasons": 0x88}, [HardwareSlowdown(None), PowerBrake(None)]),
        ({"reasons": 0x1 | 0x4}, []),
        ({"held": (2_500_000, 0)}, [PowerCap(2.5)]),
        ({"held": (0, 1_000_000)}, [Heat(1)]),
        ({"processes": 2}, [OtherProcesses(1)]),
    ],
)
def test_a_throttled_or_shared_gpu_makes_the_times_suspect(nvml, after, said):
    nvml(FakeNVML())
    before = provenance.gpu_state()
    nvml(FakeNVML(**{"processes": 1, **after}))
    assert provenance.suspect(before, provenance.gpu_state()) == said


def test_a_gpu_that_nobody_watched_makes_the_times_suspect(nvml):
    nvml(None)
    assert provenance.suspect(provenance.gpu_state(), provenance.gpu_state()) == [NotMonitored()]


def test_a_gpu_that_is_gone_is_refused_in_one_line(nvml, monkeypatch):
    nvml(FakeNVML())
    assert gpu_lanes.list_gpus("cuda") == ["GPU-0"]
    monkeypatch.setenv(cuda.NAMED, "GPU-0,GPU-7")
    with pytest.raises(InputError, match=r"^GPU GPU-7: is not there or does not answer; allowed: what nvidia-smi -L"):
        gpu_lanes.list_gpus("cuda")
    monkeypatch.delenv(cuda.NAMED)
    monkeypatch.setattr(cuda, "devices", lambda: [])
    with pytest.raises(InputError, match=r"^GPU: is not there or does not answer"):
        gpu_lanes.list_gpus("cuda")
    nvml(None)
    with pytest.raises(InputError, match=r"^GPU: NVML does not answer"):
        gpu_lanes.list_gpus("cuda")


def test_a_job_whose_gpu_is_gone_leaves_no_record(measured, tmp_path):
    settings = {**read(measured)["sound", "warm", 0]["settings"], "device": "cuda", "start": "fresh"}
    job = ["workflow/scripts/measure.py", "--settings", json.dumps(settings), "--output", str(tmp_path / "0.json")]
    done = subprocess.run(
        [sys.executable, *job],
        cwd=ROOT,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "GPU-7"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("GPU"), done.stderr
    assert not (tmp_path / "0.json").exists()


def test_a_study_of_the_cpu_by_name_asks_no_nvml(monkeypatch):
    monkeypatch.setattr(machine, "present", lambda: pytest.fail("it asked"))
    assert machine.resolve("cpu-test", here=True) == ("cpu-test", "cpu")
    machine.require("cpu-test")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_another_process_on_the_gpu_is_seen(tmp_path):
    label = machine.present()[0]
    checkout = copy(tmp_path, study_of({"sound": op("none", "fresh")}, machine=f"{label}-faults", baselines=["fresh"]))
    program = "import torch; a = torch.rand(4096, 4096, device='cuda'); print(flush=True)\nwhile True: a @ a"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        try:
            checkout.run(f"results/{label}-faults/jobs.parquet")
        finally:
            other.kill()
    # Tests that ran before may have opened the GPU in this process.
    others = OtherProcesses(2 if torch.cuda.is_initialized() else 1)
    assert others in notes.load(read(checkout)["sound", "fresh", 0]["suspect"])


# The surroundings are unusual.


@pytest.mark.nightly
def test_two_runs_in_one_checkout_the_second_is_refused(tmp_path):
    checkout = copy(tmp_path, study_of(held(2, "warm")))
    first = checkout.start(TABLES)
    wait_for(lambda: checkout.processes("scripts/measure.py"), first)
    second = checkout.start(TABLES)
    output = second.communicate(timeout=PATIENCE)[0]
    assert second.returncode != 0
    assert "Directory cannot be locked" in output and "Traceback" not in output
    (checkout.path / "open").touch()
    output = first.communicate()[0]
    assert first.returncode == 0, output
    assert len(checkout.records()) == 2


@pytest.mark.nightly
def test_two_runs_on_one_device_take_turns(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_lanes, "LOCKS", tmp_path)

    def logs(checkout: Checkout) -> list[str]:
        return [path.read_text() for path in checkout.path.glob("results/*/logs/slow*/**/*.log")]

    both = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        both.append(copy(tmp_path / name, study_of(slow(2, "warm", "fresh")), locks=tmp_path, TMPDIR=str(tmp_path)))
    waiting = "waiting: another job computes on cpu (lock "
    with gpu_lanes.hold("cpu"):  # Until both have a job that waits.
        processes = [checkout.start(TABLES) for checkout in both]
        for checkout, process in zip(both, processes, strict=True):
            wait_for(lambda checkout=checkout: any(text.startswith(waiting) for text in logs(checkout)), process)
        time.sleep(0.6)
    for process in processes:
        output = process.communicate()[0]
        assert process.returncode == 0, output
    entries = [entry for checkout in both for entry in read(checkout).values()]
    assert len(entries) == 8
    begun = [datetime.fromisoformat(entry["started"]).timestamp() for entry in entries]
    spans = sorted((start, start + entry["seconds"]["total"]) for start, entry in zip(begun, entries, strict=True))
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans)), "two jobs at once"
    for checkout in both:
        assert any(entry["seconds"]["waited"] > 0.5 for entry in read(checkout).values())


def test_a_read_only_checkout_is_refused_in_one_line(tmp_path):
    checkout = copy(tmp_path, study_of({"sound": op("none", "warm")}))

    def obey_permissions():  # As any user but root does.
        if os.getuid() == 0 and ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0):
            os._exit(77)

    folders = [checkout.path, *(path for path in checkout.path.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    process = checkout.start(prepare=obey_permissions)
    output = process.communicate()[0]
    for folder in folders:
        folder.chmod(0o755)
    assert process.returncode == 1
    assert f"{checkout.path}: is not writable by this user; run snakemake in a copy of the checkout" in output
    assert "Traceback" not in output


def test_any_path_umask_temporary_directory_and_locale_will_do(tmp_path):
    place, temporary = tmp_path / "größe & 'Ω' $HOME", tmp_path / ("long" * 50)
    place.mkdir()
    temporary.mkdir()
    ascii_only = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    config = study_of({"sound": op("none", "warm", "fresh")})
    checkout = copy(place, config, locks=tmp_path, TMPDIR=str(temporary), **ascii_only)
    process = checkout.start(TABLES, umask=0o077)
    output = process.communicate()[0]
    assert process.returncode == 0, output
    assert {entry["status"] for entry in read(checkout).values()} == {"ok"}
    assert "µs" in log(checkout, "sound", "warm")
    job = ["--op", "sound", "--size", "8", "--mode", "warm", "--output", str(tmp_path / "by hand.json")]
    done = subprocess.run(
        [sys.executable, "workflow/scripts/measure.py", *job],
        cwd=checkout.path,
        env=checkout.variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert r"\xb5s" in done.stdout
