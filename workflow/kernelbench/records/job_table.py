"""What the jobs of a study say of themselves: what each cost, and what speaks against its times.

Older records say neither: then there is nothing to tell, and not zero.
"""

import json
from pathlib import Path

import pandas as pd

from kernelbench import notes, old_records

PARTS = ("overhead", "compilation", "measurement", "wall")
CELL = ["op", "dtype", "size"]
# What the device's timer reads where nothing is between its two events, in µs.
FLOOR = "floors.event_pair"
# What an empty kernel took to launch, in µs.
LAUNCH = "floors.launch"


def read(path: Path, columns: list[str] | None = None) -> pd.DataFrame:
    """Return the jobs of a jobs.parquet, or these columns of them, with notes in the place of JSON.

    reason, graph.reason: a Note or None; suspect: a list of them; process.again: a list of {doubts, seconds, medians}.
    """
    jobs = pd.read_parquet(path, columns=columns)
    readers = {"reason": _note, "graph.reason": _note, "suspect": _notes, "process.again": _tries}
    found = {name: jobs[name].map(read, na_action="ignore") for name, read in readers.items() if name in jobs}
    # As objects: pandas would make a column of nothing but None one of numbers.
    return jobs.assign(**{name: own.astype(object).where(own.notna(), None) for name, own in found.items()})


def _note(text: str) -> notes.Note | None:
    return notes.load(json.loads(text)) if text[:1] == "{" else old_records.note_of(text)


def _notes(text: str) -> list[notes.Note]:
    return [old_records.note_of(said) if isinstance(said, str) else notes.load(said) for said in json.loads(text)]


def _tries(text: str) -> list[dict]:
    return [old_records.try_of(out) for out in json.loads(text)]


def packages(jobs: pd.DataFrame) -> dict[str, str]:
    """Return the versions of the packages that modes brought along, beside PyTorch and what is in the lock."""
    columns = [column for column in jobs if column.startswith("library.")]
    return {column.partition(".")[2]: ", ".join(sorted(set(jobs[column].dropna()))) for column in columns}


def about(jobs: pd.DataFrame) -> dict:
    """Return {costs, suspects, repeats}: what the jobs cost, which are in doubt, and where each repeat comes from."""
    return {"costs": _costs(jobs), "suspects": _suspects(jobs), "repeats": _repeats(jobs)}


def _repeats(jobs: pd.DataFrame) -> list[dict]:
    """Return for each repeat {repeat, started, ended, minutes, gpus, jobs, again, suspect}.

    minutes: of its jobs together; again, suspect: how many of them were measured again, are suspect (None: not told).
    """
    uuid, tries = "environment.gpu.uuid", jobs.get("process.again", pd.Series(index=jobs.index, dtype=object))
    took, found = _took(jobs), []
    again = [isinstance(out, list) and bool(out) for out in tries]
    for repeat, own in jobs.assign(again=again, took=took, ended=_began(jobs) + took).groupby("repeat"):
        gpus = sorted(set(own[uuid].dropna())) if uuid in own else []
        found.append(
            {
                "repeat": repeat,
                "started": min(own.started),
                "ended": own.ended.max().isoformat(timespec="seconds"),
                "minutes": round(own.took.dt.total_seconds().sum() / 60, 1),
                "gpus": gpus,
                "jobs": len(own),
                "again": int(own.again.sum()),
                "suspect": int(own.suspect.map(bool).sum()) if "suspect" in own else None,
            }
        )
    return found


def runs_of(jobs: pd.DataFrame) -> pd.Series:
    """Return the run of each job; older records know it by the warm parent, of which a run has one for each repeat."""
    runs, parents = (jobs.get(f"process.{name}", pd.Series(index=jobs.index)) for name in ("run", "parent"))
    return runs.astype(object).fillna(parents)


def at_once(jobs: pd.DataFrame) -> int:
    """Return of how many repeats a job ran when one began, and that one's."""
    began = _began(jobs)
    spans = pd.DataFrame({"began": began, "ended": began + _took(jobs), "repeat": jobs.repeat})
    moments, running = began.to_numpy(), 0
    for _, own in spans.groupby("repeat"):
        begins, ends = (own[name].to_numpy()[:, None] for name in ("began", "ended"))
        running = running + ((begins <= moments) & (moments <= ends)).any(axis=0)
    return int(running.max())


def _began(jobs: pd.DataFrame) -> pd.Series:
    return pd.to_datetime(jobs.started, format="ISO8601", utc=True).dt.tz_localize(None)


def _took(jobs: pd.DataFrame) -> pd.Series:
    seconds = jobs.get("seconds.total", pd.Series(0.0, index=jobs.index))
    return pd.to_timedelta(seconds.astype(float).fillna(0), unit="s")


def clocks_of(jobs: pd.DataFrame, timers: str) -> pd.Series:
    """Return for each (op, dtype, size, mode) its SM clock as a part of the highest one of a mode of its cell.

    By the median over the repeats, as the timers of "single" calls ended, or that of "throughput" or "graph"; in
    older records as all of them had.
    """
    column = f"clocks.{timers}" if f"clocks.{timers}" in jobs else "gpu_after.sm_clock"
    clocks = jobs.reindex(columns=[*CELL, "mode", column]).groupby([*CELL, "mode"])[column].median()
    return clocks / clocks.groupby(level=CELL).transform("max")


def slowed(jobs: pd.DataFrame, delta: float, timers: str) -> pd.Series:
    """Return for each (op, dtype, size, mode) whether its SM clock was more than `delta` below that of another mode.

    A power cap that lowers it by less is no difference that a verdict could see.
    """
    return clocks_of(jobs, timers) < 1 - delta


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
