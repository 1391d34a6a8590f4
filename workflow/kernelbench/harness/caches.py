"""Fresh compile caches for one job, the headers that it compiles C++ with, and a digest of what was compiled."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

# Of Inductor, of Triton, and of the few kernels that PyTorch itself compiles when it first runs them.
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "PYTORCH_KERNEL_CACHE_PATH")
# Inductor sets the place of its precompiled headers when this is imported, by TMPDIR, whatever its cache is.
CODECACHE = "torch._inductor.codecache"
# The file that says that the headers beside it are made, for all jobs of this machine; None: the job makes its own.
_made: Path | None = None


@contextmanager
def fresh():
    """Give the job empty compile caches of its own; torch and Triton read the variables when they compile.

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


def confine_headers(made: str | None) -> None:
    """Have Inductor keep its precompiled C++ headers in this job's temporary directory, before it compiles.

    Where a warm parent has imported Inductor, they would lie in the user's: the first job to compile would make them
    for all others. made: as `_made`, for `prepare_headers`.
    """
    global _made
    _made = Path(made) if made else None
    if CODECACHE in sys.modules:
        _keep_headers(_place_own())


def prepare_headers() -> None:
    """Give this job the headers that all share, and make them if nobody has, so that no first call does.

    A user waits for them once and has them ever after. Another process makes them by compiling a little: so they are
    what Inductor looks for, and its state in this process and the job's caches stay as they were. Where that process
    fails, the job meets the same error, or makes its own.
    """
    if _made is None:
        return
    own = _place_own()
    _made.parent.mkdir(exist_ok=True)
    _link(_made.parent, own)
    if not _made.exists():
        command = [sys.executable, "-m", "kernelbench.harness.caches", str(own)]
        if subprocess.run(command, capture_output=True).returncode == 0:
            _link(own, _made.parent)
            _made.touch()
    _keep_headers(own)


def _place_own() -> Path:
    """Return the directory of this job's headers, which is made."""
    path = Path(tempfile.gettempdir(), "headers")
    path.mkdir(exist_ok=True)
    return path


def _keep_headers(directory: Path) -> None:
    from torch._inductor import codecache

    codecache._HEADER_DIR, codecache._HEADER_LOCK_DIR = str(directory), str(directory / "locks")


def _link(source: Path, target: Path) -> None:
    """Link the headers of one directory into another; what cannot be linked is made anew."""
    for header in source.glob("*.h*"):
        with suppress(OSError):
            (target / header.name).hardlink_to(header)


def _make_headers(directory: Path) -> None:
    """Compile a little C++ with Inductor, for which it makes its headers, and leave nothing else behind."""
    import torch

    with fresh():
        _keep_headers(directory)
        torch.compile(lambda x: x + 1)(torch.ones(8))


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


if __name__ == "__main__":
    _make_headers(Path(sys.argv[1]))
