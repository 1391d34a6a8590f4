"""What was measured: each op with its estimates and speedups, and the causes of these."""

import copy

from kernelbench.notes import NearFloor, find
from kernelbench.numbers.select import VERDICTS, label_of, speedups
from kernelbench.study import CONTROL
from kernelbench.words import ALL, CLOCKS, DERIVED, UNEXPLAINED


def ops(document: dict) -> dict:
    """Return by label, in the order of the study, each op that some mode is compared at, over whichever baseline."""
    found = {}
    for op in document["study"]["ops"]:
        rows = speedups(document, op=op)
        for dtype in dict.fromkeys(row["dtype"] for row in rows):
            found[label_of(document, {"op": op, "dtype": dtype})] = _op(document, op, dtype)
    return found


def _op(document: dict, op: str, dtype: str) -> dict:
    """Return one op: sizes, estimates, and speedups over each baseline by mode and metric."""
    study = document["study"]
    entry, baseline = study["ops"][op], study["baselines"][0]
    rows = [row for row in document["summary"] if (row["op"], row["dtype"]) == (op, dtype)]
    ran = {row["mode"] for row in rows if row["estimate"] is not None}
    modes = [mode for mode in study["modes"] if mode in ran and mode not in (baseline, CONTROL)]
    metrics = list(dict.fromkeys(row["metric"] for row in rows if row["metric"] not in DERIVED))
    sizes = [str(size) for size in entry["sizes"]]
    own = {"speedups": speedups(document, op=op, dtype=dtype)}
    return {
        "op": op,
        "dtype": dtype,
        "several": label_of(document, rows[0]) != op,
        "sizes": sizes,
        "parameters": {k: v for k, v in entry.items() if k not in ("sizes", "modes", "dtypes", "workload")},
        "modes": {mode: {metric: _mode(own, mode, sizes, baseline, metric) for metric in metrics} for mode in modes},
        "against": {
            other: {
                mode: {metric: _mode(own, mode, sizes, other, metric) for metric in metrics}
                for mode in modes
                if mode != other
            }
            for other in study["baselines"][1:]
            if other in modes
        },
        "estimates": _estimates(rows),
    }


def _estimates(rows: list[dict]) -> dict:
    """Return estimates by mode, metric and size: {estimate, ci_low, ci_high, unit, n, status, reason, notes, floor}."""
    found = {}
    keys = ("estimate", "ci_low", "ci_high", "unit", "n", "status", "reason", "notes")
    for row in rows:
        by_metric = found.setdefault(row["mode"], {}).setdefault(row["metric"], {})
        by_metric[row["size"]] = {**{key: row[key] for key in keys}, "floor": floor_of(row)}
    return found


def floor_of(row: dict) -> float | None:
    """Return the timer's floor in µs where a row of the summary says that its time is close to it."""
    note = find(row["notes"], NearFloor)
    return note.floor_us if note and row["estimate"] is not None else None


def _mode(document: dict, mode: str, sizes: list[str], baseline: str, metric: str) -> dict:
    """Return the speedups of a mode by size, their mean, and the pattern of their verdicts; `document`: of one op."""
    rows = {row["size"]: row for row in speedups(document, mode=mode, baseline=baseline, metric=metric)}
    whole = rows.pop(ALL, None)
    rows = {size: rows[size] for size in sizes if size in rows}
    found = [row for row in rows.values() if row["speedup"] is not None]
    return {
        "sizes": rows,
        # An op with a single size has no mean over its sizes: that size stands for it.
        "all": next(iter(rows.values())) if len(rows) == 1 else whole,
        "arithmetic": sum(row["speedup"] for row in found) / len(found) if found else None,
        "lowest": min(found, key=lambda row: row["speedup"], default=None),
        "highest": max(found, key=lambda row: row["speedup"], default=None),
        "missing": {size: row["status"] for size, row in rows.items() if not row["verdict"]},
        **{verdict: [s for s, row in rows.items() if row["verdict"] == verdict] for verdict in VERDICTS},
        **_pattern({size: row["verdict"] for size, row in rows.items() if row["verdict"]}),
    }


def _pattern(verdicts: dict[str, str]) -> dict:
    """Return how verdicts go with the sizes (in their order), as the words for them need it.

    pattern: none; same, one verdict; ordered, each verdict holds on one stretch of rising sizes; exception, one size
    of four or more differs from the rule for the others; else mixed. runs: the stretches, [{verdict, sizes}].
    """
    runs = []
    for size, verdict in verdicts.items():
        if runs and runs[-1]["verdict"] == verdict:
            runs[-1]["sizes"].append(size)
        else:
            runs.append({"verdict": verdict, "sizes": [size]})
    kinds = set(verdicts.values())
    rising = all(size.isdigit() for size in verdicts) and list(verdicts) == sorted(verdicts, key=int)
    alone = [run for run in runs if list(verdicts.values()).count(run["verdict"]) == 1]
    if len(kinds) <= 1:
        pattern = "same" if kinds else "none"
    elif rising and len(runs) == len(kinds):
        pattern = "ordered"
    elif len(kinds) == 2 and alone and len(verdicts) > 3:
        pattern = "exception"
    else:
        pattern = "mixed"
    return {
        "pattern": pattern,
        "runs": runs,
        "exception": alone[0] if pattern == "exception" else None,
        "rule": next((run["verdict"] for run in runs if run not in alone), None),
    }


def modes(document: dict, ops: dict) -> dict:
    """Return the config of the modes that ran, in the order of the study, the baseline and A/A among them."""
    ran = {row["mode"] for row in document["summary"] if row["estimate"] is not None}
    ran &= {mode for op in ops.values() for mode in op["estimates"]}
    return {mode: entry for mode, entry in document["study"]["modes"].items() if mode in ran}


def causes(document: dict, baseline: str, metrics: list[str]) -> dict:
    """Return {of, unexplained, modes, kernels} of the differences from the baseline in the given metrics.

    of: how many are decided; unexplained: how many of these have no cause; modes: by mode, label and metric the sizes
    of each cause; kernels: {label, size, mode, evidence} of the largest size whose device time differs by the kernels,
    for each op and mode. Empty where the study has no causes.
    """
    rows = [row for row in document["causes"] if row["baseline"] == baseline and row["metric"] in metrics]
    rows = [{**row, "label": label_of(document, row)} for row in rows if row["mode"] != CONTROL]
    modes, kernels = {}, {}
    for row in rows:
        by_metric = modes.setdefault(row["mode"], {}).setdefault(row["label"], {}).setdefault(row["metric"], {})
        by_metric.setdefault(row["cause"], []).append(row["size"])
        if row["metric"] == "device" and row["cause"] == "kernel":
            kernels[row["label"], row["mode"]] = {k: row[k] for k in ("label", "size", "mode", "evidence")}
    unexplained = sum(row["cause"] == UNEXPLAINED for row in rows)
    modes = {mode: modes[mode] for mode in document["study"]["modes"] if mode in modes}
    found = {"of": len(rows), "unexplained": unexplained, "modes": modes, "kernels": list(kernels.values())}
    return found if rows else {}


def explained(ops: dict, causes: dict) -> dict:
    """Return the ops with those differences in device time open that the same kernels make: neither gain nor loss."""
    found = copy.deepcopy(ops)
    for mode, by_label in causes.get("modes", {}).items():
        for label, by_metric in by_label.items():
            if mode not in found[label]["modes"]:  # None of its times is told.
                continue
            causes_of = by_metric.get("device", {})
            for size in [*causes_of.get(UNEXPLAINED, []), *causes_of.get(CLOCKS, [])]:
                row = found[label]["modes"][mode]["device"]
                for verdict in ("faster", "slower"):
                    row[verdict] = [other for other in row[verdict] if other != size]
                row["inconclusive"] = [*row["inconclusive"], size]
    return found


def ceilings(document: dict) -> dict:
    """Return by dtype and bound {rate, unit, op, size, mode}, the rate in GB/s, TFLOP/s or GFLOP/s."""
    found = {}
    for dtype, bounds in document["ceilings"].items():
        for bound, top in bounds.items():
            # From bytes/µs and FLOP/µs.
            rate, unit = (top["rate"] / 1e3, "GB/s") if bound == "memory" else (top["rate"] / 1e6, "TFLOP/s")
            if bound == "compute" and rate < 1:
                rate, unit = rate * 1e3, "GFLOP/s"
            found.setdefault(dtype, {})[bound] = {**top, "rate": rate, "unit": unit}
    return found


def failures(document: dict) -> list[dict]:
    """Return what did not run as it should: {status, mode, reason, cells, of, ops}, one entry for each kind."""
    rows = [row for row in document["summary"] if row["metric"] == "latency"]
    found = {}
    for row in rows:
        if row["status"] != "ok":
            entry = found.setdefault((row["status"], row["mode"]), {"ops": {}, "reason": row["reason"]})
            entry["ops"].setdefault(label_of(document, row), []).append(row["size"])
    return [
        {
            "status": status,
            "mode": mode,
            **entry,
            "cells": sum(len(sizes) for sizes in entry["ops"].values()),
            "of": sum(row["mode"] == mode for row in rows),
        }
        for (status, mode), entry in found.items()
    ]
