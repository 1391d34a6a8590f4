"""The effect of the GPU: whether it matters on which GPU a repeat ran, and how far apart speedups are on two GPUs."""

from collections import defaultdict

import numpy as np
import pandas as pd

from kernelbench.analysis import intervals
from kernelbench.analysis.measurements import Measurements
from kernelbench.analysis.speedups import round_digits
from kernelbench.study.cells import ARM
from kernelbench.study.metrics import ALL

UUID = "environment.gpu.uuid"


def compare(data: Measurements, table: pd.DataFrame) -> dict[str, dict]:
    """Return by metric how the speedups of cells over the first baseline differ between GPUs; table: speedups.

    of, apart: how many speedups have two GPUs with two repeats each at least, and of how many of these the means of the
    GPUs differ, by an analysis of variance (one way) with p < 0.05; median, p95: how far apart the least and the
    greatest of these means are, as a share, over the cells.
    """
    if UUID not in data.jobs:
        return {}
    gpus = data.jobs.set_index([*ARM, "repeat"])[UUID].unstack("repeat")
    rows = table[(table.baseline == data.study["baselines"][0]) & (table["size"] != ALL) & (table.n > 1)]
    rows = rows[~rows.metric.isin(["first_call", "peak_memory"])]
    found = {}
    for metric, own in rows.groupby("metric", sort=False):
        pairs = [
            pairs.set_axis(gpus.loc[tuple(arm)].reindex(pairs.index))
            for *arm, pairs in own[[*ARM, "pairs"]].itertuples(index=False)
        ]
        if any(each.index.nunique() > 1 for each in pairs):
            found[metric] = {**_count_apart(pairs), **_describe_ranges(pairs)}
    return found


def _count_apart(pairs: list[pd.Series]) -> dict:
    alike = defaultdict(list)  # What ran on the same GPUs is tested in one go.
    for own in pairs:
        if np.ptp(own) > 0:
            alike[tuple(own.index)].append(own.to_numpy())
    of = apart = 0
    for where, logs in alike.items():
        groups = [np.stack(logs, axis=1)[np.equal(where, gpu)] for gpu in set(where) if where.count(gpu) > 1]
        if len(groups) > 1:
            of += len(logs)
            apart += int((intervals.one_way(groups) < intervals.SIGNIFICANCE).sum())
    return {"of": of, "apart": apart}


def _describe_ranges(pairs: list[pd.Series]) -> dict:
    means = [own.groupby(level=0).mean()[own.groupby(level=0).size() > 1] for own in pairs]
    ranges = [np.expm1(np.ptp(own)) for own in means if len(own) > 1]
    if not ranges:
        return {"median": None, "p95": None}
    return {"median": round_digits(np.median(ranges)), "p95": round_digits(np.quantile(ranges, 0.95))}
