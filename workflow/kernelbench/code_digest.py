"""Which code measures a job, and digests of what that code does.

A record names the files that its job imports from the harness and the kernels, each with a digest. The digest covers
the parsed source without comments, docstrings and layout. So every record stays valid while code is documented or
reformatted and files are added. A change of what a file does makes obsolete the records of the jobs that import it.
"""

import ast
import hashlib
from contextlib import suppress
from functools import cache
from pathlib import Path

from kernelbench import imports
from kernelbench.errors import InputError
from kernelbench.paths import ROOT, WORKFLOW

# The scheme of these digests, for records. Schemes 1 and 2 hashed the bytes of all files at once: a record of theirs
# holds one digest, which scheme 2 marks with "v2-", as environment.software.sources.
SCHEME = 3
# Bytes of a file from which on reading it whole, at each run, would take too long.
LARGE = 2**26
HARNESS = WORKFLOW / "kernelbench" / "harness"
KERNELS = ROOT / "kernels"
# Where a job's process begins.
ENTRY = HARNESS / "child.py"
# What Python raises for a source that it cannot parse, or that is nested too deeply.
UNREADABLE = (SyntaxError, ValueError, RecursionError)
# Fields of the parsed source that say nothing of what it does: whether a name is read or set follows from where it
# stands, and a "u" before a text means nothing.
IGNORED = {"ctx", "kind", "type_comment", "type_ignores"}


def of_job(settings: dict) -> dict[str, str]:
    """Return by path, from the top of the checkout, the digest of each file that measures a job of these settings.

    settings: what `Study.settings` returns. Raises InputError, with its name, for a file that is not Python.
    """
    return _of_files(*_loaded_by_name(settings))


def files_of_job(settings: dict) -> list[str]:
    """Return the paths, from the top of the checkout, of the files that measure a job of these settings."""
    return list(of_job(settings))


def of_kernels() -> dict[str, str]:
    """Return by path the digest of each file of hand-written kernels."""
    return {_name(path): of_file(path) for path in _list_files(KERNELS)}


def find_changed(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return the files, sorted, whose digests differ between two states of the code, or that one of them lacks."""
    return sorted(file for file in before.keys() | after.keys() if before.get(file) != after.get(file))


def shorten(path: str) -> str:
    """Return a path of a file that measures as people may read it: harness/timers.py, kernels/softmax.py."""
    return path.removeprefix(f"{_name(HARNESS.parent)}/")


def combine(digests: dict[str, str]) -> str:
    """Return one digest of {path: digest}."""
    return _hash("\n".join(f"{path} {digests[path]}" for path in sorted(digests)))


def fingerprint() -> str:
    """Return a hash of the bytes of all files that measure: it says in milliseconds that none of them has changed."""
    files = [*_list_files(HARNESS), *_list_files(KERNELS)]
    return _hash("\n".join(f"{_name(path)} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files))


def forget() -> None:
    """Let the next question read all files anew, which else are read once in a process."""
    for known in (of_file, _of_files, imports.files_of, imports.find_imported):
        known.cache_clear()


@cache
def of_file(path: Path) -> str:
    """Return `of_source` of a file as it was when this process first asked; raise InputError if it is not Python."""
    try:
        return of_source(path.read_bytes())
    except UNREADABLE as error:
        line = f"line {error.lineno}: " if isinstance(error, SyntaxError) else ""
        raise InputError(f"{_name(path)}: {line}is not Python ({getattr(error, 'msg', error)}); correct it") from None


def of_user_file(path: Path) -> str:
    """Return a digest of a file that may change while this process runs: `of_source`, or of its bytes if not Python.

    Of a LARGE file its size and the time of its last change stand for its bytes. Empty where there is no file.
    """
    if not path.is_file():
        return ""
    found = path.stat()
    if found.st_size > LARGE:
        return _hash(f"{found.st_size} {found.st_mtime_ns}")
    content = path.read_bytes()
    with suppress(*UNREADABLE):
        if path.suffix == ".py":
            return of_source(content)
    return hashlib.sha256(content).hexdigest()[:16]


def of_source(source: bytes | str) -> str:
    """Return a digest, 16 hexadecimal digits, of what a Python source does.

    It is the same on every Python that can parse the source, and for sources that differ only in comments, docstrings,
    blank lines, line ends, quotes and layout. Raises one of UNREADABLE.
    """
    tokens: list[str] = []
    _describe(ast.parse(source), tokens)
    return _hash("\n".join(tokens))


def _loaded_by_name(settings: dict) -> tuple[str, str, str, str]:
    """Return what decides which files a job loads by name: its workload, runner, kernel and library, "" for none."""
    run, workload = settings["run"], settings["workload"]["name"]
    kernel = workload if run["runner"] == "kernel" else ""
    return workload, run["runner"], kernel, run.get("library", "")


@cache
def _of_files(workload: str, runner: str, kernel: str, library: str) -> dict[str, str]:
    parts = {"workloads": workload, "runners": runner, "libraries": library}
    entries = [ENTRY, *(HARNESS / folder / f"{name}.py" for folder, name in parts.items() if name)]
    files = {file for entry in entries for file in imports.files_of(entry, WORKFLOW) if HARNESS in file.parents}
    if kernel:  # The package itself imports all kernels, of which a job calls one.
        files |= {*imports.files_of(KERNELS / f"{kernel}.py", ROOT, packages=False)}
    return {_name(file): of_file(file) for file in sorted(files)}


def _list_files(folder: Path) -> list[Path]:
    """Return the Python files below a folder, without what editors leave there while a file is open."""
    return sorted(path for path in folder.rglob("*.py") if not path.name.startswith("."))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _describe(node, tokens: list[str]) -> None:
    """Append what a node of the parsed source is: its type, and its fields in the order of their names.

    Python's own `ast.dump` differs between versions: fields come and go, and an f-string is cut in other places.
    """
    if isinstance(node, ast.JoinedStr):
        tokens.append("JoinedStr")
        _describe(_join_texts(node.values), tokens)
    elif isinstance(node, ast.AST):
        tokens.append(type(node).__name__)
        for name in sorted({*node._fields} - IGNORED):
            value = getattr(node, name, None)
            if isinstance(value, list):
                value = [each for each in value if not _does_nothing(each)] or None
            if value is not None:
                tokens.append(f".{name}")
                _describe(value, tokens)
        tokens.append("end")
    elif isinstance(node, list):
        tokens.append("[")
        for each in node:
            _describe(each, tokens)
        tokens.append("]")
    else:
        # ascii and not repr, which prints some characters by one version of Unicode and escapes them by another.
        tokens.append(f"{type(node).__name__} {node!a}")


def _does_nothing(statement) -> bool:
    """Say whether a statement has no effect: a docstring or another constant, or `pass`."""
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_constant or isinstance(statement, ast.Pass)


def _join_texts(parts: list[ast.expr]) -> list:
    """Return the parts of an f-string with neighbouring texts made one, and without empty ones."""
    joined: list = []
    for part in parts:
        if not isinstance(part, ast.Constant):
            joined.append(part)
        elif joined and isinstance(joined[-1], str):
            joined[-1] += part.value
        elif part.value:
            joined.append(part.value)
    return joined


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
