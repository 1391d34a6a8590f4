"""Summarize: from raw samples to summary.csv, speedups.csv and summary.json.

Reads samples.parquet, jobs.parquet, study.yaml and environment.json of a directory and nothing else; the same
samples always give the same tables.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from kernelbench import notes
from kernelbench.analysis import (
    boots,
    compilation,
    early_repeats,
    gpu_effect,
    intervals,
    job_report,
    load_traces,
    payback,
    speedups,
    targets,
)  # fmt: skip
from kernelbench.analysis.causes import explain
from kernelbench.analysis.measurements import Measurements
from kernelbench.analysis.rates import find_ceilings, find_rates
from kernelbench.analysis.speedups import note_peaks, round_digits
from kernelbench.notes import Note
from kernelbench.study.cells import ARM
from kernelbench.study.metrics import DERIVED, MEASURED

COLUMNS = [*ARM, "metric", "unit", "n", "boots", "estimate", "ci_low", "ci_high", "status", "notes", "compared"]
SPREAD = [*ARM, "metric", "n", "samples", "within", "between", "drawn"]
# What the median absolute deviation of normal values is multiplied by to be their standard deviation.
NORMAL_MAD = 1.4826


def summarize(directory: Path) -> tuple[pd.DataFrame, pd.DataFrame, dict]:
    """Return (summary, speedups, summary.json's content) of the measurements in `directory`."""
    data = Measurements(directory)
    ceilings = find_ceilings(data)
    table, controls = speedups.tabulate(data)
    causes = explain(data, table)
    machine = data.study["machine"]
    summary = pd.DataFrame(_summary_rows(data, ceilings), columns=COLUMNS)
    summary.insert(0, "machine", machine)
    document = {
        "study": data.study,
        "environment": data.environment,
        "boots": None if data.boots is None else int(data.boots.nunique()),
        "ceilings": ceilings,
        "control": controls,
        "arms": _plain(pd.DataFrame(speedups.average_arms(table, data))),
        "by_gpu": gpu_effect.compare(data, table),
        "clustered": gpu_effect.compare_clustered(data, table),
        "first_repeats": early_repeats.compare(data.study, table),
        "peaks": speedups.list_peaks(table),
        "causes": causes,
        "spread": _plain(_spread(data)),
        "payback": _plain(payback.tabulate(data, table)),
        "traces": load_traces.summarize(data.jobs),
        "jobs": job_report.summarize(data.jobs),
        "packages": job_report.list_packages(data.jobs),
        "compilation": compilation.summarize(data.jobs, data.arms, data.study["baselines"][0]),
        "targets": _plain(pd.DataFrame(targets.judge(data, ceilings))),
    }
    table = table[speedups.COLUMNS]
    table.insert(0, "machine", machine)
    return summary, table, document | {"summary": _plain(summary), "speedups": _plain(table)}


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write `table` with six significant digits; notes become `reason`, their text, and truth values yes or no."""
    if "notes" in table:
        table = table.assign(notes=table.notes.map(notes.say)).rename(columns={"notes": "reason"})
    if "compared" in table:
        table = table.assign(compared=table.compared.map({True: "yes", False: "no"}))
    table.to_csv(path, index=False, float_format="%.6g", lineterminator="\n")


def _plain(table: pd.DataFrame) -> list[dict]:
    """Return rows as JSON can hold them: floats to six digits, None for a missing one, notes as `notes.dump` has them.

    `reason` is the text of the notes for people, as in the CSV; no code reads it.
    """
    rows = table.astype(object).where(table.notna(), None).to_dict("records")
    rows = [row | {"reason": notes.say(row["notes"])} if "notes" in row else row for row in rows]
    return [{k: round_digits(v) if isinstance(v, float) else notes.dump(v) for k, v in row.items()} for row in rows]


def _summary_rows(data: Measurements, ceilings: dict) -> Iterator[list]:
    for arm in data.arms:
        for metric in data.metrics:
            status, reason = data.status_of(arm, metric)
            values = data.values(arm, metric)
            said = [reason]
            if values is not None:
                share = data.uncovered.get((*arm, metric))
                said += [data.find_near_floor(arm, metric), notes.Uncovered(share) if share else None]
                said += [note_peaks(values)]
            yield _summary_row(data, arm, metric, MEASURED[metric], values, status, said)
        values = data.values(arm, data.device_metric)
        if values is None:
            continue
        for metric, rates in find_rates(data, arm, values, ceilings).items():
            status, reason = data.status_of(arm, data.device_metric)
            yield _summary_row(data, arm, metric, DERIVED[metric], rates, status, [reason])


def _summary_row(data, arm, metric, unit, values, status, said: list[Note | None]) -> list:
    last = [status, [note for note in said if note], data.compared[arm]]
    if values is None:
        return [*arm, metric, unit, 0, None, np.nan, np.nan, np.nan, *last]
    found = intervals.interval(boots.average(values, data.boots).to_numpy())
    count = boots.count(values, data.boots)
    return [*arm, metric, unit, len(values), count, found.estimate, found.low, found.high, *last]


def _spread(data: Measurements) -> pd.DataFrame:
    """Return by arm and metric the spread of times on logs, as standard deviations.

    n: repeats; samples: in a repeat; within: of a repeat's samples, by a robust estimate; between: of the repeats'
    medians; drawn: as much of that as the medians of so many samples would have by themselves.
    """
    key = [*ARM, "metric", "repeat"]
    logs = data.samples[key].assign(log=np.log(data.samples["value"].where(data.samples["value"] > 0)))
    middle = logs.groupby(key, observed=True)["log"].transform("median")
    away = logs.assign(log=(logs["log"] - middle).abs()).groupby(key, observed=True)["log"]
    repeats = pd.DataFrame({"within": away.median() * NORMAL_MAD, "samples": away.size()})
    repeats = repeats[repeats.samples > 1]
    typical = repeats.groupby(key[:-1], observed=True).median()
    rows = [
        [*arm, metric, len(values), samples, inner, values.std(), np.sqrt(intervals.MEDIAN_VARIANCE / samples) * inner]
        for arm in data.arms
        for metric in data.metrics
        if (*arm, metric) in typical.index and (values := data.values(arm, metric)) is not None
        for inner, samples in [typical.loc[(*arm, metric)]]
    ]
    return pd.DataFrame(rows, columns=SPREAD)
