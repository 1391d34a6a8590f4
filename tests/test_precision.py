"""Precision: how many repeats an interval needs, and whether repeats or samples would narrow it."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from records import CONFIG, small_study, tables, write_records
from rich.console import Console

from kernelbench.analysis.intervals import interval
from kernelbench.errors import InputError
from kernelbench.notes import NeedsDevice
from kernelbench.planning.precision import HALF_WIDTH, MOST_REPEATS, count_needed, report, tabulate
from kernelbench.study.study import Study

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("spread", "n"), [(0.0, 2), (0.0005, 2), (0.01, 7), (0.02, 18), (1.0, math.inf)])
def test_repeats_needed_by_hand(spread, n):
    # At 0.01: t(6) · 0.01 / √7 = 0.0092 is below log 1.01 = 0.00995, t(5) · 0.01 / √6 = 0.0105 is not.
    assert count_needed(spread) == n


def test_as_many_repeats_as_said_give_the_interval_that_was_asked_for():
    rng = np.random.default_rng(0)
    n = count_needed(0.01)
    pairs = rng.normal(0, 1, (2000, n))
    pairs *= 0.01 / pairs.std(axis=1, ddof=1)[:, None]
    found = [interval(logs) for logs in pairs]
    assert all(f.high / f.estimate <= 1 + HALF_WIDTH + 1e-9 for f in found)


def summarized(study, directory) -> tuple[dict, pd.DataFrame]:
    """Return (summary.json's content, jobs.parquet) of the records below `directory`, and write both there."""
    document = tables(study, directory)[2]
    (directory / "summary.json").write_text(json.dumps(document))
    return document, pd.read_parquet(directory / "jobs.parquet")


def measured(monkeypatch, directory, between: float, within: float, repeats: int = 8) -> tuple[dict, pd.DataFrame]:
    """Summarize a study whose repeats and samples vary by these standard deviations, on logs."""
    rng = np.random.default_rng(1)
    study = small_study(monkeypatch)
    study = Study({**study.config, "machine": "h200", "repeats": repeats})

    def vary(job, entry):
        middle = 40 * np.exp(rng.normal(0, between))
        values = (middle * np.exp(rng.normal(0, within, 101))).tolist()
        entry["samples"]["device"] = {"unit": "us", "values": values, "flags": [""] * 101}

    write_records(study, directory, vary)
    return summarized(study, directory)


@pytest.mark.parametrize(
    ("between", "within", "spend", "share"),
    [(0.05, 0.01, "repeats", (0, 0.2)), (0.0, 0.3, "samples", (0.5, 1)), (0.0001, 0.001, "enough", (0, 1))],
)
def test_samples_help_only_where_they_are_what_varies(monkeypatch, tmp_path, between, within, spend, share):
    found = tabulate(*measured(monkeypatch, tmp_path, between, within))
    of_device = found[(found.metric == "device") & (found.baseline == "eager")]
    assert (of_device.spend == spend).mean() > 0.6
    assert share[0] <= of_device.from_samples.median() <= share[1]
    minutes = of_device.repeats * 2 * 1.0 / 60  # Each job of these records took a second.
    assert of_device.minutes.to_numpy() == pytest.approx(minutes.to_numpy())


def test_the_spread_is_that_of_samples_and_repeats(monkeypatch, tmp_path):
    document, _ = measured(monkeypatch, tmp_path, 0.05, 0.02, repeats=40)
    rows = [row for row in document["spread"] if row["metric"] == "device" and row["op"] == "softmax"]
    assert np.mean([row["within"] for row in rows]) == pytest.approx(0.02, rel=0.1)
    assert np.mean([row["between"] for row in rows]) == pytest.approx(0.05, rel=0.15)
    assert {row["samples"] for row in rows} == {101} and {row["n"] for row in rows} == {40}


def test_more_repeats_than_are_looked_at_are_told_as_more_and_so_is_their_time(monkeypatch, tmp_path):
    document, jobs = measured(monkeypatch, tmp_path, 1.0, 0.001)
    of_all = tabulate(document, jobs)
    found = of_all[(of_all.metric == "device") & (of_all.baseline == "eager") & (of_all["mode"] == "compile")]
    assert (found.repeats > MOST_REPEATS).all() and (found.minutes == MOST_REPEATS * 2 * 1.0 / 60).all()
    console = Console(width=80)
    with console.capture() as capture:
        console.print(report(document["study"], of_all)[1])
    lines = [" ".join(line.split()) for line in capture.get().splitlines()]
    # Two cells of 1000 repeats, which are two jobs of a second each.
    assert "device compile 0/2 >1000 >1000 >1 h 07 min repeats" in lines
    assert "latency compile 2/2" in " ".join(lines)
    assert not any(">" in line for line in lines if line.startswith("latency"))


def unsupported(job, entry):
    entry |= {"status": "unsupported", "reason": NeedsDevice("", ["cuda"], "cpu").to_json()}


@pytest.mark.parametrize(
    ("changes", "change"),
    [
        ({"repeats": 1}, lambda job, entry: None),
        ({"modes": {"eager": {"runner": "eager"}}, "baselines": ["eager"]}, lambda job, entry: None),
        ({}, unsupported),
    ],
    ids=["one repeat", "one mode", "nothing supported"],
)
def test_where_no_speedup_has_two_repeats_one_line_says_so(monkeypatch, tmp_path, changes, change):
    study = Study({**small_study(monkeypatch).config, **changes})
    write_records(study, tmp_path, change)
    with pytest.raises(InputError, match=r"^h200: no speedup has two repeats, .*; allowed: a study that has measured"):
        tabulate(*summarized(study, tmp_path))


SCRIPT = [sys.executable, str(ROOT / "workflow" / "scripts" / "precision.py"), "--data"]


def test_the_command_prints_a_table_and_says_where_there_is_nothing(tmp_path):
    recorded = [str(ROOT / "results" / "recorded" / name) for name in CONFIG["recorded"]]
    done = subprocess.run([*SCRIPT, str(tmp_path), *recorded], capture_output=True, text=True)
    assert done.returncode == 0 and "h200: repeats for an interval of ±1%" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    none = subprocess.run([*SCRIPT, str(tmp_path)], capture_output=True, text=True)
    assert none.returncode != 0 and "nothing measured here" in none.stderr and "Traceback" not in none.stderr


def test_a_run_that_is_under_way_is_told_by_its_tables_and_not_by_the_study_that_it_grows_to(monkeypatch, tmp_path):
    document, _ = measured(monkeypatch, tmp_path, 0.01, 0.01)
    grown = {**document["study"], "ops": {**document["study"]["ops"], "softmax": {"rows": 8, "sizes": [512, 4096]}}}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(grown))
    done = subprocess.run([*SCRIPT, str(tmp_path)], capture_output=True, text=True)
    assert "h200: repeats for an interval of ±1%, from the spread over 8" in done.stdout, done.stderr
