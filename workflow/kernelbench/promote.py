"""Promote: file what a machine measured as a recorded study, the source that the paper is built from."""

import json
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import yaml

from kernelbench.errors import InputError
from kernelbench.gate import Gate
from kernelbench.harness.provenance import ROOT, SOURCES, sources_digest

# What a recorded study keeps; samples, jobs, study and environment rebuild all the rest.
FILES = (
    "samples.parquet",
    "jobs.parquet",
    "study.yaml",
    "environment.json",
    "summary.csv",
    "speedups.csv",
    "summary.json",
)


def promote(results: Path, recorded: Path) -> str:
    """Copy the study in `results` to `recorded` and return the commit whose sources measured it.

    Raises InputError where a file is missing, records come from different sources, or no commit has these sources.
    """
    if not results.is_dir():
        raise InputError(f"{results}: no such directory; allowed: results/<machine>")
    if results.resolve() == recorded.resolve():
        raise InputError(f"{results}: is the recorded study itself; allowed: results/<machine>")
    missing = [name for name in FILES if not (results / name).is_file()]
    if missing:
        raise InputError(f"{results}: {', '.join(missing)} missing; run snakemake to the end first")
    environment = json.loads((results / "environment.json").read_text(encoding="utf-8"))
    if len(environment["sources"]) != 1:
        raise InputError(f"{results}: measured by different sources: {', '.join(environment['sources'])}")
    commit = commit_of(environment["sources"][0])
    _require_whole(results, environment)
    statuses = pd.read_parquet(results / "jobs.parquet", columns=["status"]).status
    bad = statuses[statuses.isin(["incorrect", "crashed"])]
    if len(bad):
        raise InputError(f"{results}: {len(bad)} jobs are incorrect or crashed; a recorded study has none")
    recorded.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copyfile(results / name, recorded / name)
    for name in ("environment.json", "summary.json"):
        _add_commit(recorded / name, commit)
    # Those of other data do not stay; a machine that only measures (no pandoc, no typst) has none of its own.
    shutil.rmtree(recorded / "figures", ignore_errors=True)
    (recorded / "paper.pdf").unlink(missing_ok=True)
    if (results / "figures").is_dir():
        shutil.copytree(results / "figures", recorded / "figures")
    if (results / "paper.pdf").is_file():
        shutil.copyfile(results / "paper.pdf", recorded / "paper.pdf")
    return commit


def _require_whole(results: Path, environment: dict) -> None:
    """Raise InputError where the tables are not those of the study that is beside them, or lack jobs of it."""
    study = yaml.safe_load((results / "study.yaml").read_text(encoding="utf-8"))
    document = json.loads((results / "summary.json").read_text(encoding="utf-8"))
    if document["study"] != study or document["environment"] != environment:
        raise InputError(
            f"{results}: summary.json is of another run than its study.yaml; run snakemake to the end first"
        )
    for defect in Gate(results).missing():
        raise InputError(f"{results}: {defect}")


def _add_commit(path: Path, commit: str) -> None:
    """Write the commit into environment.json, or into the environment that summary.json repeats."""
    document = json.loads(path.read_text(encoding="utf-8"))
    document.get("environment", document)["commit"] = commit
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def commit_of(digest: str) -> str:
    """Return the newest commit whose measuring sources have this digest; raise InputError where none has."""
    for commit in _git("log", "--format=%H", "--", *SOURCES).split():
        blobs = {}
        for line in _git("ls-tree", "-r", commit, "--", *SOURCES).splitlines():
            meta, path = line.split("\t")
            if path.endswith(".py") or path in SOURCES:
                blobs[path] = meta.split()[2]
        if sources_digest(blobs) == digest:
            return commit
    raise InputError(f"no commit has the sources {digest} that measured this; commit them before measuring")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise InputError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout
