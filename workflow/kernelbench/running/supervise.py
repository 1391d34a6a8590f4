"""Watch over the process of a job: its time limit, its end, and what it leaves behind."""

import fcntl
import os
import select
import shutil
import signal
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
# The temporary directories of jobs, and for how long after it was made one may not be locked yet.
SCRATCH = "kernelbench-job-"
MAKING_SECONDS = 10


def adopt_orphans() -> None:
    """Make this process the parent of whatever its descendants leave behind, so that it can be ended."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


@contextmanager
def scratch():
    """Yield a temporary directory for a job, which goes with all that the job left in it.

    It is locked for as long as this process lives: what a process that was killed left behind goes with the next one.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{SCRATCH}*"):
        with suppress(OSError), locked(left):
            if time.time() - left.stat().st_mtime > MAKING_SECONDS:
                remove(left)
    directory = tempfile.mkdtemp(prefix=SCRATCH)
    with locked(directory):
        try:
            yield directory
        finally:
            remove(directory)


@contextmanager
def locked(directory):
    """Hold the lock of a directory, which the kernel takes back from a process that dies; raise OSError where held."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def remove(directory) -> None:
    """Remove a directory with all that is in it, as far as that is possible."""
    shutil.rmtree(directory, ignore_errors=True)


def watch(pid: int, seconds: float, others: tuple[int, ...] = ()) -> dict:
    """Wait until the child `pid` (leader of its own session) ends, and end what is left of it.

    Waits at most `seconds`, or until one of the descriptors `others` becomes readable. Returns {end: "exited",
    "killed" (by a signal), "timeout" or "abandoned" (by the owner of a descriptor), code: exit code or name of the
    signal, left: the command lines of processes that outlived the job and were ended}.
    """
    process, ready = os.pidfd_open(pid), []
    try:
        ready, _, _ = select.select([process, *others], [], [], seconds)
    finally:  # Whoever interrupts the wait, the job does not go on unwatched.
        ended = process in ready
        os.close(process)
        if not ended:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        left = _end_descendants()
    if not ended:
        return {"end": "abandoned" if ready else "timeout", "code": "", "left": left}
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return {"end": "killed", "code": signal.Signals(-code).name, "left": left}
    return {"end": "exited", "code": code, "left": left}


def _end_descendants() -> list[str]:
    """Kill every process below this one, which has adopted the orphans; return their command lines."""
    import psutil

    left = []
    while children := psutil.Process().children(recursive=True):
        for child in children:
            try:
                if child.status() != psutil.STATUS_ZOMBIE:
                    left.append(" ".join(child.cmdline())[:200])
                child.kill()
            except psutil.NoSuchProcess:
                continue
        for child in children:
            try:
                os.waitpid(child.pid, 0)
            except ChildProcessError:  # A grandchild; it is adopted by the next round.
                continue
    return left
