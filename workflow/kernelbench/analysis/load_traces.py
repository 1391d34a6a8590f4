"""Traces: what a load of some seconds does to a call, for the modes that have `trace_seconds`."""

import json
from dataclasses import asdict

import numpy as np
import pandas as pd

from kernelbench.analysis import intervals
from kernelbench.analysis.speedups import round_digits
from kernelbench.study.cells import ARM

# The beginning and the end of a trace, in s, of which the medians are compared.
BEGINNING, END = 0.25, 1.0
STATE = ("sm_clock", "power", "temperature")


def summarize(jobs: pd.DataFrame) -> list[dict]:
    """Return for each (cell, mode) that was traced {op, dtype, size, mode, seconds, slowdown, begins, ends, points}.

    slowdown: time of a call at the end over that at the beginning, with its interval over the repeats; begins, ends:
    medians over the repeats of what a call takes (µs) and, on a GPU, its SM clock (MHz), power (W) and temperature
    (°C); points: the trace of the first repeat.
    """
    if "trace" not in jobs:
        return []
    found = []
    for key, own in jobs.dropna(subset=["trace"]).groupby(ARM):
        series = [pd.DataFrame(json.loads(text)) for text in own.sort_values("repeat").trace]
        begins = pd.DataFrame([of[of["at"] <= max(BEGINNING, of["at"].min())].median() for of in series])
        ends = pd.DataFrame([of[of["at"] >= of["at"].max() - END].median() for of in series])
        found.append(
            {
                **dict(zip(ARM, key, strict=True)),
                "seconds": _digits(series[0]["at"].max()),
                "slowdown": {k: _digits(v) for k, v in asdict(_slowdown(begins, ends)).items()},
                "begins": _state(begins),
                "ends": _state(ends),
                "points": [{k: _digits(v) for k, v in point.items()} for point in series[0].to_dict("records")],
            }
        )
    return found


def _slowdown(begins: pd.DataFrame, ends: pd.DataFrame) -> intervals.Interval:
    return intervals.interval((np.log(ends["call"]) - np.log(begins["call"])).to_numpy())


def _state(medians: pd.DataFrame) -> dict:
    return {name: _digits(medians[name].median()) for name in ("call", *STATE) if name in medians}


def _digits(value: float) -> float | None:
    return None if pd.isna(value) else round_digits(value)  # JSON knows no NaN.
