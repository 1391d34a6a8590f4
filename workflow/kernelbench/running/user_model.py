"""A user's model before the run: what `inspect_model` finds out about it, asked once for each state of its files."""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from importlib import metadata
from pathlib import Path

from kernelbench import code_digest
from kernelbench.errors import InputError
from kernelbench.harness import child, environment
from kernelbench.running import gpu_lanes

# Where answers are kept; Snakemake's own folder of notes.
KEPT = Path(".snakemake/models")


def inspect(named: str, device: str, here: bool) -> dict:
    """Return what `inspect_model.inspect` does of a model, with file, function and digest.

    named: FILE.py, FILE.py:FUNCTION, or the same of the dotted name of a module; device: "cuda" or "cpu"; here: whether
    this machine measures, and so can call the model. Raises InputError, one line, for whatever is wrong with the model.
    """
    file, _, function = named.partition(":")
    file, function = str(Path(file).expanduser()) if file.endswith(".py") else file, function or "model"
    asked = [str(Path(file).resolve()), function, device if here else "", sys.version, metadata.version("torch")]
    kept = KEPT / f"{hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]}.json"
    found = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else None
    if found is None or any(code_digest.of_user_file(Path(path)) != known for path, known in found["files"].items()):
        found = _ask(file, function, device, here)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(found), encoding="utf-8")
    # By name and content, so that a folder may move.
    contents = json.dumps(sorted((Path(path).name, content) for path, content in found["files"].items()))
    digest = hashlib.sha256(contents.encode()).hexdigest()[:16]
    return {**found, "file": file, "function": function, "digest": digest}


def _ask(file: str, function: str, device: str, here: bool) -> dict:
    """Ask in a process of its own, which has the environment of a job and, on a GPU, its lock."""
    gpu = gpu_lanes.list_gpus(device)[0] if here else gpu_lanes.CPU
    variables = environment.build(os.environ, child.variables({"seed": 0, "repeat": 0, "threads": 1}, gpu))
    with tempfile.TemporaryDirectory() as folder, gpu_lanes.hold(gpu) if here else nullcontext():
        answer = Path(folder, "answer.json")
        command = [sys.executable, "-m", "kernelbench.running.inspect_model", file, function, device if here else ""]
        done = subprocess.run([*command, str(answer)], env=variables, capture_output=True, text=True)
        if not answer.is_file():
            said = (done.stderr.strip().splitlines() or ["nothing was printed"])[-1]
            raise InputError(f"{file}: the process that called it once ended with {done.returncode}: {said}")
        found = json.loads(answer.read_text(encoding="utf-8"))
        if "error" in found:
            raise InputError(found["error"])
        return found
