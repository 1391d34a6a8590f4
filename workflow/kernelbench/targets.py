"""Targets: ratios of device time that a mode of a study is to reach, set before it was tuned, and what it does reach.

A study's `targets` name the mode and, for some ops and sizes (all of them by default), what it is compared with: other
modes, or `limit`, the rate of the study's fastest copy or matrix product. `must` was set as a goal, `aim` hoped for.
With `mean: true` the geometric mean over the sizes counts, else each size by itself, and so the worst of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from kernelbench import statistics


@dataclass(frozen=True)
class Judged:
    """What a mode reaches of one target for one (op, dtype).

    of: a mode, or "limit"; must, aim: the ratios wanted, None where none was set; sizes: those that were measured;
    ratio, low, high: the mean, or that of the worst size, with its 95 % interval, from n repeats; worst: that size,
    None of a mean.
    """

    op: str
    dtype: str
    mode: str
    of: str
    must: float | None
    aim: float | None
    sizes: list[str]
    ratio: float
    low: float
    high: float
    n: int
    worst: str | None


def judged(study: dict, ratios: Callable[[tuple, str], pd.Series | None]) -> list[dict]:
    """Return each target of a study's mapping for each (op, dtype) that has a size of it, as the mapping of a Judged.

    ratios: returns the log ratios by repeat of a row (op, dtype, size, mode) to a mode or the limit, None without any.
    """
    targets = study.get("targets", {"ratios": []})
    return [asdict(found) for target in targets["ratios"] for found in _of(study, target, targets["mode"], ratios)]


def _of(study: dict, target: dict, mode: str, ratios: Callable) -> Iterator[Judged]:
    for op in target["ops"]:
        entry = study["ops"][op]
        for dtype in entry.get("dtypes", study["dtypes"]):
            for of in target["of"]:
                rows = {str(size): (op, dtype, str(size), mode) for size in target.get("sizes", entry["sizes"])}
                found = {size: logs for size, row in rows.items() if (logs := ratios(row, of)) is not None}
                if found:
                    yield Judged(op, dtype, mode, of, target.get("must"), target.get("aim"), *_reached(target, found))


def _reached(target: dict, logs: dict[str, pd.Series]) -> tuple:
    """Return (sizes, ratio, low, high, n, worst size) of the log ratios by size."""
    if target.get("mean"):
        whole = statistics.interval(pd.concat(list(logs.values()), axis=1).dropna().mean(axis=1).to_numpy())
        return list(logs), whole.estimate, whole.low, whole.high, whole.n, None
    worst = min(logs, key=lambda size: np.mean(logs[size]))
    found = statistics.interval(logs[worst].to_numpy())
    return list(logs), found.estimate, found.low, found.high, found.n, worst
