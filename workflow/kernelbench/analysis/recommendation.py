"""Recommendation: which mode to run a model in, for each of its sizes, and why.

The rule: candidates are the modes whose outputs were compared with eager's, and that are shown to be faster than eager
by the metric. Of these we keep each that no other candidate is shown to be faster than. Of those we recommend the one
with the shortest first call; the others are ties. Where there is no candidate we recommend eager, and nothing where
eager itself has no times. What is faster and was not compared is named.
"""

from kernelbench.analysis.intervals import CONFIDENCE
from kernelbench.analysis.payback import PAID_BY
from kernelbench.analysis.reasons import explain_faster, explain_nothing_faster
from kernelbench.errors import InputError
from kernelbench.study.cells import ARM, CONTROL, Cell, cells_of, find_diagnosed, modes_of
from kernelbench.study.metrics import KERNELS

# What a mode has of the table of measurements.
MEASURED = ("latency", "throughput", "device", KERNELS, "host", "first_call", "peak_memory")
# And of what its compiler and the profiler say.
COMPILED = {
    **{name: name for name in ("launched", "launches", "graphs", "nodes", "breaks")},
    "generated": "kernels",  # by Inductor, of the nodes of its graphs
}
NOT_RUN = {"status": "not measured", "reason": ""}


def recommend(document: dict, metric: str = "latency") -> dict:
    """Return what recommendation.json holds, from the content of the summary.json of a study of one model.

    {name, trains (whether a call is a training step), settings (of PyTorch, that the model's file changes), machine,
    device, software, repeats, boots (of their hosts, None where unknown), metric, confidence, baseline, doubtful {jobs,
    of}, control (the metric's entry of summary.json), cases: [{case, mode, speedup, ci_low, ci_high, ties, uncompared
    (faster modes whose outputs were not compared), reason, modes}]}; the mode is None where eager has no times.
    modes: [{mode, options (its entry of the study), status, compared, note, one {estimate, ci_low, ci_high, unit} or
    None for each of MEASURED, speedup {speedup, ci_low, ci_high, verdict} or None, paid {kind, calls} or None,
    COMPILED}].
    Raises InputError for a metric that is not the time of a call, or was not measured.
    """
    study, environment = document["study"], document["environment"]
    allowed = [name for name in PAID_BY if any(row["metric"] == name for row in document["summary"])]
    if metric not in allowed:
        raise InputError(f"metric: {metric} is no time of a call here; allowed: {', '.join(allowed)}")
    tables, suspects = _Tables(document, metric), document["jobs"]["suspects"]
    name = next(iter(study["ops"]))
    return {
        "name": name,
        "trains": study["ops"][name].get("trains", False),
        "settings": study["ops"][name].get("settings", {}),
        "machine": study["machine"],
        "device": environment["gpu"]["name"] if environment["gpu"] else environment["host"]["cpu"],
        "software": {name: environment["software"].get(name) for name in ("torch", "triton")},
        "repeats": study["repeats"],
        "boots": document["boots"],
        "metric": metric,
        "confidence": CONFIDENCE,
        "baseline": study["baselines"][0],
        "doubtful": suspects and {name: suspects[name] for name in ("jobs", "of")},
        "control": document["control"].get(metric),
        "cases": [tables.judge(cell) for cell in cells_of(study)],
    }


class _Tables:
    """The tables of a summary.json by arm, for one metric."""

    def __init__(self, document: dict, metric: str):
        self.study, self.metric = document["study"], metric
        self.baseline = self.study["baselines"][0]
        self.summary = {(*_arm(row), row["metric"]): row for row in document["summary"]}
        self.speedups = {(*_arm(row), row["baseline"]): row for row in document["speedups"] if row["metric"] == metric}
        self.paid = {_arm(row): row for row in document["payback"] if row["metric"] == metric}
        self.compilation = {_arm(row): row for row in document["compilation"]}
        over = [row for row in document["causes"] if (row["baseline"], row["metric"]) == (self.baseline, metric)]
        self.causes = {_arm(row): row["cause"] for row in over}

    def judge(self, cell: Cell) -> dict:
        """Return the entry of a cell in `cases`."""
        names = [
            mode for mode in modes_of(self.study, cell) if mode != CONTROL and not find_diagnosed(self.study, mode)
        ]
        modes = {mode: self._describe(cell, mode) for mode in names}
        shown = [mode for mode in names if self._is_faster(cell, mode, self.baseline) and modes[mode]["status"] == "ok"]
        faster = [mode for mode in shown if modes[mode]["compared"] is not False]
        kept = [mode for mode in faster if not any(self._is_faster(cell, other, mode) for other in faster)]
        # A cell need not be measured in the mode that its study compares with.
        eager, every = modes.get(self.baseline) or self._describe(cell, self.baseline), list(modes.values())
        best = min(kept, key=lambda mode: modes[mode]["first_call"]["estimate"]) if kept else self.baseline
        if kept:
            cause = self.causes.get((*vars(cell).values(), best))
            reason = explain_faster(eager, modes[best], every, self.metric, cause)
        else:
            reason = explain_nothing_faster(eager, every, self.metric)
        found = modes[best]["speedup"] if kept else dict.fromkeys(("speedup", "ci_low", "ci_high"))
        return {
            "case": self.study["ops"][cell.op].get("labels", {}).get(cell.size, cell.size),
            "mode": best if eager["status"] == "ok" else None,
            **{name: found[name] for name in ("speedup", "ci_low", "ci_high")},
            "ties": [mode for mode in kept if mode != best],
            "uncompared": [mode for mode in shown if mode not in faster],
            "reason": reason,
            "modes": every,
        }

    def _is_faster(self, cell: Cell, mode: str, baseline: str) -> bool:
        """Say whether a mode is shown to be faster than another; the row in reverse stands for a missing one."""
        row = self.speedups.get((*vars(cell).values(), mode, baseline))
        reverse = self.speedups.get((*vars(cell).values(), baseline, mode), {})
        return row["verdict"] == "faster" if row else reverse.get("verdict") == "slower"

    def _describe(self, cell: Cell, mode: str) -> dict:
        """Return the entry of a mode in `modes`."""
        arm = (*vars(cell).values(), mode)
        measured = {name: self.summary.get((*arm, name)) for name in MEASURED}
        row, said = self.summary.get((*arm, self.metric), NOT_RUN), self.compilation.get(arm, {})
        return {
            "mode": mode,
            "options": self.study["modes"][mode],
            "status": row["status"],
            "compared": row.get("compared"),  # Tables from before this column have it for none.
            "note": row["reason"],
            **{name: _pick(found, "estimate", "ci_low", "ci_high", "unit") for name, found in measured.items()},
            "speedup": _pick(self.speedups.get((*arm, self.baseline)), "speedup", "ci_low", "ci_high", "verdict"),
            "paid": _pick(self.paid.get(arm), "kind", "calls"),
            **{name: said.get(of) for name, of in COMPILED.items()},
        }


def _arm(row: dict) -> tuple:
    return tuple(row[name] for name in ARM)


def _pick(row: dict | None, value: str, *others: str) -> dict | None:
    """Return these fields of a row, None where there is no row or no value in it."""
    return None if row is None or row[value] is None else {name: row[name] for name in (value, *others)}
