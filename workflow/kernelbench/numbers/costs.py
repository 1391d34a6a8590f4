"""What it costs: the jobs, a first call and when it has paid for itself, the host's part of each call."""

from itertools import pairwise
from statistics import median

from kernelbench.numbers.select import TIMES, label_of, spread
from kernelbench.study import layers as study_layers
from kernelbench.words import ALL, CLOCKS, UNEXPLAINED


def jobs(document: dict) -> dict:
    """Return how many jobs, repeats and compared cells there are, and the minutes that the jobs took together."""
    cells = {(row["op"], row["dtype"], row["size"]) for row in document["speedups"] if row["size"] != ALL}
    return {
        "count": document["environment"]["jobs"],
        "minutes": document["environment"]["job_seconds"] / 60,
        "repeats": document["study"]["repeats"],
        "cells": len(cells),
    }


def costs(document: dict) -> dict:
    """Return {modes, minutes}: what the jobs of each mode cost, in the study's order, and of all the minutes by part.

    Empty where the records do not say.
    """
    costs = document["jobs"]["costs"]
    modes = {mode: costs[mode] for mode in document["study"]["modes"] if mode in costs}
    parts = next(iter(modes.values()))["minutes"] if modes else ()
    minutes = {part: sum(of["minutes"][part] for of in modes.values()) for part in parts}
    return {"modes": modes, "minutes": minutes} if modes else {}


def layers(study: dict, ops: dict, means: dict) -> list[dict]:
    """Return what each layer of the compiler adds to a call on the host, step by step.

    {from, to, added, low, median, high}. The steps are those of study.layers. added: the row of `means`, in µs; low,
    median, high: of the cells. Empty without such modes.
    """
    steps, found = study_layers(study), []
    for before, after in pairwise(steps):
        if (after, before) in means.get("excess", {}):
            more = longer(ops, after, before)
            added = {"added": means["excess"][after, before], "median": median(more), **ends(more)}
            found.append({"from": before, "to": after, **added})
    return found


def longer(ops: dict, mode: str, other: str) -> list[float]:
    """Return by how many µs the call of one mode keeps the host longer than that of another, cell by cell."""
    found = []
    for op in ops.values():
        for size in op["sizes"]:
            times = [op["estimates"].get(of, {}).get("host", {}).get(size, {}).get("estimate") for of in (mode, other)]
            if None not in times:
                found.append(times[0] - times[1])
    return found


def ends(values: list[float]) -> dict:
    """Return {low, high}, the least and the greatest of one value or more."""
    return {"low": min(values), "high": max(values)}


def means(document: dict) -> dict:
    """Return by metric and mode, of excess by (mode, over), the rows of summary.json with a mean over the cells."""
    found = {}
    for row in document["means"]:
        found.setdefault(row["metric"], {})[(row["mode"], row["over"]) if row["over"] else row["mode"]] = row
    return found


def first_call(ops: dict, means: dict) -> dict:
    """Return by mode the first call in s: its mean (of `means`), and the least and greatest over the cells."""
    found = {}
    for op in ops.values():
        for mode, by_metric in op["estimates"].items():
            rows = by_metric.get("first_call", {}).values()
            times = [row["estimate"] for row in rows if row["estimate"] is not None]
            if times and mode in means:
                found.setdefault(mode, []).extend(times)
    return {mode: {**spread(times), "mean": means[mode]} for mode, times in found.items()}


def payback(document: dict, ops: dict, mode: str) -> dict:
    """Return by metric when `mode` has paid for its first call.

    {rows: those of summary.json with their label; after, open, never: how many of each kind; same: how many of the open
    ones are equivalent, so that there is next to nothing to pay with; low, high: the least and the greatest number of
    calls of those that pay back, None where there is none}. What nothing, or the clock alone, explains is no saving: it
    stays open.
    """
    found, baseline = {}, document["study"]["baselines"][0]
    unearned = [r for r in document["causes"] if (r["mode"], r["baseline"]) == (mode, baseline)]
    unearned = {(r["op"], r["dtype"], r["size"], r["metric"]) for r in unearned if r["cause"] in (CLOCKS, UNEXPLAINED)}
    for row in document["payback"]:
        label = label_of(document, row)
        if (row["op"], row["dtype"], row["size"], row["metric"]) in unearned and row["metric"] == "device":
            row = {**row, "kind": "open" if row["kind"] == "after" else row["kind"]}
        if row["mode"] == mode and mode in ops.get(label, {"modes": ()})["modes"]:
            found.setdefault(row["metric"], []).append({**row, "label": label})
    counted, none = {}, {"equivalent": []}
    for metric, rows in found.items():
        calls = [row["calls"] for row in rows if row["kind"] == "after"]
        kinds = {kind: sum(row["kind"] == kind for row in rows) for kind in ("after", "open", "never")}
        unpaid = [row for row in rows if row["kind"] == "open"]
        same = sum(row["size"] in ops[row["label"]]["modes"][mode].get(metric, none)["equivalent"] for row in unpaid)
        ends = {"same": same, "low": min(calls, default=None), "high": max(calls, default=None)}
        counted[metric] = {"rows": rows, **kinds, **ends}
    return counted


def loss(ops: dict, baseline: str, mode: str, metrics: list[str]) -> dict:
    """Return where a latency loss of `mode` lies: {cells, both, ops}.

    cells: how many are slower by latency; both: how many of these by device time too. For each op: slower, the sizes
    that are slower by device time; shares, by size that is slower by latency, what device time has of the µs lost;
    total, the same of the sum over all sizes, None without a loss or where a size has no times.
    """
    found = {"cells": 0, "both": 0, "ops": {}}
    for label, op in ops.items() if metrics == list(TIMES) else ():
        verdicts = op["modes"].get(mode)
        if not verdicts:
            continue
        own, other, lost = op["estimates"].get(mode, {}), op["estimates"].get(baseline, {}), {}
        for size in op["sizes"]:
            times = [by.get(metric, {}).get(size, {}).get("estimate") for metric in TIMES for by in (own, other)]
            if None not in times:
                lost[size] = (times[0] - times[1], times[2] - times[3])
        device, latency = (sum(values) for values in zip(*lost.values(), strict=True)) if lost else (0, 0)
        slower = verdicts["device"]["slower"]
        losing = [size for size in verdicts["latency"]["slower"] if size in lost and lost[size][1] > 0]
        found["cells"] += len(verdicts["latency"]["slower"])
        found["both"] += len([size for size in verdicts["latency"]["slower"] if size in slower])
        found["ops"][label] = {
            "slower": slower,
            "shares": {size: lost[size][0] / lost[size][1] for size in losing},
            "total": device / latency if latency > 0 and len(lost) == len(op["sizes"]) else None,
        }
    return found


def host(ops: dict, means: dict, baseline: str) -> dict:
    """Return by mode what a call takes on the host, by the timer `host`, the time until it returns, in µs.

    mean: over the cells, of `means`; excess: {mean, low, high} of its difference from the baseline's; shorter: by how
    much it is below the baseline's in the cells where it is shown to be; longer: in how many of cells it exceeds the
    baseline's whole latency.
    """
    times = {}
    for label, op in ops.items():
        for mode, by_metric in op["estimates"].items():
            for size, row in by_metric.get("host", {}).items():
                if row["estimate"] is not None and mode in means.get("host", {}):
                    times.setdefault(mode, {})[label, size] = row["estimate"]
    found = {}
    for mode, own in times.items():
        more = {cell: own[cell] - times[baseline][cell] for cell in own if cell in times.get(baseline, {})}
        whole = {cell: ops[cell[0]]["estimates"][baseline]["latency"][cell[1]]["estimate"] for cell in more}
        found[mode] = {
            "mean": means["host"][mode],
            "cells": len(own),
            "shorter": [-more[cell] for cell in more if cell[1] in _sooner(ops[cell[0]], mode)],
            "longer": sum(whole[cell] is not None and own[cell] > whole[cell] for cell in more),
        }
        if (mode, baseline) in means.get("excess", {}):
            mean = means["excess"][mode, baseline]
            found[mode]["excess"] = {"mean": mean, "cells": len(more), **ends(list(more.values()))}
    return found


def pipelined(ops: dict) -> dict | None:
    """Return how many times as long as the slower of host and device calls back to back take: {cells, median, ...}.

    Over all cells and modes that have the three times, None without any.
    """
    shares = []
    for op in ops.values():
        for by_metric in op["estimates"].values():
            for size in op["sizes"]:
                times = {
                    m: by_metric.get(m, {}).get(size, {}).get("estimate") for m in ("throughput", "host", "device")
                }
                if all(times.values()):
                    shares.append(times["throughput"] / max(times["host"], times["device"]))
    return spread(shares) if shares else None


def _sooner(op: dict, mode: str) -> list[str]:
    """Return the sizes at which the host is shown to be done with a call of `mode` sooner."""
    return op["modes"].get(mode, {}).get("host", {"faster": []})["faster"]
