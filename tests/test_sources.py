"""What is made of a file of the library is made again once that file changes."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kernelbench.imports import sources

ROOT = Path(__file__).resolve().parent.parent
RULE = re.compile(r"^(?:rule|use rule (\w+) as) (\w+)(?: with)?:\n(.*?)(?=^\S)", re.MULTILINE | re.DOTALL)
LOADED = """
import runpy, sys
runpy.run_path(sys.argv[1])
ours = [module for name, module in sys.modules.items() if name.split(".")[0] == "kernelbench"]
print(*(module.__file__ for module in ours if module.__file__))
"""


def rules() -> dict[str, tuple[str, str | None]]:
    """Return by rule the script that it calls and the one whose sources it depends on, if any."""
    found = {}
    for path in sorted((ROOT / "workflow/rules").glob("*.smk")):
        for parent, name, body in RULE.findall(path.read_text(encoding="utf-8") + "end"):
            script = re.search(r"python workflow/scripts/(\w+)\.py", body)
            code = re.search(r'code=sources\("(\w+)"\)', body)
            found[name] = (script[1] if script else found.get(parent, [None])[0], code[1] if code else None)
    return found


def test_a_rule_depends_on_the_sources_of_the_script_that_it_calls():
    found = {name: pair for name, pair in rules().items() if pair[1]}
    assert {script for script, _ in found.values()} >= {
        "collect",
        "summarize",
        "draw_figures",
        "check",
        "write_article",
    }
    assert [name for name, (script, code) in found.items() if script != code] == []


@pytest.mark.parametrize("script", sorted({code for _, code in rules().values() if code}))
def test_all_that_a_script_loads_is_among_its_sources(script, monkeypatch):
    monkeypatch.chdir(ROOT)
    command = [sys.executable, "-c", LOADED, f"workflow/scripts/{script}.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    loaded = {str(Path(file).relative_to(ROOT)) for file in ran.stdout.split()}
    named = set(sources(script))
    assert {file for file in loaded if "/harness/" not in file} <= named
    assert f"workflow/scripts/{script}.py" in named and len(loaded) > 1


def test_no_script_of_that_name_is_an_error(monkeypatch):
    monkeypatch.chdir(ROOT)
    with pytest.raises(FileNotFoundError, match="sumarize"):
        sources("sumarize")


# The stages in the order in which they may import: each only from itself and from those before it.
STAGES = [
    "", "harness", "study", "running", "records", "analysis", "planning", "claims", "figures", "paper", "page", "site",
]  # fmt: skip


def stage_of(module: str) -> int:
    """Return the place of a module's stage; 0 for what is for all of them."""
    name = module.removeprefix("kernelbench").strip(".").partition(".")[0]
    return STAGES.index(name) if name in STAGES else 0


def test_no_import_runs_against_the_stages():
    library = ROOT / "workflow"
    wrong = []
    for path in (library / "kernelbench").rglob("*.py"):
        module = ".".join(path.relative_to(library).with_suffix("").parts)
        found = [node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.ImportFrom)]
        names = [f"{node.module}.{alias.name}" for node in found if node.module for alias in node.names]
        names = [name for name in names if name.startswith("kernelbench.") and ".kernels." not in name]
        wrong += [f"{module}: {name}" for name in names if stage_of(name) > stage_of(module)]
    assert wrong == []
