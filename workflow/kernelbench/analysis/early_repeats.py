"""Early repeats: what the first repeats of a study alone say, where later ones came after a look at the data."""

import numpy as np
import pandas as pd

from kernelbench.analysis import intervals
from kernelbench.analysis.speedups import DECIDED
from kernelbench.study.cells import CONTROL, find_diagnosed
from kernelbench.study.metrics import ALL

# The repeats that the first recordings had.
FIRST = 5


def compare(study: dict, table: pd.DataFrame) -> list[dict]:
    """Return by metric how the verdicts of the first FIRST repeats over the first baseline compare with those of all.

    table: the study's speedups. decided: how many verdicts of faster or slower all repeats give; same: how many of
    these the first repeats give, too; undecided: how many they leave open; opposite: how many they turn round. Empty
    for a study that has no more repeats than FIRST.
    """
    if study["repeats"] <= FIRST:
        return []
    arms = [mode for mode in study["modes"] if mode == CONTROL or find_diagnosed(study, mode)]
    rows = table[(table.baseline == study["baselines"][0]) & (table["size"] != ALL) & (table.n > FIRST)]
    rows = rows[~rows["mode"].isin(arms) & rows.status.eq("ok")]
    return [{"metric": metric, **_compare(own)} for metric, own in rows.groupby("metric", sort=False)]


def _compare(rows: pd.DataFrame) -> dict[str, int]:
    early = [intervals.interval(pairs[pairs.index < FIRST].to_numpy()) for pairs in rows.pairs]
    p_holm = intervals.holm(np.array([own.p for own in early]))
    verdicts = [intervals.judge(*own, False) for own in zip(early, p_holm, rows.delta, strict=True)]
    both = [(full, first) for full, first in zip(rows.verdict, verdicts, strict=True) if full in DECIDED]
    same = sum(full == first for full, first in both)
    undecided = sum(first not in DECIDED for _, first in both)
    return {"decided": len(both), "same": same, "undecided": undecided, "opposite": len(both) - same - undecided}
