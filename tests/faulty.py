"""A workload whose call goes wrong in the way that its parameter names; tests copy it among a checkout's workloads."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from kernelbench.harness.workload import Workload, length

# Longer than any test waits.
EVER = 100_000


def _stray() -> None:
    """Leave two processes that nobody ends: a child in a session of its own, and a grandchild, an orphan at once."""
    if hasattr(sys, "strayed"):  # Once in a process, however often it is called.
        return
    sys.strayed = subprocess.Popen(["sleep", "100000"], start_new_session=True)
    orphan = subprocess.check_output(["sh", "-c", "setsid sleep 100001 > /dev/null & echo $!"], text=True).strip()
    # Until then it is named as what starts it, and on a slow host the job is over by then.
    while Path(f"/proc/{orphan}/cmdline").read_text().split("\0")[0] != "sleep":
        time.sleep(0.01)


def _held() -> None:
    """Wait, once in a process, until the test lets this job through by a file `ticket`, or all by a file `open`."""
    while not (hasattr(sys, "through") or Path("open").exists()):
        with suppress(FileNotFoundError):
            Path("ticket").unlink()
            sys.through = True
        time.sleep(0.01)


def _look() -> None:
    """Write down the names of the threads of the process that forked this one, and the environment it started with."""
    above = Path("/proc", str(os.getppid()))
    environment = (above / "environ").read_bytes().decode().rstrip("\0").split("\0")
    seen = {
        "threads": [path.read_text().strip() for path in above.glob("task/*/comm")],
        "environment": dict(line.split("=", 1) for line in environment),
    }
    Path(f"seen-{above.name}.json").write_text(json.dumps(seen))


def _read_out_of_bounds(x) -> None:
    import torch

    x.flatten()[torch.full((1,), 2**40, device=x.device)]  # A GPU finds out in a kernel, which takes the context along.


def _exhaust(x) -> None:
    import torch

    torch.empty(2**50, dtype=torch.uint8, device=x.device)


CALLS = count()


def _restless(x, once: bool = False) -> None:
    """Take 1, 5 and 20 ms in turn, two calls each, so that no three windows agree; once: in the first process only.

    By a clock that nothing else moves, which from now on the timers read: a busy host has windows agree, or differ.
    """
    from kernelbench.harness import timers

    if not hasattr(sys, "now"):
        sys.settles = once and Path("restless").exists()
        if once:
            Path("restless").touch()
        sys.now = time.perf_counter_ns()
        timers.perf_counter, timers.perf_counter_ns = lambda: sys.now / 1e9, lambda: sys.now
    sys.now += (5 if sys.settles else (1, 5, 20)[next(CALLS) // 2 % 3]) * 1_000_000


FAULTS = {
    "none": lambda x: None,
    "slow": lambda x: time.sleep(0.05),
    "hang": lambda x: time.sleep(EVER),
    "held": lambda x: _held(),
    "look": lambda x: _look(),
    "kill": lambda x: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda x: ctypes.string_at(0),
    "leave": lambda x: os._exit(0),
    "restless": _restless,
    "restless once": lambda x: _restless(x, once=True),
    "stray": lambda x: _stray(),
    "exhaust": _exhaust,
    "read_out_of_bounds": _read_out_of_bounds,
}


@dataclass(frozen=True)
class Faulty(Workload):
    """x: (8, size)."""

    fault: str

    def shapes(self, size, itemsize):
        return {"x": (8, length(size))}

    def call(self, x):
        FAULTS[self.fault](x)
        return x.clone()

    def flops(self, size, itemsize):
        return 0


WORKLOAD = Faulty
