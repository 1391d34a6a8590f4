"""Find how many repeats a speedup needs for a narrow interval, what they cost, and where to spend the time.

Repeats vary, and so do the samples within them (Kalibera and Jones 2013). A repeat costs the start, the compilation and
the checks of two jobs, a sample next to nothing. More samples only lower the part of the spread between repeats that
comes from the medians of their samples.
"""

import math
from statistics import median_high

import numpy as np
import pandas as pd
from rich.table import Table

from kernelbench.analysis.intervals import t_quantile
from kernelbench.errors import InputError
from kernelbench.numbers import duration
from kernelbench.study.cells import ARM
from kernelbench.study.metrics import ALL

# The relative half width that we ask for.
HALF_WIDTH = 0.01
MOST_REPEATS = 1000
KEY = [*ARM, "metric"]


def count_needed(spread: float, half_width: float = HALF_WIDTH) -> float:
    """Return the least n whose interval is within ± `half_width`, infinity if even MOST_REPEATS are too few.

    spread: the standard deviation of the log speedups by repeat.
    """
    n = np.arange(2, MOST_REPEATS + 1)
    half = t_quantile(n - 1) * spread / np.sqrt(n)
    enough = n[half <= np.log1p(half_width)]
    return int(enough[0]) if len(enough) else math.inf


def tabulate(document: dict, jobs: pd.DataFrame) -> pd.DataFrame:
    """Return what ±1 % costs for each speedup of a study; raise InputError if none has two repeats.

    document: the content of summary.json; jobs: those of jobs.parquet. Columns: op, dtype, size, mode, baseline,
    metric, n, half_width (relative), repeats (for ±1 %; infinity for more than MOST_REPEATS), minutes (of a GPU, both
    arms; at most of MOST_REPEATS), from_samples (the share of the variance that more samples would lower), spend
    ("repeats", "samples", or "enough").
    """
    # We name the columns because a study that measured or compared nothing has none.
    drawn = pd.DataFrame(document["spread"], columns=[*KEY, "drawn"])
    speedups = pd.DataFrame(document["speedups"], columns=[*KEY, "baseline", "n", "ci_low", "ci_high"])
    timed = speedups.metric.isin(drawn.metric)
    speedups = speedups[timed & (speedups["size"] != ALL) & (speedups.n > 1)].reset_index(drop=True)
    if speedups.empty:
        raise InputError(
            f"{document['study']['machine']}: no speedup has two repeats, and one alone has no spread; "
            "allowed: a study that has measured two modes of a cell in two repeats or more"
        )
    half = np.log(speedups.ci_high / speedups.ci_low) / 2
    spread = half * np.sqrt(speedups.n) / t_quantile(speedups.n - 1)
    repeats = spread.map(count_needed)
    wall = jobs.groupby(ARM)["seconds.wall"].median().reset_index()
    arms = [speedups.assign(mode=speedups[arm])[KEY] for arm in ("mode", "baseline")]
    cost = sum(arm.merge(wall, "left")["seconds.wall"] for arm in arms)
    share = (sum(arm.merge(drawn, "left").drawn ** 2 for arm in arms) / spread**2).clip(0, 1)
    return speedups[[*ARM, "baseline", "metric", "n"]].assign(
        half_width=np.expm1(half),
        repeats=repeats,
        minutes=repeats.clip(upper=MOST_REPEATS) * cost / 60,
        from_samples=share,
        spend=np.where(repeats <= speedups.n, "enough", np.where(share > 0.5, "samples", "repeats")),
    )


def report(study: dict, found: pd.DataFrame) -> list[Table | str]:
    """Return what to print of the table of a study, over its first baseline, by metric and mode.

    enough: how many cells have as many repeats as they need; median, most: of the repeats that cells need; time: what
    all cells cost, each with its own repeats; spend: what most of the cells that lack repeats should spend on.
    """
    first = found.baseline == study["baselines"][0]
    overview = Table(box=None, pad_edge=False)
    overview.add_column("metric", no_wrap=True)
    overview.add_column("mode", overflow="fold")  # A narrow terminal gets a second line, and still shows the numbers.
    for name in ("enough", "median", "most", "time", "spend"):
        overview.add_column(name, justify="right", no_wrap=True)
    for (metric, mode), rows in found[first].groupby(["metric", "mode"], sort=False):
        lacking = rows.spend[rows.spend != "enough"]
        enough = f"{len(rows) - len(lacking)}/{len(rows)}"
        needed = median_high(rows.repeats), rows.repeats.max()
        counts = [f">{MOST_REPEATS}" if math.isinf(n) else f"{n:g}" for n in needed]
        # 80 columns have no room for "more than".
        time = (">" if np.isinf(rows.repeats).any() else "") + duration(60 * rows.minutes.sum())
        overview.add_row(metric, mode, enough, *counts, time, "–" if lacking.empty else lacking.mode().iloc[0])
    head = f"{study['machine']}: repeats for an interval of ±{HALF_WIDTH:.0%}, from the spread over {study['repeats']}"
    more = [] if first.all() else [f"{(~first).sum()} more, over other baselines, are in precision.csv alone"]
    return [head, overview, *more]
