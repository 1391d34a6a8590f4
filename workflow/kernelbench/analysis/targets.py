"""Targets: what a mode of a study is to reach, set before it was tuned, and what it does reach.

A study's `targets` name the mode and, for some ops and sizes (all of them by default), what it is compared with: other
modes, or `limit`, the rate of the study's fastest copy or matrix product. `ratios` are of rates by device time, at
least; `calls` the host time of a call over that of another mode, in µs, at most. `must` was set as a goal, `aim` hoped
for. With `mean: true` the geometric mean over the sizes counts, else each size by itself, and so the worst of them.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from kernelbench.analysis import intervals
from kernelbench.analysis.measurements import Measurements
from kernelbench.analysis.rates import find_rates
from kernelbench.study.config import LIMIT

# What stands for the values of an arm that should have run and did not.
NOTHING = pd.Series(dtype=float)


def judge(data: Measurements, ceilings: dict) -> Iterator[dict]:
    """Yield what a mode reaches of each target for each (op, dtype) that has a size of it.

    kind: "ratios", or "calls" for µs; of: a mode, or "limit"; must, aim: what is wanted, None where nothing was set;
    sizes: those that were measured; reached, low, high: the mean, or that of the worst size, with its 95 % interval,
    from n repeats; worst: that size, None of a mean. Where a size should have run and did not nothing is reached.
    """
    targets = data.study.get("targets", {})
    for kind, judge_sizes in (("ratios", _judge_ratio), ("calls", _judge_call)):
        for target in targets.get(kind, []):
            for op, dtype, of in _expand(data.study, target):
                sizes = map(str, target.get("sizes", data.study["ops"][op]["sizes"]))
                arms = {size: (op, dtype, size, targets["mode"]) for size in sizes}
                found = {size: _compare(data, ceilings, kind, arm, of) for size, arm in arms.items()}
                found = {size: values for size, values in found.items() if values is not None}
                lost = [size for size, values in found.items() if values is NOTHING]
                if found:
                    reached = (None, None, None, 0, lost[0]) if lost else judge_sizes(target, found)
                    yield {
                        **{"kind": kind, "op": op, "dtype": dtype, "mode": targets["mode"], "of": of},
                        **{"must": target.get("must"), "aim": target.get("aim"), "sizes": list(found)},
                        **dict(zip(("reached", "low", "high", "n", "worst"), reached, strict=True)),
                    }


def meets(row: dict) -> str:
    """Return which goal a row of `judge` reaches: "aim", "must", or neither ("missed")."""
    for name in ("aim", "must"):
        goal, reached = row[name], row["reached"]
        if None not in (goal, reached) and (reached <= goal if row["kind"] == "calls" else reached >= goal):
            return name
    return "missed"


def _expand(study: dict, target: dict) -> Iterator[tuple[str, str, str]]:
    """Yield each (op, dtype, what it is compared with) of a target."""
    for op in target["ops"]:
        for dtype in study["ops"][op].get("dtypes", study["dtypes"]):
            yield from ((op, dtype, of) for of in target["of"])


def _compare(data: Measurements, ceilings: dict, kind: str, arm: tuple, of: str) -> pd.Series | None:
    """Return by repeat how an arm stands to another mode or the limit: the log of a ratio, or a difference in µs.

    None where there is nothing to compare, NOTHING where the arm should have run and did not.
    """
    metric = data.device_metric if kind == "ratios" else "host"
    own = _run(data, arm, metric)
    if of == LIMIT:
        return own if own is None or own is NOTHING else find_rates(data, arm, own, ceilings).get("roofline")
    other = _run(data, (*arm[:3], of), metric)
    if own is None or other is None or (other is NOTHING and own is not NOTHING):
        return None
    if own is NOTHING:
        return None if kind == "calls" and other is NOTHING else NOTHING
    return data.pairs(arm, of, metric) if kind == "ratios" else (np.exp(own) - np.exp(other)).dropna()


def _run(data: Measurements, arm: tuple, metric: str) -> pd.Series | None:
    """Return an arm's values: NOTHING of one that failed, None of one that cannot run or is not in the study."""
    if arm not in data.status or data.status_of(arm, metric)[0] == "unsupported":
        return None
    values = data.values(arm, metric)
    return NOTHING if values is None else values


def _judge_ratio(target: dict, logs: dict[str, pd.Series]) -> tuple:
    """Return (ratio, low, high, n, worst size) of the log ratios by size."""
    if target.get("mean"):
        whole = intervals.interval(pd.concat(list(logs.values()), axis=1).dropna().mean(axis=1).to_numpy())
        return whole.estimate, whole.low, whole.high, whole.n, None
    worst = min(logs, key=lambda size: np.mean(logs[size]))
    found = intervals.interval(logs[worst].to_numpy())
    return found.estimate, found.low, found.high, found.n, worst


def _judge_call(target: dict, times: dict[str, pd.Series]) -> tuple:
    """Return (µs, low, high, n, worst size) of the differences by size."""
    worst = max(times, key=lambda size: np.mean(times[size]))
    return *intervals.bounds(times[worst].to_numpy()), len(times[worst]), worst
