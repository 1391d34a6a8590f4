"""Studies and modes of one question: arms that diagnose, starts, flushes, traces, goals."""

from kernelbench.numbers.select import TIMES, VERDICTS, label_of, speedups
from kernelbench.study import CONTROL, MEASURE_KEYS, diagnosed, is_twin
from kernelbench.words import ALL


def arms(document: dict) -> dict:
    """Return by diagnostic arm that ran {diagnoses, cells, means}; a cell: {label, size, metrics {from, to, speedup}}.

    from, to: the estimates of the mode that is diagnosed and of the arm; speedup: the row of the arm over that mode;
    means: by metric its mean over the cells, where all of them have it.
    """
    study, found = document["study"], {}
    estimates = {(r["op"], r["dtype"], r["size"], r["mode"], r["metric"]): r for r in document["summary"]}
    for row in document["speedups"]:
        mode, other = row["mode"], diagnosed(study, row["mode"])
        if other != row["baseline"] or row["metric"] not in (*TIMES, "host"):
            continue
        cell = (row["op"], row["dtype"], row["size"])
        cells = found.setdefault(mode, {"diagnoses": other, "cells": {}})["cells"]
        own = cells.setdefault(cell, {"label": label_of(document, row), "size": row["size"], "metrics": {}})
        own["metrics"][row["metric"]] = {
            "from": estimates[*cell, other, row["metric"]],
            "to": estimates[*cell, mode, row["metric"]],
            "speedup": row,
        }
    means = {}
    for row in document["arms"]:
        means.setdefault(row["mode"], {})[row["metric"]] = row
    arms = {m: {**arm, "cells": list(arm["cells"].values()), "means": means.get(m, {})} for m, arm in found.items()}
    ran = {row["mode"] for row in document["summary"] if row["estimate"] is not None}
    return {mode: arm for mode, arm in arms.items() if mode in ran}


def starts(study: dict, modes: dict) -> dict:
    """Return the modes by how their processes start; a study from before there was a choice started fresh ones."""
    found = {}
    for mode, entry in modes.items():
        found.setdefault(entry.get("start", study.get("start", "fresh")), []).append(mode)
    return found


def start_pairs(document: dict) -> dict:
    """Return for each metric how modes that start warm compare with the baselines that are the same, started fresh.

    Empty where the study has no such pairs: it is not about the start of processes. verdicts: how many (cell, mode)
    pairs have each, missing those without; low, high: the least and greatest speedup; wide: the ends of the intervals
    of those not told apart; differ: the rows of those that differ, with their label.
    """
    study, found = document["study"], {}
    twins = {(mode, other) for mode in study["modes"] for other in study["baselines"] if is_twin(study, mode, other)}
    for metric in dict.fromkeys(row["metric"] for row in document["summary"]):
        rows = [r for r in speedups(document, metric=metric) if (r["mode"], r["baseline"]) in twins]
        rows = [{**row, "label": label_of(document, row)} for row in rows if row["size"] != ALL]
        tested = [row for row in rows if row["verdict"]]
        if rows and metric != "peak_memory":
            found[metric] = {
                "pairs": len(rows),
                "verdicts": {verdict: sum(row["verdict"] == verdict for row in tested) for verdict in VERDICTS},
                "missing": len(rows) - len(tested),
                "low": min((row["speedup"] for row in tested), default=None),
                "high": max((row["speedup"] for row in tested), default=None),
                "n": sorted({row["n"] for row in tested}),
                "delta": rows[0]["delta"],
                "wide": _ends([row for row in tested if row["verdict"] == "inconclusive"]),
                "differ": [row for row in tested if row["verdict"] in ("faster", "slower")],
            }
    return found


def _ends(rows: list[dict]) -> dict | None:
    """Return the least and the greatest end of the rows' intervals, None where they have none."""
    rows = [row for row in rows if row["ci_low"] is not None]
    return {"low": min(r["ci_low"] for r in rows), "high": max(r["ci_high"] for r in rows)} if rows else None


def flushes(document: dict) -> dict:
    """Return {kinds, modes, rows}: device time by the way in which the L2 cache is emptied; empty without two of them.

    kinds: the ways, read first; modes: the names of those that are read-flushed and have twins; rows: for each cell
    {label, size, times: {mode: {kind: estimate}}, speedups: {mode: {kind: speedup over the first of the modes}}}.
    """
    study, twins = document["study"], {}
    for mode, entry in study["modes"].items():
        if "trace_seconds" not in entry and mode != CONTROL and not diagnosed(study, mode):
            run = tuple(sorted((k, str(v)) for k, v in entry.items() if k not in MEASURE_KEYS))
            twins.setdefault(run, {})[entry.get("flush", "read")] = mode
    twins = {by["read"]: by for by in twins.values() if len(by) > 1 and "read" in by}
    if not twins:
        return {}
    kinds, first = list(next(iter(twins.values()))), next(iter(twins))
    times = {(r["op"], r["dtype"], r["size"], r["mode"]): r for r in document["summary"] if r["metric"] == "device"}
    gains = {
        (r["op"], r["dtype"], r["size"], r["mode"]): r
        for kind in kinds
        for r in speedups(document, baseline=twins[first][kind], metric="device")
        if any(r["mode"] == by.get(kind) for by in twins.values())
    }
    rows = []
    for op, dtype, size in dict.fromkeys(key[:3] for key in times):
        cell = (op, dtype, size)
        rows.append(
            {
                "label": label_of(document, {"op": op, "dtype": dtype}),
                "size": size,
                "times": {m: {k: times.get((*cell, by.get(k))) for k in kinds} for m, by in twins.items()},
                "speedups": {
                    m: {k: gains.get((*cell, by.get(k))) for k in kinds} for m, by in twins.items() if m != first
                },
            }
        )
    timed = [[time for time in by.values() if time and time["estimate"]] for r in rows for by in r["times"].values()]
    return {"kinds": kinds, "modes": list(twins), "rows": rows} if any(len(by) > 1 for by in timed) else {}


def traces(document: dict) -> list[dict]:
    """Return what summary.json has of traces but their points, with the label and two times more.

    alone: the device time of a call in µs; slowest: {at (s), times} where the first repeat's calls take most times as
    long as its first ones.
    """
    key = ("op", "dtype", "size", "mode")
    alone = {tuple(row[k] for k in key): row["estimate"] for row in document["summary"] if row["metric"] == "device"}
    return [
        {name: value for name, value in trace.items() if name != "points"}
        | {"label": label_of(document, trace), "alone": alone.get(tuple(trace[k] for k in key))}
        | {"slowest": _slowest(trace["points"])}
        for trace in document["traces"]
    ]


def _slowest(points: list[dict]) -> dict:
    worst = max(points, key=lambda point: point["call"])
    return {"at": worst["at"], "times": worst["call"] / points[0]["call"]}


def targets(document: dict) -> list[dict]:
    """Return the goals of summary.json with their labels, which of them is met, and whether by the whole interval."""
    return [
        {**row, "label": label_of(document, row), "met": _met(row), "surely": _surely(row)}
        for row in document["targets"]
    ]


def _met(row: dict) -> str:
    """Return which target is reached: aim, must, or neither ("missed")."""
    set_ = [name for name in ("aim", "must") if row[name] is not None and row["reached"] is not None]
    return next((name for name in set_ if _reaches(row, row["reached"], row[name])), "missed")


def _surely(row: dict) -> bool:
    """Say whether the whole interval reaches what was set as a goal."""
    end = row["high"] if row["kind"] == "calls" else row["low"]
    return None not in (row["must"], end) and _reaches(row, end, row["must"])


def _reaches(row: dict, value: float, goal: float) -> bool:
    return value <= goal if row["kind"] == "calls" else value >= goal
