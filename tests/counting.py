"""Counts what a Python does: as sitecustomize.py in a checkout, every Python that is started there loads it.

Calls of functions are a measure of work that no load of the host moves. At its end the process adds a file to counts/:
{calls, of functions in Python and in C; threads, how many it started}.
"""

import atexit
import cProfile
import json
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

COUNTS = Path(__file__).parent / "counts"
profiles, started = [], []


def count(*_) -> None:
    """Count the calls of this thread from now on."""
    sys.setprofile(None)
    profile = cProfile.Profile()
    with suppress(ValueError):  # From Python 3.12 on the first one counts those of all threads.
        profile.enable()
        profiles.append(profile)


def begin(*event) -> None:
    """Note that a thread begins, and count its calls."""
    started.append(threading.get_ident())
    count()


def write() -> None:
    """Write what was counted."""
    for profile in profiles:
        profile.disable()
    calls = sum(entry.callcount for profile in profiles for entry in profile.getstats())
    COUNTS.mkdir(exist_ok=True)
    (COUNTS / f"{os.getpid()}-{time.time_ns()}.json").write_text(json.dumps({"calls": calls, "threads": len(started)}))


atexit.register(write)
threading.setprofile(begin)
count()
