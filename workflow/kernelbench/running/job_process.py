"""Start the process of a job: forked from a warm parent, or fresh; and make a record of whatever becomes of it.

Fresh is a new Python; warm is a fork of a process that has done the imports (`fork_server`). Both have the same
environment, cores and scratch directory, and both are watched over in the same way.
"""

import hashlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from importlib.util import cache_from_source, find_spec
from pathlib import Path

from kernelbench.errors import InputError
from kernelbench.harness import child, environment, provenance
from kernelbench.notes import Exited, Killed, Note, TimeLimit
from kernelbench.running import gpu_lanes, supervise

MESSAGE_BYTES = 2**16
# What a run of the workflow leaves in its environment: the process that parents must not outlive.
RUN = "KERNELBENCH_RUN"
# And what records call the run.
NAME = "KERNELBENCH_RUN_NAME"
# Settings of any job, to ask for the names of its variables.
_ANY = {"seed": 0, "repeat": 0, "threads": 0}


def run_name(pid: int) -> str:
    """Return what tells the process `pid` from any other, before or after it: its id and its start (clock ticks)."""
    return f"{pid}:{Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[19]}"


def named(remote: bool) -> dict[str, str]:
    """Return the variables that tell jobs of the run that this process is; remote: it runs in an allocation of SLURM.

    There each job has a Snakemake of its own, and all that an allocation measures is one run.
    """
    own = run_name(os.getpid())
    allocation = os.environ.get("SLURM_JOB_ID") if remote else None
    return {RUN: own, NAME: f"slurm:{allocation}" if allocation else own}


def open_run(name: str) -> int:
    """Return a descriptor that becomes readable when the run ends; raise InputError where it is no more."""
    try:
        descriptor = os.pidfd_open(int(name.partition(":")[0]))
        if run_name(int(name.partition(":")[0])) == name:
            return descriptor
    except (ProcessLookupError, FileNotFoundError):
        pass
    raise InputError(f"{RUN}: {name} is no process of this machine; allowed: one that runs")


def end_with_run() -> None:
    """End this process as SIGTERM does when the run that it belongs to ends, whatever it waits for."""
    if RUN not in os.environ:  # Measured by hand.
        return
    run = open_run(os.environ[RUN])

    def wait():
        select.select([run], [], [])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def bytecode() -> dict[str, str]:
    """Return the variables by which a run keeps bytecode of its own, if torch has none and the environment forbids it.

    So it is in many containers; each warm parent would compile the sources of torch: 10 s where 4 are enough.
    """
    found = find_spec("torch")
    if not os.environ.get("PYTHONDONTWRITEBYTECODE") or not found or Path(cache_from_source(found.origin)).exists():
        return {}
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(_private() / "bytecode")}


def python_first() -> dict[str, str]:
    """Return the PATH on which this Python, and what is installed with it, comes first.

    So it is where its environment was activated, and has to be for who called Snakemake by its path.
    """
    return {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])}


def cleared() -> list[str]:
    """Return the variables of this process that its jobs do not get although they could change a measurement."""
    return environment.cleared(os.environ, child.variables(_ANY, ""))


def key(variables, cores: list[int]) -> str:
    """Return what a parent must agree in with a job that it forks: environment variables, cores, what was imported."""
    names = child.variables(_ANY, "")
    sources = provenance.sources_digest(provenance.source_blobs())
    return json.dumps([[variables.get(name) for name in names], cores, sources])


def measured(request: dict, gpu: str, lock: int, timeout: float) -> tuple[dict, dict]:
    """Run the job of `request` (settings, place, cores) on `gpu` and return (record, outcome of its process).

    A process that did not reach its end gives a record too, with the status `timeout` or `crashed`. Raises InputError
    where the job did not begin, nobody saw its end, or the GPU is gone after it: then there is nothing to keep.
    """
    result = os.memfd_create("record")
    decided = child.variables(request["settings"], gpu)
    variables = environment.build(os.environ, decided)
    with supervise.scratch() as scratch:
        request = request | {"scratch": scratch}
        if request["settings"]["start"] == "warm":
            outcome = _warm(request, variables, result, lock, timeout, gpu)
        else:
            outcome = _fresh(request, variables, result, timeout)
    record = _last(result)
    os.close(result)
    if record is None or record["status"] == "crashed":
        gpu_lanes.visible(request["settings"]["device"])  # A GPU that fell out is no result of the job's: refused here.
    if record is None:
        raise InputError(f"the job's process ended before it began ({outcome['end']} {outcome['code']})".rstrip())
    if outcome["end"] != "exited" or outcome["code"] != 0 or "phase" in record:
        from kernelbench.harness.measure import unfinished

        record = unfinished(record, *_verdict(outcome, timeout, record.get("phase")))
    record["environment"]["cleared"] = environment.cleared(os.environ, decided)
    return record, outcome


def _verdict(outcome: dict, timeout: float, phase: str | None) -> tuple[str, Note]:
    """Return (status, reason) of a process that did not reach its end."""
    if outcome["end"] == "timeout":
        return "timeout", TimeLimit(phase, timeout)
    return "crashed", Killed(phase, outcome["code"]) if outcome["end"] == "killed" else Exited(phase, outcome["code"])


def _last(result: int) -> dict | None:
    """Return the last whole line of what the job wrote, None where it wrote none."""
    with open(result, encoding="utf-8", closefd=False) as stream:
        stream.seek(0)
        whole = stream.read().rpartition("\n")[0]
    return json.loads(whole.rpartition("\n")[2]) if whole else None


def _fresh(request: dict, variables: dict, result: int, timeout: float) -> dict:
    supervise.adopt_orphans()
    process = subprocess.Popen(
        [sys.executable, "-m", "kernelbench.harness.child", str(result)],
        env=variables,
        stdin=subprocess.PIPE,
        pass_fds=[result],
        start_new_session=True,
    )
    process.stdin.write(json.dumps(request | {"starter": os.getpid()}).encode())
    process.stdin.close()
    return supervise.watch(process.pid, timeout)


def _warm(request: dict, variables: dict, result: int, lock: int, timeout: float, gpu: str) -> dict:
    """Ask the parent of this run and GPU to fork the job; start one where there is none, or one of another repeat."""
    if RUN not in os.environ:
        raise InputError(f"{RUN} is not set: start: warm is for a run of the workflow; by hand: --op, --size, --mode")
    message = request | {"key": key(variables, request["cores"]), "timeout": timeout}
    path = _socket_path(os.environ[RUN], gpu)
    for _ in range(2):
        with _connect(path, variables, request["cores"]) as connection:
            try:
                socket.send_fds(connection, [json.dumps(message).encode()], [1, 2, result, lock])
                answer = connection.makefile().readline()
            except ConnectionError:
                answer = ""
        outcome = json.loads(answer) if answer else {"end": "gone"}
        if outcome["end"] != "other":
            break
        _wait_until_gone(path)
    if outcome["end"] in ("gone", "other"):
        raise InputError("the warm parent ended before the job did; nothing is kept of it: run snakemake again")
    return outcome


def _socket_path(run: str, gpu: str) -> Path:
    """Return where the parent of this run and GPU listens."""
    return _private() / hashlib.sha256(f"{run} {gpu}".encode()).hexdigest()[:16]


def _private() -> Path:
    """Return a directory that only this user can enter."""
    directory = Path(tempfile.gettempdir(), f"kernelbench-{os.getuid()}")
    try:
        directory.mkdir(mode=0o700)
        directory.chmod(0o700)  # Whatever the umask.
    except FileExistsError:
        pass
    found = directory.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077 or directory.is_symlink():
        raise InputError(f"{directory}: is not this user's alone; remove it")
    return directory


def _connect(path: Path, variables: dict, cores: list[int]) -> socket.socket:
    """Return a connection to the parent at `path`, which is started where none listens.

    Only the holder of the GPU's lock comes here: no one else starts one at the same time.
    """
    connection = socket.socket(socket.AF_UNIX)
    with _address(path) as address:
        try:
            connection.connect(address)
        except (FileNotFoundError, ConnectionRefusedError):
            path.unlink(missing_ok=True)
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(address)
                listener.listen()
                command = [
                    sys.executable,
                    "-m",
                    "kernelbench.running.fork_server",
                    str(path),
                    os.environ[RUN],
                    json.dumps(cores),
                ]
                subprocess.Popen(command, env=variables, stdin=listener, start_new_session=True)
            connection.connect(address)
    return connection


@contextmanager
def _address(path: Path):
    """Yield a name of `path` that fits into the 108 bytes of a socket's address, however long TMPDIR is."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def _wait_until_gone(path: Path) -> None:
    """Wait until the parent that was told that it is not needed any more has taken its socket away."""
    deadline = time.monotonic() + 10
    while path.exists() and time.monotonic() < deadline:
        time.sleep(0.005)
