"""Core: the core of the host that timed calls run on, kept where the host works at its full speed.

A virtual core shares a physical one with others, of other guests as well: while they work it takes up to 1.8 times as
long for the same, and no count of stolen time says so. Such spells last 0.05 to 2 s and come to each core on its own.
How fast a core is at the moment is asked of a short loop, which is the same work in all modes.
"""

import os
from collections.abc import Callable
from math import inf
from time import perf_counter_ns

# Rounds of the loop: some 100 µs, too short to weigh and long enough to tell.
ROUNDS = 2000
# A core is slow where the loop takes this many times as long as the fastest that was seen.
SLOW = 1.2
# Samples are taken again at most this often in a job: a host that is slow all the time is measured as it is.
AGAIN = 200


class Core:
    """Keeps the calling thread on one core, another one whenever that is slow; all are allowed again in the end.

    full: µs of the loop at the fastest seen; again: how often samples were taken again; slow: how often they were kept
    although the core was slow.
    """

    def __init__(self):
        self.cores = sorted(os.sched_getaffinity(0))
        self.full, self.again, self.slow = inf, 0, 0

    def __enter__(self) -> "Core":
        speeds = {core: self._try(core) for core in self.cores}
        self._try(min(speeds, key=speeds.get))
        return self

    def __exit__(self, *error) -> None:
        os.sched_setaffinity(0, self.cores)

    def at_full_speed(self) -> bool:
        """Say whether the thread's core works at full speed now."""
        return self._loop() <= SLOW * self.full

    def undisturbed(self, take: Callable[[], list]) -> tuple[list, bool]:
        """Return what `take` returns, and whether the core was at full speed at its end.

        Where it was not, the thread goes to another core and takes once more. It began at full speed where the last
        call ended so.
        """
        while True:
            found = take()
            if self.at_full_speed():
                return found, True
            self._move()
            if self.again == AGAIN:
                self.slow += 1
                return found, False
            self.again += 1

    def _move(self) -> None:
        """Go to the next core at full speed; to the next one where none is."""
        (here,) = os.sched_getaffinity(0)
        after = self.cores.index(here) + 1
        others = [*self.cores[after:], *self.cores[:after]]
        for core in others:
            if self._try(core) <= SLOW * self.full:
                return
        self._try(others[0])

    def _try(self, core: int) -> float:
        """Go to a core and return the µs of the loop there."""
        os.sched_setaffinity(0, {core})
        return self._loop()

    def _loop(self) -> float:
        """Return the µs of the loop, of two the faster one: the first may meet a cold cache."""
        took = min(_spin(), _spin()) / 1e3
        self.full = min(self.full, took)
        return took


def _spin() -> int:
    start, total = perf_counter_ns(), 0
    for number in range(ROUNDS):
        total += number * number
    return perf_counter_ns() - start
