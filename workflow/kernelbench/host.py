"""Host: how fast the host was in each job, by what an empty kernel took to launch, and what that does to the times.

A job launches an empty kernel before it times anything else. That takes the same work in every mode, so that where it
takes longer the host was slower: beside other load, or beside other guests of the same processor.
"""

import numpy as np
import pandas as pd

from kernelbench import statistics
from kernelbench.study import CONTROL, diagnosed

KEY = ["op", "dtype", "size", "mode"]
LAUNCH = "floors.launch"
# A job is on a slow host where an empty kernel took more than 1.2 times as long to launch as in the fastest tenth.
FAST, SLOW = 0.1, 1.2
# Fewer quiet pairs than these say nothing of a width.
FEWEST = 5
# Times without the host's work, with it, and of nothing else.
TIMES = ("device", "latency", "host")


def speed(data) -> dict | None:
    """Return {launch, factor, slow, turns, follows, widths} of a summarize.Data, None where its jobs do not say.

    launch: {low, median, high}: of the jobs' launches 10, 50 and 90 % are shorter, in µs; slow: {jobs, of};
    turns: {again, slow}: how many turns of samples were taken again on another core, and how many kept although the
    host was slow, None where jobs kept to no core;
    follows: of each of TIMES {slope, correlation}: of the logarithms of a job's time and of its launch, each less the
    median of its cell and mode (slope 1: the time is as much longer as the launch is); widths: by mode and metric {all,
    quiet, repeats}: the median over the cells of the half-width of the logarithm of the speedup's interval, and without
    the pairs that have a job on a slow host, which leaves so many repeats.
    """
    launches = _launches(data)
    if launches is None:
        return None
    low, median, high = launches.quantile([FAST, 0.5, 1 - FAST])
    slow = launches > SLOW * low
    metrics = [metric for metric in TIMES if metric in data.metrics]
    return {
        "launch": {"low": _six(low), "median": _six(median), "high": _six(high)},
        "factor": SLOW,
        "slow": {"jobs": int(slow.sum()), "of": len(slow)},
        "turns": _turns(data.jobs),
        "follows": {metric: found for metric in metrics if (found := _follows(data, launches, metric))},
        "widths": _widths(data, slow, [metric for metric in metrics if metric != "host"]),
    }


def _launches(data) -> pd.Series | None:
    """Return µs by (op, dtype, size, mode, repeat)."""
    if LAUNCH not in data.jobs:
        return None
    found = data.jobs.dropna(subset=[LAUNCH]).set_index([*KEY, "repeat"])[LAUNCH].sort_index()
    return found if len(found) else None


def _turns(jobs: pd.DataFrame) -> dict | None:
    columns = {name: f"core.{name}" for name in ("again", "slow")}
    if not set(columns.values()) <= set(jobs):
        return None
    return {name: int(jobs[column].sum()) for name, column in columns.items()}


def _follows(data, launches: pd.Series, metric: str) -> dict | None:
    times = {row: values for row in data.rows if (values := data.values(row, metric)) is not None}
    if not times:
        return None
    logs = pd.DataFrame({"launch": np.log(launches), "time": pd.concat(times, names=KEY)}).dropna()
    launch, time = (logs - logs.groupby(level=KEY).transform("median")).to_numpy().T
    if not launch.any() or not time.any():
        return None
    return {
        "slope": _six(launch @ time / (launch @ launch)),
        "correlation": _six(np.corrcoef(launch, time)[0, 1]),
    }


def _widths(data, slow: pd.Series, metrics: list[str]) -> dict:
    baseline, found = data.study["baselines"][0], {}
    for mode in data.study["modes"]:
        if mode not in (baseline, CONTROL) and not diagnosed(data.study, mode):
            for metric in metrics:
                rows = [row for row in data.rows if row[3] == mode]
                if widths := [width for row in rows if (width := _width(data, row, baseline, slow, metric))]:
                    every, quiet, repeats = map(_six, np.median(widths, axis=0))
                    found.setdefault(mode, {})[metric] = {"all": every, "quiet": quiet, "repeats": repeats}
    return found


def _width(data, row: tuple, baseline: str, slow: pd.Series, metric: str) -> tuple[float, float, int] | None:
    """Return half-widths of the logarithm of all pairs and of the quiet ones, and how many these are.

    None where fewer than FEWEST are left.
    """
    arms = [row, (*row[:3], baseline)]
    values = [data.values(arm, metric) for arm in arms]
    if any(value is None for value in values):
        return None
    pairs = (values[1] - values[0]).dropna()
    jobs = [[(*arm, repeat) for arm in arms] for repeat in pairs.index]
    quiet = pairs[[all(job in slow.index and not slow[job] for job in both) for both in jobs]]
    return (_half(pairs), _half(quiet), len(quiet)) if len(quiet) >= FEWEST else None


def _half(logs: pd.Series) -> float:
    found = statistics.interval(logs.to_numpy())
    return float(np.log(found.high / found.low) / 2)


def _six(number: float) -> float:
    """Return a number to six digits, which any machine agrees on."""
    return float(f"{number:.6g}")
