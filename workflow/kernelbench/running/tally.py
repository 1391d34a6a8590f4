"""The tally of a run: which jobs run, how many are done and left, and when the run will end."""

import math
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from threading import RLock

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from kernelbench.numbers import clock, duration
from kernelbench.running import pace

# These statuses are no failures.
EXPECTED = ("ok", "unsupported")
# The bar names so many running jobs; a cluster may run hundreds.
NAMED = 4


@dataclass(frozen=True)
class Job:
    """A running job; those of a kind take about as long."""

    name: str
    kind: str
    record: Path | None
    log: str
    started: float
    planned: float = math.nan

    @classmethod
    def from_message(cls, message, now: float, planned: dict[tuple[str, str], float]) -> "Job":
        """Return the job that a message of Snakemake's says starts; `planned` has the seconds by (op, mode)."""
        rule, known, log = message.rule_name, message.wildcards, "".join(message.log[:1])
        if rule == "measure":
            name = "{op} {size} {mode} {dtype} repeat {repeat}".format(**known)
            expected = planned.get((known["op"], known["mode"]), math.nan)
            return cls(name, known["mode"], Path(message.output[0]), log, now, expected)
        name = " ".join([rule, *(value for key, value in known.items() if key not in ("machine", "recorded"))])
        return cls(name, known.get("mode", rule), None, log, now)


class Tally:
    """The jobs of a run and the seconds they took; one thread follows Snakemake and counts, another draws the bar."""

    def __init__(self, kinds: list[str], now: float):
        self.planned, self.done, self.spent = Counter(kinds), Counter(), Counter()
        self.running: dict[int, Job] = {}
        self.statuses = Counter()
        self.doubtful = 0
        self.measured: list[tuple[float, float]] = []  # (s, s planned) of the first measurements
        self.began = now
        self.lock = RLock()

    def start(self, jobid: int, job: Job) -> None:
        """Count a job as running."""
        with self.lock:
            self.running[jobid] = job

    def end(self, jobid: int, status: str, now: float, doubtful: bool = False) -> None:
        """Count a job as ended."""
        with self.lock:
            job = self.running.pop(jobid)
            self.done[job.kind] += 1
            self.spent[job.kind] += now - job.started
            self.statuses[status] += 1
            self.doubtful += doubtful
            if job.record and len(self.measured) < pace.FIRST:
                self.measured.append((now - job.started, job.planned))

    def describe_pace(self, now: float) -> str | None:
        """Return in one line what the first measurements took, None while there are fewer than it takes to tell."""
        with self.lock:
            if len(self.measured) < pace.FIRST:
                return None
            took, planned = map(sum, zip(*self.measured, strict=True))
            return pace.describe(len(self.measured), took, planned, self.expect_end(now))

    def expect_end(self, now: float) -> float | None:
        """Return how many seconds are left, None before the first job ended.

        A job should take the mean of its kind, or before there is one the mean of all, and as many run at once as did.
        A kind that already runs longer than the mean of all should take that long.
        """
        with self.lock:
            if not self.done:
                return None
            ran = [(job.kind, now - job.started) for job in self.running.values()]
            overall, work = self.spent.total() / self.done.total(), 0
            for kind, count in self.planned.items():
                own = [seconds for other, seconds in ran if other == kind]
                mean = self.spent[kind] / self.done[kind] if self.done[kind] else max([overall, *own])
                work += (count - self.done[kind]) * mean - sum(min(seconds, mean) for seconds in own)
            at_once = (self.spent.total() + sum(seconds for _, seconds in ran)) / (now - self.began)
            return work / at_once

    def summarize(self, now: float) -> str:
        """Return in one phrase how many jobs are done, left and failed, and the expected end."""
        with self.lock:
            done, total = self.done.total(), self.planned.total()
            failed = sum(count for status, count in self.statuses.items() if status not in EXPECTED)
            phrase = f"{done:,} of {total:,} jobs done, {total - done:,} left, {failed:,} failed"
            phrase += f", {self.doubtful:,} in doubt" if self.doubtful else ""
            seconds = self.expect_end(now) if done < total else None
        return phrase if seconds is None else f"{phrase}, ends {clock(seconds)} (in {duration(seconds)})"

    def conclude(self, now: float) -> str:
        """Return the last line of a run: how many jobs were done in what time, with which statuses."""
        done, total = self.done.total(), self.planned.total()
        counts = ", ".join(f"{count:,} {status}" for status, count in self.statuses.most_common()) or "none"
        line = f"{done:,} of {total:,} jobs done in {duration(now - self.began)}: {counts}"
        if self.doubtful:
            line += f"; {self.doubtful:,} in doubt: snakemake check has the command that measures them again here"
        return line if done == total else f"{line}; the same command goes on with what is left"

    def draw(self) -> Group:
        """Return what a terminal shows: the bar, and below it the first of the jobs that run."""
        now = time.monotonic()
        line = Table.grid(Column(ratio=1), Column(no_wrap=True), padding=(0, 1), expand=True)
        line.add_row(ProgressBar(self.planned.total(), self.done.total()), self.summarize(now))
        jobs = list(self.running.values())[:NAMED]
        lines = [f"  now {job.name}, for {duration(now - job.started)}" for job in jobs]
        return Group(line, *(Text(each, no_wrap=True) for each in lines))
