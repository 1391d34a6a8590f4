"""Which files a script or a kernel is made of, so that what it makes is made again once one of them changes."""

import ast
from contextlib import suppress
from functools import cache
from pathlib import Path

from kernelbench.paths import ROOT, WORKFLOW


@cache
def files_of(path: Path, root: Path, packages: bool = True) -> tuple[Path, ...]:
    """Return a Python file and those that it imports from below `root`, itself or through others, sorted.

    packages: whether the `__init__.py` of a package that it is in or imports from is one of them.
    """
    found, left = set(), [path]
    while left:
        each = left.pop()
        if each not in found and each.is_file() and (packages or each.name != "__init__.py"):
            found.add(each)
            left += find_imported(each, root)
    return tuple(sorted(found))


@cache
def find_imported(path: Path, root: Path) -> list[Path]:
    """Return the modules and packages below `root` that a file imports anywhere."""
    names, package = [], path.relative_to(root).parts[:-1] if root in path.parents else ()
    with suppress(SyntaxError, ValueError):  # What runs the file reports it.
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                names += [alias.name.split(".") for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level <= len(package):
                start = [*package[: len(package) + 1 - node.level]] if node.level else []
                start += node.module.split(".") if node.module else []
                names += [[*start, alias.name] for alias in node.names]
    prefixes = {tuple(name[:length]) for name in names for length in range(1, len(name) + 1)}
    modules = [root.joinpath(*prefix) for prefix in prefixes]
    return [file for module in modules for file in (module.with_suffix(".py"), module / "__init__.py")]


def sources(script: str) -> list[str]:
    """Return, from the top of the checkout, the file of workflow/scripts/ and those of the library that it needs.

    script: its name without the suffix. What measures is not among them: each record names the files that measured it.
    Raises FileNotFoundError for an unknown script.
    """
    path = WORKFLOW / "scripts" / f"{script}.py"
    if not path.is_file():
        raise FileNotFoundError(path)
    found = files_of(path, WORKFLOW)
    return [file.relative_to(ROOT).as_posix() for file in found if "harness" not in file.parts]
