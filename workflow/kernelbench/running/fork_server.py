"""The warm parent: a process that has imported torch and all that compiling needs, and forks each job's process.

It serves one GPU and one repeat of one run of the workflow: it ends with that run, or when a job of another repeat
asks. It runs no tensor operation, starts no thread and makes no CUDA context, so that a forked process can do all of
that itself.

    python -m kernelbench.running.fork_server SOCKET RUN CORES

`job_process` starts it with a listening socket as its stdin.
"""

import gc
import json
import os
import select
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
from kernelbench.running.job_process import MESSAGE_BYTES, key, open_run

# What a request says.
REQUEST = ("settings", "place", "cores", "scratch", "key", "timeout")

# What a job imports besides: the profiler, NVML, and what watches and checks it.
OTHERS = ("torch.profiler", "pynvml", "psutil", "fastjsonschema")

# Threads that a fork leaves behind and is none the worse for: some drivers keep one where NVML is asked how many GPUs
# there are, which the fork asks anew; Arrow's allocator has one that frees memory, and starts another after a fork.
HARMLESS = ("cuda", "jemalloc")


def main() -> None:
    path, run, cores = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    listener = socket.socket(fileno=os.dup(0))
    watched = open_run(run)
    os.sched_setaffinity(0, cores)
    supervise.adopt_orphans()
    mine = key(os.environ, cores)
    _import()
    try:
        while True:
            ready, _, _ = select.select([listener, watched], [], [])
            if watched in ready:
                return
            connection, _ = listener.accept()
            with connection:
                if not _is_other_user(connection) and not _serve(connection, mine, watched, listener):
                    return
    finally:
        path.unlink(missing_ok=True)


def _import() -> None:
    """Import what any mode needs; what a fork cannot carry over ends the parent with a line that names it."""
    for module in dict.fromkeys((*modes.common_imports(), *OTHERS)):
        if find_spec(module.partition(".")[0]):  # A missing package is the mode's to report.
            import_module(module)
    record.validator()  # Each job would make its own.
    _settle()


def _load_workload(settings: dict) -> None:
    """Import what a workload needs, which takes seconds for a model of a library; again it takes nothing."""
    before = len(sys.modules)
    with suppress(Exception):  # The job finds it, too, and says it in its record.
        parameters = dict(settings)
        kind = plugins.load(workloads, "workload", parameters.pop("name"))
        build(kind, parameters).load()
    if len(sys.modules) > before:
        _settle()


def _settle() -> None:
    """Make what was imported ready for a fork; end the parent where an import started a thread."""
    threads = [name for name in _threads() if not name.startswith(HARMLESS)]
    if len(threads) > 1:
        sys.exit(f"start: warm is not possible, an import started a thread: {threads}; allowed: start: fresh")
    gc.collect()
    gc.freeze()  # The collector of a forked process need not look through, and thereby copy, what is shared.


def _threads() -> list[str]:
    """Return the names of this process's threads."""
    return [Path(task, "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]


def _is_other_user(connection: socket.socket) -> bool:
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", packed)[1] != os.getuid()


def _serve(connection: socket.socket, mine: str, watched: int, listener: socket.socket) -> bool:
    """Fork the job that `connection` asks for and wait for its end; return whether to go on serving."""
    descriptors = []
    try:
        message, descriptors, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, 4)
        request = _request(message)
        if request is None or len(descriptors) != 4:
            return True
        if request["key"] != mine:
            connection.sendall(b'{"end": "other"}\n')
            return False
        stdout, stderr, result, lock = descriptors
        request["starter"] = os.getpid()
        _load_workload(request["settings"]["workload"])
        pid = os.fork()
        if pid == 0:
            for mine_only in (connection, listener):
                mine_only.close()
            os.close(lock)
            _become(request, stdout, stderr, result)
        outcome = supervise.watch(pid, request["timeout"], (connection.fileno(), watched))
        if outcome["end"] == "abandoned":  # Nor does whoever made it take it away.
            supervise.remove(request["scratch"])
        else:
            connection.sendall(json.dumps(outcome | {"parent": os.getpid()}).encode() + b"\n")
        return True
    except ConnectionError:  # Whoever asked is gone.
        return True
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _request(message: bytes) -> dict | None:
    """Return the job that a message asks for, None where it asks for none: whoever sent it has ended, or erred."""
    try:
        request = json.loads(message)
    except ValueError:
        return None
    return request if isinstance(request, dict) and {*REQUEST} <= set(request) else None


def _become(request: dict, stdout: int, stderr: int, result: int) -> None:
    """Turn the fork into the job's process, run the job, and end."""
    code = 1
    try:
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
