"""Rows of summary.json: those that are wanted, and their op by its label."""

import statistics

from kernelbench import notes
from kernelbench.study import CONTROL

VERDICTS = ("faster", "slower", "equivalent", "inconclusive")
TIMES = ("device", "latency")


def label_of(document: dict, row: dict) -> str:
    """Return the name of a row's op, with its dtype where the op was measured in several."""
    dtypes = {other["dtype"] for other in document["summary"] if other["op"] == row["op"]}
    return f"{row['op']}, {row['dtype']}" if len(dtypes) > 1 else row["op"]


def speedups(document: dict, **wanted) -> list[dict]:
    """Return the rows of speedups that have the wanted values, without the A/A arm unless asked for."""
    return [
        row
        for row in document["speedups"]
        if all(row[key] == value for key, value in wanted.items())
        and (row["mode"] != CONTROL or wanted.get("mode") == CONTROL)
    ]


def is_flagged(row: dict) -> bool:
    """Say whether the repeats of a speedup fall into two peaks, or one is far off: its interval promises too much."""
    return notes.find(row["notes"], *notes.FLAGS) is not None


def spread(values) -> dict:
    """Return how many values there are, their median, the least and the greatest."""
    values = list(values)
    return {"cells": len(values), "median": statistics.median(values), "low": min(values), "high": max(values)}
