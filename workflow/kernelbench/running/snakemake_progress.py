"""The progress of a run: what is measured, done and left, the failures so far, and the expected end.

A logger plugin of Snakemake. A terminal gets a bar, anything else a line now and then, and
results/<machine>/logs/progress.log a line for each job. Dry runs and --verbose print what Snakemake itself would.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import RLock

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text
from snakemake.logging import logger, show_logs
from snakemake.settings.enums import Quietness
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from kernelbench.notes import say
from kernelbench.numbers import clock, duration
from kernelbench.running.retries import doubts

# Drawing takes time of the machine that measures.
DRAWS_PER_SECOND = 1
# Seconds between two lines where there is no terminal.
LINE_EVERY = 30
# Running jobs that are named; a cluster may have hundreds.
NAMED = 4
# Statuses of a record that are no failure.
EXPECTED = ("ok", "unsupported")
# How messages begin that Snakemake prints in every run or for every job and nobody acts on; its own log file has them.
CHATTER = (
    *("Assuming unrestricted", "Building DAG", "Using shell", "host:", "Conda environments: ignored"),
    *("Select jobs", "Job ", "Removing output files of failed job", "Elapsed time", "Complete log"),
)
PREAMBLE = (LogEvent.WORKFLOW_STARTED, LogEvent.RUN_INFO, LogEvent.RESOURCES_INFO)
# How Snakemake says that a command failed, which it quotes, before it says which job that was.
EXIT = re.compile(r"returned non-zero exit status (\d+)")
# What the display tells in its own way.
TOLD = (LogEvent.JOB_INFO, LogEvent.JOB_STARTED, LogEvent.JOB_FINISHED, LogEvent.JOB_ERROR, LogEvent.PROGRESS)


@dataclass(frozen=True)
class Run:
    """A run that begins: the kind of each of its jobs, and the log file, if it measures."""

    kinds: list[str]
    log: Path | None


@dataclass(frozen=True)
class Job:
    """A running job: its name for people, its kind, its record if it measures, its logs, when it started (s)."""

    name: str
    kind: str
    record: Path | None
    logs: list[str]
    started: float


def announce(results: str, jobs: Iterable, cleared: list[str]) -> None:
    """Tell the logger plugin which of Snakemake's `jobs` a run is about to do; called when it starts.

    cleared: the user's variables that measurements do not get.
    """
    jobs = list(jobs)
    measures = any(job.rule.name == "measure" for job in jobs)
    kinds = [kind_of(job.rule.name, job.wildcards_dict) for job in jobs]
    run = Run(kinds, Path(results, "logs", "progress.log") if measures else None)
    logger.info(f"{len(jobs):,} jobs to do", extra={"run": run})
    if measures and cleared:
        logger.warning(f"Measurements run without these variables of yours: {', '.join(cleared)}")


def kind_of(rule: str, wildcards: dict) -> str:
    """Return what jobs have in common that take about as long: the mode of a measurement, else the rule."""
    return wildcards["mode"] if rule == "measure" else rule


def name_of(rule: str, wildcards: dict) -> str:
    """Return a job's name for people: 'softmax 4096 compile float16 repeat 3', 'draw_figure latency'."""
    if rule == "measure":
        return "{op} {size} {mode} {dtype} repeat {repeat}".format(**wildcards)
    return " ".join([rule, *(value for key, value in wildcards.items() if key not in ("machine", "recorded"))])


class Tally:
    """What of a run is done, running and left, what failed, and when it will end; times in seconds.

    Two threads use it, the one that follows Snakemake and the one that draws.
    """

    def __init__(self, kinds: list[str], now: float):
        self.total = len(kinds)
        self.began = now
        self.running: dict[int, Job] = {}
        self.statuses = Counter()
        self.doubtful = 0
        self._left = Counter(kinds)
        self._done = Counter()
        self._spent = Counter()
        self._lock = RLock()

    def start(self, jobid: int, job: Job) -> None:
        """Note that a job runs."""
        with self._lock:
            self.running[jobid] = job

    def end(self, jobid: int, status: str, now: float, doubtful: bool = False) -> None:
        """Note that a job ended: with its record's status, else with ok or failed; doubtful: but not to be built on."""
        with self._lock:
            job = self.running.pop(jobid)
            self._left[job.kind] -= 1
            self._done[job.kind] += 1
            self._spent[job.kind] += now - job.started
            self.statuses[status] += 1
            self.doubtful += doubtful

    @property
    def done(self) -> int:
        """The number of jobs that ended, well or not."""
        return self._done.total()

    def seconds_left(self, now: float) -> float | None:
        """Return the expected seconds until the end, None before the first job ended.

        A job is expected to take as long as those of its kind on average; where there is none yet, as long as all, or
        as one of its kind has run already. As many are expected to run at once as did so far.
        """
        with self._lock:
            if not self.done:
                return None
            overall = self._spent.total() / self.done
            mean = {kind: self._spent[kind] / self._done[kind] for kind in self._done}
            ran = [(job.kind, now - job.started) for job in self.running.values()]
            for kind in self._left.keys() - mean.keys():
                mean[kind] = max([overall, *(seconds for other, seconds in ran if other == kind)])
            work = sum(count * mean[kind] for kind, count in self._left.items())
            work -= sum(min(seconds, mean[kind]) for kind, seconds in ran)
            at_once = (self._spent.total() + sum(seconds for _, seconds in ran)) / (now - self.began)
            return work / at_once

    def summary(self, now: float) -> str:
        """Return done, left, failed and the expected end in one phrase."""
        with self._lock:
            left = self.total - self.done
            failed = sum(count for status, count in self.statuses.items() if status not in EXPECTED)
            phrase = f"{self.done:,} of {self.total:,} jobs done, {left:,} left, {failed:,} failed"
            phrase += f", {self.doubtful:,} in doubt" if self.doubtful else ""
            seconds = self.seconds_left(now) if left else None
        return phrase if seconds is None else f"{phrase}, ends {clock(seconds)} (in {duration(seconds)})"


class Bar(Progress):
    """A terminal's display: the bar with what `tally` says, and below it the jobs that run."""

    def __init__(self, tally: Tally, console: Console):
        self.tally = tally
        columns = (BarColumn(bar_width=None), TextColumn("{task.description}", markup=False))
        rate = DRAWS_PER_SECOND
        super().__init__(*columns, console=console, refresh_per_second=rate, transient=True, expand=True)
        self.add_task("", total=tally.total)

    def get_renderables(self):
        """Yield the line of the bar and those of the first jobs that run."""
        now = time.monotonic()
        for task in self.tasks:
            task.completed, task.description = self.tally.done, self.tally.summary(now)
        yield self.make_tasks_table(self.tasks)
        jobs = list(self.tally.running.values())
        for job in jobs[:NAMED]:
            yield Text(f"  now {job.name}, for {duration(now - job.started)}", no_wrap=True)
        if len(jobs) > NAMED:
            yield Text(f"  and {len(jobs) - NAMED:,} more")


class LogHandler(LogHandlerBase):
    """Snakemake's messages in, the progress out. Snakemake calls it in a thread of its own."""

    writes_to_stream = True
    writes_to_file = False  # Snakemake wants the file's name before the machine is known.
    has_filter = False  # So Snakemake gives it the filter that obeys --quiet, and its formatter.
    has_formatter = False
    needs_rulegraph = False

    def __post_init__(self) -> None:
        settings = self.common_settings
        quiet = set(settings.quiet or ())
        self.console = Console(stderr=not settings.stdout, no_color=settings.nocolor or None, highlight=False)
        self.as_snakemake = settings.dryrun or settings.verbose
        self.tells_failures = Quietness.ALL not in quiet
        self.tells = not quiet & {Quietness.ALL, Quietness.PROGRESS}
        self.tally = self.bar = self.file = None
        self.told = float("-inf")
        self.exit = ""

    def handle(self, record):
        """Follow each message, also one that --quiet keeps from being printed, before printing it."""
        try:
            self.follow(record)
        except Exception:  # As everywhere in logging: a display that fails ends no run.
            self.handleError(record)
        return super().handle(record)

    def emit(self, record) -> None:
        """Print one of Snakemake's messages, unless the display tells the same or nobody needs it."""
        event = getattr(record, "event", None)
        text = self.format(record)
        if not self.as_snakemake:
            told = self.tally and (hasattr(record, "run") or event in TOLD or EXIT.search(text))
            chatter = event is None and record.levelname == "INFO" and text.startswith(CHATTER)
            if told or chatter or event in PREAMBLE:
                return
        if text and text != "None":
            self.say(text, {"WARNING": "yellow", "ERROR": "red"}.get(record.levelname))

    def follow(self, record) -> None:
        """Keep the tally and tell what starts and what fails."""
        now, event = time.monotonic(), getattr(record, "event", None)
        if hasattr(record, "run"):
            self.begin(record.run, now)
        elif self.tally is None:
            return
        elif event == LogEvent.JOB_INFO:
            rule, wildcards = record.rule_name, record.wildcards
            path = Path(record.output[0]) if rule == "measure" else None
            job = Job(name_of(rule, wildcards), kind_of(rule, wildcards), path, list(record.log), now)
            self.tally.start(record.jobid, job)
            self.note(f"{self.tally.summary(now)}; now {job.name}", now)
        elif event == LogEvent.JOB_FINISHED and record.job_id in self.tally.running:
            job = self.tally.running[record.job_id]
            status, reason, found = _outcome(job.record)
            self.tally.end(record.job_id, status, now, doubtful=bool(found))
            if status not in EXPECTED:
                self.fail(job, f"{status}: {reason}")
            elif found:
                self.fail(job, "; ".join(found), "yellow")
        elif event == LogEvent.JOB_ERROR and record.jobid in self.tally.running:
            job = self.tally.running[record.jobid]
            self.tally.end(record.jobid, "failed", now)
            self.break_off(job)
        elif event == LogEvent.ERROR and (found := EXIT.search(record.getMessage())):
            self.exit = f" with exit status {found[1]}"  # Said just before the error of the job.

    def begin(self, run: Run, now: float) -> None:
        """Start to tell of a run. A plan is its own output, and so are runs that start a run of their own."""
        self.tally = Tally(run.kinds, now)
        self.tells = self.tells and run.kinds not in (["plan"], ["verify"], ["reproduce"])
        if run.log:
            run.log.parent.mkdir(parents=True, exist_ok=True)
            self.file = run.log.open("a", encoding="utf-8", buffering=1)
        if self.tells and self.console.is_terminal:
            self.bar = Bar(self.tally, self.console)
            self.bar.start()

    def note(self, line: str, now: float) -> None:
        """Tell where the run is: in the log file, and at times where there is no bar."""
        self.write(line)
        if self.tells and not self.bar and now - self.told >= LINE_EVERY:
            self.told = now
            self.say(f"{datetime.now():%H:%M:%S} {line}")

    def fail(self, job: Job, what: str, style: str = "red") -> None:
        """Tell that a job failed, or that its times are in doubt, why, and where its log is."""
        line = f"{job.name}: {what} (log: {', '.join(job.logs)})"
        self.write(line)
        if self.tells_failures:
            self.say(f"{datetime.now():%H:%M:%S} {line}", style)

    def break_off(self, job: Job) -> None:
        """Tell that a job ended without its output: its exit status, its last words, and all of a log that has more."""
        words = _words(job.logs)
        self.fail(job, f"failed{self.exit}: {words[-1] if words else 'it left no word'}")
        self.exit = ""
        if len(words) > 1 and self.tells_failures and self.common_settings.show_failed_logs:
            self.say("\n".join(show_logs(job.logs)))

    def say(self, text: str, style: str | None = None) -> None:
        """Print `text` as it is, above the bar if there is one."""
        self.console.print(Text(text, style or ""), soft_wrap=True)

    def write(self, line: str) -> None:
        """Write a line to the log file, if there is one."""
        if self.file:
            self.file.write(f"{datetime.now():%Y-%m-%d %H:%M:%S} {line}\n")

    def close(self) -> None:
        """Say how the run ended; Snakemake may call this twice."""
        if self.bar:
            self.bar.stop()
        if self.tally:
            now = time.monotonic()
            line = self.ending(now)
            self.write(line)
            if self.tells:
                self.say(line)
        if self.file:
            self.file.close()
        self.tally = self.bar = self.file = None
        super().close()

    def ending(self, now: float) -> str:
        """Return the last line: what was done in how long, what it came to, and what is left."""
        tally = self.tally
        counts = ", ".join(f"{count:,} {status}" for status, count in tally.statuses.most_common()) or "none"
        line = f"{tally.done:,} of {tally.total:,} jobs done in {duration(now - tally.began)}: {counts}"
        if tally.doubtful:
            # Here, as on another GPU a repeat is measured again whole.
            line += f"; {tally.doubtful:,} in doubt: snakemake check has the command that measures them again here"
        return line if tally.done == tally.total else f"{line}; the same command goes on with what is left"


def _outcome(record: Path | None) -> tuple[str, str, list[str]]:
    """Return status, reason and doubts of a job that Snakemake holds for done: its record's, if it measures."""
    if record is None:
        return "ok", "", []
    try:
        entry = json.loads(record.read_text(encoding="utf-8"))
        return entry["status"], say(filter(None, [entry["reason"]])), list(map(str, doubts(entry)))
    except (OSError, ValueError, KeyError) as error:
        return "failed", f"its record cannot be read ({error})", []


def _words(logs: list[str]) -> list[str]:
    """Return the lines of the logs that are not empty; the last is where an error stands."""
    lines = []
    for log in logs:
        with suppress(OSError):  # A job that was killed may have none.
            lines += Path(log).read_text(encoding="utf-8", errors="replace").splitlines()
    return [line.strip() for line in lines if line.strip()]
