"""Speedups: the table of each arm over each baseline, with intervals, verdicts and what the A/A arm says of δ."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from kernelbench import notes
from kernelbench.analysis import boots, intervals
from kernelbench.analysis.intervals import Interval
from kernelbench.analysis.measurements import STATUSES, Measurements
from kernelbench.notes import Note
from kernelbench.study.cells import ARM, CONTROL, TWIN, find_diagnosed
from kernelbench.study.metrics import ALL

COLUMNS = [
    *ARM, "baseline", "metric", "n", "boots", "speedup", "ci_low", "ci_high", "p", "p_holm", "verdict", "cause",
    "status", "notes", "hl", "hl_low", "hl_high", "delta", "compared",
]  # fmt: skip
# What tells the rows apart.
KEY = [*ARM, "baseline", "metric"]


def tabulate(data: Measurements) -> tuple[pd.DataFrame, dict]:
    """Return the table of speedups, and what the A/A arm says by metric.

    Beside its COLUMNS a row has `pairs`, the log speedup by repeat, None where there is none.
    """
    others = filter(None, (find_diagnosed(data.study, mode) for mode in data.study["modes"]))
    workers, rows = _count_workers(data), []
    for baseline in dict.fromkeys([*data.study["baselines"], *others]):
        arms = [arm for arm in data.arms if is_comparable(data, arm, baseline)]
        for metric in data.metrics:
            rows += [_compare_arm(data, arm, baseline, metric, workers) for arm in arms]
            rows += _average_sizes(data, arms, baseline, metric)
    table = pd.DataFrame(rows, columns=[*COLUMNS, "pairs"])
    controls = _judge_controls(table, data)
    # One family for each (baseline, metric); A/A, diagnostic arms and means over sizes are families of their own. What
    # gets no verdict is not tested.
    tested = table.p.where(table.notes.map(_find_floor).isna())
    diagnostic = table["mode"].map(lambda mode: find_diagnosed(data.study, mode) is not None)
    for _, family in table.groupby(["baseline", "metric", table["mode"] == CONTROL, table["size"] == ALL, diagnostic]):
        table.loc[family.index, "p_holm"] = intervals.holm(tested[family.index].to_numpy())
    table["verdict"] = [_judge(row, controls) for row in table.itertuples()]
    return table, controls


def select_tested(study: dict, table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows over the first baseline that have a verdict: of single sizes, without A/A and diagnostic arms."""
    arms = [mode for mode in study["modes"] if mode == CONTROL or find_diagnosed(study, mode)]
    over = table[
        (table.baseline == study["baselines"][0]) & (table["size"] != ALL) & table.verdict.ne("") & (table.n > 1)
    ]
    return over[~over["mode"].isin(arms)]


def is_comparable(data: Measurements, arm: tuple, baseline: str) -> bool:
    """Say whether an arm has a speedup over `baseline`; a diagnostic one only over the mode that it diagnoses."""
    *cell, mode = arm
    allowed = [find_diagnosed(data.study, mode)] if find_diagnosed(data.study, mode) else data.study["baselines"]
    return mode != baseline and baseline in allowed and (*cell, baseline) in data.status


def _compare_arm(data: Measurements, arm: tuple, baseline: str, metric: str, workers: dict) -> list:
    status, reason = data.status_of(arm, metric)
    other, why = data.status_of((*arm[:3], baseline), metric)
    if STATUSES.index(other) > STATUSES.index(status):
        status, reason = other, notes.OfBaseline(baseline, why)
    pairs = data.pairs(arm, baseline, metric)
    own, others = workers.get(arm), workers.get((*arm[:3], baseline))
    # First calls do not compare if both compile in different numbers of processes; diagnostic arms show what that does.
    if (
        metric == "first_call"
        and None not in (own, others)
        and own != others
        and not find_diagnosed(data.study, arm[3])
    ):
        pairs, status, reason = None, "unsupported", notes.WorkersDiffer(own, baseline, others)
    floor = None if pairs is None else _note_floor(data, arm, baseline, metric)
    return _make_row(data, arm, baseline, metric, pairs, status, [reason, floor])


def _note_floor(data: Measurements, arm: tuple, baseline: str, metric: str) -> Note | None:
    other = data.find_near_floor((*arm[:3], baseline), metric)
    return data.find_near_floor(arm, metric) or (notes.OfBaseline(baseline, other) if other else None)


def _find_floor(found: list[Note]) -> Note | None:
    """Return the note of a row whose device times are too short for a verdict."""
    return notes.find_of_either(found, notes.NearFloor)


def _count_workers(data: Measurements) -> dict[tuple, float]:
    """Return in how many processes each arm that compiles does so; older records do not say, and mean one."""
    jobs = data.jobs.reindex(columns=[*ARM, "compile.graphs", "compile.workers"]).dropna(subset=["compile.graphs"])
    return jobs.fillna({"compile.workers": 1}).groupby(ARM)["compile.workers"].first().to_dict()


def _average_sizes(data: Measurements, arms: list[tuple], baseline: str, metric: str) -> Iterator[list]:
    """Yield the rows `all`: the mean of the log speedups over the sizes of an op, by repeat."""
    # The few cells of a diagnostic arm are not the sizes of its op.
    arms = [arm for arm in arms if not find_diagnosed(data.study, arm[3])]
    for op, dtype, mode in dict.fromkeys((op, dtype, mode) for op, dtype, _, mode in arms):
        every = list(dict.fromkeys(arm[2] for arm in data.arms if arm[:2] == (op, dtype)))
        # A mode, or the baseline, may be one that the study has at some sizes alone.
        sizes = [s for s in every if all((op, dtype, s, each) in data.status for each in (mode, baseline))]
        if len(sizes) < 2:
            continue
        found = {s: data.pairs((op, dtype, s, mode), baseline, metric) for s in sizes}
        statuses = {s: [data.status_of((op, dtype, s, each), metric)[0] for each in (mode, baseline)] for s in sizes}
        missing = [s for s in sizes if found[s] is None or set(statuses[s]) != {"ok"}]
        pairs = None if missing else pd.concat(list(found.values()), axis=1).dropna().mean(axis=1)
        status = max((each for own in statuses.values() for each in own), key=STATUSES.index)
        said = [notes.SizesNotOk(missing)] if missing else []
        if pairs is not None:
            said += [
                next(filter(None, (_note_floor(data, (op, dtype, s, mode), baseline, metric) for s in sizes)), None)
            ]
        if len(sizes) < len(every):
            said.append(notes.SizesNotMeasured([s for s in every if s not in sizes], len(sizes)))
        yield _make_row(data, (op, dtype, ALL, mode), baseline, metric, pairs, status, said)


def _make_row(data, arm, baseline, metric, pairs, status, said: Sequence[Note | None]) -> list:
    head, kept = [*arm, baseline, metric], [note for note in said if note]
    compared = _are_compared(data, arm, baseline)
    if pairs is None:
        return [*head, 0, None, *[np.nan] * 5, "", "", status, kept, *[np.nan] * 3, data.delta(metric), compared, None]
    logs = boots.average(pairs, data.boots).to_numpy()
    found, exact = intervals.interval(logs), intervals.hodges_lehmann(logs)
    kept += filter(None, [None if arm[2] == ALL else note_pairs(pairs), _note_exact(found, exact)])
    numbers = [len(pairs), boots.count(pairs, data.boots), found.estimate, found.low, found.high, found.p, np.nan]
    return [*head, *numbers, "", "", status, kept, *exact, data.delta(metric), compared, pairs]


def _are_compared(data: Measurements, arm: tuple, baseline: str) -> bool | None:
    """Say whether the outputs of an arm and of its baseline were compared; of a mean, those at all sizes."""
    op, dtype, size, mode = arm
    sizes = {each[2] for each in data.arms if each[:2] == (op, dtype)} if size == ALL else {size}
    found = [data.compared.get((op, dtype, each, side)) for each in sizes for side in (mode, baseline)]
    return None if None in found and size != ALL else all(each is not False for each in found)


def note_peaks(logs: pd.Series) -> Note | None:
    """Return a note where the repeats fall into two groups: no interval is honest about those."""
    found = intervals.two_peaks(logs.to_numpy())
    return notes.TwoPeaks(found.lower, found.upper, round_digits(100 * (found.ratio - 1))) if found else None


def note_pairs(pairs: pd.Series) -> Note | None:
    """Return a note where the pairs fall into two groups or some are far off, as times may be by their block alone."""
    far = intervals.far_off(pairs.to_numpy())
    return note_peaks(pairs) or (notes.FarOff(far, len(pairs), intervals.FAR) if far else None)


def _note_exact(found: Interval, exact: tuple[float, float, float]) -> Note | None:
    """Return a note where only one of the two intervals, Student's and the exact one, holds a speedup of 1."""
    _, low, high = exact
    disagrees = not np.isnan(low) and (found.low <= 1 <= found.high) != (low <= 1 <= high)
    return notes.ExactIntervalDisagrees() if disagrees else None


def _judge_controls(table: pd.DataFrame, data: Measurements) -> dict:
    """Return for each metric the 95th percentile of |speedup - 1| (on logs) of A/A, and whether δ stands the test."""
    arm = table[(table["mode"] == CONTROL) & (table.baseline == TWIN) & (table["size"] != ALL) & table.speedup.notna()]
    controls = {}
    for metric, rows in arm.groupby("metric", sort=False):
        p95 = round_digits(np.expm1(np.quantile(np.abs(np.log(rows.speedup)), 0.95)))
        controls[metric] = {"cells": len(rows), "p95": p95, "supports_delta": p95 <= data.delta(metric)}
    return controls


def _judge(row, controls: dict) -> str:
    if row.status != "ok" or not row.n or _find_floor(row.notes):
        return ""
    found = Interval(row.n, row.speedup, row.ci_low, row.ci_high, row.p)
    supported = controls.get(row.metric, {}).get("supports_delta", True)
    return intervals.judge(found, row.p_holm, row.delta, supported)


def average_arms(table: pd.DataFrame, data: Measurements) -> Iterator[dict]:
    """Yield by diagnostic arm and metric the mean over its cells of its speedup over what it diagnoses, if all ran."""
    study = data.study
    for mode in filter(lambda mode: find_diagnosed(study, mode), study["modes"]):
        for metric, rows in table[table["mode"] == mode].groupby("metric", sort=False):
            if len(rows) > 1 and rows.pairs.notna().all():
                logs = pd.concat(list(rows.pairs), axis=1).dropna().mean(axis=1)
                found = intervals.interval(boots.average(logs, data.boots).to_numpy())
                own = {
                    "n": len(logs),
                    "boots": boots.count(logs, data.boots),
                    "speedup": found.estimate,
                    "ci_low": found.low,
                    "ci_high": found.high,
                }
                yield {
                    "mode": mode,
                    "baseline": find_diagnosed(study, mode),
                    "metric": metric,
                    "cells": len(rows),
                    **own,
                }


def list_peaks(table: pd.DataFrame) -> list[dict]:
    """Return the speedups whose pairs fall into two groups or are far off, with the speedup of each repeat."""
    rows = table[(table["size"] != ALL) & table.pairs.notna()]
    rows = rows[rows.pairs.map(note_pairs).notna()] if len(rows) else rows
    points = [[round_digits(speedup) for speedup in np.exp(pairs)] for pairs in rows.pairs]
    return rows[KEY].assign(points=points).to_dict("records")


def round_digits(value: float) -> float:
    """Return a number with six significant digits: more than any interval here supports, equal on any machine."""
    return float(f"{value:.6g}")
