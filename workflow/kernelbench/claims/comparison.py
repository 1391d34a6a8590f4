"""Again: what a paper says of a recorded study of which a part was measured again."""

import pandas as pd

from kernelbench.analysis.measurements import Measurements
from kernelbench.claims import remeasure
from kernelbench.claims.rules import OPEN
from kernelbench.records.job_table import FLOOR, LAUNCH
from kernelbench.study.metrics import LESS_FLOOR


def findings(recorded: Measurements, again: Measurements, documents: list[dict], claims: list[dict]) -> dict:
    """Return what the second study, of a part of the first, says of it.

    documents: both summary.json, the recorded one first; claims: those of claims.yaml.

    repeats, jobs: of the second; cells, of: how many it has, of how many; shared: whether a GPU is in both; hours: from
    the start of the one to that of the other; metrics: by metric {figures, confirmed, contradicted, open, covers} as
    remeasure.compare counts them; floors, launches: medians of an empty pair of events and of the launch of an empty
    kernel in µs, recorded first, empty where a study does not say; differ: {op, dtype, size} of figures over the first
    baseline that device times less their floor contradict; claims: how many by what follows, as remeasure.judge says.
    """
    figures = remeasure.compare(recorded, again)
    baseline = again.study["baselines"][0]
    cells, known = ({row[:3] for row in data.arms if row[3] != baseline} for data in (again, recorded))
    gpus = [set(data.environment.get("gpu_uuids", [])) for data in (recorded, again)]
    began = [pd.Timestamp(data.environment["first_started"]) for data in (recorded, again)]
    rows = figures[(figures.metric == LESS_FLOOR) & (figures.outcome == remeasure.CONTRADICTED)]
    differ = rows[rows.baseline == baseline][["op", "dtype", "size"]].drop_duplicates()
    follows = [told[-1] for told in remeasure.judge(claims, *documents)]
    return {
        "repeats": again.study["repeats"],
        "jobs": len(again.jobs),
        "cells": len(cells),
        "of": len(known),
        "shared": bool(gpus[0] & gpus[1]),
        "hours": (began[1] - began[0]).total_seconds() / 3600,
        "metrics": {metric: _counts(rows) for metric, rows in figures.groupby("metric", sort=False)},
        "floors": _medians(FLOOR, recorded, again),
        "launches": _medians(LAUNCH, recorded, again),
        "differ": differ.to_dict("records"),
        "claims": {word: follows.count(word) for word in ("confirms", "refutes again", "contradicts", OPEN)},
    }


def _counts(rows: pd.DataFrame) -> dict:
    outcomes = {word: int((rows.outcome == word).sum()) for word in (remeasure.CONFIRMED, remeasure.CONTRADICTED)}
    left = len(rows) - sum(outcomes.values())
    return {"figures": len(rows), **outcomes, "open": left, "covers": int(rows.covers_zero.sum())}


def _medians(column: str, *studies: Measurements) -> list[float]:
    found = [float(data.jobs[column].median()) for data in studies if column in data.jobs]
    return found if len(found) == len(studies) else []
