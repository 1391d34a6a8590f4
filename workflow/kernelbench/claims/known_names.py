"""Names that a rule on rows may use: what else it names would select nothing, and say so nowhere."""

from collections.abc import Mapping

import yaml

from kernelbench.analysis.studies import OPS
from kernelbench.harness.provenance import ROOT
from kernelbench.study.config import RECORDED
from kernelbench.study.metrics import ALL, DERIVED, MEASURED


def known(*studies: Mapping) -> dict[str, list[str]]:
    """Return by key of a rule the names of it that recorded studies, those of the repository and `studies` have."""
    files = [*RECORDED.glob("*/study.yaml"), ROOT / "config.yaml", *(ROOT / "workflow" / "studies").glob("*.yaml")]
    found = [*studies, *(yaml.safe_load(file.read_text(encoding="utf-8")) for file in sorted(files))]
    found += [preset for study in found for preset in study.get("presets", {}).values()]
    ops = [(op, entry) for study in found for op, entry in study.get("ops", {}).items()]
    modes = [mode for study in found for mode in study.get("modes", {})]
    topics = [OPS, *(study["study"] for study in found if "study" in study)]
    names = {
        "study": [*topics, *(f"cpu-{name}" for name in topics)],
        "op": [op for op, _ in ops],
        "dtype": [dtype for entry in (*found, *(entry for _, entry in ops)) for dtype in entry.get("dtypes", ())],
        "size": [*(str(size) for _, entry in ops for size in entry.get("sizes", ())), ALL],
        "mode": modes,
        "baseline": modes,
        "metric": [*MEASURED, *DERIVED],
    }
    return {key: list(dict.fromkeys(found)) for key, found in names.items()}
