"""A workload whose call goes wrong in the way that its parameter names; tests copy it among a checkout's workloads."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psutil

from kernelbench.harness.workload import Workload, length

# Two processes that nobody ends: a child in a session of its own, and a grandchild that is an orphan at once.
STRAYS = (["sleep", "1000"], ["sh", "-c", "setsid sleep 1001 &"])


def _stray() -> None:
    if not hasattr(sys, "strayed"):  # Once in a process, however often it is called.
        sys.strayed = [subprocess.Popen(command, start_new_session=True) for command in STRAYS]
        # Until then it is named as what starts it, and on a slow host the job is over by then.
        while not any(process.info["cmdline"] == ["sleep", "1001"] for process in psutil.process_iter(["cmdline"])):
            time.sleep(0.01)


def _read_out_of_bounds(x) -> None:
    import torch

    x.flatten()[torch.full((1,), 2**40, device=x.device)]  # A GPU finds out in a kernel, which takes the context along.


def _exhaust(x) -> None:
    import torch

    torch.empty(2**50, dtype=torch.uint8, device=x.device)


CALLS = count()


def _restless(x, once: bool = False) -> None:
    """Take 1, 5 and 20 ms in turn, two calls each, so that no three windows agree; once: in the first process only."""
    if once and not hasattr(sys, "first"):
        sys.first = not Path("restless").exists()
        Path("restless").touch()
    time.sleep((0.001, 0.005, 0.02)[next(CALLS) // 2 % 3] if not once or sys.first else 0.005)


FAULTS = {
    "none": lambda x: None,
    "slow": lambda x: time.sleep(0.05),
    "hang": lambda x: time.sleep(1000),
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
