"""Numbers: from a machine's summary.json to what the paper's text says about it.

Every number of the text, and every word that depends on one, has its name here. Nothing is estimated: this only
selects, counts and judges by the stated rules.
"""

import math

from kernelbench.summarize import ALL, CONTROL, DERIVED

VERDICTS = ("faster", "slower", "equivalent", "inconclusive")
TIMES = ("device", "latency")
# "near parity" is tested as: the whole interval of the mean speedup lies within 10 % of 1, on logs.
PARITY = math.log(1.1)


def numbers(document: dict, published: dict, local: bool) -> dict:
    """Return the paper's numbers of one machine.

    document: summary.json; published: paper/published.yaml; local: measured here rather than recorded.
    """
    baseline = document["study"]["baselines"][0]
    gpu = document["environment"]["gpu"]
    metrics = [m for m in TIMES if any(row["metric"] == m for row in document["summary"])]
    ops = {
        op: _op(document, op, baseline)
        for op in document["study"]["ops"]
        if any(row["op"] == op for row in document["speedups"])
    }
    return {
        "label": document["study"]["machine"],
        "title": gpu["name"] if gpu else document["environment"]["host"]["cpu"],
        "local": local,
        "gpu": bool(gpu),
        "baseline": baseline,
        "metrics": metrics,
        "primary": metrics[0],
        "environment": document["environment"],
        "study": document["study"],
        "jobs": _jobs(document),
        "ops": ops,
        "overall": {m: _overall(document, baseline, m) for m in metrics},
        "ceilings": _ceilings(document),
        "control": _control(document, baseline, metrics),
        "turns": _turns(document, baseline) if len(metrics) > 1 else [],
        "unsupported": _unsupported(document),
        "unsettled": document["unsettled"],
        "claims": {op: _claim(ops, op, claim, metrics) for op, claim in published["ops"].items()},
    }


def _speedups(document: dict, **wanted) -> list[dict]:
    """Return the rows of speedups that have the wanted values, without the A/A arm unless asked for."""
    return [
        row
        for row in document["speedups"]
        if all(row[key] == value for key, value in wanted.items())
        and (row["mode"] != CONTROL or wanted.get("mode") == CONTROL)
    ]


def _op(document: dict, op: str, baseline: str) -> dict:
    entry = document["study"]["ops"][op]
    rows = [row for row in document["summary"] if row["op"] == op]
    modes = list(dict.fromkeys(row["mode"] for row in rows if row["mode"] not in (baseline, CONTROL)))
    metrics = list(dict.fromkeys(row["metric"] for row in rows if row["metric"] not in DERIVED))
    return {
        "sizes": [str(size) for size in entry["sizes"]],
        "dtype": rows[0]["dtype"],
        "parameters": {k: v for k, v in entry.items() if k not in ("sizes", "modes", "dtypes", "workload")},
        "modes": {mode: {metric: _mode(document, op, mode, baseline, metric) for metric in metrics} for mode in modes},
        "estimates": _estimates(rows),
        "speedups": [m for m in modes if any(r["status"] == "ok" for r in rows if r["mode"] == m)],
    }


def _estimates(rows: list[dict]) -> dict:
    """Return estimates by mode, metric and size: {estimate, ci_low, ci_high, unit, status, reason}."""
    found = {}
    keys = ("estimate", "ci_low", "ci_high", "unit", "n", "status", "reason")
    for row in rows:
        by_metric = found.setdefault(row["mode"], {}).setdefault(row["metric"], {})
        by_metric[row["size"]] = {key: row[key] for key in keys}
    return found


def _mode(document: dict, op: str, mode: str, baseline: str, metric: str) -> dict:
    """Return the speedups of one op and mode by size, their mean, and the sizes with each verdict."""
    rows = _speedups(document, op=op, mode=mode, baseline=baseline, metric=metric)
    sizes = {row["size"]: row for row in rows if row["size"] != ALL}
    whole = next((row for row in rows if row["size"] == ALL), None)
    found = [row["speedup"] for row in sizes.values() if row["speedup"] is not None]
    return {
        "sizes": sizes,
        "all": whole,
        "arithmetic": sum(found) / len(found) if found else None,
        "low": min(found, default=None),
        "high": max(found, default=None),
        **{verdict: [s for s, row in sizes.items() if row["verdict"] == verdict] for verdict in VERDICTS},
    }


def _jobs(document: dict) -> dict:
    ok = [row for row in document["summary"] if row["metric"] == "latency"]
    return {
        "count": document["environment"]["jobs"],
        "minutes": document["environment"]["gpu_seconds"] / 60,
        "repeats": document["study"]["repeats"],
        "cells": len({(row["op"], row["dtype"], row["size"]) for row in ok}),
    }


def _overall(document: dict, baseline: str, metric: str) -> dict:
    """Return for each mode how many cells have each verdict, the tested ones in all, and the extremes."""
    rows = [r for r in _speedups(document, baseline=baseline, metric=metric) if r["size"] != ALL and r["verdict"]]
    found = {}
    for mode in dict.fromkeys(row["mode"] for row in rows):
        own = [row for row in rows if row["mode"] == mode]
        found[mode] = {
            "cells": len(own),
            **{v: sum(row["verdict"] == v for row in own) for v in VERDICTS},
            "best": max(own, key=lambda row: row["speedup"]),
            "worst": min(own, key=lambda row: row["speedup"]),
        }
    return found


def _ceilings(document: dict) -> dict:
    """Return by dtype and bound {rate (GB/s or TFLOP/s), unit, op, size, mode}."""
    units = {"memory": ("GB/s", 1e-3), "compute": ("TFLOP/s", 1e-6)}
    return {
        dtype: {
            bound: {**top, "rate": top["rate"] * units[bound][1], "unit": units[bound][0]}
            for bound, top in bounds.items()
        }
        for dtype, bounds in document["ceilings"].items()
    }


def _control(document: dict, baseline: str, metrics: list[str]) -> dict:
    """Return for each metric the A/A arm: cells, how many are significant, 95th percentile of its deviation."""
    found = {}
    for metric in metrics:
        rows = _speedups(document, mode=CONTROL, baseline=baseline, metric=metric)
        cells = [row for row in rows if row["size"] != ALL and row["p"] is not None]
        if cells:
            found[metric] = {
                "cells": len(cells),
                "nominal": sum(row["p"] < 0.05 for row in cells),
                "significant": sum(row["p_holm"] < 0.05 for row in cells),
                **document["control"][metric],
                "delta": cells[0]["delta"],
            }
    return found


def _turns(document: dict, baseline: str) -> list[dict]:
    """Return the cells whose verdict is faster by one timer and slower by the other."""
    by_metric = {
        metric: {
            (row["op"], row["size"], row["mode"]): row
            for row in _speedups(document, baseline=baseline, metric=metric)
            if row["size"] != ALL
        }
        for metric in TIMES
    }
    turned = []
    for key, device in by_metric["device"].items():
        latency = by_metric["latency"][key]
        if {device["verdict"], latency["verdict"]} == {"faster", "slower"}:
            turned.append({"op": key[0], "size": key[1], "mode": key[2], "device": device, "latency": latency})
    return turned


def _unsupported(document: dict) -> dict:
    """Return by mode the reason for which no cell of it ran."""
    rows = [row for row in document["summary"] if row["metric"] == "latency"]
    ran = {row["mode"] for row in rows if row["status"] != "unsupported"}
    return {row["mode"]: row["reason"] for row in rows if row["mode"] not in ran}


def _claim(ops: dict, op: str, claim: dict, metrics: list[str]) -> dict:
    """Judge a published claim about compiled `op` by the mean speedup over the sizes, for each time metric."""
    found = {}
    for metric in metrics:
        mode = ops.get(op, {}).get("modes", {}).get("compile", {}).get(metric)
        if mode and mode["all"] and mode["all"]["ci_low"] is not None:
            found[metric] = {**mode, "agrees": _agrees(claim["claim"], mode["all"])}
    agreeing = [metric for metric, ours in found.items() if ours["agrees"]]
    words = {len(found): "holds", 0: "does not hold"}
    return {
        "ours": found,
        "agrees": agreeing,
        "verdict": words.get(len(agreeing), "holds in part") if found else "not tested",
    }


def _agrees(claim: str, mean: dict) -> bool:
    """Say whether the interval of a mean speedup is on the claimed side of 1, or within 10 % of it for parity."""
    if claim == "near parity":
        return math.log(mean["ci_low"]) >= -PARITY and math.log(mean["ci_high"]) <= PARITY
    return mean["ci_low"] > 1 if claim == "faster" else mean["ci_high"] < 1
