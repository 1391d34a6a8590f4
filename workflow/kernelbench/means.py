"""Means over cells: what a call takes on the host and what a first call takes, with intervals over the repeats."""

from itertools import pairwise

import numpy as np
import pandas as pd

from kernelbench import statistics
from kernelbench.study import CONTROL, layers

METRICS = ("host", "first_call")


def about(data) -> pd.DataFrame:
    """Return {mode, metric, over, cells, n, estimate, ci_low, ci_high} of a summarize.Data, means over the cells.

    The mean over the cells of a repeat is one value: cells were chosen, and are no sample of others.
    metric: host in µs and first_call in s, both geometric; excess: the µs by which the host time of a cell exceeds that
    of the mode `over`, a baseline or the layer of the compiler before, arithmetic, as it may be negative. cells: those
    that have a value in each repeat, without what the baseline alone ran. Of one repeat there is no interval.
    """
    found = []
    for mode in data.study["modes"]:
        if mode == CONTROL:
            continue
        for metric in METRICS:
            logs = _logs(data, mode, metric)
            if logs.size:
                of = statistics.interval(logs.mean(axis=1).to_numpy())
                found.append([mode, metric, "", logs.shape[1], of.n, of.estimate, of.low, of.high])
        for over in _beside(data.study, mode):
            more = (np.exp(_logs(data, mode, "host")) - np.exp(_logs(data, over, "host"))).dropna(axis=1)
            if more.size:
                of = statistics.bounds(more.mean(axis=1).to_numpy())
                found.append([mode, "excess", over, more.shape[1], len(more), *of])
    return pd.DataFrame(found, columns=["mode", "metric", "over", "cells", "n", "estimate", "ci_low", "ci_high"])


def _beside(study: dict, mode: str) -> list[str]:
    """Return the modes that the host time of `mode` is set beside: the baselines, the layer of the compiler before."""
    if mode == study["baselines"][0]:
        return []
    before = [other for other, own in pairwise(layers(study)) if own == mode]
    return [other for other in dict.fromkeys([*study["baselines"], *before]) if other != mode]


def _logs(data, mode: str, metric: str) -> pd.DataFrame:
    """Return logarithms of times, a row per repeat and a column per cell."""
    compared = {row[:3] for row in data.rows if row[3] not in (CONTROL, data.study["baselines"][0])}
    rows = {row[:3]: data.values(row, metric) for row in data.rows if row[3] == mode and row[:3] in compared}
    return pd.DataFrame({cell: values for cell, values in rows.items() if values is not None}).dropna(axis=1)
