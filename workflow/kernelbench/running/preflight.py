"""Where a run is and whether it can write: said in one line where Snakemake would show a traceback, or nothing."""

import os
import shlex
import shutil
import sys
from pathlib import Path

from kernelbench.errors import InputError

# Bytes of free space that are none: a record takes some kilobytes.
FULL = 2**16


def require_checkout(checkout: Path, configfiles: list[str]) -> None:
    """Raise InputError unless this is the directory of the checkout, which all paths of the workflow start from.

    configfiles: what the command line named, for the line that says what to run instead.
    """
    here = Path.cwd()
    if not here.samefile(checkout):
        named = ["--configfile", *(str(Path(file).resolve()) for file in configfiles)] if configfiles else []
        command = shlex.join(["cd", str(checkout)]) + " && " + shlex.join(["snakemake", *named])
        raise InputError(f"{here}: is not the checkout of {checkout / 'Snakefile'}; run: {command}")


def require_writable() -> None:
    """Raise InputError where Snakemake cannot write in the directory that it runs in, as even its dry run does."""
    for path in (Path.cwd(), Path.cwd() / ".snakemake"):
        if path.exists() and not os.access(path, os.W_OK):
            raise InputError(f"{path}: is not writable by this user; run snakemake in a copy of the checkout")
    if _is_full(Path.cwd()):
        raise InputError(_line(Path.cwd()))


def say_if_full(results: Path) -> None:
    """Say it where the disk of `results` is full: the log of a job that failed for it has no room for a line."""
    if _is_full(next(path for path in (results, *results.absolute().parents) if path.exists())):
        print(_line(results), file=sys.stderr)


def _is_full(directory: Path) -> bool:
    return shutil.disk_usage(directory).free < FULL


def _line(directory: Path) -> str:
    return f"{directory}: No space left on device; make room and run snakemake again"
