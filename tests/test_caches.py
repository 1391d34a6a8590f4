"""The headers that all jobs compile C++ with; test_start.py has the jobs themselves."""

import subprocess
import tempfile
from pathlib import Path

import pytest
from torch._inductor import codecache

from kernelbench.harness import caches


@pytest.fixture
def job(monkeypatch, tmp_path):
    """Return what the next job does before its first call: (its directory of headers, how the process ended or None).

    The process that makes them, here none, ends with the code that is given.
    """
    monkeypatch.setattr(caches, "_made", None)
    for name in ("_HEADER_DIR", "_HEADER_LOCK_DIR"):
        monkeypatch.setattr(codecache, name, "")

    def prepare(name: str, code: int) -> tuple[Path, list[int]]:
        codes = []

        def make(command, **options):
            Path(command[-1], "a.h").touch()
            if code == 0:
                Path(command[-1], "a.h.gch").write_text(name)
            codes.append(code)
            return subprocess.CompletedProcess(command, code)

        scratch = tmp_path / name
        scratch.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(scratch))
        monkeypatch.setattr(subprocess, "run", make)
        caches.confine_headers(str(tmp_path / "shared" / "made"))
        assert Path(codecache._HEADER_DIR).parent == scratch
        caches.prepare_headers()
        return Path(codecache._HEADER_DIR), codes

    return prepare


def test_headers_are_made_once_and_lie_in_each_jobs_own_directory(job, tmp_path):
    for name, codes in (("first", [0]), ("second", []), ("third", [])):
        own, seen = job(name, 0)
        assert (own.parent.name, seen) == (name, codes)
        assert (own / "a.h.gch").read_text() == "first"
    (own / "b.h").touch()  # What only this job needs.
    assert sorted(path.name for path in (tmp_path / "shared").iterdir()) == ["a.h", "a.h.gch", "made"]


def test_headers_that_could_not_be_made_are_left_to_the_next_job(job, tmp_path):
    own, codes = job("first", 1)
    assert codes == [1] and not list((tmp_path / "shared").iterdir()), "half of them is shared"
    own, codes = job("second", 0)
    assert codes == [0] and (own / "a.h.gch").read_text() == "second"
