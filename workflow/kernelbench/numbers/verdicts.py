"""Verdicts counted and compared: by mode, beside another mode or a library, by timer, against published claims."""

import math
from collections import Counter

from kernelbench.numbers.costs import ends, longer
from kernelbench.numbers.select import TIMES, VERDICTS, is_flagged, label_of, speedups
from kernelbench.statistics import EQUIVALENT_MIN_N
from kernelbench.words import ALL, MEASURED

# "near parity" is tested as: the whole interval of the mean speedup lies within 10 % of 1, on logs.
PARITY = math.log(1.1)


def overall(document: dict, baseline: str, metric: str) -> dict:
    """Return for each mode how many cells have each verdict, the tested ones in all, and the extremes.

    flagged: how many of those told apart have repeats in two peaks or far off.
    """
    rows = [r for r in speedups(document, baseline=baseline, metric=metric) if r["size"] != ALL and r["verdict"]]
    rows = [{**row, "label": label_of(document, row)} for row in rows]
    found = {}
    for mode in dict.fromkeys(row["mode"] for row in rows):
        own = [row for row in rows if row["mode"] == mode]
        found[mode] = {
            "cells": len(own),
            **{v: sum(row["verdict"] == v for row in own) for v in VERDICTS},
            "flagged": sum(is_flagged(row) for row in own if row["verdict"] in ("faster", "slower")),
            "best": max(own, key=lambda row: row["speedup"]),
            "worst": min(own, key=lambda row: row["speedup"]),
        }
    return {mode: found[mode] for mode in document["study"]["modes"] if mode in found}


def by_timer(document: dict, baseline: str) -> dict:
    """Return the same by each timer of a call, in the order of how much of the host is in it."""
    timers = [timer for timer in MEASURED if MEASURED[timer] == "µs"]
    found = {timer: overall(document, baseline, timer) for timer in timers}
    return {timer: rows for timer, rows in found.items() if rows}


def beside(document: dict, ops: dict, means: dict, compiled: str, metrics: list[str]) -> dict:
    """Return by mode of torch.compile how it stands to `compiled`: {metric: as in `overall`, causes, kernels, held}.

    causes: by metric what the differences come about by, in how many cells; kernels: the evidence of the cell that is
    slowest beside `compiled` in the first metric, None where that is put down to no kernel; held: of a mode that is
    slower by latency alone how much longer its calls keep the host, {mean (a row of `means`), low, high} in µs.
    """
    modes = document["study"]["modes"]
    found = {mode: {} for mode, entry in modes.items() if entry["runner"] == "compile" and mode != compiled}
    for metric in (*metrics, "first_call"):
        for mode, row in overall(document, compiled, metric).items():
            if mode in found:
                found[mode][metric] = row
    for mode, own in found.items():
        causes = [row for row in document["causes"] if (row["mode"], row["baseline"]) == (mode, compiled)]
        own["causes"] = {m: dict(Counter(row["cause"] for row in causes if row["metric"] == m)) for m in metrics}
        worst = own.get(metrics[0], {}).get("worst")
        evident = [row for row in causes if worst and row["cause"] == "kernel" and row["metric"] == metrics[0]]
        evident = [row["evidence"] for row in evident if all(row[k] == worst[k] for k in ("op", "dtype", "size"))]
        own["kernels"] = evident[0] if evident and worst["verdict"] == "slower" else None
        device, latency = (own.get(metric, {}) for metric in TIMES)
        alone = device and not (device["faster"] or device["slower"]) and latency and latency["slower"]
        mean = means.get("excess", {}).get((mode, compiled)) if alone else None
        own["held"] = {"mean": mean, **ends(longer(ops, mode, compiled))} if mean else None
    return {mode: own for mode, own in found.items() if metrics[0] in own}


def runners(document: dict, compiled: str, metrics: list[str]) -> dict:
    """Return by mode of another runner than torch.compile's, {metric: as in `overall`} over `compiled`."""
    modes, found = document["study"]["modes"], {}
    for metric in metrics:
        for mode, row in overall(document, compiled, metric).items():
            if modes[mode]["runner"] not in ("eager", "compile"):
                found.setdefault(mode, {})[metric] = row
    return found


def untimed(document: dict, baseline: str, metrics: list[str]) -> dict:
    """Return the same by throughput for the modes that have no device time where others have: latency is no whole."""
    if "device" not in metrics:
        return {}
    timed = overall(document, baseline, "device")
    return {mode: row for mode, row in overall(document, baseline, "throughput").items() if mode not in timed}


def turns(ops: dict, metrics: list[str]) -> dict:
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


def turned(document: dict, baseline: str) -> dict:
    """Return {timers, modes}: by mode in how many cells its verdicts differ by timer, where there are more than two.

    of: the cells; cells: faster by one timer and slower by another; all_faster, all_slower: by all that a mode has.
    The host's own time, which is a part of a call, is left out.
    """
    timers = [m for m in MEASURED if MEASURED[m] == "µs" and any(r["metric"] == m for r in document["summary"])]
    timers = [timer for timer in timers if timer != "host"]
    verdicts = {}
    for row in speedups(document, baseline=baseline):
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


def rivals(ops: dict, mode: str, baseline: str, metrics: list[str]) -> dict:
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


def answer(ops: dict, mode: str, metrics: list[str], repeats: int) -> dict:
    """Return by metric the ops for which `mode` is a gain, a loss, the same, dependent on the size, or open.

    gain: faster somewhere and slower nowhere; loss: the reverse; depends: both; same: equivalent at each size;
    partial: neither holds at each size because one has no verdict; open: none of these. free: a gain by each metric,
    with no size that is not told apart and may be slower by more than its margin of equivalence; undecided: those that
    are neither free nor, by any metric, a loss, dependent on the size or the same. few: that
    nothing is shown slower in so few repeats is no sign that nothing is, and no op is called free. at: by op the sizes
    that the mode was tested at, where they are one or fewer than the op's; once: by op that is not free the sizes that
    are faster by each metric, where there are several; flagged: those that are free with a verdict of faster whose
    interval promises too much.
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
    gains = [label for label in tested if not few and all(label in by["gain"] for by in found.values())]
    free = [label for label in gains if not _may_be_slower(ops[label]["modes"][mode], metrics)]
    still = [label for label in tested if all(label in by["open"] for by in found.values())]
    lost = {label for by in found.values() for kind in ("loss", "depends", "same") for label in by[kind]}
    undecided = [label for label in tested if label not in free and label not in lost]
    at = {label: sizes for label in tested if (sizes := _part(ops[label], mode))}
    rest = [label for label in tested if not few and label not in free and len(at.get(label, [])) != 1]
    once = {label: sizes for label in rest if (sizes := _faster(ops[label], mode, metrics))}
    kinds = {"tested": tested, "free": free, "open": still, "undecided": undecided}
    flagged = [label for label in free if _is_flagged(ops[label]["modes"][mode], metrics)]
    return {"by": found, **kinds, "few": few, "at": at, "once": once, "flagged": flagged}


def _is_flagged(by_metric: dict, metrics: list[str]) -> bool:
    return any(row["verdict"] == "faster" and is_flagged(row) for row in _rows(by_metric, metrics))


def _may_be_slower(by_metric: dict, metrics: list[str]) -> bool:
    open_rows = [row for row in _rows(by_metric, metrics) if row["verdict"] == "inconclusive" and row["ci_low"]]
    return any(math.log(row["ci_low"]) < -row["delta"] for row in open_rows)


def _rows(by_metric: dict, metrics: list[str]) -> list[dict]:
    return [row for metric in metrics for row in by_metric.get(metric, {"sizes": {}})["sizes"].values()]


def _faster(op: dict, mode: str, metrics: list[str]) -> list[str]:
    rows = [op["modes"][mode].get(metric, {"faster": []})["faster"] for metric in metrics]
    return [size for size in op["sizes"] if all(size in row for row in rows)]


def _part(op: dict, mode: str) -> list[str]:
    rows = [row["sizes"] for row in op["modes"][mode].values()]
    sizes = [size for size in op["sizes"] if any(size in row and row[size]["verdict"] for row in rows)]
    return sizes if len(sizes) == 1 or len(sizes) < len(op["sizes"]) else []


def _kind(row: dict) -> str:
    if row["faster"] and row["slower"]:
        return "depends"
    if row["missing"]:
        return "partial"
    if row["faster"] or row["slower"]:
        return "gain" if row["faster"] else "loss"
    return "open" if row["inconclusive"] else "same"


def claim(ops: dict, op: str, published: dict, metrics: list[str], baseline: str) -> dict:
    """Judge a published claim about an op by the mean speedup over the sizes, for each time metric.

    Where the op was measured in several dtypes, the published one is judged.
    """
    labels = [label for label in ops if ops[label]["op"] == op]
    label = min(labels, key=lambda name: ops[name]["dtype"] != published["dtype"], default=None)
    found = {}
    for metric in metrics if label and baseline == published["baseline"] else []:
        mode = ops[label]["modes"].get(published["mode"], {}).get(metric)
        whole = mode and len(mode["sizes"]) == len(ops[label]["sizes"])  # A mean over some of the sizes is another.
        if whole and mode["all"] and mode["all"]["speedup"] is not None:
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
