"""Freshness: whether a record is still what a run would measure today. Contents decide, never dates.

Snakemake compares dates, which change in a copy, an archive or a `git checkout` and back, and its own notes, which a
restored study does not have. So a record says itself what it depends on: the settings of its job, and a digest of the
sources that measured it. The rule that measures has no input files, and Snakemake is told which records to make again.
"""

import json
import os
import time
from datetime import datetime
from pathlib import Path

from kernelbench.errors import InputError
from kernelbench.harness.provenance import source_blobs, sources_digest

# By how many seconds a date may be ahead of the clock: file systems round, and clocks of a network differ a little.
AHEAD = 2
# A run makes these folders of results for each job, and checks a record's date when it reads it.
PER_JOB = ("records", "logs")


def digest(sources: list[str]) -> str:
    """Return one digest of the contents of measuring sources, named from the top of the checkout."""
    blobs = source_blobs()
    for name in sources:
        if name not in blobs:
            raise InputError(f"{name}: is no source that measures; allowed: files of kernelbench/harness and kernels")
    return sources_digest({name: blobs[name] for name in sources})


def is_current(study, job, path: Path) -> bool:
    """Say whether the record of `job` at `path` has the settings and the sources of today."""
    try:  # Without its schema, which takes longer than all the rest.
        entry = json.loads(path.read_text(encoding="utf-8"))
        settings, whole = dict(entry["settings"]), entry["environment"]["software"]["sources"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a readable record ({error}); delete it to measure it again") from None
    if any(settings.get(name) != value for name, value in study.settings(job).items()):
        return False
    if "sources" not in entry:  # It names no files that it depends on: then all that measures counts.
        return whole == sources_digest(source_blobs())
    return entry["sources"] == digest(study.sources(job))


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
