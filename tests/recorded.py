"""What is rebuilt from a recorded study, which keeps no summary.json."""

import hashlib
import json
import shutil
from functools import cache
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock

from kernelbench.analysis import host_law
from kernelbench.analysis.studies import Studies
from kernelbench.analysis.summary import summarize
from kernelbench.study.config import RECORDED

ROOT = Path(__file__).parents[1]
# Below pytest's own cache, which `make clean` removes.
KEPT = ROOT / ".pytest_cache" / "rebuilt"


def rebuilt(name: str) -> dict:
    """Return the content of summary.json for the recorded study `name`, a new one that a test may change."""
    return json.loads(_text(name))


@cache
def _text(name: str) -> str:
    """Summarize once for all processes, and runs, until what it is made from changes: all studies take two minutes."""
    path = KEPT / name / f"{_digest(name)}.json"
    KEPT.mkdir(parents=True, exist_ok=True)
    with FileLock(KEPT / f"{name}.lock"):
        if not path.exists():
            text = json.dumps(summarize(RECORDED / name)[2])
            shutil.rmtree(path.parent, ignore_errors=True)
            path.parent.mkdir()
            unfinished = path.with_suffix(".part")
            unfinished.write_text(text, encoding="utf-8")
            unfinished.rename(path)
        return path.read_text(encoding="utf-8")


def _digest(name: str) -> str:
    """Return a digest of the study, of all code that may summarize it, and of the packages that this calls."""
    files = [*(RECORDED / name).glob("*.*"), *(ROOT / "workflow" / "kernelbench").rglob("*.py")]
    texts = [str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() for path in sorted(files)]
    texts += [version(package).encode() for package in ("numpy", "pandas", "pyarrow", "scipy")]
    return hashlib.sha256(b"".join(hashlib.sha256(text).digest() for text in texts)).hexdigest()[:16]


def studied(*names: str) -> Studies:
    """Return these recorded studies with the law applied to them, new ones that a test may change."""
    found = Studies([rebuilt(name) for name in names])
    host_law.apply(found)
    return found
