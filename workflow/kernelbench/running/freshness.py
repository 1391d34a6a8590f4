"""Freshness: whether a record is still what a run would measure today. Contents decide, never dates.

Snakemake compares dates, and what it noted in .snakemake when it made a file. Dates change in a copy, an archive or a
`git checkout` and back, and a restored study has no notes. So a record says itself what it depends on: the settings of
its job, and a digest of the sources that measured it, as they were when it was written or restored. The rule that
measures has no input files, and Snakemake is told which records to make again.
"""

from __future__ import annotations

import json
import os
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kernelbench.errors import InputError
from kernelbench.harness.provenance import source_blobs, sources_digest

if TYPE_CHECKING:  # A job's process imports this, and needs no study.
    from kernelbench.study.cells import Job
    from kernelbench.study.study import Study

# By how many seconds a date may be ahead of the clock: file systems round, and clocks of a network differ a little.
AHEAD = 2
# Of the results, what a run makes for each job; a record's date is looked at when it is read.
PER_JOB = ("records", "logs")


def digest(sources: list[str]) -> str:
    """Return one digest of the contents of measuring sources, named from the top of the checkout.

    Raises InputError for a file that is none.
    """
    blobs = source_blobs()
    for name in sources:
        if name not in blobs:
            raise InputError(f"{name}: is no source that measures; allowed: files of kernelbench/harness and kernels")
    return sources_digest({name: blobs[name] for name in sources})


def is_current(study: Study, job: Job, path: Path) -> bool:
    """Say whether the record of `job` at `path` has the settings and the sources of today.

    Raises InputError for a file that is no record.
    """
    try:  # Without its schema, which takes longer than all the rest.
        entry = json.loads(path.read_text(encoding="utf-8"))
        settings, sources = dict(entry["settings"]), entry["sources"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a readable record ({error}); delete it to measure it again") from None
    same = all(settings.get(name) == value for name, value in study.settings(job).items())
    return same and sources == digest(study.sources(job))


def inputs(workflow, lanes, job: Job) -> list[str]:
    """Return the input files of a measurement: none. Have Snakemake measure `job` again if its record is outdated.

    workflow: Snakemake's, which asks for the input files of each job before it decides which jobs to run. lanes: those
    of the run. Raises InputError where the job cannot be measured here.
    """
    lanes.require()
    path = Path(lanes.study.results, job.path)
    there = path.exists()
    if there:
        require_past(path)
    if not there or not is_current(lanes.study, job, path):
        if workflow.touch:
            raise InputError(f"--touch: {path} is {'outdated' if there else 'not there'}; measure it: snakemake")
        workflow.dag.forcefiles.add(str(path))
    return []


def require_past_tree() -> None:
    """Raise InputError where a file of the checkout, which is the current directory, is dated in the future.

    Snakemake makes what depends on such a file again and again, and fails each time: what it made is older.
    """
    require_past(Path("Snakefile"))
    for name in ("workflow", "kernels", "paper", "results"):
        for folder, inner, files in os.walk(name):
            inner[:] = [each for each in inner if each not in (*PER_JOB, "__pycache__")]
            for file in files:
                require_past(Path(folder, file))


def require_past(path: Path) -> None:
    """Raise InputError where the file at `path` is dated in the future."""
    dated = path.lstat().st_mtime
    if dated > time.time() + AHEAD:
        raise InputError(
            f"{path}: is dated {datetime.fromtimestamp(dated):%Y-%m-%d %H:%M:%S}, in the future by this clock; set the "
            "clock, or date such files to now: find . -newermt now -exec touch {} +"
        )
