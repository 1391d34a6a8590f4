"""The effect of the GPU: whether it matters on which GPU a repeat ran, and how far apart speedups are on two GPUs."""

from collections import defaultdict

import numpy as np
import pandas as pd

from kernelbench.analysis import intervals
from kernelbench.analysis.boots import UUID, find_boots
from kernelbench.analysis.measurements import Measurements
from kernelbench.analysis.speedups import round_digits, select_tested
from kernelbench.analysis.verdicts import DECIDED, compare_verdicts
from kernelbench.study.cells import ARM
from kernelbench.study.metrics import ALL


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


def compare_clustered(data: Measurements, table: pd.DataFrame) -> list[dict]:
    """Return by metric what becomes of the verdicts over the first baseline with GPUs in the place of repeats.

    An interval over GPUs, each with the mean of its repeats, reaches other GPUs and their hosts, as one over boots
    does; older records do not name boots. gpus: how many there are; beside it what compare_verdicts returns, and
    `changed`: {op, dtype, size, mode, verdict, clustered} of each verdict that is another. Empty where one GPU has all
    repeats.
    """
    gpus = find_boots(data.jobs, (UUID,))
    if gpus is None or gpus.nunique() < 2:
        return []
    found = []
    for metric, rows in select_tested(data.study, table).groupby("metric", sort=False):
        means = [pairs.groupby(gpus.reindex(pairs.index)).mean().to_numpy() for pairs in rows.pairs]
        own = [intervals.interval(each) for each in means]
        p_holm = intervals.holm(np.array([each.p for each in own]))
        clustered = [intervals.judge(*each, False) for each in zip(own, p_holm, rows.delta, strict=True)]
        rows = rows.assign(clustered=clustered)
        changed = rows[rows.verdict.isin(DECIDED) & (rows.verdict != rows.clustered)]
        said = changed[[*ARM, "verdict", "clustered"]].to_dict("records")
        found.append(
            {"metric": metric, "gpus": int(gpus.nunique())}
            | compare_verdicts(rows.verdict, clustered)
            | {"changed": said}
        )
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
