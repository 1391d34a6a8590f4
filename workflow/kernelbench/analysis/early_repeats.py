"""Sensitivity: what the first repeats of a study alone say, where later ones came after a look at the data."""

import pandas as pd

from kernelbench.analysis import intervals
from kernelbench.analysis.causes import DECIDED
from kernelbench.study.cells import CONTROL, diagnosed
from kernelbench.study.metrics import ALL

# The repeats that the first recordings had.
FIRST = 5


def first_repeats(data, table: pd.DataFrame) -> list[dict]:
    """Return by metric how the verdicts of the first FIRST repeats over the first baseline compare with those of all.

    data: a summarize.Data; table: its speedups. decided: how many verdicts of faster or slower all repeats give; same:
    how many of these the first repeats give, too; undecided: how many they leave open; opposite: how many they turn
    round. Empty for a study that has no more repeats than FIRST.
    """
    if data.study["repeats"] <= FIRST:
        return []
    arms = [mode for mode in data.study["modes"] if mode == CONTROL or diagnosed(data.study, mode)]
    rows = table[(table.baseline == data.study["baselines"][0]) & (table["size"] != ALL) & (table.n > FIRST)]
    rows = rows[~rows["mode"].isin(arms) & rows.status.eq("ok")]
    return [{"metric": metric, **_compare(data, own)} for metric, own in rows.groupby("metric", sort=False)]


def _compare(data, rows: pd.DataFrame) -> dict[str, int]:
    early = []
    for row in rows.itertuples():
        pairs = data.pairs_of((row.op, row.dtype, row.size, row.mode), row.baseline, row.metric)
        early.append(intervals.interval(pairs[pairs.index < FIRST].to_numpy()))
    p_holm = intervals.holm([own.p for own in early])
    verdicts = [
        intervals.verdict(own, p, delta, False) for own, p, delta in zip(early, p_holm, rows.delta, strict=True)
    ]
    both = [(full, first) for full, first in zip(rows.verdict, verdicts, strict=True) if full in DECIDED]
    same = sum(full == first for full, first in both)
    undecided = sum(first not in DECIDED for _, first in both)
    return {"decided": len(both), "same": same, "undecided": undecided, "opposite": len(both) - same - undecided}
