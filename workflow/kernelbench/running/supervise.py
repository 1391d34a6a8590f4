"""Watch over the process of a job: its time limit, its end, and what it leaves behind."""

import ctypes
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
SCRATCH = "kernelbench-job-"
# A process may need so long to lock the scratch directory that it has made.
MAKING_SECONDS = 10


def adopt_orphans() -> None:
    """Make this process the parent of whatever its descendants leave behind, so that it can end them."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


@contextmanager
def make_scratch():
    """Yield a temporary directory for a job and remove it afterwards; first remove those of processes that died."""
    for left in Path(tempfile.gettempdir()).glob(f"{SCRATCH}*"):
        with suppress(OSError), _lock(left):
            if time.time() - left.stat().st_mtime > MAKING_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=SCRATCH, ignore_cleanup_errors=True) as directory, _lock(directory):
        yield directory


@contextmanager
def _lock(directory):
    """Hold the lock of a directory, which the kernel releases when a process dies; raise OSError if it is held."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def watch(pid: int, seconds: float, others: tuple[int, ...] = ()) -> dict:
    """Wait until the child `pid` ends, at most `seconds` or until one of the descriptors `others` is readable; kill it.

    Returns {end: "exited", "killed" (by a signal), "timeout" or "abandoned" (by the owner of a descriptor), code: exit
    code or name of the signal, left: the command lines of processes that outlived the job and were killed}.
    """
    process, ready = os.pidfd_open(pid), []
    try:
        ready, _, _ = select.select([process, *others], [], [], seconds)
    finally:  # Whatever interrupts the wait, the job does not go on unwatched.
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
            with suppress(psutil.NoSuchProcess):
                if child.status() != psutil.STATUS_ZOMBIE:
                    left.append(" ".join(child.cmdline())[:200])
                child.kill()
        for child in children:
            with suppress(ChildProcessError):  # A grandchild; this process adopts it by the next round.
                os.waitpid(child.pid, 0)
    return left
