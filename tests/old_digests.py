"""Digests by schemes 1 and 2, which recorded studies have: of the bytes of all files that measured, named by git."""

import hashlib
import re
import subprocess

from kernelbench.paths import ROOT

SOURCES = ("workflow/kernelbench/harness", "kernels")
PINS = ("envs/requirements.txt", "envs/constraints-cuda.txt")
# Scheme 2 marked its digests, and covered of the files that pin packages only the lines of those that measure.
MARK = "v2-"
PINNED = re.compile(r"(?:torch|triton|numpy|cuda-[\w-]+|nvidia-(?!ml-py)[\w-]+)==.*")


def digest_at(commit: str, scheme: int) -> str:
    """Return the digest of the code that measures at a commit."""
    listed = (line.split("\t") for line in git("ls-tree", "-r", commit, "--", *SOURCES, *PINS).splitlines())
    blobs = {path: meta.split()[2] for meta, path in listed}
    sources = {path: blob for path, blob in blobs.items() if path.endswith(".py")}
    if scheme == 1:
        return _combine(sources | {PINS[0]: blobs[PINS[0]]})
    return MARK + _combine(sources | {name: _pins_at(commit, name) for name in PINS if name in blobs})


def _pins_at(commit: str, name: str) -> str:
    content = "\n".join(filter(PINNED.match, git("show", f"{commit}:{name}").splitlines())).encode()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _combine(blobs: dict[str, str]) -> str:
    return hashlib.sha256("\n".join(f"{path} {blobs[path]}" for path in sorted(blobs)).encode()).hexdigest()[:16]


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout
