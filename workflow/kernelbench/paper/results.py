"""What a study found, as tables: the speedups, what could not be measured, the times, and what was compiled."""

from collections.abc import Iterable, Iterator
from itertools import takewhile

import pandas as pd

from kernelbench import numbers
from kernelbench.analysis.boots import describe
from kernelbench.analysis.studies import CELL, order
from kernelbench.notes import FLAGS, find
from kernelbench.paper.markdown import code, escape, sheet
from kernelbench.study.cells import CONTROL

ROW = (*CELL, "mode")
TIMED = ("device", "kernels", "latency", "throughput")
TIMES = (*TIMED, "host", "first_call", "peak_memory")
# What the compiler says of itself, in one column, by its key in summary.json.
COMPILED = {"graphs": "graphs", "graph_breaks": "breaks", "recompiles": "recompiles"}
# What beside a verdict says that repeats fall into two peaks, or are far off.
FLAGGED = "‡"
LEGEND = f"↑ faster, ↓ slower, = equivalent, ? inconclusive; {FLAGGED} repeats in two peaks, or far off"
CAPTIONS = {
    "speedups": "Speedup over the first baseline of every cell and mode",
    "times": "Time of a call against the size",
    "timers": "Speedup by each timer against the size",
    "trace": "Time of a call, clock and power during a load without a pause",
}


def figures(label: str, paths: dict[str, str], suffix: str = "") -> Iterator[str]:
    """Yield the figures of a study by name, each with its caption."""
    for name, path in paths.items():
        yield f"![{CAPTIONS[name]}{suffix}.]({path}){{#fig-{label}-{name}}}\n"


def by_row(document: dict, rows: Iterable[dict]) -> dict[tuple, dict[str, dict]]:
    """Return rows by (op, dtype, size, mode), in the order of the study, and by metric."""
    found = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in ROW), {})[row["metric"]] = row
    return {key: found[key] for key in sorted(found, key=order(document["study"]))}


def cell_sheet(rows: dict[tuple, dict[str, str]], align: str, caption: str) -> str:
    """Return a table whose rows start with op, size and mode, and with the dtype where an op has several."""
    several = len({key[:2] for key in rows}) > len({key[0] for key in rows})
    named = [
        {"op": f"`{op}`", **({"dtype": dtype} if several else {}), "size": escape(size), "mode": f"`{mode}`", **shown}
        for (op, dtype, size, mode), shown in rows.items()
    ]
    return sheet(named, ("llrl" if several else "lrl") + align, caption)


def over(document: dict, baseline: str) -> dict[tuple, dict[str, dict]]:
    """Return what has a speedup over a baseline, as `by_row` does.

    Over a second one neither what is the inverse of a speedup over the first one, nor the A/A comparison.
    """
    before = list(takewhile(lambda one: one != baseline, document["study"]["baselines"]))
    left_out = [*before, CONTROL] if before else []
    rows = [row for row in document["speedups"] if row["baseline"] == baseline and row["mode"] not in left_out]
    return by_row(document, (row for row in rows if row["metric"] in TIMED and row["speedup"] is not None))


def metrics_of(found: dict[tuple, dict], metrics: tuple[str, ...]) -> list[str]:
    """Return those of the metrics that any row has."""
    return [metric for metric in metrics if any(metric in own for own in found.values())]


def speedups(document: dict) -> Iterator[str]:
    """Yield the speedups over each baseline, with their causes and, over the first one, what they pay back."""
    paid = {key: own["latency"] for key, own in by_row(document, document["payback"]).items() if "latency" in own}
    for baseline in dict.fromkeys(row["baseline"] for row in document["speedups"]):
        found = over(document, baseline)
        metrics = metrics_of(found, TIMED)
        pays = baseline == document["study"]["baselines"][0] and bool(paid)
        rows = {}
        for key, own in found.items():
            causes = dict.fromkeys(cause for row in own.values() for cause in row["cause"].split(" and ") if cause)
            after = {"paid after": numbers.calls(paid.get(key))} if pays else {}
            shown = {metric: speedup(own.get(metric)) for metric in metrics}
            rows[key] = {**shown, **after, "cause": escape(", ".join(causes))}
        over_what = describe(document["study"]["repeats"], document["boots"])
        caption = f"Speedups over `{baseline}`, with 95 % intervals over {over_what} ({LEGEND})"
        yield cell_sheet(rows, "r" * (len(metrics) + pays) + "l", caption)


def speedup(row: dict | None) -> str:
    """Return a speedup with its interval, the sign of its verdict, and a mark where the interval promises too much."""
    flag = FLAGGED if row and row["speedup"] is not None and find(row["notes"], *FLAGS) else ""
    return f"{numbers.signed(row)}{flag}".replace(" ", numbers.NBSP)


def missing(document: dict) -> str:
    """Return what was asked for and has no time: the cells of each mode, and why."""
    summary = pd.DataFrame(document["summary"]).fillna({"reason": ""})
    lost = summary[summary["metric"].isin(TIMED) & summary["estimate"].isna()]
    rows = []
    for (mode, status, reason), own in lost.groupby(["mode", "status", "reason"], sort=False):
        sizes = {op: map(escape, found.unique()) for op, found in own.groupby("op", sort=False)["size"]}
        cells = "; ".join(f"`{op}` {', '.join(found)}" for op, found in sizes.items())
        what = {"mode": f"`{mode}`", "cells": cells, "metrics": list(own["metric"].unique())}
        rows.append({**what, "status": status, "why": escape(reason)})
    return sheet(rows, "lllll", "What has no time, and why")


def times(document: dict) -> str:
    """Return the times and memory of each cell in each mode, with what the compiler made of it."""
    measured = (row for row in document["summary"] if row["metric"] in TIMES and row["estimate"] is not None)
    known = by_row(document, measured)
    compiled = {tuple(row[key] for key in ROW): row for row in document["compilation"]}
    units = {row["metric"]: row["unit"] for found in known.values() for row in found.values()}
    metrics = metrics_of(known, TIMES)
    rows = {}
    for key, found in known.items():
        own = compiled.get(key, {})
        counts = ", ".join(numbers.number(own[name]) for name in COMPILED if own.get(name) is not None)
        rows[key] = {
            **{
                f"{metric.replace('_', ' ')}, {units[metric]}": found.get(metric, {}).get("estimate")
                for metric in metrics
            },
            ", ".join(COMPILED.values()): counts or None,
            "launched": numbers.number(own.get("launched") or None),
        }
    caption = "Times of a call, memory, and what was compiled: geometric means over the repeats, counts of the first"
    return cell_sheet(rows, "r" * (len(metrics) + 2), caption)


def series(document: dict) -> str:
    """Return what became of sizes that were called one after the other."""
    points = [{**row, **point} for row in document["compilation"] for point in row.get("series", [])]
    columns = {
        "op": code("op"), "mode": code("mode"), "size": lambda point: escape(str(point["size"])),
        "first call, s": "first_call", "latency, µs": "latency",
        "graphs": lambda point: numbers.number(point["graphs"]),
        "recompiles": lambda point: numbers.number(point["recompiles"]),
    }  # fmt: skip
    return sheet(points, "llrrrrr", "Sizes called one after the other in one process, counts as they add up", columns)
