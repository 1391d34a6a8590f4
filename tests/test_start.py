"""How jobs start: what the warm parent is and does, what each job gets, and which lane it keeps to."""

import json
import os
import py_compile
import shutil
import socket
import subprocess
import sys
import tempfile
from importlib.util import spec_from_file_location
from pathlib import Path

import pandas as pd
import pytest
import torch
import yaml
from checkout import PATIENCE, ROOT, TINY, Checkout

from kernelbench.errors import InputError
from kernelbench.harness import child, record
from kernelbench.running import fork_server, gpu_lanes, job_process
from kernelbench.study import machine
from kernelbench.study.study import Study

pytestmark = pytest.mark.slow

RESULTS = Path("results/cpu-test")
MODES = {
    "eager": {"runner": "eager"},
    "eager-fresh": {"runner": "eager", "start": "fresh"},
    "compile": {"runner": "compile"},
}
CONFIG = {**TINY, "ops": {"softmax": {"rows": 8, "sizes": [64]}}, "modes": MODES}
# A job that looks at its parent.
LOOK = {"look": {"workload": "faulty", "fault": "look", "sizes": [8], "modes": ["eager"]}}
NOBODY = 65534
# A compiler that writes down who asks it for what.
NOTING = """#!/bin/sh
echo "$(tr '\\0' ' ' < /proc/$PPID/cmdline): $*" >> {log}
exec {compiler} "$@"
"""
# What a user's shell may hold. Each changes what PyTorch, Inductor, Triton, CUDA, a library of threads or memory, or
# Python does; with the first two nothing is compiled.
HOSTILE = {
    "TORCHDYNAMO_DISABLE": "1",
    "TORCH_COMPILE_DISABLE": "1",
    "TORCHDYNAMO_SUPPRESS_ERRORS": "1",
    "TORCHINDUCTOR_MAX_AUTOTUNE": "1",
    "TORCHINDUCTOR_FREEZING": "1",
    "TORCHINDUCTOR_CPP_WRAPPER": "1",
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "7",
    "TORCHINDUCTOR_CACHE_DIR": "/nowhere",
    "TORCH_LOGS": "+dynamo",
    "PYTORCH_ALLOC_CONF": "backend:native",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
    "TRITON_INTERPRET": "1",
    "TRITON_CACHE_DIR": "/nowhere",
    "DISABLE_LLVM_OPT": "1",
    "CUDA_LAUNCH_BLOCKING": "1",
    "CUDA_VISIBLE_DEVICES": "3",
    "CUDA_DEVICE_MAX_CONNECTIONS": "8",
    "CUBLAS_WORKSPACE_CONFIG": ":16:8",
    "NVIDIA_TF32_OVERRIDE": "1",
    "OMP_NUM_THREADS": "64",
    "OMP_SCHEDULE": "dynamic",
    "KMP_AFFINITY": "disabled",
    "MKL_NUM_THREADS": "64",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "ATEN_CPU_CAPABILITY": "default",
    "GLIBC_TUNABLES": "glibc.malloc.arena_max=1",
    "MALLOC_ARENA_MAX": "1",
    "PYTHONHASHSEED": "7",
    "PYTHONMALLOC": "malloc",
    "LC_ALL": "POSIX",
}
# What must stay as it is found.
FOUND = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
    "SLURM_JOB_ID": "7",
    "LD_LIBRARY_PATH": "/nowhere",
    "CUDA_HOME": "/nowhere",
    "CXX": "g++",
}


# A run.


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> tuple[Checkout, dict, dict]:
    """A finished run: its checkout, its records by (mode, repeat), what its parents looked like to a job, by id."""
    path = tmp_path_factory.mktemp("start")
    checkout = Checkout(path / "checkout", {**CONFIG, "ops": CONFIG["ops"] | LOOK})
    shutil.copyfile(ROOT / "tests/faulty.py", checkout.path / "workflow/kernelbench/harness/workloads/faulty.py")
    compiler = path / "tools" / "g++"
    compiler.parent.mkdir()
    compiler.write_text(NOTING.format(log=path / "compiler.log", compiler=shutil.which("g++")))
    compiler.chmod(0o755)
    checkout.environment |= {"PATH": f"{compiler.parent}:{checkout.variables['PATH']}"}
    checkout.environment |= {"TMPDIR": str(path), **HOSTILE, **FOUND}
    output = checkout.run(str(RESULTS / "jobs.parquet"))
    assert "TORCHDYNAMO_DISABLE" in output, "a run names what its jobs do not get"
    parents = {int(seen.stem.removeprefix("seen-")): seen for seen in checkout.path.glob("seen-*.json")}
    parents = {pid: json.loads(seen.read_text()) for pid, seen in parents.items()}
    entries = [record.read(checkout.path / name) for name in checkout.records() if "/look/" not in name]
    return checkout, {(entry["mode"], entry["repeat"]): entry for entry in entries}, parents


def parent_of(entries: dict, repeat: int) -> int:
    return entries["eager", repeat]["process"]["parent"]


def test_a_parent_starts_no_thread(run):
    _, entries, parents = run
    for repeat in (0, 1):
        threads = parents[parent_of(entries, repeat)]["threads"]
        assert len([name for name in threads if not name.startswith(fork_server.HARMLESS)]) == 1


def test_a_parent_starts_with_the_variables_of_its_jobs(run):
    _, entries, parents = run
    for repeat in (0, 1):
        wanted = child.variables(entries["eager", repeat]["settings"], "cpu")
        environment = parents[parent_of(entries, repeat)]["environment"]
        assert {name: environment.get(name) for name in wanted} == wanted


def test_a_job_gets_of_the_users_environment_only_what_is_listed(run):
    checkout, entries, _ = run
    for entry in entries.values():
        seen, decided = entry["environment"], child.variables(entry["settings"], "cpu")
        apart = {name for name in decided if name.startswith("KERNELBENCH")}
        assert seen["variables"] == {n: v for n, v in decided.items() if n not in apart} | {"CXX": FOUND["CXX"]}
        carried = checkout.variables | {"TMPDIR": seen["carried"]["TMPDIR"]}  # A directory of the job's own.
        # The parts of a run put this Python first, and give the run a name.
        own = {f"KERNELBENCH_{name}" for name in ("RUN", "RUN_NAME", "CODE", "GPUS")} | {"PATH"}
        assert own < set(seen["carried"])
        # A run sets these where torch has no bytecode yet.
        own |= {"PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"}
        assert {name: carried.get(name) for name in set(seen["carried"]) - own} == {
            name: value for name, value in seen["carried"].items() if name not in own
        }
        assert FOUND.items() <= (seen["carried"] | seen["variables"]).items()
        gone = set(HOSTILE) - set(decided) - {"LC_ALL", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"}
        assert gone <= set(seen["cleared"]), "it says so"
        assert not set(HOSTILE) - set(decided) & set(seen["variables"] | seen["carried"])


def test_a_compiled_job_is_compiled_whatever_the_shell_says(run):
    _, entries, _ = run
    for repeat in (0, 1):
        entry = entries["compile", repeat]
        assert entry["status"] == "ok" and entry["compile"]["graphs"] == 1
        assert entry["generated_code"], "with TRITON_INTERPRET or without a cache there would be none"


def test_what_people_publish_does_not_name_them(run):
    checkout, entries, _ = run
    jobs = pd.read_parquet(checkout.path / RESULTS / "jobs.parquet")
    assert "environment.variables" in jobs and "environment.cleared" in jobs
    assert not [column for column in jobs if column.startswith("environment.carried")]
    assert all(entry["environment"]["carried"]["HOME"] == os.environ["HOME"] for entry in entries.values())


def test_all_modes_of_a_repeat_share_parent_and_hash_seed_and_repeats_differ(run):
    _, entries, _ = run
    seeds = {}
    for repeat in (0, 1):
        assert entries["compile", repeat]["process"]["parent"] == parent_of(entries, repeat)
        variables = [entries[mode, repeat]["environment"]["variables"] for mode in MODES]
        assert len({each["PYTHONHASHSEED"] for each in variables}) == 1
        seeds[repeat] = variables[0]["PYTHONHASHSEED"]
    assert seeds[0] != seeds[1]
    assert parent_of(entries, 0) != parent_of(entries, 1)


def test_warm_and_fresh_jobs_have_the_same_environment(run):
    _, entries, _ = run
    for repeat in (0, 1):
        warm, fresh = entries["eager", repeat], entries["eager-fresh", repeat]
        assert (warm["process"]["start"], fresh["process"]["start"]) == ("warm", "fresh")
        assert "parent" not in fresh["process"]
        assert warm["environment"]["variables"] == fresh["environment"]["variables"]
        assert warm["environment"]["software"] == fresh["environment"]["software"]
        assert warm["seeds"] == fresh["seeds"]
        assert (warm["status"], fresh["status"]) == ("ok", "ok")


def test_jobs_keep_to_the_cores_of_their_lane_compile_in_their_own_process_and_have_one_queue(run):
    _, entries, _ = run
    for entry in entries.values():
        variables = entry["environment"]["variables"]
        assert entry["environment"]["host"]["affinity"] == gpu_lanes.share_cores(0, 1)
        assert variables["TORCHINDUCTOR_COMPILE_THREADS"] == "1"
        assert variables["CUDA_DEVICE_MAX_CONNECTIONS"] == "1"


def test_each_job_compiles_into_empty_caches(run):
    _, entries, _ = run
    for repeat in (0, 1):
        assert entries["compile", repeat]["compile"]["inductor"]["fxgraph_cache_miss"] == 1


def test_no_first_call_makes_the_headers_that_all_jobs_compile_with(run, tmp_path):
    checkout, _, _ = run
    temporary = Path(checkout.environment["TMPDIR"])
    fresh = measure_by_hand(checkout, "compile", tmp_path / "0.json", checkout.environment)
    assert fresh["status"] == "ok"
    asked = (temporary / "compiler.log").read_text().splitlines()
    made = [line for line in asked if "-x c++-header" in line]
    assert len(made) == 1 and "-m kernelbench.harness.caches" in made[0], "a job's own process made some"
    used = [line for line in asked if "-include" in line and "/headers/" in line]
    assert len(used) == 4, "two warm jobs, a fresh one, and before them the process that makes the headers"
    assert not list(temporary.glob("torchinductor*/*")), "jobs share more than that"


def test_no_parent_outlives_its_run(run):
    checkout, _, _ = run
    checkout.assert_nothing_is_alive()
    sockets = Path(checkout.environment["TMPDIR"], f"kernelbench-{os.getuid()}")
    assert not [path for path in sockets.iterdir() if path.is_socket()]


def measure_by_hand(checkout: Checkout, mode: str, output: Path, variables: dict[str, str]) -> dict:
    """Return the record of the job of a mode, measured with these environment variables besides those of the tests."""
    command = ["workflow/scripts/measure.py", "--op", "softmax", "--size", "64", "--mode", mode]
    library = os.pathsep.join([str(checkout.path / "workflow"), str(checkout.path)])
    done = subprocess.run(
        [sys.executable, *command, "--output", str(output)],
        cwd=checkout.path,
        env=os.environ | {"PYTHONPATH": library} | variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return record.read(output)


def test_a_job_by_hand_uses_no_parent(run, tmp_path):
    checkout, _, _ = run
    entry = measure_by_hand(checkout, "eager", tmp_path / "0.json", {"TMPDIR": str(tmp_path)})
    own = entry["process"].pop("run")
    assert own.count(":") == 1 and own != job_process.identify(os.getpid()), "a run of its own"
    assert entry["process"] == {"start": "fresh", "end": "exited", "code": 0, "left": [], "again": []}
    assert not (tmp_path / f"kernelbench-{os.getuid()}").exists(), "a place for a parent's socket"


# A parent alone.


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Yield (request, path of the socket) of a parent whose run is a process that does nothing."""
    path = tmp_path_factory.mktemp("parent")
    with pytest.MonkeyPatch.context() as patch, subprocess.Popen(["sleep", "infinity"]) as idle:
        patch.setattr(tempfile, "tempdir", str(path))
        patch.setattr(machine, "present", lambda: ("cpu-test", "cpu", "a CPU"))
        patch.setenv(job_process.RUN, job_process.identify(idle.pid))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "workflow"), str(ROOT)]))
        study = Study(CONFIG)
        settings = study.settings(study.job("softmax", "float32", "64", "eager", 0))
        request = {"settings": settings, "place": None, "cores": gpu_lanes.share_cores(0, 1)}
        assert measure(request)["status"] == "ok"
        yield request, job_process._place_socket(os.environ[job_process.RUN], "cpu")
        idle.kill()


def measure(request: dict) -> dict:
    """Return the record of a warm job."""
    lock = os.open(os.devnull, os.O_RDONLY)
    try:
        entry, outcome = job_process.measure(request, "cpu", lock, timeout=PATIENCE)
    finally:
        os.close(lock)
    return entry | {"process": outcome}


def connect(path: Path) -> socket.socket:
    """Return a connection to the parent; nobody starts one."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE)
    with job_process._shorten(path) as address:
        connection.connect(address)
    return connection


def test_bytecode_is_kept_where_torch_has_none_and_the_environment_forbids_it(alone, monkeypatch, tmp_path):
    source = tmp_path / "imported.py"
    source.write_text("")
    monkeypatch.setattr(job_process, "find_spec", lambda name: spec_from_file_location(name, source))
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    assert job_process.keep_bytecode() == {}
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    kept = job_process.keep_bytecode()
    subprocess.run([sys.executable, "-c", "import imported"], cwd=tmp_path, env=os.environ | kept, check=True)
    assert [path.name for path in Path(kept["PYTHONPYCACHEPREFIX"]).rglob("imported.*.pyc")]
    assert not tmp_path.joinpath("__pycache__").exists()
    py_compile.compile(str(source))
    assert job_process.keep_bytecode() == {}


def test_a_parent_listens_where_only_its_user_can_enter(alone):
    _, path = alone
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.parent.stat().st_uid == os.getuid()
    path.parent.chmod(0o755)
    try:
        with pytest.raises(InputError, match="is not this user's alone; remove it"):
            job_process._place_socket("run", "cpu")
    finally:
        path.parent.chmod(0o700)


@pytest.mark.parametrize("message", [b"nonsense", b"\xff\x00", b"{}", b"[1]", b'{"key": ', b""])
def test_a_message_that_is_no_job_harms_no_one(alone, message):
    request, path = alone
    before = measure(request)["process"]["parent"]
    with connect(path) as connection:
        if message:
            connection.sendall(message)
            assert connection.recv(100) == b"", "it was answered"
    after = measure(request)
    assert (after["status"], after["process"]["parent"]) == ("ok", before)


def test_a_job_without_its_descriptors_is_not_run(alone):
    request, path = alone
    with connect(path) as connection:
        key = job_process.make_key(os.environ | child.variables(request["settings"], "cpu"), request["cores"])
        whole = {**request, "key": key, "timeout": 1, "scratch": "/nowhere", "headers": None}
        connection.sendall(json.dumps(whole).encode())
        assert connection.recv(100) == b""
    assert measure(request)["status"] == "ok"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize(("opened", "met"), [(False, b"PermissionError"), (True, b"closed")])
def test_another_user_is_refused(alone, opened, met):
    request, path = alone
    before = measure(request)["process"]["parent"]
    if opened:  # As if the directory protected nothing.
        path.parent.chmod(0o755)
        path.chmod(0o777)
    try:
        assert as_nobody(path) == met
    finally:
        path.parent.chmod(0o700)
    assert measure(request)["process"]["parent"] == before


def as_nobody(path: Path) -> bytes:
    """Return what a process of another user meets at the socket."""
    reading, writing = os.pipe()
    with job_process._shorten(path) as address, socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE)
        pid = os.fork()
        if pid == 0:
            try:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                connection.connect(address)
                connection.sendall(b"{}")
                os.write(writing, b"answered" if connection.recv(100) else b"closed")
            except ConnectionError:
                os.write(writing, b"closed")
            except BaseException as error:
                os.write(writing, type(error).__name__.encode())
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(writing)
    with open(reading, "rb") as stream:
        return stream.read()


def test_a_run_that_is_no_more_is_refused(alone, monkeypatch):
    request, _ = alone
    monkeypatch.setenv(job_process.RUN, "1:1")
    with pytest.raises(InputError, match="1:1 is no process of this machine; allowed: one that runs"):
        job_process.open_run("1:1")
    monkeypatch.delenv(job_process.RUN)
    with pytest.raises(InputError, match=f"{job_process.RUN} is not set: start: warm is for a run of the workflow"):
        measure(request)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_a_parent_does_not_open_the_gpu_and_its_fork_can():
    program = """
import os
from kernelbench.running import fork_server
fork_server._import_all()
import torch
print(torch.cuda.is_initialized(), flush=True)
if os.fork() == 0:
    print(torch.ones(3, device="cuda").sum().item(), flush=True)
    os._exit(0)
os.wait()
"""
    variables = child.variables({"seed": 1, "repeat": 0, "threads": 1}, gpu_lanes.list_gpus("cuda")[0])
    done = subprocess.run([sys.executable, "-c", program], env=os.environ | variables, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "3.0"], done.stderr


# Lanes.


@pytest.fixture
def gpus(monkeypatch, tmp_path) -> Study:
    """A study on a machine of three GPUs, without results."""
    monkeypatch.setattr(machine, "present", lambda: ("h200", "cuda", "NVIDIA H200"))
    monkeypatch.setattr(gpu_lanes, "list_gpus", lambda device: ["GPU-a", "GPU-b", "GPU-c"])
    monkeypatch.chdir(tmp_path)
    return Study({**CONFIG, "machine": "h200", "repeats": 7})


def begin(study: Study, repeat: int, gpu: str, jobs: int) -> None:
    """Leave records of the first `jobs` jobs of a repeat, as measured on `gpu`."""
    for job in study.jobs_of(repeat)[:jobs]:
        path = Path(study.results, job.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"environment": {"gpu": {"uuid": gpu}}}))


def test_a_repeat_keeps_to_its_lane(gpus):
    assert [gpu_lanes.Lanes(gpus, 3).find(repeat) for repeat in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    assert [gpu_lanes.Lanes(gpus, None).find(repeat) for repeat in range(3)] == [0, 0, 0]


def test_a_begun_repeat_keeps_its_gpu(gpus):
    begin(gpus, 0, "GPU-c", 1)
    begin(gpus, 1, "GPU-a", 3)
    three = gpu_lanes.Lanes(gpus, 3)
    assert [three.find(repeat) for repeat in range(3)] == [2, 0, 2]


def test_a_begun_repeat_whose_gpu_is_not_here_is_refused(gpus):
    begin(gpus, 1, "GPU-z", 1)
    with pytest.raises(InputError) as refused:
        gpu_lanes.Lanes(gpus, 3).find(1)
    said = str(refused.value)
    begin(gpus, 2, "GPU-c", 1)
    with pytest.raises(
        InputError, match=r"repeat 2 was begun on GPU-c, GPU 3 of \d here, .*gpu=1 is not allowed; allowed: 3 to"
    ):
        gpu_lanes.Lanes(gpus, 1).find(2)
    assert said.startswith("repeat 1 was begun on GPU-z, which is not here") and "\n" not in said
    assert "rm results/h200/records/*/*/*/*/1.json" in said
    begin(gpus, 1, "GPU-z", 3)  # All of it is there: nothing is left to be measured elsewhere.
    assert gpu_lanes.Lanes(gpus, 3).find(1) == 1


@pytest.mark.parametrize("count", [0, 4])
def test_lanes_without_a_gpu_are_refused(gpus, count):
    with pytest.raises(InputError) as refused:
        gpu_lanes.Lanes(gpus, count).gpus  # noqa: B018
    assert str(refused.value) == f"--resources gpu={count} is not allowed, GPUs shown: 3; allowed: 1 to 3"


def test_each_job_asks_for_its_own_lane(gpus):
    resources = gpu_lanes.Lanes(gpus, 3).measuring()
    job = type("Wildcards", (), {"repeat": "4"})
    assert {name: asked(job) for name, asked in resources.items()} == {"lane0": 0, "lane1": gpu_lanes.SLOTS, "lane2": 0}


@pytest.mark.parametrize("count", [1, 3])
def test_nothing_else_fits_beside_a_measurement_and_what_does_not_measure_fits_together(gpus, count):
    these = gpu_lanes.Lanes(gpus, count)
    whole, beside = these.alone(), these.beside()
    for repeat in range(7):
        asked = {
            name: needs(type("Wildcards", (), {"repeat": str(repeat)})) for name, needs in these.measuring().items()
        }
        assert any(asked[name] + beside[name] > whole[name] for name in whole)
        assert all(asked[name] <= whole[name] for name in whole)
    assert all(100 * beside[name] <= whole[name] for name in whole)


def test_who_only_submits_shares_nothing_with_those_who_measure(gpus):
    submits = gpu_lanes.Lanes(Study({**gpus.config, "machine": "h200"}, here=False), 1)
    assert submits.measuring() == submits.beside() == submits.alone() == {}


@pytest.mark.parametrize(
    ("there", "count", "shares"),
    [
        (range(8), 1, [[0, 1, 2, 3, 4, 5, 6, 7]]),
        (range(8), 2, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (range(8), 3, [[0, 1], [2, 3, 4], [5, 6, 7]]),
        ([3, 5], 2, [[3], [5]]),
        ([3], 2, [[3], [3]]),
    ],
)
def test_lanes_divide_the_cores(monkeypatch, there, count, shares):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(there))
    assert [gpu_lanes.share_cores(lane, count) for lane in range(count)] == shares


def test_a_cpu_has_one_lane(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({**CONFIG, "machine": "cpu-one-lane"}), encoding="utf-8")
    command = ["--dry-run", "--cores", "1", "--resources", "gpu=2", "--configfile", str(path)]
    done = subprocess.run([sys.executable, "-m", "snakemake", *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    assert "--resources gpu=2 is not allowed, the CPU is one device; allowed: 1" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("target", "label", "allowed"),
    [("plan", "cpu-one-lane", "1, as the CPU is one device"), ("verify", "h200", "1 or more")],
)
def test_no_device_at_all_is_refused_by_whatever_plans_for_it(tmp_path, target, label, allowed):
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({**CONFIG, "machine": label}), encoding="utf-8")
    command = ["--dry-run", "--cores", "1", "--resources", "gpu=0", "--configfile", str(path), "--", target]
    done = subprocess.run([sys.executable, "-m", "snakemake", *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    assert f"--resources gpu=0 is not allowed; allowed: {allowed}" in done.stderr.splitlines()
    assert "Traceback" not in done.stderr
