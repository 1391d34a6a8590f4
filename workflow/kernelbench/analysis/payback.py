"""Payback: after how many calls a mode has paid for its longer first call, over the first baseline."""

from dataclasses import astuple, replace

import numpy as np
import pandas as pd

from kernelbench.analysis import boots, intervals
from kernelbench.analysis.measurements import Measurements
from kernelbench.analysis.speedups import KEY, is_comparable
from kernelbench.study.cells import ARM

COLUMNS = [*ARM, "metric", "n", "cost", "saved", "kind", "calls", "low", "high"]
# The times of a call of which it is said when what they save has paid for the compilation.
PAID_BY = ("device", "latency", "throughput")


def tabulate(data: Measurements, speedups: pd.DataFrame) -> pd.DataFrame:
    """Return COLUMNS for each compiled arm and time of a call.

    cost: how much longer its first call is, in s; saved: what a call takes less, in µs; kind, calls, low, high: as in
    intervals.Payback, but open where the verdict of the table of speedups, which is corrected for the number of cells,
    does not agree.
    """
    baseline, found = data.study["baselines"][0], []
    verdicts = speedups.set_index(KEY).verdict
    compiled = [mode for mode, entry in data.study["modes"].items() if entry["runner"] == "compile"]
    for arm in (arm for arm in data.arms if arm[3] in compiled and is_comparable(data, arm, baseline)):
        for metric in (metric for metric in PAID_BY if metric in data.metrics):
            values = [data.values(each, m) for m in ("first_call", metric) for each in (arm, (*arm[:3], baseline))]
            if any(each is None for each in values):
                continue
            pairs = np.exp(pd.concat(values, axis=1).dropna())
            times = boots.average(pairs, data.boots).to_numpy()
            if len(times) > 1:
                cost, saved = times[:, 0] - times[:, 1], times[:, 3] - times[:, 2]
                paid = intervals.payback(cost * 1e6, saved)
                if verdicts.loc[(*arm, baseline, metric)] != {"after": "faster", "never": "slower"}.get(paid.kind):
                    paid = replace(paid, kind="open", calls=np.nan, high=np.nan)
                found.append([*arm, metric, len(pairs), cost.mean(), saved.mean(), *astuple(paid)])
    return pd.DataFrame(found, columns=COLUMNS)
