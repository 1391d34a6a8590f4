"""How far the data can be trusted, as tables: precision, controls, jobs in doubt, goals, the law and the intervals."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from kernelbench import numbers
from kernelbench.analysis import host_law
from kernelbench.analysis.metrics import ALL
from kernelbench.analysis.studies import Studies
from kernelbench.analysis.targets import met
from kernelbench.notes import FLAGS, find
from kernelbench.numbers import BLANK
from kernelbench.paper.markdown import escape
from kernelbench.paper.provenance import listed
from kernelbench.paper.results import FLAGGED, sheet

# How many cells are named whose jobs are in doubt.
NAMED = 8


def quality(document: dict) -> Iterator[str]:
    """Yield how narrow the intervals are, what the controls say, which jobs are in doubt, and the goals."""
    yield _precision(document)
    yield _controls(document)
    yield _doubts(document)
    yield _targets(document)


def _precision(document: dict) -> str:
    baseline, rows = document["study"]["baselines"][0], []
    speedups = pd.DataFrame(document["speedups"])
    known = speedups[speedups["baseline"].eq(baseline) & speedups["size"].ne(ALL) & speedups["ci_low"].notna()]
    for metric, own in known.groupby("metric", sort=False):
        half = np.log(own["ci_high"] / own["ci_low"]) / 2
        shares = [numbers.percent(np.expm1(half.quantile(share))) for share in (0.5, 0.95)]
        flagged = sum(find(notes, *FLAGS) is not None for notes in own["notes"])
        rows.append([metric.replace("_", " "), numbers.number(len(own)), *shares, numbers.number(flagged)])
    header = ["metric", "speedups", "median", "95 % within", FLAGGED]
    return sheet(header, rows, "lrrrr", f"Half widths of the intervals of the speedups over `{baseline}`")


def _controls(document: dict) -> str:
    tables = [document["control"], document["by_gpu"], {row["metric"]: row for row in document["first_repeats"]}]
    rows = []
    for metric in dict.fromkeys(metric for table in tables for metric in table):
        same, gpu, first = (table.get(metric, {}) for table in tables)
        rows.append([
            metric.replace("_", " "),
            numbers.number(same.get("cells")),
            numbers.percent(same.get("p95")),
            "{apart} of {of}".format(**gpu) if gpu.get("of") else BLANK,
            numbers.percent(gpu["median"] if gpu.get("of") else None),
            "{same} of {decided}".format(**first) if first else BLANK,
            numbers.number(first.get("opposite")),
        ])  # fmt: skip
    header = ["metric", "A/A cells", "95 % within", "GPUs apart", "typically by", "first repeats agree", "opposite"]
    caption = "Eager against itself (A/A), dependence on the GPU, and the first repeats alone"
    return sheet(header, rows, "lrrrrrr", caption)


def _doubts(document: dict) -> str:
    """Return which jobs are in doubt, by why and cell."""
    suspects = document["jobs"]["suspects"] or {"kinds": {}}
    rows = []
    for kind, found in suspects["kinds"].items():
        cells = [f"{cell['op']} {cell['size']}: {cell['jobs']}" for cell in found["cells"]]
        more = [f"{len(cells) - NAMED} more"] if len(cells) > NAMED else []
        rows.append([kind, numbers.number(found["jobs"]), escape("; ".join(cells[:NAMED] + more))])
    caption = f"Jobs in doubt: {suspects['jobs']} of {suspects['of']}" if rows else ""
    return sheet(["why", "jobs", "cells"], rows, "lrl", caption)


def _targets(document: dict) -> str:
    header = ["op", "sizes", "mode", "over", "goal", "hoped for", "reached", "at", ""]
    rows = [
        [f"`{row['op']}`", listed(row["sizes"]), f"`{row['mode']}`", f"`{row['of']}`", numbers.value(row["must"]),
         numbers.value(row["aim"]), numbers.value(row["reached"]), row["worst"] or "mean", met(row)]
        for row in document["targets"]
    ]  # fmt: skip
    return sheet(header, rows, "llllrrrrl", "Goals of the kernels, set before they were tuned")


def predictions(studies: Studies) -> Iterator[str]:
    """Yield the constants of the law, how well it predicts each study, and the verdicts that it misses."""
    rows = [[f"`{mode}`", numbers.value(own.call), numbers.value(own.each)] for mode, own in studies.laws.items()]
    yield sheet(["mode", "a call, µs", "each launch or copied input, µs"], rows, "lrr", "Constants of the law")
    header = ["study", "mode", "metric", "predictions", "decided", "right", "median error"]
    rows = [
        [f"`{document['study']['machine']}`", f"`{row['mode']}`", row["metric"], str(row["rows"]), str(row["decided"]),
         str(row["right"]), numbers.percent(row["error"])]
        for document in studies.documents
        for row in document["law"]
    ]  # fmt: skip
    caption = f"Predictions by study, mode (`{host_law.COMPILED}` or replayed) and metric"
    yield sheet(header, rows, "lllrrrr", caption)
    header = ["study", "op", "size", "mode", "metric", "predicted", "measured", "verdict"]
    rows = [
        [f"`{row.study}`", f"`{row.op}`", escape(row.size), f"`{row.mode}`", row.metric, numbers.factor(row.predicted),
         numbers.ci({"speedup": row.measured, "ci_low": row.ci_low, "ci_high": row.ci_high}), row.verdict]
        for row in studies.predictions
        if row.right is False
    ]  # fmt: skip
    yield sheet(header, rows, "llrllrrl", "Verdicts that the law misses")


def coverage(found: dict) -> str:
    """Return how often the intervals hold the truth, by what was simulated and the number of repeats."""
    rows = [[escape(name), *map(numbers.percent, row["held"].values())] for name, row in found["coverage"].items()]
    repeats = next(iter(found["coverage"].values()))["held"]
    caption = (
        f"Share of 95 % intervals that hold the true speedup, of {numbers.number(found['draws'])} simulated studies"
    )
    return sheet(["simulated", *(f"{n} repeats" for n in repeats)], rows, "l" + "r" * len(repeats), caption)


def again(by_study: dict[str, dict]) -> str:
    """Return what measuring a part of each of these studies again confirms and contradicts."""
    header = ["study", "cells", "metric", "speedups", "confirmed", "contradicted", "open"]
    rows = [
        [f"`{label}`", f"{found['cells']} of {found['of']}", metric,
         *(str(row[name]) for name in ("figures", "confirmed", "contradicted", "open"))]
        for label, found in by_study.items()
        for metric, row in found["metrics"].items()
    ]  # fmt: skip
    return sheet(header, rows, "lrlrrrr", "Parts of studies that were measured again")
