"""Check where a run is and that it can write, and say in one line what Snakemake would show as a traceback."""

import os
import shlex
import shutil
import sys
from pathlib import Path

from kernelbench.errors import InputError

# A disk with fewer free bytes than this is full: a record takes some kilobytes.
FULL = 2**16


def require_checkout(checkout: Path, configfiles: list[str]) -> None:
    """Refuse to run anywhere but in the checkout, and say what to run, with the `configfiles` of the command line."""
    here = Path.cwd()
    if not here.samefile(checkout):
        options = ["--configfile", *(str(Path(file).resolve()) for file in configfiles)] if configfiles else []
        command = f"{shlex.join(['cd', str(checkout)])} && {shlex.join(['snakemake', *options])}"
        raise InputError(f"{here}: is not the checkout of {checkout / 'Snakefile'}; run: {command}")


def require_writable() -> None:
    """Refuse to run where Snakemake cannot write, as even its dry run does."""
    for path in (Path.cwd(), Path.cwd() / ".snakemake"):
        if path.exists() and not os.access(path, os.W_OK):
            raise InputError(f"{path}: is not writable by this user; run snakemake in a copy of the checkout")
    if full := _find_full(Path.cwd()):
        raise InputError(full)


def say_if_full(results: Path) -> None:
    """Print a line if the disk of `results` is full, because a job's own log has no room for one."""
    if full := _find_full(results):
        print(full, file=sys.stderr)


def _find_full(directory: Path) -> str | None:
    """Return the line to print if the disk of `directory` is full, else None; the directory need not exist yet."""
    there = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    is_full = shutil.disk_usage(there).free < FULL
    return f"{directory}: No space left on device; make room and run snakemake again" if is_full else None
