"""How far the data can be trusted, as tables: precision, controls, jobs in doubt, goals, the law and the intervals."""

from collections.abc import Iterator

import numpy as np

from kernelbench import numbers
from kernelbench.analysis import host_law
from kernelbench.analysis.studies import Studies
from kernelbench.analysis.targets import meets
from kernelbench.notes import FLAGS, find
from kernelbench.paper.markdown import escape
from kernelbench.paper.provenance import listed
from kernelbench.paper.results import FLAGGED, sheet
from kernelbench.paper.tables import BLANK
from kernelbench.study.metrics import ALL

# How many cells are named whose jobs are in doubt.
NAMED = 8


def quality(document: dict) -> Iterator[str]:
    """Yield how narrow the intervals are, what the controls say, which jobs are in doubt, and the goals."""
    yield _precision(document)
    yield _controls(document)
    yield doubts(document)
    yield _targets(document)


def _precision(document: dict) -> str:
    baseline, by_metric = document["study"]["baselines"][0], {}
    for row in document["speedups"]:
        if row["baseline"] == baseline and row["size"] != ALL and row["ci_low"] is not None:
            by_metric.setdefault(row["metric"], []).append(row)
    rows = []
    for metric, own in by_metric.items():
        half = [np.log(row["ci_high"] / row["ci_low"]) / 2 for row in own]
        shares = [numbers.percent(float(np.expm1(np.quantile(half, share)))) for share in (0.5, 0.95)]
        flagged = sum(find(row["notes"], *FLAGS) is not None for row in own)
        rows.append([metric.replace("_", " "), numbers.number(len(own)), *shares, numbers.number(flagged)])
    header = ["metric", "speedups", "median", "95 % within", f"{FLAGGED}"]
    return sheet(header, rows, "lrrrr", f"Half widths of the intervals of the speedups over `{baseline}`")


def _controls(document: dict) -> str:
    control, by_gpu = document["control"], document["by_gpu"]
    first = {row["metric"]: row for row in document["first_repeats"]}
    rows = []
    for metric in dict.fromkeys([*control, *by_gpu, *first]):
        aa, gpu, early = control.get(metric), by_gpu.get(metric), first.get(metric)
        differ = gpu and gpu["of"]
        rows.append([
            metric.replace("_", " "),
            numbers.number(aa["cells"]) if aa else BLANK,
            numbers.percent(aa["p95"]) if aa else BLANK,
            f"{gpu['apart']} of {gpu['of']}" if differ else BLANK,
            numbers.percent(gpu["median"]) if differ and gpu["median"] is not None else BLANK,
            f"{early['same']} of {early['decided']}" if early else BLANK,
            numbers.number(early["opposite"]) if early else BLANK,
        ])  # fmt: skip
    header = ["metric", "A/A cells", "95 % within", "GPUs apart", "typically by", "first repeats agree", "opposite"]
    return sheet(
        header, rows, "lrrrrrr", "Eager against itself (A/A), dependence on the GPU, and the first repeats alone"
    )


def doubts(document: dict) -> str:
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
         numbers.value(row["aim"]), numbers.value(row["reached"]), row["worst"] or "mean", meets(row)]
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
