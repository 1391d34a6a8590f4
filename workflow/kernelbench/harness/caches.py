"""Fresh compile caches for one job, and a digest of what was compiled into them."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


@contextmanager
def fresh():
    """Give the job empty Inductor and Triton caches of its own; torch and Triton read the variables at each use.

    Each repeat thus compiles and tunes anew, so that the run-to-run spread of tuning is in its interval.
    Yields the caches' directory, which is removed at the end.
    """
    root = Path(tempfile.mkdtemp(prefix="kernelbench-"))
    before = {name: os.environ.get(name) for name in CACHES}
    os.environ.update({name: str(root / name.lower()) for name in CACHES})
    try:
        yield root
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        shutil.rmtree(root, ignore_errors=True)


def fill_by_another_process(settings: dict) -> None:
    """Let another process make the first call of the job of `settings`; raise RuntimeError where it does not."""
    command = [sys.executable, "-m", "kernelbench.harness.measure"]
    done = subprocess.run(command, input=json.dumps(settings), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(
            f"the process that fills the caches: {(done.stderr.strip() or 'no reason').splitlines()[-1]}"
        )


def generated_code(root: Path) -> str | None:
    """Return a digest of the code that compilation generated under `root`, or None where there is none.

    Repeats with different digests run different code: tuning picked something else. Inductor keeps its pick for a
    Triton kernel in a file of its own, beside the code of all that it tried.
    """
    files = [p for p in root.rglob("*") if p.suffix in (".py", ".cpp", ".ttir") and p.is_file()]
    texts = sorted(p.read_text(errors="replace").replace(str(root), "") for p in files)
    texts += sorted(_pick(p) for p in root.rglob("*.best_config"))
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16] if texts else None


def _pick(path: Path) -> str:
    """Return what tuning picked, without how long it took."""
    pick = json.loads(path.read_text(encoding="utf-8"))
    return json.dumps({key: value for key, value in pick.items() if not key.startswith("time_")}, sort_keys=True)
