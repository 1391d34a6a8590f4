"""Freshness: whether a record is still what a run would measure today. Contents decide, never dates.

Snakemake compares dates, which change in a copy, an archive or a `git checkout` and back, and its own notes, which a
restored study does not have. So a record says itself what it depends on: the settings of its job, and a digest of each
file that measured it. The rule that measures has no input files, and Snakemake is told which records to make again.
"""

import json
import os
import time
from datetime import datetime
from pathlib import Path

from kernelbench import code_digest
from kernelbench.errors import InputError

# By how many seconds a date may be ahead of the clock: file systems round, and clocks of a network differ a little.
AHEAD = 2
# A run makes these folders of results for each job, and checks a record's date when it reads it.
PER_JOB = ("records", "logs")


def is_current(study, job, path: Path) -> bool:
    """Say whether the record of `job` at `path` has the settings and the code of today."""
    return not find_changes(study, job, path)


def find_changes(study, job, path: Path) -> list[str]:
    """Return what differs today from what the record of `job` at `path` was measured with: settings and files, by name.

    A record that names no files of its own is of an older scheme: then all files differ. Raises InputError for one that
    cannot be read.
    """
    try:  # Without its schema, which takes longer than all the rest.
        entry = json.loads(path.read_text(encoding="utf-8"))
        measured = dict(entry["settings"])
        code = dict(entry["code"]["files"] if "code" in entry else entry.get("restored_with", {}))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a readable record ({error}); delete it to measure it again") from None
    settings = study.settings(job)
    changed = [name for name, value in settings.items() if measured.get(name) != value]
    return changed + code_digest.find_changed(code, code_digest.of_job(settings))


def find_inputs(workflow, lanes, job) -> list[str]:
    """Return no input files for `job`, but have Snakemake measure it again if its record is outdated."""
    # Snakemake asks for the input files of each job before it decides which jobs to run.
    if lanes.study.measures_here:
        lanes.gpus  # noqa: B018  (it fails where nothing can be measured)
    path = Path(lanes.study.results, job.path)
    there = path.exists()
    if there:
        require_past(path)
        if is_current(lanes.study, job, path):
            return []
    if workflow.touch:
        raise InputError(f"--touch: {path} is {'outdated' if there else 'not there'}; measure it: snakemake")
    workflow.dag.forcefiles.add(str(path))
    return []


def require_past_tree() -> None:
    """Refuse files of the checkout that are dated in the future: Snakemake would make what needs them over and over."""
    require_past(Path("Snakefile"))
    for name in ("workflow", "kernels", "paper", "results"):
        for folder, inner, files in os.walk(name):
            inner[:] = [each for each in inner if each not in (*PER_JOB, "__pycache__")]
            for file in files:
                require_past(Path(folder, file))


def require_past(path: Path) -> None:
    """Refuse a file that is dated in the future."""
    dated = path.lstat().st_mtime
    if dated > time.time() + AHEAD:
        raise InputError(
            f"{path}: is dated {datetime.fromtimestamp(dated):%Y-%m-%d %H:%M:%S}, in the future by this clock; set the "
            "clock, or date such files to now: find . -newermt now -exec touch {} +"
        )
