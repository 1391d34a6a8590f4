"""A run of Snakemake inside the one that has the directory's lock, for a study other than the config's."""

import subprocess
import sys
from pathlib import Path

import yaml

from kernelbench.errors import InputError


def make(config: dict, results: Path, target: str, gpus: int, command: str) -> None:
    """Make the file `target` below `results` of the study `config`; `command` is the target of the run around it."""
    results.mkdir(parents=True, exist_ok=True)
    path = results / f"{command}.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True), encoding="utf-8")
    line = [sys.executable, "-m", "snakemake", "--nolock", "--cores", str(gpus), "--resources", f"gpu={gpus}"]
    with subprocess.Popen([*line, "--configfile", str(path), "--", str(results / target)]) as inner:
        try:
            inner.wait()
        except BaseException:
            inner.terminate()  # It ends with what it measures; the jobs that are done stay.
            raise
    if inner.returncode:
        raise InputError(f"{results}: not all was measured; snakemake {command} goes on with what is left")
