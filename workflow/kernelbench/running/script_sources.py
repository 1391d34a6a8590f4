"""Sources: the files that a script is made of, so that what it makes is made again once one of them changes."""

import ast
from functools import cache
from pathlib import Path

WORKFLOW = Path("workflow")
# What measures is no source of a table, unlike what it loads: each record names the files that measured it.
HARNESS = WORKFLOW / "kernelbench/harness"


def sources(script: str) -> list[str]:
    """Return, from the root of the checkout, the file of a script and those of the library that it needs, sorted.

    script: the name of a file of workflow/scripts, without its suffix. Raises FileNotFoundError where there is none.
    """
    found, left = set(), [WORKFLOW / f"scripts/{script}.py"]
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += _imports(path)
    return sorted(str(path) for path in found if HARNESS not in path.parents)


@cache
def _imports(path: Path) -> list[Path]:
    """Return the files of the library that a file imports at any place, with the packages that they are in."""
    names = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    modules = {WORKFLOW.joinpath(*name.split(".")) for name in names if name.startswith("kernelbench.")}
    modules = {part for module in modules for part in (module, *module.parents) if WORKFLOW in part.parents}
    files = {file for module in modules for file in (module.with_suffix(".py"), module / "__init__.py")}
    return [file for file in sorted(files) if file.is_file()]
