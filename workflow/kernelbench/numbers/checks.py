"""What speaks for and against the data: the A/A arm, clocks, spread, peaks, the timers' floors, suspect jobs."""

import math
import statistics

from kernelbench.notes import CODES, ExactIntervalDisagrees, Throttled, find
from kernelbench.numbers.select import is_flagged, label_of, speedups
from kernelbench.numbers.tables import floor_of
from kernelbench.statistics import t_quantile
from kernelbench.study import CONTROL, TWIN
from kernelbench.words import ALL, FLOOR_FACTOR

# So many times less of the limit than at the sizes beside it is nothing that the size explains.
ANOMALY = 4
# A floor this many times the one below it is another one: those of one host are within a few percent.
FLOOR_APART = 1.2
# A cell is unsteady where it spreads this many times as much between repeats as its mode does in the median.
UNSTEADY_FACTOR = 5


def control(document: dict, metrics: list[str]) -> dict:
    """Return for each metric the A/A arm: cells, how many are significant, 95th percentile and most of its deviation.

    most: {deviation, label, size} of the cell that deviates most.
    """
    found = {}
    for metric in metrics:
        rows = speedups(document, mode=CONTROL, baseline=TWIN, metric=metric)
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


def control_apart(document: dict) -> list[dict]:
    """Return the rows of the A/A arm, by any metric and means among them, that tell eager apart from itself."""
    rows = speedups(document, mode=CONTROL, baseline=TWIN)
    told = [row for row in rows if row["verdict"] in ("faster", "slower")]
    return [{**row, "label": label_of(document, row)} for row in told]


def _most(document: dict, cells: list[dict]) -> dict:
    row = max(cells, key=lambda row: abs(math.log(row["speedup"])))
    return {
        "deviation": math.expm1(abs(math.log(row["speedup"]))),
        "label": label_of(document, row),
        "size": row["size"],
    }


def peaks(document: dict, baseline: str, metrics: list[str]) -> dict:
    """Return by metric how many speedups over the baseline have repeats in two peaks or far off; nothing else."""
    found = {}
    for metric in metrics:
        rows = [row for row in speedups(document, baseline=baseline, metric=metric) if row["size"] != ALL and row["n"]]
        flagged = [row for row in rows if is_flagged(row)]
        if flagged:
            found[metric] = {"flagged": len(flagged), "of": len(rows)}
    return found


def exact(document: dict, baseline: str, metrics: list[str]) -> dict:
    """Return {of, disagree}: over how many speedups there is an exact interval, and where it says otherwise."""
    rows = [row for metric in metrics for row in speedups(document, baseline=baseline, metric=metric)]
    rows = [
        {**row, "label": label_of(document, row)} for row in rows if row["size"] != ALL and row["hl_low"] is not None
    ]
    return {"of": len(rows), "disagree": [row for row in rows if find(row["notes"], ExactIntervalDisagrees)]}


def by_gpu(document: dict) -> dict:
    """Return what gpus.about says by metric, with the label of each row whose verdict is another."""
    return {
        metric: found
        | {kind: [{**row, "label": label_of(document, row)} for row in found[kind]] for kind in ("lost", "wider")}
        for metric, found in document["by_gpu"].items()
    }


def noise(ops: dict, metrics: list[str]) -> dict:
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


def anomalies(ops: dict, modes: dict) -> list[dict]:
    """Return {label, mode, size, time, share, beside, last} where a library falls far behind what it reaches elsewhere.

    share: of the limit (`roofline`); beside: the lower share of the sizes next to it, of the last size that before it;
    ANOMALY times as much at least. time: device time in µs. The smallest size fills no GPU and is left out.
    """
    found = []
    for label, op in ops.items():
        for mode in (mode for mode, entry in modes.items() if entry["runner"] == "library"):
            own = op["estimates"].get(mode, {})
            shares = {size: own.get("roofline", {}).get(size, {}).get("estimate") for size in op["sizes"]}
            sizes = [size for size, share in shares.items() if share]
            for before, size, after in zip(sizes, sizes[1:], [*sizes[2:], None], strict=False):
                beside = min(shares[other] for other in (before, after) if other)
                if beside >= ANOMALY * shares[size]:
                    of = {"time": own["device"][size]["estimate"], "share": shares[size], "beside": beside}
                    found.append({"label": label, "mode": mode, "size": size, **of, "last": after is None})
    return found


def clocks(document: dict) -> dict:
    """Return {single, many}: the cells whose SM clock was lower than the GPU's highest by more than δ of device time.

    As the timers of single calls ended and as those of many calls back to back did; a cell: {label, size, low, high}.
    """
    delta = document["study"]["equivalence"].get("device", document["study"]["equivalence"]["default"])
    cells = document["jobs"]["clocks"]
    top = max((cell["single"]["high"] for cell in cells), default=0)
    return {
        name: [
            {"label": label_of(document, cell), "size": cell["size"], **cell[name]}
            for cell in cells
            if cell[name]["low"] < (1 - delta) * top
        ]
        for name in ("single", "many")
    }


def near_floor(document: dict) -> dict:
    """Return how many device times are shorter than `factor` times their timer's floor, of how many, and the floors.

    low, high: the least and the greatest of the floors of these times in µs, None where there is no such time; graph:
    of the speedups over the baseline of such times that graph time has as well, {of, changed, turned}. changed: those
    with another verdict by it, [{mode, label, size, device, graph}], each a row of the speedups, those that change most
    first; turned: of these, by the verdict by device time, mode and label the sizes with the opposite one.
    """
    rows = [row for row in document["summary"] if row["metric"] == "device" and row["estimate"] is not None]
    floors = [floor for row in rows if (floor := floor_of(row)) is not None]
    short = {(row["op"], row["dtype"], row["size"], row["mode"]) for row in rows if floor_of(row) is not None}
    return {
        "graph": _by_graph(document, short),
        "cells": len(floors),
        "of": len(rows),
        "factor": FLOOR_FACTOR,
        "low": min(floors, default=None),
        "high": max(floors, default=None),
    }


def _by_graph(document: dict, short: set[tuple]) -> dict:
    """Return {of, changed, turned} of near_floor for the speedups over the baseline at (op, dtype, size, mode)."""
    by = {}
    for row in speedups(document, baseline=document["study"]["baselines"][0]):
        key = (row["op"], row["dtype"], row["size"], row["mode"])
        if key in short and row["metric"] in ("device", "graph") and row["verdict"]:
            by.setdefault(key, {})[row["metric"]] = row
    both = [pair for pair in by.values() if len(pair) == 2]
    both.sort(key=lambda pair: -abs(math.log(pair["graph"]["speedup"] / pair["device"]["speedup"])))
    changed, turned = [], {}
    for pair in both:
        row, verdicts = pair["device"], [pair[metric]["verdict"] for metric in ("device", "graph")]
        label = label_of(document, row)
        if verdicts[0] != verdicts[1]:
            changed.append({"mode": row["mode"], "label": label, "size": row["size"], **pair})
        if set(verdicts) == {"faster", "slower"}:
            turned.setdefault(verdicts[0], {}).setdefault(row["mode"], {}).setdefault(label, []).append(row["size"])
    return {"of": len(both), "changed": changed, "turned": turned}


def less_floor(document: dict) -> dict | None:
    """Return what taking each job's floor off its device time does to the speedups over the baseline, None if untold.

    of: how many verdicts there are; changed: those that are others then, [{mode, label, size, device, less}], each a
    row; means: as much of that mean over sizes of each op which moves most, if by more than δ, the farthest first;
    groups: the repeats by their floor, [{repeats, floor (µs)}], the lowest first.
    """
    told = {_place(row): row for row in document["less_floor"] if row["verdict"]}
    if not told:
        return None
    rows = speedups(document, baseline=document["study"]["baselines"][0], metric="device")
    pairs = [
        {"mode": r["mode"], "label": label_of(document, r), "size": r["size"], "device": r, "less": told[_place(r)]}
        for r in rows
        if r["verdict"] and _place(r) in told
    ]
    cells, means = ([pair for pair in pairs if (pair["size"] == ALL) == mean] for mean in (False, True))
    far = [pair for pair in means if _moves(pair) > math.log1p(pair["device"]["delta"])]
    farthest = {pair["label"]: pair for pair in sorted(far, key=_moves)}
    return {
        "of": len(cells),
        "changed": [pair for pair in cells if pair["device"]["verdict"] != pair["less"]["verdict"]],
        "means": sorted(farthest.values(), key=_moves, reverse=True),
        "groups": _floor_groups(document["jobs"]["floors"]),
    }


def _moves(pair: dict) -> float:
    return abs(math.log(pair["less"]["speedup"] / pair["device"]["speedup"]))


def _place(row: dict) -> tuple:
    return row["op"], row["dtype"], row["size"], row["mode"]


def _floor_groups(floors: list[float]) -> list[dict]:
    groups = []
    for floor in sorted(floors):
        if not groups or floor > FLOOR_APART * groups[-1][-1]:
            groups.append([])
        groups[-1].append(floor)
    return [{"repeats": len(group), "floor": statistics.median(group)} for group in groups]


def suspects(document: dict) -> dict | None:
    """Return what summary.json has of suspect jobs, with the labels of the ops; None where the records do not say.

    Each kind also gets its title for people, and throttled: whether its clocks were held back.
    """
    suspects = document["jobs"]["suspects"]
    for code, kind in suspects["kinds"].items() if suspects else ():
        kind |= {"title": CODES[code].title, "throttled": issubclass(CODES[code], Throttled)}
        kind["cells"] = [{**cell, "label": label_of(document, cell)} for cell in kind["cells"]]
    return suspects
