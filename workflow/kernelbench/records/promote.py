"""Promote: file what a machine measured as a recorded study, the source that the paper is built from."""

import json
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import yaml

from kernelbench import code_digest
from kernelbench.errors import InputError
from kernelbench.numbers import name_some
from kernelbench.paths import ROOT
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
    """Make `recorded` the study in `results` and return the commit whose code measured it.

    Raises InputError where a file is missing or of another run, jobs are missing or went wrong, records come from
    different states of the code, or no commit has this state.
    """
    if not results.is_dir():
        raise InputError(f"{results}: no such directory; allowed: results/<machine>")
    if results.resolve() == recorded.resolve():
        raise InputError(f"{results}: is the recorded study itself; allowed: results/<machine>")
    missing = [name for name in (*FILES, "summary.json") if not (results / name).is_file()]
    if missing:
        raise InputError(f"{results}: {', '.join(missing)} missing; run snakemake to the end first")
    environment = json.loads((results / "environment.json").read_text(encoding="utf-8"))
    commit = find_commit(_read_code(results, environment))
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


def _read_code(results: Path, environment: dict) -> dict[str, str]:
    """Return by path the digest of each file that measured the study; raise InputError where there are several."""
    files = (environment.get("code") or {}).get("files")
    if environment.get("sources"):
        raise InputError(
            f"{results}: has records of an older scheme, which do not say by file what measured them; delete "
            f"{results}/records and run snakemake"
        )
    if not files:
        raise InputError(f"{results}: environment.json names no code, as if no job had run; run snakemake first")
    for file, digests in files.items():
        if len(digests) != 1:
            raise InputError(f"{results}: measured by {len(digests)} states of {file}; snakemake check says what to do")
    return {file: digest for file, (digest,) in files.items()}


def find_commit(code: dict[str, str]) -> str:
    """Return the newest commit that has these files with these digests; raise InputError where none has."""
    folders = sorted({path.relative_to(ROOT).as_posix() for path in (code_digest.HARNESS, code_digest.KERNELS)})
    known: dict[str, str] = {}  # by git's name of a file's content, which many commits share
    differs = list(code)
    for commit in _git("log", "--format=%H", "--", *folders).split():
        listed = (line.split("\t") for line in _git("ls-tree", "-r", commit, "--", *folders).splitlines())
        blobs = {path: meta.split()[2] for meta, path in listed if path in code}
        for blob in set(blobs.values()) - known.keys():
            known[blob] = _read_digest(blob)
        now = code_digest.find_changed(code, {path: known[blob] for path, blob in blobs.items()})
        if not now:
            return commit
        differs = min(differs, now, key=len)
    raise InputError(f"no commit has the code that measured this ({name_some(differs)}); commit it before measuring")


def _read_digest(blob: str) -> str:
    """Return the digest of a file by git's name of its content, "" if this Python cannot parse it."""
    with suppress(*code_digest.UNREADABLE):
        return code_digest.of_source(_ask_git("cat-file", "blob", blob))
    return ""


def _git(*arguments: str) -> str:
    return _ask_git(*arguments).decode()


def _ask_git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True)
    if done.returncode:
        raise InputError(f"git {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
