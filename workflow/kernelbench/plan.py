"""The plan: how many jobs a study has left, how long they will take, and how much disk. Nothing is measured."""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import pandas as pd
from rich.table import Table

from kernelbench.errors import InputError
from kernelbench.progress import clock, duration
from kernelbench.study import Job, Study

# Records of this machine that are read: enough for a mean of each op and mode, and done in a second.
READ = 1000
# Bytes that a job's record and log take of the disk, in whole blocks, where there are none to look at.
TYPICAL = 16 * 1024


@dataclass(frozen=True)
class Source:
    """Mean seconds of measured jobs by (op, mode) and by mode, and where they were measured."""

    name: str
    by_op: dict[tuple[str, str], float]
    by_mode: dict[str, float]


def source(name: str, rows: Iterable[tuple[str, str, float]]) -> Source:
    """Return the means of the (op, mode, seconds) in `rows`."""
    by_op, by_mode = defaultdict(list), defaultdict(list)
    for op, mode, seconds in rows:
        by_op[op, mode].append(seconds)
        by_mode[mode].append(seconds)
    return Source(name, *({key: fmean(values) for key, values in by.items()} for by in (by_op, by_mode)))


def own(paths: list[Path]) -> Source:
    """Return the seconds of this machine's own records; raise InputError for a file that is none."""
    rows = []
    for path in paths:
        try:  # Without its schema, which takes longer than all the rest.
            entry = json.loads(path.read_text(encoding="utf-8"))
            rows.append((entry["op"], entry["mode"], entry["seconds"]["wall"]))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: not a readable record ({error}); delete it to measure it again") from None
    return source("this machine", rows)


def recorded(directory: Path, machine: str) -> Source:
    """Return the seconds of the study recorded for `machine` below `directory`, else of the first one there.

    Without those of a mode that was not asked for on that device: it took no time, and may be asked for on this one.
    """
    tables = sorted(directory.glob("*/jobs.parquet"), key=lambda path: (path.parent.name != machine, path))
    if not tables:
        return source("nowhere", [])
    jobs = pd.read_parquet(tables[0], columns=["op", "mode", "seconds.wall", "reason"])
    elsewhere = jobs.pop("reason").fillna("").str.contains(", this machine is ", regex=False)
    return source(tables[0].parent.name, jobs[~elsewhere].itertuples(index=False))


def estimate(study: Study, job: Job, sources: list[Source]) -> tuple[float, str]:
    """Return (seconds, where they come from) of a job.

    From the first source that knows its mode, of its op where that is known; else those of the slowest mode known.
    """
    if study.device not in study.modes[job.mode].get("devices", [study.device]):
        return 0, f"unsupported on {study.device}"
    for known in sources:
        if job.mode in known.by_mode:
            return known.by_op.get((job.cell.op, job.mode), known.by_mode[job.mode]), known.name
    for known in sources:
        if known.by_mode:
            slowest = max(known.by_mode, key=known.by_mode.get)
            return known.by_mode[slowest], f"nothing; as {slowest} on {known.name}"
    return math.nan, "nothing"


def plan(study: Study, root: Path, recordings: Path, gpus: int) -> list[Table | str]:
    """Return what to print of `study`, its results below `root`, with `gpus` measuring at once: line by line."""
    done = {job: root / job.path for job in study.jobs if (root / job.path).exists()}
    there = list(done.values())[:: max(1, math.ceil(len(done) / READ))]
    known = [own(there), recorded(recordings, study.machine)]
    left = {job: estimate(study, job, known) for job in study.jobs if job not in done}
    lines = [
        f"{study.machine}: {len(study.cells()):,} cells, {len(study.modes)} modes, {study.repeats:,} repeats: "
        f"{len(study.jobs):,} jobs, {len(done):,} done, {len(left):,} left",
        _table(study, done, left),
        _time(left, gpus) if left else "time: nothing is left to measure",
        _disk(there, root, len(left)),
    ]
    other = known[1].name
    if other != study.machine and any(where.endswith(other) for _, where in left.values()):
        lines.insert(2, f"Times measured on {other}; yours may differ.")
    return lines


def _table(study: Study, done: Iterable[Job], left: dict[Job, tuple[float, str]]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("mode", no_wrap=True)
    for name in ("done", "left", "a job", "all left"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("measured on")
    count = Counter(job.mode for job in done)
    for mode in study.modes:
        seconds = [each for job, (each, _) in left.items() if job.mode == mode]
        where = next((where for job, (_, where) in left.items() if job.mode == mode), "")
        known = seconds and not math.isnan(sum(seconds))
        times = (f"{fmean(seconds):.1f} s", duration(sum(seconds))) if known else ("", "")
        table.add_row(mode, f"{count[mode]:,}", f"{len(seconds):,}", *times, where)
    return table


def _time(left: dict[Job, tuple[float, str]], gpus: int) -> str:
    """Return how long the jobs take together and, each repeat on one of the `gpus`, side by side."""
    lanes = Counter()
    for job, (seconds, _) in left.items():
        lanes[job.repeat % gpus] += seconds
    total, longest = lanes.total(), max(lanes.values())
    if math.isnan(total):
        return "time: unknown until jobs of this machine are measured"
    shared = f", {duration(longest)} on {gpus} GPUs" if gpus > 1 else ""
    return f"time: {duration(total)}{shared}; started now, measured by {clock(longest)}"


def _disk(there: list[Path], root: Path, left: int) -> str:
    """Return the disk that records and logs take, from the records that are `there`."""
    logs = [(root / "logs" / path.relative_to(root / "records")).with_suffix(".log") for path in there]
    taken = sum(path.stat().st_blocks * 512 for path in [*there, *logs] if path.exists())
    each, where = (taken / len(there), "as measured here") if there else (TYPICAL, "typically")
    return f"disk: {left * each / 1e6:.1f} MB for records and logs, {each / 1e3:.0f} kB a job {where}"
