"""The table of a study's jobs, jobs.parquet: reading it, when jobs ran, and at which clocks."""

import json
from pathlib import Path

import pandas as pd

from kernelbench import notes, old_records
from kernelbench.study.cells import ARM, CELL

# What the device's timer reads where nothing is between its two events, in µs.
FLOOR = "floors.event_pair"


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


def find_runs(jobs: pd.DataFrame) -> pd.Series:
    """Return the run of each job; older records know it by the warm parent, of which a run has one for each repeat."""
    runs, parents = (jobs.get(f"process.{name}", pd.Series(index=jobs.index)) for name in ("run", "parent"))
    return runs.astype(object).fillna(parents)


def count_at_once(jobs: pd.DataFrame) -> int:
    """Return the largest number of repeats that had a job running at the same time."""
    starts = find_starts(jobs)
    spans = pd.DataFrame({"began": starts, "ended": starts + find_durations(jobs), "repeat": jobs.repeat})
    moments, running = starts.to_numpy(), 0
    for _, own in spans.groupby("repeat"):
        begins, ends = (own[name].to_numpy()[:, None] for name in ("began", "ended"))
        running = running + ((begins <= moments) & (moments <= ends)).any(axis=0)
    return int(running.max())


def find_starts(jobs: pd.DataFrame) -> pd.Series:
    return pd.to_datetime(jobs.started, format="ISO8601", utc=True).dt.tz_localize(None)


def find_durations(jobs: pd.DataFrame) -> pd.Series:
    seconds = jobs.get("seconds.total", pd.Series(0.0, index=jobs.index))
    return pd.to_timedelta(seconds.astype(float).fillna(0), unit="s")


def compare_clocks(jobs: pd.DataFrame, timers: str) -> pd.Series:
    """Return for each (op, dtype, size, mode) its SM clock as a part of the highest one of a mode of its cell.

    By the median over the repeats, as the timers of "single" calls ended, or that of "throughput" or "graph"; in
    older records as all of them had.
    """
    column = f"clocks.{timers}" if f"clocks.{timers}" in jobs else "gpu_after.sm_clock"
    clocks = jobs.reindex(columns=[*ARM, column]).groupby(ARM)[column].median()
    return clocks / clocks.groupby(level=CELL).transform("max")


def find_slowed(jobs: pd.DataFrame, delta: float, timers: str) -> pd.Series:
    """Return for each (op, dtype, size, mode) whether its SM clock was more than `delta` below that of another mode.

    A power cap that lowers it by less is no difference that a verdict could see.
    """
    return compare_clocks(jobs, timers) < 1 - delta
