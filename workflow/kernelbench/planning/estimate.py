"""The plan of a run: how many jobs are left, how long they will take, and how much disk. Nothing is measured."""

import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import yaml
from rich.table import Table

from kernelbench import code_digest
from kernelbench.errors import InputError
from kernelbench.notes import NeedsDevice
from kernelbench.numbers import clock, duration, name_some
from kernelbench.records.job_table import read as read_jobs
from kernelbench.running import freshness, pace
from kernelbench.study.cells import Job
from kernelbench.study.study import Study

# How many records of this machine we read: enough for a mean of each op and mode, and done in a second.
READ = 1000
# The bytes on disk of a job's record and log, in whole blocks, where there are none to look at.
TYPICAL = 16 * 1024


@dataclass(frozen=True)
class Source:
    """Where jobs were measured, and their mean seconds by (op, mode) and by mode.

    of: what measured them, seen from a study: "this machine", the same kind of "device" (GPU or CPU), or "another".
    """

    name: str
    by_op: dict[tuple[str, str], float]
    by_mode: dict[str, float]
    of: str = "this machine"


def average(name: str, jobs: pd.DataFrame, of: str = "this machine") -> Source:
    """Return the mean seconds of jobs with the columns op, mode and seconds."""
    by_op, by_mode = (jobs.groupby(key)["seconds"].mean().to_dict() for key in (["op", "mode"], "mode"))
    return Source(name, by_op, by_mode, of)


def average_records(paths: list[Path], name: str = "this machine") -> Source:
    """Return the mean seconds of the jobs that have these records; raise InputError for a file that is none."""
    return average(name, read_seconds(paths))


def read_seconds(paths: list[Path]) -> pd.DataFrame:
    """Return op, mode and seconds of the records, with second tries; raise InputError for a file that is none."""
    return pd.DataFrame(map(_read_seconds, paths), columns=["op", "mode", "seconds"])


def _read_seconds(path: Path) -> tuple[str, str, float]:
    try:  # Without its schema, which takes longer than all the rest.
        entry = json.loads(path.read_text(encoding="utf-8"))
        again = sum(out["seconds"] for out in entry.get("process", {}).get("again", ()))
        return entry["op"], entry["mode"], entry["seconds"]["wall"] + again
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a readable record ({error}); delete it to measure it again") from None


def average_recorded(directory: Path, study: Study) -> list[Source]:
    """Return the mean seconds of each study recorded below `directory`, the nearest to `study` first.

    The study of the same name is nearest, then those of the same machine, then those of the same kind of device.
    """
    by_distance = []
    for path in sorted(directory.glob("*/jobs.parquet")):
        other = yaml.safe_load((path.parent / "study.yaml").read_text(encoding="utf-8"))
        same = _machine(other) == _machine(study.config), _is_cpu(other) == _is_cpu(study.config)
        by_distance.append((path.parent.name != study.machine, *(not each for each in same), path))
    return [_average_table(path, "another" if differs else "device") for *_, differs, path in sorted(by_distance)]


def _machine(study: dict) -> str:
    """Return the label of a study's machine, without the name of the study."""
    label = study["machine"]
    return label.removesuffix(f"-{study.get('study', '')}") if _is_cpu(study) else label.split("-")[0]


def _is_cpu(study: dict) -> bool:
    return study["machine"].startswith("cpu")


def _average_table(path: Path, of: str) -> Source:
    """Return the mean seconds of the recorded jobs at `path`, without jobs that were not for that device.

    They took no time there, and may well take some here.
    """
    jobs = read_jobs(path, columns=["op", "mode", "seconds.wall", "reason"])
    elsewhere = jobs.reason.map(lambda reason: isinstance(reason, NeedsDevice)).astype(bool)
    return average(path.parent.name, jobs[~elsewhere].rename(columns={"seconds.wall": "seconds"}), of)


def estimate_jobs(study: Study, jobs: list[Job], sources: list[Source]) -> pd.DataFrame:
    """Return for each job its op, mode and repeat, its expected seconds, what these are based on, and their source."""
    rows = [(job.cell.op, job.mode, job.repeat, *_estimate(study, job.cell.op, job.mode, sources)) for job in jobs]
    return pd.DataFrame(rows, columns=["op", "mode", "repeat", "seconds", "basis", "source"])


def _estimate(study: Study, op: str, mode: str, sources: list[Source]) -> tuple[float, str, str]:
    """Return the expected seconds of a job, NaN if unknown, what these are based on, and the name of their source.

    The first source that knows the mode decides, by its mean for the op if it has one. But where this machine does not
    know the mode, a study of the same device that has the very op comes before one that has only others: a model takes
    several times as long as an operation. If no source knows the mode, we take the slowest mode of the first source
    that knows any.
    """
    if study.device not in study.modes[mode].get("devices", [study.device]):
        return 0.0, f"unsupported on {study.device}", ""
    known = [source for source in sources if mode in source.by_mode]
    for source in sorted(known, key=lambda source: _rank(source, op, mode))[:1]:
        return source.by_op.get((op, mode), source.by_mode[mode]), source.name, source.name
    for source in sources:
        if source.by_mode:
            slowest = max(source.by_mode, key=source.by_mode.get)
            return source.by_mode[slowest], f"nothing; as {slowest} on {source.name}", source.name
    return math.nan, "nothing", ""


def _rank(source: Source, op: str, mode: str) -> int:
    """Return which of the sources that know a mode come first, besides the order that they have."""
    if source.of == "device":
        return 1 if (op, mode) in source.by_op else 2
    return 0 if source.of == "this machine" else 3


def expect_seconds(study: Study, root: Path, recordings: Path) -> dict[tuple[str, str], float]:
    """Return the planned seconds of a job by (op, mode): by this machine's records, or by studies of such a device.

    NaN where neither knows the mode. Raises InputError for a record that cannot be read.
    """
    there = _thin([path for job in study.jobs if (path := root / job.path).exists()])
    sources = [average_records(there), *_of_same_device(average_recorded(recordings, study))]
    pairs = {(job.cell.op, job.mode) for job in study.jobs}
    return {pair: _expect(study, *pair, sources) for pair in pairs}


def _expect(study: Study, op: str, mode: str, sources: list[Source]) -> float:
    """Return the expected seconds of a job, NaN if no source knows the mode: a guess by another mode tells no pace."""
    seconds = _estimate(study, op, mode, sources)[0]
    return seconds if not seconds or any(mode in source.by_mode for source in sources) else math.nan


def _of_same_device(sources: list[Source]) -> list[Source]:
    return [source for source in sources if source.of == "device"]


def _describe_pace(study: Study, paths: list[Path], recorded: list[Source]) -> str | None:
    """Return what the jobs with these records took beside what studies of such a device plan; None for too few."""
    if len(paths) < pace.FIRST:
        return None
    own, sources = read_seconds(paths), _of_same_device(recorded)
    planned = sum(_expect(study, op, mode, sources) for op, mode in zip(own.op, own["mode"], strict=True))
    return f"this machine: {pace.describe(len(own), own.seconds.sum(), planned)}"


def format_plan(study: Study, root: Path, recordings: Path, gpus: int) -> list[Table | str]:
    """Return what to print about a study with results below `root`, if `gpus` measure at once."""
    there = {job: path for job in study.jobs if (path := root / job.path).exists()}
    changes = {job: freshness.find_changes(study, job, path) for job, path in there.items()}
    done = {job for job in there if not changes[job]}
    measured, outdated = (_thin([there[job] for job in there if (job in done) == current]) for current in (True, False))
    recorded = average_recorded(recordings, study)
    sources = [average_records(measured), average_records(outdated, "this machine, before a change"), *recorded]
    left = estimate_jobs(study, [job for job in study.jobs if job not in done], sources)
    lines = [
        f"{study.machine}: {len(study.cells()):,} cells, {len(study.modes)} modes, {study.repeats:,} repeats: "
        f"{len(study.jobs):,} jobs, {len(done):,} done, {len(left):,} left"
    ]
    if outdated:
        lines.append(_format_changes([changed for changed in changes.values() if changed]))
    lines.append(_format_modes(study, Counter(job.mode for job in done), left))
    used = [source.name for source in recorded if (left.source == source.name).any()]
    if set(used) - {study.machine}:
        lines.append(f"Times measured on {', '.join(used)}; yours may differ.")
    if described := _describe_pace(study, measured, recorded):
        lines.append(described)
    time = "time: nothing is left to measure" if left.empty else _format_time(left, gpus)
    return [*lines, time, _format_disk(measured or outdated, root, len(left))]


def _format_changes(changes: list[list[str]]) -> str:
    """Return how many jobs are measured again, and which settings and files have changed since, those of most first."""
    counts = Counter(code_digest.shorten(name) for changed in changes for name in changed)
    names = [name for name, _ in counts.most_common()]
    return f"{len(changes):,} of those left are measured again; changed since: {name_some(names)}."


def _thin(paths: list[Path]) -> list[Path]:
    """Return at most READ of the paths, evenly spread."""
    return paths[:: max(1, math.ceil(len(paths) / READ))]


def _format_modes(study: Study, done: Counter, left: pd.DataFrame) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("mode", no_wrap=True)
    for name in ("done", "left", "a job", "all left"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("measured on")
    for mode in study.modes:
        own = left[left["mode"] == mode]
        seconds = own.seconds.sum(skipna=False)
        known = len(own) and not math.isnan(seconds)
        times = (f"{seconds / len(own):.1f} s", duration(seconds)) if known else ("", "")
        table.add_row(mode, f"{done[mode]:,}", f"{len(own):,}", *times, own.basis.iloc[0] if len(own) else "")
    return table


def _format_time(left: pd.DataFrame, gpus: int) -> str:
    """Return how long the jobs take, one after the other and with each repeat on one of the GPUs."""
    if left.seconds.isna().any():
        return "time: unknown until jobs of this machine are measured"
    longest = left.groupby(left.repeat % gpus).seconds.sum().max()
    shared = f", {duration(longest)} on {gpus} GPUs" if gpus > 1 else ""
    repeats = left.groupby("repeat").seconds.sum()
    repeat = f"; a repeat takes {duration(repeats.max())}" if len(repeats) > 1 else ""
    return f"time: {duration(left.seconds.sum())}{shared}; started now, measured by {clock(longest)}{repeat}"


def _format_disk(there: list[Path], root: Path, left: int) -> str:
    """Return how much disk the records and logs that are left will take, by those that are there."""
    logs = [(root / "logs" / path.relative_to(root / "records")).with_suffix(".log") for path in there]
    taken = sum(path.stat().st_blocks * 512 for path in [*there, *logs] if path.exists())
    each, where = (taken / len(there), "as measured here") if there else (TYPICAL, "typically")
    return f"disk: {left * each / 1e6:.1f} MB for records and logs, {each / 1e3:.0f} kB a job {where}"
