"""A logger plugin of Snakemake that shows what runs, what is left, what failed and when the run will end.

A terminal gets a bar, anything else a line now and then; results/<machine>/logs/progress.log gets a line for each job.
Dry runs and --verbose print what Snakemake itself would.
"""

import json
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text
from snakemake.logging import logger, show_logs
from snakemake.settings.enums import Quietness
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from kernelbench.errors import InputError
from kernelbench.harness import environment
from kernelbench.notes import say
from kernelbench.running import job_process, pace
from kernelbench.running.retries import find_doubts
from kernelbench.running.tally import EXPECTED, Job, Tally

# Seconds between two lines where there is no terminal.
LINE_EVERY = 30
# A run of one of these rules alone shows no progress: the first two are their own output, the others start runs that
# show theirs.
SILENT = (["plan"], ["preflight"], ["verify"], ["reproduce"])
# Messages that nobody acts on, by how they begin, and those that the display tells in its own way.
CHATTER = (
    *("Assuming unrestricted", "Building DAG", "Using shell", "host:", "Conda environments: ignored"),
    *(
        "Select jobs",
        "Job ",
        "Removing output files of failed job",
        "Elapsed time",
        "Complete log",
        "Touching output file",
    ),
)
PREAMBLE = (LogEvent.WORKFLOW_STARTED, LogEvent.RUN_INFO, LogEvent.RESOURCES_INFO)
TOLD = (LogEvent.JOB_INFO, LogEvent.JOB_STARTED, LogEvent.JOB_FINISHED, LogEvent.JOB_ERROR, LogEvent.PROGRESS)
# Snakemake says this of a command that failed, just before it says which job that was.
EXIT = re.compile(r"returned non-zero (exit status \d+)")


def announce(results: str, jobs: list, expect: Callable[[], dict[tuple[str, str], float]]) -> None:
    """Tell the logger plugin which of Snakemake's `jobs` a run will do, and the user what measurements do not get.

    expect: returns the planned seconds of a job by (op, mode); a run of too few measurements to tell does not ask.
    """
    kinds = [job.wildcards_dict.get("mode", job.rule.name) for job in jobs]
    measures = sum(job.rule.name == "measure" for job in jobs)
    log = Path(results, "logs", "progress.log") if measures else None
    planned = {}
    if measures >= pace.FIRST:
        with suppress(InputError):  # What cannot be read is for the stages that need it.
            planned = expect()
    logger.info(f"{len(jobs):,} jobs to do", extra={"kinds": kinds, "progress_log": log, "planned": planned})
    if measures and (cleared := environment.cleared(os.environ, job_process.DECIDED)):
        logger.warning(f"Measurements run without these variables of yours: {', '.join(cleared)}")


class LogHandler(LogHandlerBase):
    """Turns Snakemake's messages into progress; Snakemake calls it in a thread of its own."""

    # The formatter is Snakemake's, and so is the filter, which obeys --quiet. A file would need a name before the
    # machine is known.
    writes_to_stream = True
    writes_to_file = has_filter = has_formatter = needs_rulegraph = False

    def __post_init__(self) -> None:
        settings = self.common_settings
        self.as_snakemake = settings.dryrun or settings.verbose
        quiet = set(settings.quiet or ())
        self.tells = not quiet & {Quietness.ALL, Quietness.PROGRESS}
        options = {"no_color": settings.nocolor or None, "quiet": Quietness.ALL in quiet and not settings.dryrun}
        self.console = Console(stderr=not settings.stdout, highlight=False, **options)
        self.tally = self.bar = None
        self.planned: dict = {}
        self.tells_pace = True  # once
        self.log = Path(os.devnull)
        self.told = float("-inf")
        self.exit = ""

    def handle(self, record):
        """Follow each message, even one that --quiet hides, and have it printed."""
        try:
            self.follow(record)
        except Exception:  # A display that fails must not end the run.
            self.handleError(record)
        return super().handle(record)

    def emit(self, record) -> None:
        """Print one of Snakemake's messages, unless the display tells the same or nobody needs it."""
        event, text = getattr(record, "event", None), self.format(record)
        told = self.tally and (hasattr(record, "kinds") or event in TOLD or EXIT.search(text))
        chatter = event is None and record.levelname == "INFO" and text.startswith(CHATTER)
        hidden = told or chatter or event in PREAMBLE
        if text not in ("", "None") and (self.as_snakemake or not hidden):
            self.print(text, {"WARNING": "yellow", "ERROR": "red"}.get(record.levelname, ""))

    def follow(self, record) -> None:
        """Count the job that a message is about, and tell what starts and what fails."""
        now, event = time.monotonic(), getattr(record, "event", None)
        if hasattr(record, "kinds"):
            self.begin(record.kinds, record.progress_log, now, record.planned)
        elif self.tally is None:
            return
        elif event == LogEvent.JOB_INFO:
            job = Job.from_message(record, now, self.planned)
            self.tally.start(record.jobid, job)
            self.note(f"{self.tally.summarize(now)}; now {job.name}", now)
        elif event == LogEvent.ERROR and (found := EXIT.search(record.getMessage())):
            self.exit = f" with {found[1]}"
        elif event == LogEvent.JOB_FINISHED and record.job_id in self.tally.running:
            self.finish(record.job_id, now)
            self.tell_pace(now)
        elif event == LogEvent.JOB_ERROR and record.jobid in self.tally.running:
            self.fail(record.jobid, now)

    def begin(self, kinds: list[str], log: Path | None, now: float, planned: dict | None = None) -> None:
        """Start to tell of a run with jobs of these kinds, also in the file `log` if there is one."""
        self.planned = planned or {}
        self.tally = Tally(kinds, now)
        self.tells = self.tells and kinds not in SILENT
        if log:
            log.parent.mkdir(parents=True, exist_ok=True)
            self.log = log
        if self.tells and self.console.is_terminal:
            # Drawing takes time from what is measured, so once a second has to do.
            rate = {"refresh_per_second": 1, "transient": True}
            self.bar = Live(console=self.console, get_renderable=self.tally.draw, **rate)
            self.bar.start()

    def note(self, line: str, now: float) -> None:
        """Tell where the run is: always in the log file, now and then where there is no bar."""
        is_due = self.tells and not self.bar and now - self.told >= LINE_EVERY
        self.told = now if is_due else self.told
        self.tell(line, printed=is_due)

    def finish(self, jobid: int, now: float) -> None:
        """Count a job that Snakemake takes for done, and tell if its record says that it failed or is in doubt."""
        job = self.tally.running[jobid]
        try:
            entry = json.loads(job.record.read_text(encoding="utf-8")) if job.record else {"status": "ok"}
            status, doubts = entry["status"], find_doubts(entry)
        except (OSError, ValueError, KeyError) as error:
            self.tally.end(jobid, "failed", now)
            return self.warn(job, f"its record cannot be read ({error})", "red")
        self.tally.end(jobid, status, now, doubtful=bool(doubts))
        if status not in EXPECTED:
            self.warn(job, f"{status}: {say(filter(None, [entry['reason']]))}", "red")
        elif doubts:
            self.warn(job, say(doubts), "yellow")

    def tell_pace(self, now: float) -> None:
        """Say once what a job takes here, as soon as enough were measured."""
        if self.tells_pace and (line := self.tally.describe_pace(now)):
            self.tells_pace = False
            self.tell(line, printed=self.tells)

    def fail(self, jobid: int, now: float) -> None:
        """Count a job that left no output, and print the last line of its log, or all of a longer one."""
        job, lines = self.tally.running[jobid], []
        self.tally.end(jobid, "failed", now)
        with suppress(OSError):  # A job that was killed may have no log.
            text = Path(job.log).read_text(encoding="utf-8", errors="replace")
            lines = [line.strip() for line in text.splitlines() if line.strip()]
        self.warn(job, f"failed{self.exit}: {lines[-1] if lines else 'it left no message'}", "red")
        self.exit = ""
        if len(lines) > 1 and self.common_settings.show_failed_logs:
            self.print("\n".join(show_logs([job.log])))

    def warn(self, job: Job, what: str, style: str) -> None:
        """Tell what is wrong with a job, and where its log is."""
        self.tell(f"{job.name}: {what} (log: {job.log})", style)

    def tell(self, line: str, style: str = "", printed: bool = True) -> None:
        """Write a line to the log file, and print it."""
        now = datetime.now()
        with self.log.open("a", encoding="utf-8") as stream:
            stream.write(f"{now:%Y-%m-%d %H:%M:%S} {line}\n")
        if printed:
            self.print(f"{now:%H:%M:%S} {line}", style)

    def print(self, text: str, style: str = "") -> None:
        """Print `text` as it is, above the bar if there is one."""
        self.console.print(Text(text, style), soft_wrap=True)

    def close(self) -> None:
        """Say how the run ended; Snakemake may call this twice."""
        if self.bar:
            self.bar.stop()
        if self.tally:
            line = self.tally.conclude(time.monotonic())
            self.tell(line, printed=False)
            if self.tells:
                self.print(line)
        self.tally = self.bar = None
        super().close()
