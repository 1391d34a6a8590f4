"""Precision: how many repeats a speedup needs for a narrow interval, what they cost, and where to spend the time.

Two levels vary, repeats and the samples within them (Kalibera and Jones 2013). A repeat costs the start, the
compilation and the checks of two jobs; a sample next to nothing. More samples help only as far as the spread between
repeats is that of their medians.
"""

import math
from statistics import median_high

import numpy as np
import pandas as pd
from rich.table import Table

from kernelbench.analysis.intervals import t_quantile
from kernelbench.errors import InputError
from kernelbench.numbers import duration
from kernelbench.study.cells import CELL
from kernelbench.study.metrics import ALL

# The half width that is asked for, relative.
HALF_WIDTH = 0.01
MOST_REPEATS = 1000
KEY = [*CELL, "mode", "metric"]


def repeats_needed(spread: float, half_width: float = HALF_WIDTH) -> float:
    """Return the least n whose interval is no wider than ± `half_width`; spread: standard deviation of pairs, on logs.

    Infinity where even MOST_REPEATS are too few.
    """
    n = np.arange(2, MOST_REPEATS + 1)
    half = t_quantile(n - 1) * spread / np.sqrt(n)
    enough = n[half <= np.log1p(half_width)]
    return int(enough[0]) if len(enough) else math.inf


def table(document: dict, jobs: pd.DataFrame) -> pd.DataFrame:
    """Return for each speedup of the study whose summary.json is `document` what ±1 % costs.

    jobs: its jobs.parquet. Columns: op, dtype, size, mode, baseline, metric, n, half_width (relative), repeats (for
    ±1 %; infinity for more than MOST_REPEATS), minutes (of a GPU, both arms; then of MOST_REPEATS), from_samples (the
    share of the variance that more samples would lower), spend ("repeats", "samples", or "enough"). Raises InputError
    where no speedup has two repeats.
    """
    # Their columns are named, as neither has any where nothing was measured or compared.
    drawn = pd.DataFrame(document["spread"], columns=[*KEY, "drawn"]).set_index(KEY).drawn
    speedups = pd.DataFrame(document["speedups"], columns=[*KEY, "baseline", "n", "ci_low", "ci_high"])
    timed = speedups.metric.isin(drawn.index.get_level_values("metric"))
    speedups = speedups[timed & (speedups["size"] != ALL) & (speedups.n > 1)].reset_index(drop=True)
    if speedups.empty:
        raise InputError(
            f"{document['study']['machine']}: no speedup has two repeats, and one alone has no spread; "
            "allowed: a study that has measured two modes of a cell in two repeats or more"
        )
    half = np.log(speedups.ci_high / speedups.ci_low) / 2
    spread = half * np.sqrt(speedups.n) / t_quantile(speedups.n - 1)
    repeats = pd.Series([repeats_needed(s) for s in spread], speedups.index)
    seconds = jobs.groupby([*CELL, "mode"])["seconds.wall"].median()
    arms = [speedups.assign(mode=speedups[arm]) for arm in ("mode", "baseline")]
    cost = sum(arm[[*CELL, "mode"]].merge(seconds.reset_index(), "left")["seconds.wall"] for arm in arms)
    of_samples = sum(arm[KEY].merge(drawn.reset_index(), "left").drawn ** 2 for arm in arms)
    share = (of_samples / spread**2).clip(0, 1)
    enough = repeats <= speedups.n
    return speedups[[*CELL, "mode", "baseline", "metric", "n"]].assign(
        half_width=np.expm1(half),
        repeats=repeats,
        minutes=repeats.clip(upper=MOST_REPEATS) * cost / 60,
        from_samples=share,
        spend=np.where(enough, "enough", np.where(share > 0.5, "samples", "repeats")),
    )


def report(study: dict, found: pd.DataFrame) -> list[Table | str]:
    """Return what to print of `found`, the `table` of a study, over the first baseline, by metric and mode.

    enough: the cells that have as many repeats as they need; then the (upper) median and the most that one needs, what
    all cells would cost, each with its own number, and what most of those that lack repeats should spend on.
    """
    first = found.baseline == study["baselines"][0]
    more, found = (~first).sum(), found[first]
    overview = Table(box=None, pad_edge=False)
    overview.add_column("metric", no_wrap=True)
    overview.add_column("mode", overflow="fold")  # A terminal that is too narrow takes a second line, and no numbers.
    for name in ("enough", "median", "most", "time", "spend"):
        overview.add_column(name, justify="right", no_wrap=True)
    for (metric, mode), rows in found.groupby(["metric", "mode"], sort=False):
        spend = rows.spend[rows.spend != "enough"].mode()
        overview.add_row(
            metric, mode, f"{(rows.spend == 'enough').sum()}/{len(rows)}", _count(median_high(rows.repeats)),
            _count(rows.repeats.max()), _time(rows), spend.iloc[0] if len(spend) else "–",
        )  # fmt: skip
    head = f"{study['machine']}: repeats for an interval of ±{HALF_WIDTH:.0%}, from the spread over {study['repeats']}"
    return [head, overview, *([f"{more} more, over other baselines, are in precision.csv alone"] if more else [])]


def _count(repeats: float) -> str:
    return f">{MOST_REPEATS}" if math.isinf(repeats) else f"{repeats:g}"


def _time(rows: pd.DataFrame) -> str:
    """Return the time that the repeats of all `rows` take, with > for more than: 80 columns have no room for words."""
    more = ">" if np.isinf(rows.repeats).any() else ""
    return more + duration(60 * rows.minutes.sum())
