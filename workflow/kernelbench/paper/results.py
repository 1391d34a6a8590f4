"""What a study found, as tables: the speedups, what could not be measured, the times, and what was compiled."""

from collections.abc import Callable, Iterator

from kernelbench import numbers
from kernelbench.analysis.studies import CELL, order
from kernelbench.notes import FLAGS, find
from kernelbench.paper.markdown import escape, figure, table
from kernelbench.paper.tables import BLANK, SIGNS
from kernelbench.study.study import CONTROL

# How many digits of a table a page of the supplement has side by side.
ROOM = 148
ROW = (*CELL, "mode")
TIMED = ("device", "latency", "throughput")
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


def sheet(header: list[str], rows: list[list[str]], align: str, caption: str) -> str:
    """Return a table that keeps to the page; nothing without rows."""
    return table(header, rows, align, caption, room=ROOM) if rows else ""


def figures(label: str, paths: dict[str, str], suffix: str = "") -> Iterator[str]:
    """Yield the figures of a study by name, each with its caption."""
    for name, path in paths.items():
        yield figure(path, f"{CAPTIONS[name]}{suffix}.", f"fig-{label}-{name}")


def by_row(rows: list[dict]) -> dict[tuple, dict[str, dict]]:
    """Return rows of summary.json by (op, dtype, size, mode) and metric."""
    found = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in ROW), {})[row["metric"]] = row
    return found


def naming(keys: list[tuple]) -> tuple[list[str], str, Callable[[tuple], list[str]]]:
    """Return header, alignment and cells of what names these rows: with the dtype where an op has several."""
    several = len({key[:2] for key in keys}) > len({key[0] for key in keys})

    def cells(key: tuple) -> list[str]:
        op, dtype, size, mode = key
        return [f"`{op}`", *([dtype] if several else []), escape(size), f"`{mode}`"]

    return ["op", *(["dtype"] if several else []), "size", "mode"], "llrl" if several else "lrl", cells


def over(document: dict, baseline: str) -> dict[tuple, dict[str, dict]]:
    """Return what has a speedup over a baseline, in the order of the study, by (op, dtype, size, mode) and metric.

    Over a second one neither what is the inverse of a speedup over the first one, nor the A/A comparison.
    """
    baselines = [*document["study"]["baselines"], baseline]
    before = baselines[: baselines.index(baseline)]
    left_out = {*before, CONTROL} if before else set()
    rows = [row for row in document["speedups"] if row["baseline"] == baseline and row["mode"] not in left_out]
    found = by_row([row for row in rows if row["metric"] in TIMED and row["speedup"] is not None])
    return {key: found[key] for key in sorted(found, key=order(document["study"]))}


def speedups(document: dict) -> Iterator[str]:
    """Yield the speedups over each baseline, with their causes and, over the first one, what they pay back."""
    paid = {key: found["latency"] for key, found in by_row(document["payback"]).items() if "latency" in found}
    for baseline in dict.fromkeys(row["baseline"] for row in document["speedups"]):
        found = over(document, baseline)
        metrics = [metric for metric in TIMED if any(metric in own for own in found.values())]
        pays = baseline == document["study"]["baselines"][0] and bool(paid)
        header, align, cells = naming(list(found))
        rows = [
            [
                *cells(key),
                *(speedup(own.get(metric)) for metric in metrics),
                *([numbers.calls(paid[key]) if key in paid else BLANK] if pays else []),
                escape(", ".join(dict.fromkeys(cause for row in own.values() for cause in _causes(row)))),
            ]
            for key, own in found.items()
        ]
        header = [*header, *metrics, *(["paid after"] if pays else []), "cause"]
        align += "r" * (len(metrics) + pays) + "l"
        yield sheet(header, rows, align, f"Speedups over `{baseline}`, with 95 % intervals ({LEGEND})")


def _causes(row: dict) -> list[str]:
    return row["cause"].split(" and ") if row["cause"] else []


def speedup(row: dict | None) -> str:
    """Return a speedup with its interval, the sign of its verdict, and a mark where the interval promises too much."""
    if row is None or row["speedup"] is None:
        return BLANK
    flag = FLAGGED if find(row["notes"], *FLAGS) else ""
    return f"{numbers.ci(row)} {SIGNS.get(row['verdict'], '')}{flag}".strip().replace(" ", numbers.NBSP)


def missing(document: dict) -> str:
    """Return what was asked for and has no time: the cells of each mode, and why."""
    found = {}
    for row in document["summary"]:
        if row["metric"] in TIMED and row["estimate"] is None:
            why = found.setdefault((row["mode"], row["status"], row["reason"]), {})
            why.setdefault(row["op"], {}).setdefault(row["size"], []).append(row["metric"])
    rows = [
        [
            f"`{mode}`",
            "; ".join(f"`{op}` {', '.join(map(escape, sizes))}" for op, sizes in cells.items()),
            ", ".join(dict.fromkeys(metric for sizes in cells.values() for own in sizes.values() for metric in own)),
            status,
            escape(reason or ""),
        ]
        for (mode, status, reason), cells in found.items()
    ]
    return sheet(["mode", "cells", "metrics", "status", "why"], rows, "lllll", "What has no time, and why")


def times(document: dict) -> str:
    """Return the times and memory of each cell in each mode, with what the compiler made of it."""
    known = by_row([row for row in document["summary"] if row["metric"] in TIMES and row["estimate"] is not None])
    keys = sorted(known, key=order(document["study"]))
    compiled = {tuple(row[key] for key in ROW): row for row in document["compilation"]}
    units = {row["metric"]: row["unit"] for found in known.values() for row in found.values()}
    metrics = [metric for metric in TIMES if metric in units]
    header, align, cells = naming(keys)
    rows = []
    for key in keys:
        own = compiled.get(key, {})
        values = [known[key].get(metric, {"estimate": None})["estimate"] for metric in metrics]
        counts = ", ".join(numbers.number(own[name]) for name in COMPILED if own.get(name) is not None)
        kernels = numbers.number(own["launched"]) if own.get("launched") else BLANK
        rows.append([*cells(key), *map(numbers.value, values), counts or BLANK, kernels])
    header += [f"{metric.replace('_', ' ')}, {units[metric]}" for metric in metrics]
    header += [", ".join(COMPILED.values()), "kernels"]
    caption = "Times of a call, memory, and what was compiled: geometric means over the repeats, counts of the first"
    return sheet(header, rows, align + "r" * (len(metrics) + 2), caption)


def series(document: dict) -> str:
    """Return what became of sizes that were called one after the other."""
    rows = [
        [f"`{row['op']}`", f"`{row['mode']}`", escape(str(point["size"])), numbers.value(point["first_call"]),
         numbers.value(point["latency"]), *(numbers.number(point[name]) for name in ("graphs", "recompiles"))]
        for row in document["compilation"]
        for point in row.get("series", [])
    ]  # fmt: skip
    header = ["op", "mode", "size", "first call, s", "latency, µs", "graphs", "recompiles"]
    return sheet(header, rows, "llrrrrr", "Sizes called one after the other in one process, counts as they add up")
