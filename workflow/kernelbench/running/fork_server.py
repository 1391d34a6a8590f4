"""The warm parent: a process that has imported torch and all that compiling needs, and forks each job's process.

`job_process` starts it for one GPU and one repeat of one run, with a listening socket as its stdin. It runs no tensor
operation, starts no thread and makes no CUDA context, so that a forked process can do all of that itself.
"""

import gc
import json
import os
import select
import shutil
import signal
import socket
import struct
import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from kernelbench.harness import child, modes, plugins, record, workloads
from kernelbench.harness.workload import build
from kernelbench.running import supervise
from kernelbench.running.job_process import MESSAGE_BYTES, make_key, open_run

# What a request must have.
REQUEST = {"settings", "place", "cores", "scratch", "headers", "key", "timeout"}
# What a job imports besides: the profiler, NVML, and what watches and checks it.
OTHERS = ("torch.profiler", "pynvml", "psutil", "fastjsonschema")
# A fork does no harm to these threads, which it does not get: some drivers keep one once NVML has counted the GPUs,
# which the fork does anew, and Arrow's allocator starts another after a fork.
HARMLESS = ("cuda", "jemalloc")


def main() -> None:
    path, run, cores = Path(sys.argv[1]), open_run(sys.argv[2]), json.loads(sys.argv[3])
    listener = socket.socket(fileno=os.dup(0))
    os.sched_setaffinity(0, cores)
    supervise.adopt_orphans()
    key = make_key(os.environ, cores)
    _import_all()
    try:
        while run not in select.select([listener, run], [], [])[0]:
            connection, _ = listener.accept()
            with connection:
                if not _is_other_user(connection):
                    _serve(connection, path, key, run, listener)
    finally:
        path.unlink(missing_ok=True)


def _import_all() -> None:
    """Import what any mode needs."""
    for module in dict.fromkeys((*modes.common_imports(), *OTHERS)):
        if find_spec(module.partition(".")[0]):  # A missing package is the mode's to report.
            import_module(module)
    record.validator()  # Each job would make its own.
    _settle()


def _load_workload(settings: dict) -> None:
    """Import what a workload needs, which takes seconds the first time if that is a library of models."""
    before = len(sys.modules)
    with suppress(Exception):  # The job meets the same error and records it.
        parameters = dict(settings)
        kind = plugins.load(workloads, "workload", parameters.pop("name"))
        build(kind, parameters).load()
    if len(sys.modules) > before:
        _settle()


def _settle() -> None:
    """Make what was imported ready for a fork; end the parent, naming the threads, if an import started any."""
    threads = list_threads()
    if len(threads) > 1:
        sys.exit(f"start: warm is not possible, an import started a thread: {threads}; allowed: start: fresh")
    gc.collect()
    gc.freeze()  # The collector of a forked process need not look through, and thereby copy, what is shared.


def list_threads() -> list[str]:
    """Return the names of this process's threads, without those that a fork does no harm to."""
    threads = [Path(task, "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    return [name for name in threads if not name.startswith(HARMLESS)]


def _is_other_user(connection: socket.socket) -> bool:
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", packed)[1] != os.getuid()


def _serve(connection: socket.socket, path: Path, key: str, run: int, listener: socket.socket) -> None:
    """Fork the job that `connection` asks for and wait for its end; end this parent if the job needs another one."""
    descriptors = []
    try:
        message, descriptors, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, 4)
        request = _parse(message)
        if request is None or len(descriptors) != 4:
            return
        if request["key"] != key:
            path.unlink(missing_ok=True)  # Before the answer: whoever gets it starts the other parent there.
            with suppress(ConnectionError):
                connection.sendall(b'{"end": "other"}\n')
            child.finish(0)
        request["starter"] = os.getpid()
        _load_workload(request["settings"]["workload"])
        pid = os.fork()
        if pid == 0:
            _become_job(request, descriptors, (connection, listener))
        outcome = supervise.watch(pid, request["timeout"], (connection.fileno(), run))
        if outcome["end"] == "abandoned":  # Whoever made the directory is gone, too.
            shutil.rmtree(request["scratch"], ignore_errors=True)
        else:
            connection.sendall(json.dumps(outcome | {"parent": os.getpid()}).encode() + b"\n")
    except ConnectionError:
        pass  # Whoever asked is gone.
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _parse(message: bytes) -> dict | None:
    """Return the job that a message asks for, or None if its sender has ended or made a mistake."""
    try:
        request = json.loads(message)
    except ValueError:
        return None
    return request if isinstance(request, dict) and request.keys() >= REQUEST else None


def _become_job(request: dict, descriptors: list[int], sockets: tuple[socket.socket, ...]) -> None:
    """Turn the fork into the job's process without the parent's `sockets` and lock, run the job, and end."""
    code = 1
    try:
        stdout, stderr, result, lock = descriptors
        os.close(lock)
        for each in sockets:
            each.close()
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        child.main(request, result)
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        child.finish(code)


if __name__ == "__main__":
    main()
