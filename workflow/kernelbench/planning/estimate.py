"""The plan: how many jobs a study has left, how long they will take, and how much disk. Nothing is measured."""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import yaml
from rich.table import Table

from kernelbench.errors import InputError
from kernelbench.notes import NeedsDevice
from kernelbench.numbers import clock, duration
from kernelbench.records.job_table import read as read_jobs
from kernelbench.running import freshness
from kernelbench.study import machine
from kernelbench.study.cells import Job
from kernelbench.study.study import Study

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


@dataclass(frozen=True)
class Estimate:
    """The expected seconds of a job, NaN where unknown.

    source: whose mean it is, None without one; like: the mode whose mean it is, where no source knows the job's own;
    refused_on: the device, where the mode cannot run on it.
    """

    seconds: float
    source: Source | None = None
    like: str = ""
    refused_on: str = ""

    def __str__(self) -> str:
        if self.refused_on:
            return f"unsupported on {self.refused_on}"
        if not self.source:
            return "nothing"
        return f"nothing; as {self.like} on {self.source.name}" if self.like else self.source.name


def source(name: str, rows: Iterable[tuple[str, str, float]]) -> Source:
    """Return the means of the (op, mode, seconds) in `rows`."""
    by_op, by_mode = defaultdict(list), defaultdict(list)
    for op, mode, seconds in rows:
        by_op[op, mode].append(seconds)
        by_mode[mode].append(seconds)
    return Source(name, *({key: fmean(values) for key, values in by.items()} for by in (by_op, by_mode)))


def own(paths: list[Path], name: str = "this machine") -> Source:
    """Return the seconds of this machine's own records; raise InputError for a file that is none."""
    return source(name, map(_seconds, paths))


def _seconds(path: Path) -> tuple[str, str, float]:
    """Return op, mode and wall time (s) of the record at `path`; raise InputError for a file that is none."""
    try:  # Without its schema, which takes longer than all the rest.
        entry = json.loads(path.read_text(encoding="utf-8"))
        return entry["op"], entry["mode"], entry["seconds"]["wall"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a readable record ({error}); delete it to measure it again") from None


def recorded(directory: Path, study: Study) -> list[Source]:
    """Return the seconds of each study recorded below `directory`, the nearest to `study` first.

    That is the one of its name, then those of its machine, then those of its kind of device, then the others.
    """
    near = []
    for path in sorted(directory.glob("*/jobs.parquet")):
        known = yaml.safe_load((path.parent / "study.yaml").read_text(encoding="utf-8"))
        apart = path.parent.name != study.machine, _machine(known) != _machine(study.config)
        near.append(((*apart, _is_cpu(known) != _is_cpu(study.config)), path))
    return [_of_table(path) for _, path in sorted(near)]


def _machine(study: dict) -> str:
    """Return the label of the machine that the mapping `study` is of, without what the study is called."""
    label = study["machine"]
    return label.removesuffix(f"-{study.get('study', '')}") if _is_cpu(study) else label.split("-")[0]


def _is_cpu(study: dict) -> bool:
    return machine.resolve(study["machine"], here=True)[1] == "cpu"


def _of_table(path: Path) -> Source:
    """Return the seconds of the recorded jobs at `path`, without those of modes not asked for on that device.

    They took no time, and may be asked for on this one.
    """
    jobs = read_jobs(path, columns=["op", "mode", "seconds.wall", "reason"])
    elsewhere = jobs.pop("reason").map(lambda reason: isinstance(reason, NeedsDevice)).astype(bool)
    return source(path.parent.name, jobs[~elsewhere].itertuples(index=False))


def estimate(study: Study, job: Job, sources: list[Source]) -> Estimate:
    """Return how long a job will take.

    From the first source that knows its mode, of its op where that is known; else those of the slowest mode known.
    """
    if study.device not in study.modes[job.mode].get("devices", [study.device]):
        return Estimate(0, refused_on=study.device)
    for known in sources:
        if job.mode in known.by_mode:
            return Estimate(known.by_op.get((job.cell.op, job.mode), known.by_mode[job.mode]), known)
    for known in sources:
        if known.by_mode:
            slowest = max(known.by_mode, key=known.by_mode.get)
            return Estimate(known.by_mode[slowest], known, like=slowest)
    return Estimate(math.nan)


def plan(study: Study, root: Path, recordings: Path, gpus: int) -> list[Table | str]:
    """Return what to print of `study`, its results below `root`, with `gpus` measuring at once: line by line."""
    there = {job: path for job in study.jobs if (path := root / job.path).exists()}
    done = {job for job, path in there.items() if freshness.is_current(study, job, path)}
    again = _some([there[job] for job in there if job not in done])
    measured = _some([there[job] for job in there if job in done])
    others = recorded(recordings, study)
    known = [own(measured), own(again, "this machine, before a change"), *others]
    left = {job: estimate(study, job, known) for job in study.jobs if job not in done}
    lines = [
        f"{study.machine}: {len(study.cells()):,} cells, {len(study.modes)} modes, {study.repeats:,} repeats: "
        f"{len(study.jobs):,} jobs, {len(done):,} done, {len(left):,} left",
        _table(study, done, left),
        _time(left, gpus) if left else "time: nothing is left to measure",
        _disk(measured or again, root, len(left)),
    ]
    if again:
        count = len(there) - len(done)
        lines.insert(1, f"{count:,} of those left are measured again: settings or sources have changed.")
    used = [other.name for other in others if any(estimate.source is other for estimate in left.values())]
    if set(used) - {study.machine}:
        lines.insert(-2, f"Times measured on {', '.join(used)}; yours may differ.")
    return lines


def _some(paths: list[Path]) -> list[Path]:
    """Return READ of the `paths` at most, from all over."""
    return paths[:: max(1, math.ceil(len(paths) / READ))]


def _table(study: Study, done: Iterable[Job], left: dict[Job, Estimate]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("mode", no_wrap=True)
    for name in ("done", "left", "a job", "all left"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("measured on")
    count = Counter(job.mode for job in done)
    for mode in study.modes:
        own = [estimate for job, estimate in left.items() if job.mode == mode]
        seconds = [estimate.seconds for estimate in own]
        known = seconds and not math.isnan(sum(seconds))
        times = (f"{fmean(seconds):.1f} s", duration(sum(seconds))) if known else ("", "")
        table.add_row(mode, f"{count[mode]:,}", f"{len(seconds):,}", *times, str(own[0]) if own else "")
    return table


def _time(left: dict[Job, Estimate], gpus: int) -> str:
    """Return how long the jobs take together and, each repeat on one of the `gpus`, side by side."""
    lanes = Counter()
    for job, estimate in left.items():
        lanes[job.repeat % gpus] += estimate.seconds
    total, longest = lanes.total(), max(lanes.values())
    if math.isnan(total):
        return "time: unknown until jobs of this machine are measured"
    shared = f", {duration(longest)} on {gpus} GPUs" if gpus > 1 else ""
    each = Counter()
    for job, estimate in left.items():
        each[job.repeat] += estimate.seconds
    repeat = f"; a repeat takes {duration(max(each.values()))}" if len(each) > 1 else ""
    return f"time: {duration(total)}{shared}; started now, measured by {clock(longest)}{repeat}"


def _disk(there: list[Path], root: Path, left: int) -> str:
    """Return the disk that records and logs take, from the records that are `there`."""
    logs = [(root / "logs" / path.relative_to(root / "records")).with_suffix(".log") for path in there]
    taken = sum(path.stat().st_blocks * 512 for path in [*there, *logs] if path.exists())
    each, where = (taken / len(there), "as measured here") if there else (TYPICAL, "typically")
    return f"disk: {left * each / 1e6:.1f} MB for records and logs, {each / 1e3:.0f} kB a job {where}"
