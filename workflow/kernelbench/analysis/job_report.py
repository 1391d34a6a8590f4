"""What the jobs of a study say of themselves: what each cost, and what speaks against its times.

Older records say neither: then there is nothing to tell, and not zero.
"""

import pandas as pd

from kernelbench.records.job_table import find_durations, find_starts
from kernelbench.study.cells import CELL

PARTS = ("overhead", "compilation", "measurement", "wall")


def summarize(jobs: pd.DataFrame) -> dict:
    """Return {costs, suspects, repeats}: what the jobs cost, which are in doubt, and where each repeat comes from."""
    return {"costs": _costs(jobs), "suspects": _suspects(jobs), "repeats": _repeats(jobs)}


def _repeats(jobs: pd.DataFrame) -> list[dict]:
    """Return for each repeat {repeat, started, ended, minutes, gpus, jobs, again, suspect}.

    minutes: of its jobs together; again, suspect: how many of them were measured again, are suspect (None: not told).
    """
    uuid, tries = "environment.gpu.uuid", jobs.get("process.again", pd.Series(index=jobs.index, dtype=object))
    seconds, found = find_durations(jobs), []
    again = [isinstance(out, list) and bool(out) for out in tries]
    for repeat, own in jobs.assign(again=again, took=seconds, ended=find_starts(jobs) + seconds).groupby("repeat"):
        gpus = sorted(set(own[uuid].dropna())) if uuid in own else []
        found.append(
            {
                "repeat": repeat,
                "started": min(own.started),
                "ended": own.ended.max().isoformat(timespec="seconds"),
                "minutes": round(own["took"].dt.total_seconds().sum() / 60, 1),
                "gpus": gpus,
                "jobs": len(own),
                "again": int(own.again.sum()),
                "suspect": int(own.suspect.map(bool).sum()) if "suspect" in own else None,
            }
        )
    return found


def _costs(jobs: pd.DataFrame) -> dict:
    """Return by mode {jobs, median (s of each part), minutes (of each part, of all its jobs)}."""
    columns = [f"seconds.{part}" for part in PARTS]
    if not set(columns) <= set(jobs):
        return {}
    found = {}
    for mode, seconds in jobs.dropna(subset=columns).groupby("mode")[columns]:
        seconds.columns = PARTS
        minutes = seconds.sum() / 60
        found[mode] = {"jobs": len(seconds), "median": seconds.median().to_dict(), "minutes": minutes.to_dict()}
    return found


def _suspects(jobs: pd.DataFrame) -> dict | None:
    """Return {jobs, of, kinds}: how many of the jobs that ran are suspect, and by code of the note {jobs, cells}.

    cells: [{op, dtype, size, jobs, of, modes}], the most jobs first; modes: those with such a job, None for all.
    """
    if "suspect" not in jobs:
        return None
    ran = jobs[jobs.status == "ok"]
    kinds = [sorted({note.code for note in said or ()}) for said in ran.suspect]
    each = ran.assign(kind=kinds).explode("kind").dropna(subset=["kind"])
    found = {kind: {"jobs": len(own), "cells": _cells(own, ran)} for kind, own in each.groupby("kind")}
    return {"jobs": sum(map(bool, kinds)), "of": len(ran), "kinds": found}


def _cells(hit: pd.DataFrame, ran: pd.DataFrame) -> list[dict]:
    found = []
    for cell, own in hit.groupby(CELL):
        all_of_it = ran[(ran[CELL] == list(cell)).all(axis=1)]
        modes = sorted(set(own["mode"]))
        found.append(
            {
                **dict(zip(CELL, cell, strict=True)),
                "jobs": len(own),
                "of": len(all_of_it),
                "modes": modes if len(modes) < all_of_it["mode"].nunique() else None,
            }
        )
    return sorted(found, key=lambda cell: -cell["jobs"])


def list_packages(jobs: pd.DataFrame) -> dict[str, str]:
    """Return the versions of the packages that modes brought along, beside PyTorch and what is in the lock."""
    columns = [column for column in jobs if column.startswith("library.")]
    return {column.partition(".")[2]: ", ".join(sorted(set(jobs[column].dropna()))) for column in columns}
