"""Means over cells: what a call takes on the host and what a first call takes, with intervals over the repeats."""

import numpy as np
import pandas as pd

from kernelbench import statistics
from kernelbench.study import CONTROL

METRICS = ("host", "first_call")


def about(data) -> pd.DataFrame:
    """Return {mode, metric, cells, n, estimate, ci_low, ci_high} of a summarize.Data, means over the cells.

    The mean over the cells of a repeat is one value: cells were chosen, and are no sample of others.
    metric: host in µs and first_call in s, both geometric; excess: the µs by which the host time of a cell exceeds that
    of the first baseline, arithmetic, as it may be negative. cells: those that have a value in each repeat, without
    what the baseline alone ran. Of one repeat there is no interval.
    """
    baseline, found = data.study["baselines"][0], []
    for mode in data.study["modes"]:
        if mode == CONTROL:
            continue
        for metric in METRICS:
            logs = _logs(data, mode, metric)
            if logs.size:
                of = statistics.interval(logs.mean(axis=1).to_numpy())
                found.append([mode, metric, logs.shape[1], of.n, of.estimate, of.low, of.high])
        more = (np.exp(_logs(data, mode, "host")) - np.exp(_logs(data, baseline, "host"))).dropna(axis=1)
        if mode != baseline and more.size:
            found.append([mode, "excess", more.shape[1], len(more), *statistics.bounds(more.mean(axis=1).to_numpy())])
    return pd.DataFrame(found, columns=["mode", "metric", "cells", "n", "estimate", "ci_low", "ci_high"])


def _logs(data, mode: str, metric: str) -> pd.DataFrame:
    """Return logarithms of times, a row per repeat and a column per cell."""
    compared = {row[:3] for row in data.rows if row[3] not in (CONTROL, data.study["baselines"][0])}
    rows = {row[:3]: data.values(row, metric) for row in data.rows if row[3] == mode and row[:3] in compared}
    return pd.DataFrame({cell: values for cell, values in rows.items() if values is not None}).dropna(axis=1)
