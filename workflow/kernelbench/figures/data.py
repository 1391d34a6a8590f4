"""What the figures ask of a summary.json."""

import textwrap
from functools import cached_property

from kernelbench.figures.style import BASELINE, COLOURS, CONTROL_STYLE, MARKERS, SHARED
from kernelbench.study.cells import CONTROL, without_arms
from kernelbench.study.config import MEASURE_KEYS

# The time metrics that figures show, with their names in full.
TIMES = {"device": "device time", "latency": "latency"}
# How a note says what became of a cell without numbers.
FATES = {"unsupported": "not run", "oom": "out of memory", "timeout": "timed out"}


class Data:
    """What the figures ask of a summary.json. A group is an (op, dtype): what shares a panel."""

    def __init__(self, document: dict):
        document = without_arms(document)
        study = document["study"]
        self.machine, self.baseline = study["machine"], study["baselines"][0]
        self.ops, self.configs = study["ops"], study.get("modes", {})
        self.ceilings = document["ceilings"]
        self.summary = document["summary"]
        self.traces = document["traces"]
        self.speedups = [row for row in document["speedups"] if row["baseline"] == self.baseline]
        self.metrics = [m for m in TIMES if any(row["metric"] == m for row in self.summary)]
        key = ("op", "dtype", "size", "mode", "metric")
        peaks = [found for found in document["peaks"] if found["baseline"] == self.baseline]
        self._points = {tuple(found[k] for k in key): found["points"] for found in peaks}
        self._found = {
            name: {tuple(row[k] for k in key): row for row in rows}
            for name, rows in (("estimate", self.summary), ("speedup", self.speedups))
        }

    def points(self, group: tuple[str, str], size: str, mode: str, metric: str) -> list[float]:
        """Return the speedup of each repeat where they fall into two peaks, else nothing."""
        return self._points.get((*group, size, mode, metric), [])

    @cached_property
    def groups(self) -> list[tuple[str, str]]:
        """Every (op, dtype), the ops in the order of the config: rows come in the order of the run."""
        found = dict.fromkeys((row["op"], row["dtype"]) for row in self.summary)
        return sorted(found, key=lambda group: _place(group[0], self.ops))

    @cached_property
    def modes(self) -> list[str]:
        """All modes in the order of the config."""
        found = dict.fromkeys(row["mode"] for row in self.summary)
        return sorted(found, key=lambda mode: _place(mode, self.configs))

    def is_control(self, mode: str) -> bool:
        """Return whether `mode` is the A/A arm."""
        return mode == CONTROL

    def style(self, mode: str) -> dict:
        """Return colour and marker of `mode`: of one that studies share always the same, of another by its place."""
        if mode == self.baseline:
            return BASELINE
        if self.is_control(mode):
            return CONTROL_STYLE
        own = [m for m in self.modes if m not in SHARED and m != self.baseline and not self.is_control(m)]
        place = [*SHARED, *own].index(mode)
        return {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}

    def untraced(self, mode: str) -> str:
        """Return the mode that differs from a traced one in nothing but the trace, else that mode itself."""
        run = {key: value for key, value in self.configs[mode].items() if key not in MEASURE_KEYS}
        return next((m for m in self.modes if self.configs[m] == run and not self.is_control(m)), mode)

    @cached_property
    def main(self) -> list[str]:
        """The baseline, and the first mode of each other runner: those that stand for their kind."""
        found = {self.configs[self.baseline]["runner"]: self.baseline}
        for mode in self.modes:
            found.setdefault(self.configs[mode]["runner"], mode)
        return list(found.values())

    def label(self, group: tuple[str, str]) -> str:
        """Return the name of a panel: the op, and its dtype where the study has several."""
        return group[0] if len({dtype for _, dtype in self.groups}) == 1 else ", ".join(group)

    def sizes(self, group: tuple[str, str]) -> list[str]:
        """Return the sizes of `group`, ascending; in the order of the config if not numbers."""
        found = {row["size"] for row in self.summary if (row["op"], row["dtype"]) == group}
        if all(size.isdigit() for size in found):
            return sorted(found, key=int)
        named = [str(size) for size in self.ops.get(group[0], {}).get("sizes", [])]
        return sorted(found, key=lambda size: (_place(size, named), size))

    def number(self, kind: str, group, size: str, mode: str, metric: str) -> tuple | None:
        """Return (value, low, high, verdict) of an "estimate" or a "speedup", None where none is.

        Without an interval (one repeat) the bounds are the value itself: the point is drawn alone.
        """
        row = self._found[kind].get((*group, size, mode, metric))
        if row is None or row[kind] is None:
            return None
        value, low, high = (row[name] for name in (kind, "ci_low", "ci_high"))
        low, high = (value if bound is None else bound for bound in (low, high))
        return value, low, high, row.get("verdict", "")

    def curves(self, group: tuple[str, str], metric: str) -> dict[str, list]:
        """Return {mode: its number at each size, None where missing} of the modes that have any.

        A/A is left out: it is the baseline's curve again. Nothing where the op is a single point
        (`copy`, which stands as a ceiling), since that is no curve.
        """
        sizes = self.sizes(group)
        rows = {
            mode: [self.number("estimate", group, size, mode, metric) for size in sizes]
            for mode in self.modes
            if not self.is_control(mode)
        }
        rows = {mode: numbers for mode, numbers in rows.items() if any(numbers)}
        return rows if len(rows) > 1 or len(sizes) > 1 else {}

    def missing(self) -> str:
        """Return a note on the modes without numbers at some cells, and why; empty if all have."""
        metric = self.metrics[-1] if self.metrics else None
        cells, found = {}, {}
        for row in self.summary:
            if row["metric"] != metric:
                continue
            cells[row["mode"]] = cells.get(row["mode"], 0) + 1
            if row["estimate"] is None:
                # A reason may speak of its own cell; the first one stands for the mode.
                first = found.setdefault((row["status"], row["mode"]), [row["reason"], 0])
                first[1] += 1
        notes = {}
        for (status, mode), (reason, count) in sorted(found.items(), key=lambda item: self.modes.index(item[0][1])):
            where = mode if count == cells[mode] else f"{mode} at {count} of {cells[mode]} cells"
            reason = textwrap.shorten(reason, 70, placeholder=" …")
            notes.setdefault((FATES.get(status, status), reason), []).append(where)
        return "; ".join(f"{fate}: {', '.join(w)} ({why})" for (fate, why), w in notes.items())


def _place(name: str, names) -> int:
    """Return the place of `name` in `names`, behind them all if it is not there."""
    return list(names).index(name) if name in names else len(names)
