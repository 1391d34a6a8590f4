"""The names that rules may use: a rule with any other name would select no rows, and nobody would notice."""

from collections.abc import Mapping

import yaml

from kernelbench.analysis.studies import OPS
from kernelbench.claims.rule_file import values
from kernelbench.errors import InputError
from kernelbench.paths import ROOT
from kernelbench.study.cells import workload_name
from kernelbench.study.config import RECORDED
from kernelbench.study.metrics import ALL, DERIVED, MEASURED
from kernelbench.study.validation import require_known


def known(*studies: Mapping) -> dict[str, list[str]]:
    """Return the names that each key of a rule may have: those of `studies`, of recorded ones and of the repository."""
    files = [*RECORDED.glob("*/study.yaml"), ROOT / "config.yaml", *(ROOT / "workflow" / "studies").glob("*.yaml")]
    found = [*studies, *(yaml.safe_load(file.read_text(encoding="utf-8")) for file in sorted(files))]
    found += [preset for study in found for preset in study.get("presets", {}).values()]
    ops = [(op, entry) for study in found for op, entry in study.get("ops", {}).items()]
    modes = [mode for study in found for mode in study.get("modes", {})]
    topics = [OPS, *(study["study"] for study in found if "study" in study)]
    names = {
        "study": [*topics, *(f"cpu-{name}" for name in topics), *(f"{name} 2" for name in topics)],
        "op": [op for op, _ in ops],
        "workload": [workload_name(op, entry) for op, entry in ops],
        "dtype": [dtype for entry in (*found, *(entry for _, entry in ops)) for dtype in entry.get("dtypes", ())],
        "size": [*(str(size) for _, entry in ops for size in entry.get("sizes", ())), ALL],
        "mode": modes,
        "baseline": modes,
        "metric": [*MEASURED, *DERIVED],
    }
    return {key: list(dict.fromkeys(found)) for key, found in names.items()}


def check_names(claims: list[dict], file: str, names: Mapping[str, list[str]]) -> None:
    """Raise InputError if two claims have the same id, or if a rule uses a name that is not among `names`."""
    ids = [claim["id"] for claim in claims]
    for claim in claims:
        what, rule = f"{file}: {claim['id']}", claim.get("rule", {})
        if ids.count(claim["id"]) > 1:
            raise InputError(f"{what}: is given twice; allowed: each id once")
        cells = [cell.split() for cell in rule.get("cells", [])]
        of_cells = {"op": [op for op, _ in cells], "size": [size for _, size in cells]}
        for key, allowed in names.items():
            for name in [*values(rule.get(key, [])), *of_cells.get(key, [])]:
                require_known(f"{what}: rule.{key}", name, allowed)
