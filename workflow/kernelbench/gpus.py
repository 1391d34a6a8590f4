"""GPUs: whether it matters on which GPU a repeat ran, and which verdicts hold with the GPU as the unit."""

from collections import defaultdict

import numpy as np
import pandas as pd
from scipy import stats

from kernelbench import statistics
from kernelbench.causes import DECIDED
from kernelbench.study import CONTROL, diagnosed
from kernelbench.words import ALL

UUID = "environment.gpu.uuid"
# Of fewer values an interval says next to nothing.
FEWEST = 3


def about(data, table: pd.DataFrame) -> dict[str, dict]:
    """Return by metric what the GPUs make of the speedups over the first baseline, those of `table`, of cells alone.

    data: a summarize.Data. of, apart: for how many there are two GPUs with two repeats each at least, and for how many
    of those the means of the GPUs differ, by an analysis of variance (one way) with p < 0.05; gpus: of how many GPUs
    the mean of their repeats is then one value, 0 below FEWEST and where each has one repeat; decided: how many
    verdicts of faster or slower there are; lost: those that are others by the values of the GPUs, with Holm's
    correction, [{op, dtype, size, mode}]; equivalent: how many verdicts of equivalent; wider: those whose interval by
    the values of the GPUs is not within ±δ, likewise.
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
            found[metric] = {**_apart(pairs.values()), **_as_unit(data, rows, pairs)}
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
            apart += int((stats.f_oneway(*groups, axis=0).pvalue < statistics.SIGNIFICANCE).sum())
    return {"of": of, "apart": apart}


def _as_unit(data, rows: pd.DataFrame, pairs: dict[int, pd.Series]) -> dict:
    # The family of the table's own verdicts: without A/A and diagnostic arms.
    rows = rows[[mode != CONTROL and diagnosed(data.study, mode) is None for mode in rows["mode"]]]
    means = {index: pairs[index].groupby(level=0).mean().to_numpy() for index in rows.index}
    gpus = min(map(len, means.values()), default=0)
    if gpus < FEWEST or gpus == rows.n.max():
        return {"gpus": 0, "decided": 0, "lost": [], "equivalent": 0, "wider": []}
    intervals = [statistics.interval(logs) for logs in means.values()]
    p_holm = statistics.holm([own.p for own in intervals])
    verdicts = [statistics.verdict(own, p, 0, False) for own, p in zip(intervals, p_holm, strict=True)]
    decided, equivalent = rows.verdict.isin(DECIDED), rows.verdict == "equivalent"
    bounds = 1 + rows.delta
    inside = ([own.low for own in intervals] >= 1 / bounds) & ([own.high for own in intervals] <= bounds)
    lost, wider = (
        rows[which][["op", "dtype", "size", "mode"]].to_dict("records")
        for which in (decided & (rows.verdict != verdicts), equivalent & ~inside)
    )
    return {
        "gpus": gpus,
        "decided": int(decided.sum()),
        "lost": lost,
        "equivalent": int(equivalent.sum()),
        "wider": wider,
    }
