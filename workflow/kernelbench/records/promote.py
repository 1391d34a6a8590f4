"""Promote: file what a machine measured as a recorded study, the source that the paper is built from."""

import json
import shutil
import subprocess
from pathlib import Path

import yaml

from kernelbench.errors import InputError
from kernelbench.harness.provenance import DIGEST_VERSION, PINS, ROOT, SOURCES, blob_hash, select_pins, sources_digest
from kernelbench.records.quality_gate import Gate

# What every recorded study keeps; samples, jobs, study and environment rebuild all the rest.
FILES = (
    "samples.parquet",
    "jobs.parquet",
    "study.yaml",
    "environment.json",
    "summary.csv",
    "speedups.csv",
)


def promote(results: Path, recorded: Path) -> str:
    """Make `recorded` the study in `results` and return the commit whose sources measured it.

    Raises InputError where a file is missing or of another run, jobs are missing or went wrong, records come from
    different sources, or no commit has these sources.
    """
    if not results.is_dir():
        raise InputError(f"{results}: no such directory; allowed: results/<machine>")
    if results.resolve() == recorded.resolve():
        raise InputError(f"{results}: is the recorded study itself; allowed: results/<machine>")
    missing = [name for name in (*FILES, "summary.json") if not (results / name).is_file()]
    if missing:
        raise InputError(f"{results}: {', '.join(missing)} missing; run snakemake to the end first")
    environment = json.loads((results / "environment.json").read_text(encoding="utf-8"))
    if len(environment["sources"]) != 1:
        raise InputError(f"{results}: measured by different sources: {', '.join(environment['sources'])}")
    commit = commit_of(environment["sources"][0])
    study = yaml.safe_load((results / "study.yaml").read_text(encoding="utf-8"))
    _require_whole(results, study, environment)
    for defect in Gate(results).find_wrong():
        raise InputError(f"{results}: {defect}")
    # Beside the old one, which goes only when the new one is whole: nothing that was made of other data stays.
    new = recorded.with_name(f"{recorded.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    for name in FILES:
        shutil.copyfile(results / name, new / name)
    text = json.dumps({**environment, "commit": commit}, indent=1) + "\n"
    (new / "environment.json").write_text(text, encoding="utf-8")
    shutil.rmtree(recorded, ignore_errors=True)
    new.replace(recorded)
    return commit


def _require_whole(results: Path, study: dict, environment: dict) -> None:
    """Raise InputError where the tables are not those of the study that is beside them, or lack jobs of it."""
    document = json.loads((results / "summary.json").read_text(encoding="utf-8"))
    if document["study"] != study or document["environment"] != environment:
        raise InputError(
            f"{results}: summary.json is of another run than its study.yaml; run snakemake to the end first"
        )
    for defect in Gate(results).find_missing():
        raise InputError(f"{results}: {defect}")


def commit_of(digest: str) -> str:
    """Return the newest commit whose measuring sources have this digest; raise InputError where none has."""
    for commit in _git("log", "--format=%H", "--", *SOURCES, *PINS).split():
        if digest_at(commit, digest.startswith(DIGEST_VERSION)) == digest:
            return commit
    raise InputError(f"no commit has the sources {digest} that measured this; commit them before measuring")


def digest_at(commit: str, current: bool = True) -> str:
    """Return the digest of a commit's measuring sources, by the rule of today or by that of the first version."""
    listed = (line.split("\t") for line in _git("ls-tree", "-r", commit, "--", *SOURCES, *PINS).splitlines())
    blobs = {path: meta.split()[2] for meta, path in listed}
    sources = {path: blob for path, blob in blobs.items() if path.endswith(".py")}
    if not current:
        return sources_digest(sources | {PINS[0]: blobs[PINS[0]]}, version="")
    pins = {name: blob_hash(select_pins(_git("show", f"{commit}:{name}").encode())) for name in PINS if name in blobs}
    return sources_digest(sources | pins)


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise InputError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout
