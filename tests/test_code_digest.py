"""Digests of the code that measures: what changes them, for which jobs, and that no Python disagrees."""

import ast
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest
from checkout import TINY, Checkout

from kernelbench import code_digest
from kernelbench.errors import InputError
from kernelbench.paths import ROOT
from kernelbench.study.config import RECORDED
from kernelbench.study.study import Study, load

HARNESS = "workflow/kernelbench/harness"
# Syntax on which the trees of Python 3.11, 3.12 and 3.13 differ, or may.
SAMPLE = '''
"""A module."""
from __future__ import annotations
import os, sys as system

def f(a, /, b: int = 1, *rest, c=(1, None, ...), **others) -> "str":
    """A function."""
    first = f"{a!r:>{b}.3f} and {{braces}} " "and" f" {rest=} {others['x']:}" u"more" + b"\\x00".decode()
    match a:
        case {"x": [1, *_], **kept} if kept: pass
        case str() | None: return f'{a}' f'{b}'
    try:
        with open(a) as x, open(b): yield lambda: (x := -1e3j)
    except* ValueError as e: raise RuntimeError from e
    return [*rest, {**others}, "é€\\N{BULLET}\\x00", 0x10, 10**400, 1_000.5]

class C(object, metaclass=type):
    x: int
    async def g(self): await self
'''
DIGEST = "d3294be86341d114"


def test_the_digest_of_a_source_is_known():
    """It must be this value on every Python: else records that one of them wrote are obsolete for another."""
    assert code_digest.of_source(SAMPLE) == DIGEST


def pythons() -> list[str]:
    """Return the other Pythons that are installed, of those that the project supports."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    found = [*pyenv.glob("3.1[123].*/bin/python"), *Path("/usr/bin").glob("python3.1[123]")]
    return [str(path) for path in sorted(found)]


OF_ALL = """
from kernelbench import code_digest as found
files = [*found.HARNESS.rglob("*.py"), *found.KERNELS.glob("*.py")]
print(found.combine({str(path): found.of_file(path) for path in files}))
"""


@pytest.mark.skipif(not pythons(), reason="no other Python is installed")
def test_all_pythons_give_the_code_the_same_digest():
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
    commands = [[python, "-c", OF_ALL] for python in (sys.executable, *pythons())]
    told = [subprocess.run(each, env=environment, capture_output=True, text=True, check=True) for each in commands]
    assert len({done.stdout for done in told}) == 1


@pytest.mark.parametrize(
    "other",
    [
        'def f(x):\n    "Another docstring."\n    return x + 1  # and a comment',
        "def f(x): return x + 1",
        "\n\ndef f(\n    x,\n):\n\n    return (x+1)\n",
        "def f(x):\r\n    return x + 0x1\r\n",
        "def f(x):\n    pass\n    return x + 1",
    ],
)
def test_what_does_the_same_has_the_same_digest(other):
    assert code_digest.of_source(other) == code_digest.of_source('def f(x):\n    """Add."""\n    return x + 1\n')


@pytest.mark.parametrize(
    "other",
    [
        "def f(x): return x + 2",
        "def f(x): return x + 1.0",
        "def f(x): return x + True",
        "def f(x): return x - 1",
        "def f(x): return 1 + x",
        "def f(y): return y + 1",
        "def f(x=1): return x + 1",
        "def f(*x): return x + 1",
        "def f(x: int): return x + 1",
        "async def f(x): return x + 1",
        "@f\ndef f(x): return x + 1",
        "def f(x): x + 1",
        "def f(x): return x + 1\nf",
        "def f(x): return f'{x}' + 1",
    ],
)
def test_what_does_something_else_has_another_digest(other):
    assert code_digest.of_source(other) != code_digest.of_source("def f(x): return x + 1")


def test_the_words_of_a_text_count_wherever_they_are_no_docstring():
    assert len({code_digest.of_source(f"x = {text}") for text in ("'a'", "'b'", "b'a'", "f'a'", "f'{a}'")}) == 5
    assert code_digest.of_source("f'a{b}' 'c'") == code_digest.of_source("f'''a{b}c'''")


def test_an_else_that_does_nothing_is_none():
    assert code_digest.of_source("if a: b\nelse: pass") == code_digest.of_source("if a: b")


def test_a_file_that_is_no_python_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(code_digest, "ROOT", tmp_path)
    (tmp_path / "broken.py").write_text("a = 1\ndef (")
    with pytest.raises(InputError, match=r"^broken\.py: line 2: is not Python \(.*\); correct it$"):
        code_digest.of_file(tmp_path / "broken.py")
    assert code_digest.of_user_file(tmp_path / "broken.py"), "whoever imports it says what is wrong"


def test_what_an_editor_leaves_beside_an_open_file_is_no_code(tmp_path, monkeypatch):
    for name in ("ROOT", "HARNESS", "KERNELS"):
        monkeypatch.setattr(code_digest, name, tmp_path)
    before = code_digest.fingerprint()
    (tmp_path / ".#timers.py").symlink_to("nowhere")
    assert code_digest.fingerprint() == before
    (tmp_path / "timers.py").write_text("a = 1")
    assert code_digest.fingerprint() != before


@pytest.mark.slow
def test_a_job_that_imports_edited_code_leaves_no_record(tmp_path):
    """By a workload that edits its own file when the job loads it."""
    checkout = Checkout(tmp_path, TINY)
    path = tmp_path / HARNESS / "workloads/softmax.py"
    edit = "\n    def load(self):\n        open(__file__, 'a').write('CHANGED = 1\\n')\n"
    path.write_text(path.read_text().replace("    def shapes(", f"{edit}\n    def shapes("))
    command = [sys.executable, "workflow/scripts/measure.py", "--op", "softmax", "--size", "128", "--mode", "eager"]
    command += ["--output", "0.json"]
    done = subprocess.run(command, cwd=tmp_path, env=checkout.variables, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith(f"{HARNESS}/workloads/softmax.py: changed during the run")
    assert path.read_text().endswith("CHANGED = 1\n") and not (tmp_path / "0.json").exists()


LOADED = """
import json, sys
from kernelbench.harness import child, record
from kernelbench.harness.measure import measure
entry = measure(json.loads(sys.argv[1]))
assert entry["status"] == "ok", entry["reason"]
print(json.dumps([module.__file__ for module in sys.modules.values() if getattr(module, "__file__", None)]))
"""


@pytest.mark.parametrize(
    ("op", "mode"),
    [
        ({"softmax": {"rows": 64, "sizes": [128]}}, {"runner": "eager"}),
        (
            {"gpt_training": {"width": 32, "heads": 2, "sequence": 8, "sizes": [1]}},
            {"runner": "compile", "backend": "aot_eager"},
        ),
        ({"own": {"workload": "mlp", "sizes": [4]}}, {"runner": "jit"}),
    ],
    ids=["an operation", "a training step that is compiled", "a model in TorchScript"],
)
def test_what_a_job_loads_is_what_counts_for_it_and_nothing_else(op, mode):
    modes = {"eager": {"runner": "eager"}, "other": mode}
    study = Study({**TINY, "ops": op, "modes": modes})
    job = next(job for job in study.jobs if job.mode == "other")
    settings = study.settings(job)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
    command = [sys.executable, "-c", LOADED, json.dumps(settings)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    folders = (code_digest.HARNESS, code_digest.KERNELS)
    loaded = {
        path
        for path in map(Path, json.loads(ran.stdout.splitlines()[-1]))
        if any(folder in path.parents for folder in folders)
    }
    assert {path.relative_to(ROOT).as_posix() for path in loaded} == {*code_digest.files_of_job(settings)}


# A recorded study of a CPU that any machine can plan, with operations, models and other runtimes.
STUDY = "cpu-amd-epyc-models"
OUTDATED = """
import json, sys
from pathlib import Path
from kernelbench.running.freshness import find_changes
from kernelbench.study.study import load
study = load(Path(sys.argv[1]))
print(json.dumps([job.path for job in study.jobs if find_changes(study, job, Path(study.results, job.path))]))
"""


class Restored(Checkout):
    """A copy of the checkout with the records of a recorded study, as if it had measured them."""

    def __init__(self, path: Path):
        super().__init__(path, recorded=(STUDY,))
        self.file = f"results/recorded/{STUDY}/study.yaml"
        self.study = load(RECORDED / STUDY / "study.yaml")
        self.python("workflow/scripts/restore.py", f"results/recorded/{STUDY}")

    def python(self, *arguments: str) -> str:
        variables = {**self.variables, "PYTHONPATH": str(self.path / "workflow")}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.path, env=variables, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def outdated(self) -> set[str]:
        """Return the records that a run would measure again."""
        return {*json.loads(self.python("-c", OUTDATED, self.file))}

    def jobs(self, wanted) -> set[str]:
        return {job.path for job in self.study.jobs if wanted(job)}

    def sources(self) -> list[Path]:
        """Return the files that measure, of this copy."""
        return [*(self.path / HARNESS).rglob("*.py"), *(self.path / "kernels").glob("*.py")]

    def replace(self, name: str, old: str, new: str) -> None:
        path = self.path / name
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture
def restored(tmp_path) -> Restored:
    return Restored(tmp_path / "checkout")


def reword(source: str) -> str:
    """Return a source with every comment and docstring replaced by other words."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(("# noqa", "# fmt", "#!")):
            line, column = token.start
            lines[line - 1] = f"{lines[line - 1][:column]}# Reworded."
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef)
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, owners) and ast.get_docstring(node)]
    for docstring in sorted((node.body[0] for node in found), key=lambda each: -each.lineno):
        lines[docstring.lineno - 1 : docstring.end_lineno] = [f"{' ' * docstring.col_offset}'''Reworded.'''"]
    return "\n".join(lines) + "\n"


@pytest.mark.slow
def test_code_that_measures_may_be_documented_reformatted_and_extended(restored):
    assert restored.outdated() == set()
    for path in restored.sources():
        path.write_text(reword(path.read_text(encoding="utf-8")), encoding="utf-8")
    style = ["--config", "line-length = 72", "--config", "format.quote-style = 'single'"]
    assert all("Reworded." in path.read_text(encoding="utf-8") for path in restored.sources())
    subprocess.run([sys.executable, "-m", "ruff", "format", "-q", *style, *restored.sources()], check=True)
    for folder, name in (("workloads", "softmax.py"), ("runners", "eager.py"), ("libraries", "helion.py")):
        shutil.copyfile(restored.path / HARNESS / folder / name, restored.path / HARNESS / folder / "added.py")
    assert restored.outdated() == set()
    assert "430 jobs, 430 done, 0 left" in restored.run("plan", "--configfile", restored.file)


@pytest.mark.slow
def test_a_changed_constant_makes_the_jobs_obsolete_that_depend_on_it_and_no_others(restored):
    every = restored.jobs(lambda job: True)
    changes = [
        ("workloads/conv.py", "channels: int = 16", "channels: int = 17", lambda job: job.cell.op == "conv"),
        ("runners/jit.py", "check_trace=False", "check_trace=True", lambda job: job.mode == "jit"),
    ]
    for file, old, new, wanted in changes:
        restored.replace(f"{HARNESS}/{file}", old, new)
        changed = restored.jobs(wanted)
        assert restored.outdated() == changed and set() < changed < every
        restored.replace(f"{HARNESS}/{file}", new, old)
    restored.replace(f"{HARNESS}/child.py", "PROTOCOL = 1\n", "PROTOCOL = 2\n")
    assert restored.outdated() == every


def test_no_code_that_measures_reads_its_own_words():
    """What does not count must not do anything, either."""
    files = [*code_digest.HARNESS.rglob("*.py"), *code_digest.KERNELS.glob("*.py")]
    assert not [path for path in files if re.search(r"__doc__|getsource", path.read_text(encoding="utf-8"))]
