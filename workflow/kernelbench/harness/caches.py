"""Fresh compile caches and fixed host settings for one job; set before torch is imported."""

import hashlib
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


@contextmanager
def fresh(threads: int):
    """Give the job empty Inductor and Triton caches of its own, `threads` host threads, and one compile worker.

    Each repeat thus compiles and tunes anew, so that the run-to-run spread of tuning is in its interval.
    One worker, in the process: a pool that starts up beside the job would disturb what it measures.
    Yields the caches' directory, which is removed at the end.
    """
    root = Path(tempfile.mkdtemp(prefix="kernelbench-"))
    settings = {name: str(root / name.lower()) for name in CACHES}
    settings |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    settings |= {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield root
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        shutil.rmtree(root, ignore_errors=True)


def generated_code(root: Path) -> str | None:
    """Return a digest of the code that compilation generated under `root`, or None where there is none.

    Repeats with different digests run different code: tuning picked something else.
    """
    files = [p for p in root.rglob("*") if p.suffix in (".py", ".cpp", ".ttir") and p.is_file()]
    texts = sorted(p.read_text(errors="replace").replace(str(root), "") for p in files)
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16] if texts else None
