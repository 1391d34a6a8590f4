"""A trace is compared at its beginning and its end, over the repeats."""

import json

import pandas as pd
import pytest

from kernelbench.analysis.load_traces import summarize


def jobs(*ends: float) -> pd.DataFrame:
    """Return a repeat for each of `ends`: calls of 100 µs that take so many from 2 s on, clocks that fall with them."""
    rows = []
    for repeat, end in enumerate(ends):
        at = [t / 10 for t in range(1, 51)]
        points = [{"at": t, "call": 100 if t < 2 else end, "sm_clock": 1980 if t < 2 else 1500} for t in at]
        rows.append({"op": "matmul", "dtype": "float16", "size": "512", "mode": "long", "repeat": repeat})
        rows[-1]["trace"] = json.dumps(points)
    rows.append({**rows[0], "mode": "eager", "trace": None})
    return pd.DataFrame(rows)


def test_the_end_is_compared_with_the_beginning_over_the_repeats():
    (found,) = summarize(jobs(110.0, 121.0, 110.0))
    assert (found["mode"], found["seconds"], len(found["points"])) == ("long", 5.0, 50)
    assert found["slowdown"]["n"] == 3
    assert found["slowdown"]["estimate"] == pytest.approx((1.1 * 1.21 * 1.1) ** (1 / 3), rel=1e-5)
    assert found["slowdown"]["low"] < 1.1 < found["slowdown"]["high"]
    assert found["begins"] == {"call": 100, "sm_clock": 1980} and found["ends"] == {"call": 110, "sm_clock": 1500}


def test_one_repeat_has_no_interval_and_a_study_without_traces_none():
    (found,) = summarize(jobs(110.0))
    assert found["slowdown"]["low"] is None and json.dumps(found, allow_nan=False)
    assert summarize(jobs(110.0).drop(columns="trace")) == []
