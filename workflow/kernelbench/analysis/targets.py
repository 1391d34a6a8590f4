"""Targets: what a mode of a study is to reach, set before it was tuned, and what it does reach.

A study's `targets` name the mode and, for some ops and sizes (all of them by default), what it is compared with: other
modes, or `limit`, the rate of the study's fastest copy or matrix product. `ratios` are of rates by device time, at
least; `calls` the host time of a call over that of another mode, in µs, at most. `must` was set as a goal, `aim` hoped
for. With `mean: true` the geometric mean over the sizes counts, else each size by itself, and so the worst of them; a
`floor` is what each must reach beside the mean. A `group` is judged as one: its cells are all sizes of its ops in all
their dtypes. With `best: true` the modes that are compared with count as one: in each cell the fastest of those that
ran there, by its point estimate. The interval does not know that it was chosen.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from kernelbench.analysis import boots, intervals
from kernelbench.analysis.measurements import Measurements
from kernelbench.analysis.rates import find_rates
from kernelbench.study.config import LIMIT

# What stands for the values of an arm that should have run and did not.
NOTHING = pd.Series(dtype=float)


def judge(data: Measurements, ceilings: dict) -> Iterator[dict]:
    """Yield what a mode reaches of each target for each (op, dtype), or group, that has a cell of it.

    kind: "ratios", or "calls" for µs; op, dtype: of a group its name and None; of: a mode, "limit", or of the best of
    several the list of them; must, aim: what is wanted, None where nothing was set; sizes: those that were measured, of
    a group the cells; reached, low, high: the mean, or that of the worst size, with its 95 % interval, from n repeats;
    worst: that size, None of a mean. Where a size should have run and did not nothing is reached.
    Only of a target with a floor: floor; least, least_at: the ratio of the worst size, and that size.
    """
    targets = data.study.get("targets", {})
    for kind in ("ratios", "calls"):
        for target in targets.get(kind, []):
            for op, dtype, cells, of in _expand(data.study, target):
                arms = {name: (*cell, targets["mode"]) for name, cell in cells.items()}
                found = {name: _compare_best(data, ceilings, kind, arm, of) for name, arm in arms.items()}
                found = {name: values for name, values in found.items() if values is not None}
                if found:
                    yield {
                        **{"kind": kind, "op": op, "dtype": dtype, "mode": targets["mode"], "of": of},
                        **{"must": target.get("must"), "aim": target.get("aim"), "sizes": list(found)},
                        **_reach(kind, target, found, data.boots),
                    }


def meets(row: dict) -> str:
    """Return which goal a row of `judge` reaches: "aim", "must", or neither, or not its floor ("missed")."""
    if holds_floor(row) is False:
        return "missed"
    for name in ("aim", "must"):
        goal, reached = row[name], row["reached"]
        if None not in (goal, reached) and (reached <= goal if row["kind"] == "calls" else reached >= goal):
            return name
    return "missed"


def holds_floor(row: dict) -> bool | None:
    """Return whether each cell of a row of `judge` reaches the floor, None where none was set."""
    floor, least = row.get("floor"), row.get("least")
    return None if floor is None else least is not None and least >= floor


def _expand(study: dict, target: dict) -> Iterator[tuple[str, str | None, dict[str, tuple], str | list[str]]]:
    """Yield each (op or group, dtype, cells by name, what they are compared with) that a target judges as one."""
    pairs = [(op, dtype) for op in target["ops"] for dtype in study["ops"][op].get("dtypes", study["dtypes"])]
    pools: dict[tuple[str, str | None], dict[str, tuple]] = {
        (op, dtype): {str(size): (op, dtype, str(size)) for size in target.get("sizes", study["ops"][op]["sizes"])}
        for op, dtype in pairs
    }
    if "group" in target:
        cells = [cell for pool in pools.values() for cell in pool.values()]
        pools = {(target["group"], None): {" ".join(cell): cell for cell in cells}}
    others = [target["of"]] if target.get("best") else target["of"]
    yield from ((*pool, cells, of) for pool, cells in pools.items() for of in others)


def _compare_best(data: Measurements, ceilings: dict, kind: str, arm: tuple, of: str | list[str]) -> pd.Series | None:
    """Return what `_compare` does, of several modes with the one that the arm stands worst to.

    A mode that did not run in this cell is left out.
    """
    modes = [of] if isinstance(of, str) else of
    found = [values for mode in modes if (values := _compare(data, ceilings, kind, arm, mode)) is not None]
    lost = any(values is NOTHING for values in found)
    return NOTHING if lost else min(found, key=np.mean, default=None)


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


def _reach(kind: str, target: dict, found: dict[str, pd.Series], of: pd.Series | None) -> dict:
    """Return the columns of a row of `judge` that say what is reached, of the values by size; of: the boots."""
    n = min(map(len, found.values()))
    found = {size: values if values is NOTHING else boots.average(values, of) for size, values in found.items()}
    lost = next((size for size, values in found.items() if values is NOTHING), None)
    if lost is not None:
        reached = (None, None, None, 0, lost)
    elif kind == "calls":
        reached = _judge_call(found)
    else:
        reached = _judge_mean(found) if target.get("mean") else _judge_worst(found)
    row = dict(zip(("reached", "low", "high", "n", "worst"), reached, strict=True)) | {"n": n}
    if "floor" not in target:
        return row
    least, *_, at = _judge_worst(found) if lost is None else (None, None)
    return row | {"floor": target["floor"], "least": least, "least_at": at}


def _judge_mean(logs: dict[str, pd.Series]) -> tuple:
    """Return (ratio, low, high, n, None) of the mean over the sizes of the log ratios, of the repeats that have all."""
    whole = intervals.interval(pd.concat(list(logs.values()), axis=1).dropna().mean(axis=1).to_numpy())
    return whole.estimate, whole.low, whole.high, whole.n, None


def _judge_worst(logs: dict[str, pd.Series]) -> tuple:
    """Return (ratio, low, high, n, worst size) of the log ratios by size."""
    worst = min(logs, key=lambda size: np.mean(logs[size]))
    found = intervals.interval(logs[worst].to_numpy())
    return found.estimate, found.low, found.high, found.n, worst


def _judge_call(times: dict[str, pd.Series]) -> tuple:
    """Return (µs, low, high, n, worst size) of the differences by size."""
    worst = max(times, key=lambda size: np.mean(times[size]))
    return *intervals.bounds(times[worst].to_numpy()), len(times[worst]), worst
