"""Numbers: from a machine's summary.json to what the paper's text says about it.

Every number of the text, and every pattern that its words depend on, has its name here. No time or speedup is
estimated: this selects, counts, compares and judges by the stated rules. An op is known by its label: its name, with
its dtype where the study has several of them.
"""

import copy
import math
import re
import statistics
from collections import Counter

from kernelbench import prior
from kernelbench.statistics import EQUIVALENT_MIN_N, t_quantile
from kernelbench.study import CONTROL, MEASURE_KEYS, TWIN, diagnosed, is_twin, without_arms
from kernelbench.words import (
    ALL,
    CLOCKS,
    DERIVED,
    EXACT_NOTE,
    FAR_NOTE,
    FLOOR_FACTOR,
    MEASURED,
    PEAKS_NOTE,
    UNEXPLAINED,
)

VERDICTS = ("faster", "slower", "equivalent", "inconclusive")
TIMES = ("device", "latency")
# So many times as long as at the sizes beside it is nothing that the size explains: twice to four times is.
ANOMALY = 4
# "near parity" is tested as: the whole interval of the mean speedup lies within 10 % of 1, on logs.
PARITY = math.log(1.1)
# A cell is unsteady where it spreads this many times as much between repeats as its mode does in the median.
UNSTEADY_FACTOR = 5
FLOOR_NOTE = re.compile(r"timer's floor of (\S+) µs")


def numbers(document: dict, published: dict, local: bool) -> dict:
    """Return the paper's numbers of one machine.

    document: summary.json; published: paper/published.yaml; local: measured here rather than recorded.
    """
    study, environment = document["study"], document["environment"]
    gpu, baseline, compiled = environment["gpu"], study["baselines"][0], published["mode"]
    arms, document = _arms(document), without_arms(document)
    metrics = [m for m in TIMES if any(row["metric"] == m for row in document["summary"])]
    ops = _ops(document)
    causes = _causes(document, baseline, metrics)
    explained = _explained(ops, causes)
    return {
        "label": study["machine"],
        "title": gpu["name"] if gpu else environment["host"]["cpu"],
        "local": local,
        "gpu": bool(gpu),
        "gpus": len(environment.get("gpu_uuids", [])),
        "at_once": document["jobs"]["at_once"],
        "blocks": document["jobs"]["blocks"],
        "baseline": baseline,
        "metrics": metrics,
        "timed": list(dict.fromkeys(row["metric"] for row in document["summary"] if row["metric"] not in DERIVED)),
        "primary": metrics[0],
        "deltas": {m: study["equivalence"].get(m, study["equivalence"]["default"]) for m in metrics},
        "environment": environment,
        "packages": document["packages"],
        "study": study,
        "dtypes": list(dict.fromkeys(op["dtype"] for op in ops.values())),
        "modes": (modes := _modes(document, ops)),
        "compilers": [mode for mode, entry in modes.items() if entry["runner"] == "compile"],
        "starts": _starts(study, modes),
        "start_pairs": _start_pairs(document),
        "split": document["jobs"]["split"],
        "costs": _costs(document),
        "suspects": _suspects(document),
        "jobs": _jobs(document),
        "ops": ops,
        "overall": (overall := {m: _overall(document, baseline, m) for m in metrics}),
        "family": max(sum(row["cells"] for row in by.values()) for by in overall.values()),
        "beside": _beside(document, compiled, metrics) if compiled in study["baselines"] else {},
        "untimed": _untimed(document, baseline, metrics),
        "ceilings": _ceilings(document),
        "control": _control(document, metrics),
        "host_control": _control(document, ["host"]),
        "control_apart": _control_apart(document),
        "drift": document["drift"],
        "host_speed": document["host"],
        "clocks": _clocks(document),
        "peaks": _peaks(document, baseline, metrics),
        "exact": _exact(document, baseline, metrics),
        "noise": _noise(ops, metrics),
        "unsteady_factor": UNSTEADY_FACTOR,
        "turns": _turns(ops, metrics),
        "turned": _turned(document, baseline),
        "loss": _loss(ops, baseline, compiled, metrics),
        "host": _host(ops, baseline, metrics),
        "first_call": _first_call(ops),
        "arms": arms,
        "payback": _payback(document, ops, compiled),
        "compilation": [
            {**row, "label": label}
            for row in document["compilation"]
            if (label := _label(document, row)) in ops and row["mode"] in ops[label]["estimates"]
        ],
        "tuning_threads": max((row.get("tuning_threads", 1) for row in document["compilation"]), default=1),
        "causes": causes,
        "libraries": [mode for mode, entry in modes.items() if entry["runner"] == "library"],
        "rivals": {
            mode: _rivals(ops, mode, baseline, metrics) for mode, entry in modes.items() if entry["runner"] == "kernel"
        },
        "anomalies": _anomalies(ops, modes),
        "targets": [
            {**row, "label": _label(document, row), "met": _met(row), "surely": _surely(row)}
            for row in document["targets"]
        ],
        "flushes": _flushes(document),
        "traces": _traces(document),
        "answers": {
            mode: _answer(explained, mode, metrics, study["repeats"])
            for mode in dict.fromkeys([compiled, *study["modes"]])
        },
        "failures": _failures(document),
        "unsettled": document["unsettled"],
        "near_floor": _near_floor(document),
        "prior": prior.judged(published["claims"], document),
        "claims": {op: _claim(ops, op, published, metrics, baseline) for op in published["ops"]},
    }


def _arms(document: dict) -> dict:
    """Return by diagnostic arm that ran {diagnoses, cells}; a cell: {label, size, metrics {from, to, speedup}}.

    from, to: the estimates of the mode that is diagnosed and of the arm; speedup: the row of the arm over that mode.
    """
    study, found = document["study"], {}
    estimates = {(r["op"], r["dtype"], r["size"], r["mode"], r["metric"]): r for r in document["summary"]}
    for row in document["speedups"]:
        mode, other = row["mode"], diagnosed(study, row["mode"])
        if other != row["baseline"] or row["metric"] not in (*TIMES, "host"):
            continue
        cell = (row["op"], row["dtype"], row["size"])
        cells = found.setdefault(mode, {"diagnoses": other, "cells": {}})["cells"]
        own = cells.setdefault(cell, {"label": _label(document, row), "size": row["size"], "metrics": {}})
        own["metrics"][row["metric"]] = {
            "from": estimates[*cell, other, row["metric"]],
            "to": estimates[*cell, mode, row["metric"]],
            "speedup": row,
        }
    arms = {mode: {**arm, "cells": list(arm["cells"].values())} for mode, arm in found.items()}
    ran = {row["mode"] for row in document["summary"] if row["estimate"] is not None}
    return {mode: arm for mode, arm in arms.items() if mode in ran}


def _label(document: dict, row: dict) -> str:
    """Return the name of a row's op, with its dtype where the op was measured in several."""
    dtypes = {other["dtype"] for other in document["summary"] if other["op"] == row["op"]}
    return f"{row['op']}, {row['dtype']}" if len(dtypes) > 1 else row["op"]


def _speedups(document: dict, **wanted) -> list[dict]:
    """Return the rows of speedups that have the wanted values, without the A/A arm unless asked for."""
    return [
        row
        for row in document["speedups"]
        if all(row[key] == value for key, value in wanted.items())
        and (row["mode"] != CONTROL or wanted.get("mode") == CONTROL)
    ]


def _ops(document: dict) -> dict:
    """Return by label, in the order of the study, each op that some mode is compared at."""
    baseline = document["study"]["baselines"][0]
    found = {}
    for op in document["study"]["ops"]:
        rows = _speedups(document, op=op, baseline=baseline)
        for dtype in dict.fromkeys(row["dtype"] for row in rows):
            found[_label(document, {"op": op, "dtype": dtype})] = _op(document, op, dtype)
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
    own = {"speedups": _speedups(document, op=op, dtype=dtype)}
    return {
        "op": op,
        "dtype": dtype,
        "several": _label(document, rows[0]) != op,
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
    """Return estimates by mode, metric and size: {estimate, ci_low, ci_high, unit, n, status, reason, floor}."""
    found = {}
    keys = ("estimate", "ci_low", "ci_high", "unit", "n", "status", "reason")
    for row in rows:
        by_metric = found.setdefault(row["mode"], {}).setdefault(row["metric"], {})
        by_metric[row["size"]] = {**{key: row[key] for key in keys}, "floor": _floor(row)}
    return found


def _floor(row: dict) -> float | None:
    """Return the timer's floor in µs where a row of the summary says that its time is close to it."""
    note = FLOOR_NOTE.search(row["reason"] or "")
    return float(note[1]) if note and row["estimate"] is not None else None


def _mode(document: dict, mode: str, sizes: list[str], baseline: str, metric: str) -> dict:
    """Return the speedups of a mode by size, their mean, and the pattern of their verdicts; `document`: of one op."""
    rows = {row["size"]: row for row in _speedups(document, mode=mode, baseline=baseline, metric=metric)}
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


def _modes(document: dict, ops: dict) -> dict:
    """Return the config of the modes that ran, in the order of the study, the baseline and A/A among them."""
    ran = {row["mode"] for row in document["summary"] if row["estimate"] is not None}
    ran &= {mode for op in ops.values() for mode in op["estimates"]}
    return {mode: entry for mode, entry in document["study"]["modes"].items() if mode in ran}


def _starts(study: dict, modes: dict) -> dict:
    """Return the modes by how their processes start; a study from before there was a choice started fresh ones."""
    found = {}
    for mode, entry in modes.items():
        found.setdefault(entry.get("start", study.get("start", "fresh")), []).append(mode)
    return found


def _start_pairs(document: dict) -> dict:
    """Return for each metric how modes that start warm compare with the baselines that are the same, started fresh.

    Empty where the study has no such pairs: it is not about the start of processes. verdicts: how many (cell, mode)
    pairs have each, missing those without; low, high: the least and greatest speedup; wide: the ends of the intervals
    of those not told apart; differ: the rows of those that differ, with their label.
    """
    study, found = document["study"], {}
    twins = {(mode, other) for mode in study["modes"] for other in study["baselines"] if is_twin(study, mode, other)}
    for metric in dict.fromkeys(row["metric"] for row in document["summary"]):
        rows = [r for r in _speedups(document, metric=metric) if (r["mode"], r["baseline"]) in twins]
        rows = [{**row, "label": _label(document, row)} for row in rows if row["size"] != ALL]
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


def _costs(document: dict) -> dict:
    """Return {modes, minutes}: what the jobs of each mode cost, in the study's order, and of all the minutes by part.

    Empty where the records do not say.
    """
    costs = document["jobs"]["costs"]
    modes = {mode: costs[mode] for mode in document["study"]["modes"] if mode in costs}
    parts = next(iter(modes.values()))["minutes"] if modes else ()
    minutes = {part: sum(of["minutes"][part] for of in modes.values()) for part in parts}
    return {"modes": modes, "minutes": minutes} if modes else {}


def _suspects(document: dict) -> dict | None:
    """Return what summary.json has of suspect jobs, with the labels of the ops; None where the records do not say."""
    suspects = document["jobs"]["suspects"]
    for kind in suspects["kinds"].values() if suspects else ():
        kind["cells"] = [{**cell, "label": _label(document, cell)} for cell in kind["cells"]]
    return suspects


def _jobs(document: dict) -> dict:
    """Return how many jobs, repeats and compared cells there are, and the minutes that the jobs took together."""
    cells = {(row["op"], row["dtype"], row["size"]) for row in document["speedups"] if row["size"] != ALL}
    return {
        "count": document["environment"]["jobs"],
        "minutes": document["environment"]["job_seconds"] / 60,
        "repeats": document["study"]["repeats"],
        "cells": len(cells),
    }


def _overall(document: dict, baseline: str, metric: str) -> dict:
    """Return for each mode how many cells have each verdict, the tested ones in all, and the extremes."""
    rows = [r for r in _speedups(document, baseline=baseline, metric=metric) if r["size"] != ALL and r["verdict"]]
    rows = [{**row, "label": _label(document, row)} for row in rows]
    found = {}
    for mode in dict.fromkeys(row["mode"] for row in rows):
        own = [row for row in rows if row["mode"] == mode]
        found[mode] = {
            "cells": len(own),
            **{v: sum(row["verdict"] == v for row in own) for v in VERDICTS},
            "best": max(own, key=lambda row: row["speedup"]),
            "worst": min(own, key=lambda row: row["speedup"]),
        }
    return {mode: found[mode] for mode in document["study"]["modes"] if mode in found}


def _beside(document: dict, compiled: str, metrics: list[str]) -> dict:
    """Return by mode of torch.compile how it compares with `compiled`: {metric: as in `_overall`, causes, kernels}.

    causes: by metric what the differences come about by, in how many cells; kernels: the evidence of the cell that is
    slowest beside `compiled` in the first metric, None where that is put down to no kernel.
    """
    modes = document["study"]["modes"]
    found = {mode: {} for mode, entry in modes.items() if entry["runner"] == "compile" and mode != compiled}
    for metric in (*metrics, "first_call"):
        for mode, row in _overall(document, compiled, metric).items():
            if mode in found:
                found[mode][metric] = row
    for mode, own in found.items():
        causes = [row for row in document["causes"] if (row["mode"], row["baseline"]) == (mode, compiled)]
        own["causes"] = {m: dict(Counter(row["cause"] for row in causes if row["metric"] == m)) for m in metrics}
        worst = own.get(metrics[0], {}).get("worst")
        evident = [row for row in causes if worst and row["cause"] == "kernel" and row["metric"] == metrics[0]]
        evident = [row["evidence"] for row in evident if all(row[k] == worst[k] for k in ("op", "dtype", "size"))]
        own["kernels"] = evident[0] if evident and worst["verdict"] == "slower" else None
    return {mode: own for mode, own in found.items() if metrics[0] in own}


def _untimed(document: dict, baseline: str, metrics: list[str]) -> dict:
    """Return the same by throughput for the modes that have no device time where others have: latency is no whole."""
    if "device" not in metrics:
        return {}
    timed = _overall(document, baseline, "device")
    return {mode: row for mode, row in _overall(document, baseline, "throughput").items() if mode not in timed}


def _peaks(document: dict, baseline: str, metrics: list[str]) -> dict:
    """Return by metric how many speedups over the baseline have repeats in two peaks or far off; nothing else."""
    found = {}
    for metric in metrics:
        rows = [row for row in _speedups(document, baseline=baseline, metric=metric) if row["size"] != ALL and row["n"]]
        flagged = [row for row in rows if PEAKS_NOTE in row["reason"] or FAR_NOTE in row["reason"]]
        if flagged:
            found[metric] = {"flagged": len(flagged), "of": len(rows)}
    return found


def _exact(document: dict, baseline: str, metrics: list[str]) -> dict:
    """Return {of, disagree}: over how many speedups there is an exact interval, and where it says otherwise."""
    rows = [row for metric in metrics for row in _speedups(document, baseline=baseline, metric=metric)]
    rows = [{**row, "label": _label(document, row)} for row in rows if row["size"] != ALL and row["hl_low"] is not None]
    return {"of": len(rows), "disagree": [row for row in rows if EXACT_NOTE in row["reason"]]}


def _ceilings(document: dict) -> dict:
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


def _control(document: dict, metrics: list[str]) -> dict:
    """Return for each metric the A/A arm: cells, how many are significant, 95th percentile and most of its deviation.

    most: {deviation, label, size} of the cell that deviates most.
    """
    found = {}
    for metric in metrics:
        rows = _speedups(document, mode=CONTROL, baseline=TWIN, metric=metric)
        cells = [row for row in rows if row["size"] != ALL and row["p"] is not None]
        if cells:
            found[metric] = {
                "nominal": sum(row["p"] < 0.05 for row in cells),
                "significant": sum(row["p_holm"] < 0.05 for row in cells),
                **document["control"][metric],
                "most": _most(document, cells),
                "cells": len(cells),
                "delta": cells[0]["delta"],
            }
    return found


def _control_apart(document: dict) -> list[dict]:
    """Return the rows of the A/A arm, by any metric, whose verdict tells eager apart from itself."""
    rows = [row for row in _speedups(document, mode=CONTROL, baseline=TWIN) if row["size"] != ALL]
    told = [row for row in rows if row["verdict"] in ("faster", "slower")]
    return [{**row, "label": _label(document, row)} for row in told]


def _most(document: dict, cells: list[dict]) -> dict:
    row = max(cells, key=lambda row: abs(math.log(row["speedup"])))
    return {"deviation": math.expm1(abs(math.log(row["speedup"]))), "label": _label(document, row), "size": row["size"]}


def _noise(ops: dict, metrics: list[str]) -> dict:
    """Return by mode and metric how far a time spreads between repeats: {cells, median, high, label, size, unsteady}.

    The spread is the standard deviation of the logarithm, from the interval that was made of it. high: the greatest,
    in the cell (label, size); unsteady: {label: sizes} beyond UNSTEADY_FACTOR times the median.
    """
    found = {}
    for label, op in ops.items():
        for mode, by_metric in op["estimates"].items():
            for metric in metrics:
                for size, row in by_metric.get(metric, {}).items():
                    if row["ci_low"] is not None and row["n"] > 1:
                        half = math.log(row["ci_high"] / row["ci_low"]) / 2
                        spread = half * math.sqrt(row["n"]) / float(t_quantile(row["n"] - 1))
                        found.setdefault(mode, {}).setdefault(metric, {})[label, size] = spread
    return {mode: {m: _unsteady(cells) for m, cells in by.items()} for mode, by in found.items()}


def _unsteady(spreads: dict) -> dict:
    middle, unsteady = statistics.median(spreads.values()), {}
    for (label, size), spread in spreads.items():
        if spread > UNSTEADY_FACTOR * middle > 0:
            unsteady.setdefault(label, []).append(size)
    label, size = max(spreads, key=spreads.get)
    high = spreads[label, size]
    return {"cells": len(spreads), "median": middle, "high": high, "label": label, "size": size, "unsteady": unsteady}


def _loss(ops: dict, baseline: str, mode: str, metrics: list[str]) -> dict:
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


def _turns(ops: dict, metrics: list[str]) -> dict:
    """Return the sizes that are faster by one timer and slower by the other, by device verdict, mode and op."""
    found = {"count": 0, "compared": 0, "faster": {}, "slower": {}}
    if metrics != list(TIMES):
        return found
    for label, op in ops.items():
        for mode, by_metric in op["modes"].items():
            for size, device in by_metric["device"]["sizes"].items():
                latency = by_metric["latency"]["sizes"].get(size, {"verdict": ""})
                found["compared"] += bool(device["verdict"] and latency["verdict"])
                if {device["verdict"], latency["verdict"]} == {"faster", "slower"}:
                    found["count"] += 1
                    found[device["verdict"]].setdefault(mode, {}).setdefault(label, []).append(size)
    return found


def _turned(document: dict, baseline: str) -> dict:
    """Return {timers, modes}: by mode in how many cells its verdicts differ by timer, where there are more than two.

    of: the cells; cells: faster by one timer and slower by another; all_faster, all_slower: by all that a mode has.
    The host's own time, which is a part of a call, is left out.
    """
    timers = [m for m in MEASURED if MEASURED[m] == "µs" and any(r["metric"] == m for r in document["summary"])]
    timers = [timer for timer in timers if timer != "host"]
    verdicts = {}
    for row in _speedups(document, baseline=baseline):
        if row["metric"] in timers and row["size"] != ALL and row["verdict"]:
            cell = (row["op"], row["dtype"], row["size"])
            verdicts.setdefault(row["mode"], {}).setdefault(cell, []).append(row["verdict"])
    modes = {
        mode: {
            "of": len(cells),
            "cells": sum({"faster", "slower"} <= set(found) for found in cells.values()),
            "all_faster": sum(set(found) == {"faster"} for found in cells.values()),
            "all_slower": sum(set(found) == {"slower"} for found in cells.values()),
        }
        for mode, cells in verdicts.items()
    }
    return {"timers": timers, "modes": modes} if len(timers) > len(TIMES) else {}


def _host(ops: dict, baseline: str, metrics: list[str]) -> dict:
    """Return by mode what a call takes on the host, as medians over cells in µs.

    By the timer `host`, the time until the call returns; in a study without it the residual latency - device.
    excess: the median over cells of its difference from the baseline's, with the least and the greatest; shorter: by
    how much it is below the baseline's in the cells where it is shown to be; longer: in how many it exceeds the
    baseline's whole latency.
    """
    if metrics != list(TIMES):
        return {}
    gaps = {}
    for label, op in ops.items():
        for mode, by_metric in op["estimates"].items():
            for size in op["sizes"]:
                times = [by_metric.get(m, {}).get(size, {}).get("estimate") for m in (*TIMES, "host")]
                if None not in times[:2] and mode != CONTROL:
                    device, latency, host = times
                    gaps.setdefault(mode, {})[label, size] = latency - device if host is None else host
    found = {}
    for mode, gap in gaps.items():
        extra = {cell: gap[cell] - gaps[baseline][cell] for cell in gap if cell in gaps.get(baseline, {})}
        if extra:
            sooner = [-more for (label, size), more in extra.items() if size in _sooner(ops[label], mode)]
            whole = {cell: ops[cell[0]]["estimates"][baseline]["latency"][cell[1]]["estimate"] for cell in gap}
            found[mode] = {
                **_spread(gap.values()),
                "excess": {**_spread(extra.values())},
                "shorter": sooner,
                "longer": sum(whole[cell] is not None and gap[cell] > whole[cell] for cell in gap),
            }
    return found


def _sooner(op: dict, mode: str) -> list[str]:
    """Return the sizes at which the host is shown to be done with a call of `mode` sooner."""
    return op["modes"].get(mode, {}).get("host", {"faster": []})["faster"]


def _spread(values) -> dict:
    values = list(values)
    return {"cells": len(values), "median": statistics.median(values), "low": min(values), "high": max(values)}


def _first_call(ops: dict) -> dict:
    """Return by mode the first call in s: median, least and greatest over the cells."""
    found = {}
    for op in ops.values():
        for mode, by_metric in op["estimates"].items():
            rows = by_metric.get("first_call", {}).values()
            times = [row["estimate"] for row in rows if row["estimate"] is not None]
            if times and mode != CONTROL:
                found.setdefault(mode, []).extend(times)
    return {mode: _spread(times) for mode, times in found.items()}


def _payback(document: dict, ops: dict, mode: str) -> dict:
    """Return by metric when `mode` has paid for its first call.

    {rows: those of summary.json with their label; after, open, never: how many of each kind; low, high: the least and
    the greatest number of calls of those that pay back, None where there is none}. What nothing, or the clock alone,
    explains is no saving: it stays open.
    """
    found, baseline = {}, document["study"]["baselines"][0]
    unearned = [r for r in document["causes"] if (r["mode"], r["baseline"]) == (mode, baseline)]
    unearned = {(r["op"], r["dtype"], r["size"], r["metric"]) for r in unearned if r["cause"] in (CLOCKS, UNEXPLAINED)}
    for row in document["payback"]:
        label = _label(document, row)
        if (row["op"], row["dtype"], row["size"], row["metric"]) in unearned and row["metric"] == "device":
            row = {**row, "kind": "open" if row["kind"] == "after" else row["kind"]}
        if row["mode"] == mode and mode in ops.get(label, {"modes": ()})["modes"]:
            found.setdefault(row["metric"], []).append({**row, "label": label})
    counted = {}
    for metric, rows in found.items():
        calls = [row["calls"] for row in rows if row["kind"] == "after"]
        kinds = {kind: sum(row["kind"] == kind for row in rows) for kind in ("after", "open", "never")}
        ends = {"low": min(calls, default=None), "high": max(calls, default=None)}
        counted[metric] = {"rows": rows, **kinds, **ends}
    return counted


def _causes(document: dict, baseline: str, metrics: list[str]) -> dict:
    """Return {of, unexplained, modes, kernels} of the differences from the baseline in the given metrics.

    of: how many are decided; unexplained: how many of these have no cause; modes: by mode, label and metric the sizes
    of each cause; kernels: {label, size, mode, evidence} of the largest size whose device time differs by the kernels,
    for each op and mode. Empty where the study has no causes.
    """
    rows = [row for row in document["causes"] if row["baseline"] == baseline and row["metric"] in metrics]
    rows = [{**row, "label": _label(document, row)} for row in rows if row["mode"] != CONTROL]
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


def _traces(document: dict) -> list[dict]:
    """Return what summary.json has of traces but their points, with the label, and alone: the device time in µs."""
    key = ("op", "dtype", "size", "mode")
    alone = {tuple(row[k] for k in key): row["estimate"] for row in document["summary"] if row["metric"] == "device"}
    return [
        {name: value for name, value in trace.items() if name != "points"}
        | {"label": _label(document, trace), "alone": alone.get(tuple(trace[k] for k in key))}
        for trace in document["traces"]
    ]


def _rivals(ops: dict, mode: str, baseline: str, metrics: list[str]) -> dict:
    """Return by label and metric how a mode stands to all baselines: {sizes, worth, mean, over, ...}.

    sizes: by {ahead, behind, level, open} those where it stands so; worth: whether it is ahead at "all", "some" or
    "none" of them; mean: which of the four it is on the mean over the sizes; over: the baseline over which that mean is
    the least, with it and its interval in speedup, ci_low and ci_high.
    ahead: found faster than each baseline that ran; behind: found slower than one at least; level: neither, and
    equivalent to those that it is not ahead of; open: neither, and not told apart from one at least.
    """
    found = {}
    for label, op in ops.items():
        rivals = {name: of[mode] for name, of in ({baseline: op["modes"]} | op["against"]).items() if mode in of}
        by = {metric: _against(rivals, metric) for metric in metrics}
        if any(any(row["sizes"].values()) for row in by.values()):
            found[label] = by
    return found


def _against(rivals: dict, metric: str) -> dict:
    by_size, means = {}, {}
    for name, row in ((name, of[metric]) for name, of in rivals.items() if metric in of):
        for size, speedup in row["sizes"].items():
            by_size.setdefault(size, []).append(speedup["verdict"])
        if row["all"] and row["all"]["verdict"]:
            means[name] = row["all"]
    kinds = {"ahead": [], "behind": [], "level": [], "open": []}
    for size, verdicts in by_size.items():
        if any(verdicts):
            kinds[_stand([verdict for verdict in verdicts if verdict])].append(size)
    ahead, rest = len(kinds["ahead"]), sum(len(sizes) for kind, sizes in kinds.items() if kind != "ahead")
    found = {"sizes": kinds, "worth": ("some" if rest else "all") if ahead else "none", "mean": None}
    if means:
        over = min(means, key=lambda name: means[name]["speedup"])
        found |= {"mean": _stand([row["verdict"] for row in means.values()]), "over": over}
        found |= {name: means[over][name] for name in ("speedup", "ci_low", "ci_high")}
    return found


def _stand(verdicts: list[str]) -> str:
    if "slower" in verdicts:
        return "behind"
    return "open" if "inconclusive" in verdicts else "level" if "equivalent" in verdicts else "ahead"


def _anomalies(ops: dict, modes: dict) -> list[dict]:
    """Return {label, mode, size, time (µs), times} where a library takes many times as long as at both sizes beside it.

    times: how many times as long as at the slower of the two, by device time; ANOMALY at least.
    """
    found = []
    for label, op in ops.items():
        for mode in (mode for mode, entry in modes.items() if entry["runner"] == "library"):
            taken = op["estimates"].get(mode, {}).get("device", {})
            sizes = [size for size in op["sizes"] if size in taken and taken[size]["estimate"]]
            times = [taken[size]["estimate"] for size in sizes]
            for before, here, after, size in zip(times, times[1:], times[2:], sizes[1:], strict=False):
                if here >= ANOMALY * max(before, after):
                    own = {"time": here, "times": here / max(before, after)}
                    found.append({"label": label, "mode": mode, "size": size, **own})
    return found


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


def _flushes(document: dict) -> dict:
    """Return {kinds, modes, rows}: device time by the way in which the L2 cache is emptied; empty without a choice.

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
        for r in _speedups(document, baseline=twins[first][kind], metric="device")
        if any(r["mode"] == by.get(kind) for by in twins.values())
    }
    rows = []
    for op, dtype, size in dict.fromkeys(key[:3] for key in times):
        cell = (op, dtype, size)
        rows.append(
            {
                "label": _label(document, {"op": op, "dtype": dtype}),
                "size": size,
                "times": {m: {k: times.get((*cell, by.get(k))) for k in kinds} for m, by in twins.items()},
                "speedups": {
                    m: {k: gains.get((*cell, by.get(k))) for k in kinds} for m, by in twins.items() if m != first
                },
            }
        )
    return {"kinds": kinds, "modes": list(twins), "rows": rows}


def _explained(ops: dict, causes: dict) -> dict:
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


def _clocks(document: dict) -> dict:
    """Return {single, many}: the cells whose SM clock was lower than the GPU's highest by more than δ of device time.

    As the timers of single calls ended and as those of many calls back to back did; a cell: {label, size, low, high}.
    """
    delta = document["study"]["equivalence"].get("device", document["study"]["equivalence"]["default"])
    cells = document["jobs"]["clocks"]
    top = max((cell["single"]["high"] for cell in cells), default=0)
    return {
        name: [
            {"label": _label(document, cell), "size": cell["size"], **cell[name]}
            for cell in cells
            if cell[name]["low"] < (1 - delta) * top
        ]
        for name in ("single", "many")
    }


def _answer(ops: dict, mode: str, metrics: list[str], repeats: int) -> dict:
    """Return by metric the ops for which `mode` is a gain, a loss, the same, dependent on the size, or open.

    gain: faster somewhere and slower nowhere; loss: the reverse; depends: both; same: equivalent at each size;
    partial: neither holds at each size because one has no verdict; open: none of these. free: a gain by each metric;
    undecided: those that are neither free nor, by any metric, a loss, dependent on the size or the same. few: that
    nothing is shown slower in so few repeats is no sign that nothing is, and no op is called free.
    """
    few = repeats < EQUIVALENT_MIN_N
    kinds = ("gain", "loss", "depends", "same", "partial", "open")
    found = {metric: {kind: [] for kind in kinds} for metric in metrics}
    for metric, by in found.items():
        for label, op in ops.items():
            row = op["modes"].get(mode, {}).get(metric)
            if row and row["pattern"] != "none":
                by[_kind(row)].append(label)
    tested = [label for label in ops if any(label in of for by in found.values() for of in by.values())]
    free = [label for label in tested if not few and all(label in by["gain"] for by in found.values())]
    still = [label for label in tested if all(label in by["open"] for by in found.values())]
    lost = {label for by in found.values() for kind in ("loss", "depends", "same") for label in by[kind]}
    undecided = [label for label in tested if label not in free and label not in lost]
    return {"by": found, "tested": tested, "free": free, "open": still, "undecided": undecided, "few": few}


def _kind(row: dict) -> str:
    if row["faster"] and row["slower"]:
        return "depends"
    if row["missing"]:
        return "partial"
    if row["faster"] or row["slower"]:
        return "gain" if row["faster"] else "loss"
    return "open" if row["inconclusive"] else "same"


def _failures(document: dict) -> list[dict]:
    """Return what did not run as it should: {status, mode, reason, cells, of, ops}, one entry for each kind."""
    rows = [row for row in document["summary"] if row["metric"] == "latency"]
    found = {}
    for row in rows:
        if row["status"] != "ok":
            entry = found.setdefault((row["status"], row["mode"]), {"ops": {}, "reason": row["reason"]})
            entry["ops"].setdefault(_label(document, row), []).append(row["size"])
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


def _near_floor(document: dict) -> dict:
    """Return how many device times are shorter than `factor` times their timer's floor, of how many, and the floors.

    low, high: the least and the greatest of the floors of these times in µs, None where there is no such time; graph:
    of the speedups over the baseline of such times that graph time has as well, {of, changed}: those with another
    verdict by it, [{mode, label, size, device, graph}], each a row of the speedups, those that change most first.
    """
    rows = [row for row in document["summary"] if row["metric"] == "device" and row["estimate"] is not None]
    floors = [floor for row in rows if (floor := _floor(row)) is not None]
    short = {(row["op"], row["dtype"], row["size"], row["mode"]) for row in rows if _floor(row) is not None}
    return {
        "graph": _by_graph(document, short),
        "cells": len(floors),
        "of": len(rows),
        "factor": FLOOR_FACTOR,
        "low": min(floors, default=None),
        "high": max(floors, default=None),
    }


def _by_graph(document: dict, short: set[tuple]) -> dict:
    """Return {of, changed} of the speedups over the baseline at the given (op, dtype, size, mode): see _near_floor."""
    by = {}
    for row in _speedups(document, baseline=document["study"]["baselines"][0]):
        key = (row["op"], row["dtype"], row["size"], row["mode"])
        if key in short and row["metric"] in ("device", "graph") and row["verdict"]:
            by.setdefault(key, {})[row["metric"]] = row
    both = [pair for pair in by.values() if len(pair) == 2]
    turned = [pair for pair in both if pair["device"]["verdict"] != pair["graph"]["verdict"]]
    turned.sort(key=lambda pair: -abs(math.log(pair["graph"]["speedup"] / pair["device"]["speedup"])))
    names = [
        {k: pair["device"][k] for k in ("mode", "size")} | {"label": _label(document, pair["device"])}
        for pair in turned
    ]
    return {"of": len(both), "changed": [name | pair for name, pair in zip(names, turned, strict=True)]}


def _claim(ops: dict, op: str, published: dict, metrics: list[str], baseline: str) -> dict:
    """Judge a published claim about an op by the mean speedup over the sizes, for each time metric.

    Where the op was measured in several dtypes, the published one is judged.
    """
    labels = [label for label in ops if ops[label]["op"] == op]
    label = min(labels, key=lambda name: ops[name]["dtype"] != published["dtype"], default=None)
    found = {}
    for metric in metrics if label and baseline == published["baseline"] else []:
        mode = ops[label]["modes"].get(published["mode"], {}).get(metric)
        if mode and mode["all"] and mode["all"]["speedup"] is not None:
            found[metric] = {**mode, "agrees": _agrees(published["ops"][op]["claim"], mode["all"])}
    judged = [ours["agrees"] for ours in found.values() if ours["agrees"] is not None]
    verdict = "not tested" if not judged else {len(judged): "holds", 0: "does not hold"}.get(sum(judged))
    return {
        "label": label,
        "ours": found,
        "claim": published["ops"][op]["claim"],
        "agrees": [metric for metric, ours in found.items() if ours["agrees"]],
        "verdict": verdict or "holds in part",
    }


def _agrees(claim: str, mean: dict) -> bool | None:
    """Say whether the interval of a mean speedup is on the claimed side of 1, or within 10 % of it for parity.

    None without an interval.
    """
    if mean["ci_low"] is None:
        return None
    if claim == "near parity":
        return math.log(mean["ci_low"]) >= -PARITY and math.log(mean["ci_high"]) <= PARITY
    return mean["ci_low"] > 1 if claim == "faster" else mean["ci_high"] < 1
