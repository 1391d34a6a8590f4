"""Early repeats: what the first repeats of a study alone say, where later ones came after a look at the data."""

import numpy as np
import pandas as pd

from kernelbench.analysis import intervals
from kernelbench.analysis.speedups import select_tested
from kernelbench.analysis.verdicts import compare_verdicts


def compare(study: dict, table: pd.DataFrame) -> list[dict]:
    """Return for each look and metric how the verdicts of the repeats before it compare with those of all repeats.

    table: the study's speedups, of which those over the first baseline are compared. repeats: how many there were at
    the look, as the study's `looks` say; beside it what compare_verdicts returns. Empty for a study without looks.
    """
    rows = select_tested(study, table)
    return [
        {"repeats": look, "metric": metric, **compare_verdicts(own.verdict, _judge_before(look, own))}
        for look in study.get("looks", [])
        for metric, own in rows[rows.n > look].groupby("metric", sort=False)
    ]


def _judge_before(look: int, rows: pd.DataFrame) -> list[str]:
    """Return the verdicts of rows of the table by the repeats before a look, as one family."""
    early = [intervals.interval(pairs[pairs.index < look].to_numpy()) for pairs in rows.pairs]
    p_holm = intervals.holm(np.array([own.p for own in early]))
    return [intervals.judge(*own, False) for own in zip(early, p_holm, rows.delta, strict=True)]
