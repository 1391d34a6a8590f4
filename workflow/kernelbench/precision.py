"""Precision: how many repeats a speedup needs for a narrow interval, what they cost, and where to spend the time.

Two levels vary, repeats and the samples within them (Kalibera and Jones 2013). A repeat costs the start, the
compilation and the checks of two jobs; a sample next to nothing. More samples help only as far as the spread between
repeats is that of their medians.
"""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
from rich.table import Table

from kernelbench.jobs import CELL
from kernelbench.progress import duration
from kernelbench.statistics import t_quantile

# The half width that is asked for, relative.
HALF_WIDTH = 0.01
MOST_REPEATS = 1000
KEY = [*CELL, "mode", "metric"]
ALL = "all"
# The variance of the median of m normal samples is this times theirs over m.
MEDIAN_VARIANCE = math.pi / 2


def repeats_needed(spread: float, half_width: float = HALF_WIDTH) -> int:
    """Return the least n whose interval is no wider than ± `half_width`; spread: standard deviation of pairs, on logs.

    MOST_REPEATS where even that many are too few.
    """
    n = np.arange(2, MOST_REPEATS + 1)
    half = t_quantile(n - 1) * spread / np.sqrt(n)
    enough = n[half <= np.log1p(half_width)]
    return int(enough[0]) if len(enough) else MOST_REPEATS


def table(directory: Path) -> pd.DataFrame:
    """Return for each speedup of the study in `directory` what ±1 % costs.

    Reads summary.json and jobs.parquet. Columns: op, dtype, size, mode, baseline, metric, n, half_width
    (relative), repeats (for ±1 %), minutes (of a GPU, both arms), from_samples (the share of the variance that more
    samples would lower), spend ("repeats", "samples", or "enough").
    """
    document = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    drawn = pd.DataFrame(document["spread"]).set_index(KEY).drawn
    speedups = pd.DataFrame(document["speedups"])
    timed = speedups.metric.isin(drawn.index.get_level_values("metric"))
    speedups = speedups[timed & (speedups["size"] != ALL) & (speedups.n > 1)].reset_index(drop=True)
    half = np.log(speedups.ci_high / speedups.ci_low) / 2
    spread = half * np.sqrt(speedups.n) / t_quantile(speedups.n - 1)
    repeats = pd.Series([repeats_needed(s) for s in spread], speedups.index)
    seconds = pd.read_parquet(directory / "jobs.parquet").groupby([*CELL, "mode"])["seconds.wall"].median()
    arms = [speedups.assign(mode=speedups[arm]) for arm in ("mode", "baseline")]
    cost = sum(arm[[*CELL, "mode"]].merge(seconds.reset_index(), "left")["seconds.wall"] for arm in arms)
    of_samples = sum(arm[KEY].merge(drawn.reset_index(), "left").drawn ** 2 for arm in arms)
    share = (of_samples / spread**2).clip(0, 1)
    enough = repeats <= speedups.n
    return speedups[[*CELL, "mode", "baseline", "metric", "n"]].assign(
        half_width=np.expm1(half),
        repeats=repeats,
        minutes=repeats * cost / 60,
        from_samples=share,
        spend=np.where(enough, "enough", np.where(share > 0.5, "samples", "repeats")),
    )


def report(directory: Path) -> list[Table | str]:
    """Return what to print of `table`, over the first baseline, by metric and mode.

    enough: the cells that have as many repeats as they need; then the median and the most that one needs, what all
    cells would cost, each with its own number, and what most of those that lack repeats should spend on.
    """
    study = json.loads((directory / "summary.json").read_text(encoding="utf-8"))["study"]
    found = table(directory)
    found = found[found.baseline == study["baselines"][0]]
    overview = Table(box=None, pad_edge=False)
    for name in ("metric", "mode"):
        overview.add_column(name, no_wrap=True)
    for name in ("enough", "median", "most", "GPU time", "spend"):
        overview.add_column(name, justify="right", no_wrap=True)
    for (metric, mode), rows in found.groupby(["metric", "mode"], sort=False):
        spend = rows.spend[rows.spend != "enough"].mode()
        overview.add_row(
            metric, mode, f"{(rows.spend == 'enough').sum()}/{len(rows)}", f"{rows.repeats.median():g}",
            f"{rows.repeats.max()}", duration(60 * rows.minutes.sum()), spend.iloc[0] if len(spend) else "–",
        )  # fmt: skip
    head = f"{study['machine']}: repeats for an interval of ±{HALF_WIDTH:.0%}, from the spread over {study['repeats']}"
    return [head, overview]
