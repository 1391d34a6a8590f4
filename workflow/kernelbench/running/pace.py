"""The pace of a host: what its first jobs took, beside what was planned for the very same jobs."""

import math

from kernelbench.numbers import duration

# After so many jobs the pace is told: enough for one slow start not to decide, and early enough to take another host.
FIRST = 10
# Slower than planned by so much is a slow host; by less it may be that a warm parent has just imported torch, which ten
# jobs of 2.6 s wait for by up to 11 s.
SLOWER = 1.5


def describe(jobs: int, took: float, planned: float, left: float | None = None) -> str:
    """Return what so many jobs took (s) beside what was planned, NaN if unknown; on a slow host also `left` (s)."""
    each = f"{jobs:,} jobs took {duration(took)}: {took / jobs:.1f} s each"
    if math.isnan(planned) or planned <= 0:
        return each
    if took <= SLOWER * planned:
        return f"{each}, planned {planned / jobs:.1f}"
    about = "" if left is None else f": about {duration(left)} left"
    return f"{each}, planned {planned / jobs:.1f}{about}; snakemake preflight says what slows this host"
