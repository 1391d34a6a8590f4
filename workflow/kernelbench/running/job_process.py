"""Start the process of a job, and make a record of whatever becomes of it.

A fresh process is a new Python, a warm one the fork of a process that has done the imports (`fork_server`). Both get
the same environment, cores and scratch directory, and are watched in the same way.
"""

import hashlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from importlib.util import cache_from_source, find_spec
from pathlib import Path

from kernelbench import code_digest
from kernelbench.errors import InputError
from kernelbench.harness import child, environment, provenance
from kernelbench.notes import Exited, Killed, Note, TimeLimit
from kernelbench.numbers import name_some
from kernelbench.running import gpu_lanes, supervise

MESSAGE_BYTES = 2**16
# Variables that a run of the workflow sets: its process, which no parent may outlive, its name in records, and the
# fingerprint of the code as it was when the run began.
RUN, NAME, CODE = "KERNELBENCH_RUN", "KERNELBENCH_RUN_NAME", "KERNELBENCH_CODE"
# The variables that the settings of a job decide; only the names count here.
DECIDED = child.variables({"seed": 0, "repeat": 0, "threads": 0}, "")


def identify(pid: int) -> str:
    """Return what tells the process `pid` from any other, before or after it: its id and its start (clock ticks)."""
    return f"{pid}:{Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[19]}"


def prepare_run(remote: bool) -> dict[str, str]:
    """Return the variables that this process, a run of the workflow, hands to all that it starts."""
    own = identify(os.getpid())
    # In an allocation of SLURM each job has a Snakemake of its own, and all that the allocation measures is one run.
    allocation = os.environ.get("SLURM_JOB_ID") if remote else None
    name = f"slurm:{allocation}" if allocation else own
    # As in an activated environment, for those who call Snakemake by its path: this Python is `python`.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    run = {RUN: own, NAME: name, CODE: code_digest.fingerprint()}
    return {**run, "PATH": path, "PYTHONUTF8": "1", **environment.user(), **keep_bytecode()}


def keep_bytecode() -> dict[str, str]:
    """Return variables that let a run write bytecode if torch has none, which costs each warm parent 6 s."""
    found = find_spec("torch")
    if not os.environ.get("PYTHONDONTWRITEBYTECODE") or not found or Path(cache_from_source(found.origin)).exists():
        return {}
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(_make_private() / "bytecode")}


def require_unchanged(settings: dict, planned: dict[str, str]) -> None:
    """Refuse a job whose code has changed since the run began, and let the run start no other one.

    Else half of a study would be measured by other code. planned: the digests of the code when the run began, by file.
    """
    if os.environ.get(CODE) == code_digest.fingerprint():
        return
    code_digest.forget()
    changed = code_digest.find_changed(planned, code_digest.of_job(settings))
    if changed:
        if RUN in os.environ:
            signal.pidfd_send_signal(open_run(os.environ[RUN]), signal.SIGTERM)
        raise InputError(
            f"{name_some(changed)}: changed during the run; run snakemake again to measure with the new code"
        )


def open_run(name: str) -> int:
    """Return a descriptor that becomes readable when the run ends; raise InputError if it has ended."""
    pid = int(name.partition(":")[0])
    with suppress(ProcessLookupError, FileNotFoundError):
        descriptor = os.pidfd_open(pid)
        if identify(pid) == name:
            return descriptor
    raise InputError(f"{RUN}: {name} is no process of this machine; allowed: one that runs")


def end_with_run() -> None:
    """Have SIGTERM end this process once its run ends, whatever it waits for then."""
    if RUN not in os.environ:  # Measured by hand.
        return
    run = open_run(os.environ[RUN])

    def wait():
        select.select([run], [], [])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def make_key(variables, cores: list[int]) -> str:
    """Return what a parent must share with the jobs that it forks: environment variables, cores, code that measures."""
    return json.dumps([[variables.get(name) for name in DECIDED], cores, code_digest.fingerprint()])


def measure(request: dict, gpu: str, lock: int, timeout: float) -> tuple[dict, dict]:
    """Run the job of `request` (settings, place, cores) on `gpu` and return (record, outcome of its process).

    A process that does not reach its end gives a record too, with the status `timeout` or `crashed`. There is none, but
    an InputError, if the job did not begin, nobody saw its end, or its GPU is gone.
    """
    settings, result = request["settings"], os.memfd_create("record")
    decided = child.variables(settings, gpu)
    variables = environment.build(os.environ, decided)
    with supervise.make_scratch() as scratch:
        request = request | {"scratch": scratch, "headers": _mark_headers(settings, variables)}
        if settings["start"] == "warm":
            outcome = _start_warm(request, variables, result, timeout, gpu, lock)
        else:
            outcome = _start_fresh(request, variables, result, timeout)
    record = _read_last(result)
    if record is None or record["status"] == "crashed":
        gpu_lanes.list_gpus(settings["device"])  # Raises if the GPU fell out: that is no result of the job.
    if record is None:
        raise InputError(f"the job's process ended before it began ({outcome['end']} {outcome['code']})".rstrip())
    if outcome["end"] != "exited" or outcome["code"] != 0 or "phase" in record:
        from kernelbench.harness.measure import unfinished

        record = unfinished(record, *_judge(outcome, timeout, record.get("phase")))
    record["environment"]["cleared"] = environment.cleared(os.environ, decided)
    return record, outcome


def enter_environment(settings: dict, gpu: str) -> None:
    """Give this process the environment variables of a job of `settings`; before torch is imported."""
    variables = environment.build(os.environ, child.variables(settings, gpu))
    os.environ.clear()
    os.environ |= variables


def _judge(outcome: dict, timeout: float, phase: str | None) -> tuple[str, Note]:
    """Return (status, reason) of a process that did not reach its end."""
    if outcome["end"] == "timeout":
        return "timeout", TimeLimit(phase, timeout)
    return "crashed", Killed(phase, outcome["code"]) if outcome["end"] == "killed" else Exited(phase, outcome["code"])


def _read_last(result: int) -> dict | None:
    """Return the last whole line that the job wrote, None if it wrote none; close the descriptor."""
    with open(result, encoding="utf-8") as stream:
        stream.seek(0)
        *lines, _ = stream.read().split("\n")
    return json.loads(lines[-1]) if lines else None


def _start_fresh(request: dict, variables: dict, result: int, timeout: float) -> dict:
    """Run the job in a new Python and return its outcome."""
    supervise.adopt_orphans()
    command = [sys.executable, "-m", "kernelbench.harness.child", str(result)]
    pipe = {"stdin": subprocess.PIPE, "pass_fds": [result]}
    process = subprocess.Popen(command, env=variables, start_new_session=True, **pipe)
    process.stdin.write(json.dumps(request | {"starter": os.getpid()}).encode())
    process.stdin.close()
    return supervise.watch(process.pid, timeout)


def _start_warm(request: dict, variables: dict, result: int, timeout: float, gpu: str, lock: int) -> dict:
    """Have the parent of this run and GPU fork the job, and return its outcome; replace a parent of another repeat."""
    if RUN not in os.environ:
        raise InputError(f"{RUN} is not set: start: warm is for a run of the workflow; by hand: --op, --size, --mode")
    path = _place_socket(os.environ[RUN], gpu)
    message = json.dumps(request | {"key": make_key(variables, request["cores"]), "timeout": timeout}).encode()
    for _ in range(2):
        with _connect(path, variables, request["cores"]) as connection:
            try:
                socket.send_fds(connection, [message], [1, 2, result, lock])
                answer = connection.makefile().readline()
            except ConnectionError:
                answer = ""
        outcome = json.loads(answer or '{"end": "gone"}')
        if outcome["end"] != "other":
            break
    if outcome["end"] in ("gone", "other"):
        raise InputError("the warm parent ended before the job did; nothing is kept of it: run snakemake again")
    return outcome


def _mark_headers(settings: dict, variables: dict) -> str | None:
    """Return the file that says that Inductor's headers, beside it, are made; None for a job that compiles no C++.

    They are for this torch, this compiler and, of the processor, this boot of the machine. On a GPU hardly any job
    compiles C++, and one that does makes its own.
    """
    torch, compiler = find_spec("torch"), shutil.which(variables.get("CXX", "g++"), path=variables.get("PATH"))
    if settings["device"] != "cpu" or settings["run"]["runner"] != "compile" or not torch or not compiler:
        return None
    files = [Path(torch.origin), Path(compiler).resolve()]
    made_for = [provenance.BOOT_ID.read_text(), *((str(file), file.stat().st_mtime_ns) for file in files)]
    return str(_make_private() / "headers" / hashlib.sha256(json.dumps(made_for).encode()).hexdigest()[:16])


def _place_socket(run: str, gpu: str) -> Path:
    """Return where the parent of this run and GPU listens."""
    return _make_private() / hashlib.sha256(f"{run} {gpu}".encode()).hexdigest()[:16]


def _make_private() -> Path:
    """Return a directory that only this user can enter."""
    directory = Path(tempfile.gettempdir(), f"kernelbench-{os.getuid()}")
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    found = directory.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077:  # A link has all bits set.
        raise InputError(f"{directory}: is not this user's alone; remove it")
    return directory


def _connect(path: Path, variables: dict, cores: list[int]) -> socket.socket:
    """Return a connection to the parent at `path`; start one if none listens there."""
    # Only the holder of the GPU's lock comes here, so no one else starts one at the same time.
    connection = socket.socket(socket.AF_UNIX)
    with _shorten(path) as address:
        try:
            connection.connect(address)
        except (FileNotFoundError, ConnectionRefusedError):
            path.unlink(missing_ok=True)
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(address)
                listener.listen()
                module = [sys.executable, "-m", "kernelbench.running.fork_server"]
                command = [*module, str(path), os.environ[RUN], json.dumps(cores)]
                subprocess.Popen(command, env=variables, stdin=listener, start_new_session=True)
            connection.connect(address)
    return connection


@contextmanager
def _shorten(path: Path):
    """Yield a name of `path` that fits into the 108 bytes of a socket's address, however long TMPDIR is."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
