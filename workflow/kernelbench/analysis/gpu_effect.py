"""GPUs: whether it matters on which GPU a repeat ran, and how far apart speedups are on different GPUs."""

from collections import defaultdict

import numpy as np
import pandas as pd

from kernelbench.analysis import intervals
from kernelbench.study.metrics import ALL

UUID = "environment.gpu.uuid"


def about(data, table: pd.DataFrame) -> dict[str, dict]:
    """Return by metric what the GPUs make of the speedups over the first baseline, those of `table`, of cells alone.

    data: a summarize.Data. of, apart: for how many there are two GPUs with two repeats each at least, and for how many
    of those the means of the GPUs differ, by an analysis of variance (one way) with p < 0.05; median, p95: of how far
    apart the least and the greatest of these means are, as a share, over the cells.
    """
    if UUID not in data.jobs:
        return {}
    gpus = {row: own.set_index("repeat")[UUID] for row, own in data.jobs.groupby(["op", "dtype", "size", "mode"])}
    table = table[(table.baseline == data.study["baselines"][0]) & (table["size"] != ALL) & (table.n > 1)]
    table = table[~table.metric.isin(["first_call", "peak_memory"])]
    found = {}
    for metric, rows in table.groupby("metric", sort=False):
        pairs = {}
        for row in rows.itertuples():
            own = data.pairs_of((row.op, row.dtype, row.size, row.mode), row.baseline, metric)
            pairs[row.Index] = own.set_axis(gpus[row.op, row.dtype, row.size, row.mode].reindex(own.index))
        if any(own.index.nunique() > 1 for own in pairs.values()):
            found[metric] = {**_apart(pairs.values()), **_spread(pairs.values())}
    return found


def _apart(pairs) -> dict:
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


def _spread(pairs) -> dict:
    ranges = []
    for own in pairs:
        gpus = own.groupby(level=0)
        means = gpus.mean()[gpus.size() > 1]
        if len(means) > 1:
            ranges.append(np.expm1(np.ptp(means)))
    if not ranges:
        return {"median": None, "p95": None}
    return {"median": float(f"{np.median(ranges):.6g}"), "p95": float(f"{np.quantile(ranges, 0.95):.6g}")}
