"""Targets: what a mode of a study is to reach, set before it was tuned, and what it does reach.

A study's `targets` name the mode and, for some ops and sizes (all of them by default), what it is compared with: other
modes, or `limit`, the rate of the study's fastest copy or matrix product. `ratios` are of rates by device time, at
least; `calls` the host time of a call over that of another mode, in µs, at most. `must` was set as a goal, `aim` hoped
for. With `mean: true` the geometric mean over the sizes counts, else each size by itself, and so the worst of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from kernelbench.analysis import intervals

# What stands for the values of a row that should have run and did not.
NOTHING = pd.Series(dtype=float)


@dataclass(frozen=True)
class Judged:
    """What a mode reaches of one target for one (op, dtype).

    kind: "ratios", or "calls" for µs; of: a mode, or "limit"; must, aim: what is wanted, None where nothing was set;
    sizes: those that were measured; reached, low, high: the mean, or that of the worst size, with its 95 % interval,
    from n repeats; worst: that size, None of a mean. Where a size should have run and did not nothing is reached.
    """

    kind: str
    op: str
    dtype: str
    mode: str
    of: str
    must: float | None
    aim: float | None
    sizes: list[str]
    reached: float | None
    low: float | None
    high: float | None
    n: int
    worst: str | None


def judged(study: dict, by_kind: dict[str, Callable[[tuple, str], pd.Series | None]]) -> list[dict]:
    """Return each target of a study's mapping for each (op, dtype) that has a size of it, as the mapping of a Judged.

    by_kind: what returns by repeat how a row (op, dtype, size, mode) stands to a mode or the limit: of "ratios" their
    logs, of "calls" the differences in µs; None where there is nothing to stand to, NOTHING where the row did not run.
    """
    targets = study.get("targets", {})
    return [
        asdict(found)
        for kind, values in by_kind.items()
        for target in targets.get(kind, [])
        for found in _of(study, target, kind, targets["mode"], values)
    ]


def met(row: dict) -> str:
    """Return which goal the mapping of a Judged reaches: "aim", "must", or neither ("missed")."""
    for name in ("aim", "must"):
        goal, reached = row[name], row["reached"]
        if None not in (goal, reached) and (reached <= goal if row["kind"] == "calls" else reached >= goal):
            return name
    return "missed"


def _of(study: dict, target: dict, kind: str, mode: str, values: Callable) -> Iterator[Judged]:
    for op in target["ops"]:
        entry = study["ops"][op]
        for dtype in entry.get("dtypes", study["dtypes"]):
            for of in target["of"]:
                rows = {str(size): (op, dtype, str(size), mode) for size in target.get("sizes", entry["sizes"])}
                found = {size: series for size, row in rows.items() if (series := values(row, of)) is not None}
                lost = [size for size, series in found.items() if series is NOTHING]
                if found:
                    judge = _excess if kind == "calls" else _ratio
                    reached = (list(found), None, None, None, 0, lost[0]) if lost else judge(target, found)
                    yield Judged(kind, op, dtype, mode, of, target.get("must"), target.get("aim"), *reached)


def _ratio(target: dict, logs: dict[str, pd.Series]) -> tuple:
    """Return (sizes, ratio, low, high, n, worst size) of the log ratios by size."""
    if target.get("mean"):
        whole = intervals.interval(pd.concat(list(logs.values()), axis=1).dropna().mean(axis=1).to_numpy())
        return list(logs), whole.estimate, whole.low, whole.high, whole.n, None
    worst = min(logs, key=lambda size: np.mean(logs[size]))
    found = intervals.interval(logs[worst].to_numpy())
    return list(logs), found.estimate, found.low, found.high, found.n, worst


def _excess(target: dict, times: dict[str, pd.Series]) -> tuple:
    """Return (sizes, µs, low, high, n, worst size) of the differences by size."""
    worst = max(times, key=lambda size: np.mean(times[size]))
    return list(times), *intervals.bounds(times[worst].to_numpy()), len(times[worst]), worst
