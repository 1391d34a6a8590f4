"""How far the data can be trusted, as tables: precision, controls, jobs in doubt, goals, the law and the intervals."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from kernelbench import numbers
from kernelbench.analysis import host_law
from kernelbench.analysis.studies import Studies
from kernelbench.analysis.targets import holds_floor, meets
from kernelbench.notes import FLAGS, find
from kernelbench.paper.markdown import code, escape, sheet
from kernelbench.paper.results import FLAGGED, TIMED
from kernelbench.study.metrics import ALL

# How many cells are named whose jobs are in doubt.
NAMED = 8
# What becomes of verdicts under another estimate: the keys of compare_verdicts.
STANDING = ("decided", "same", "undecided", "opposite")


def quality(document: dict) -> Iterator[str]:
    """Yield how narrow the intervals are, what the controls say, which jobs are in doubt, and the goals."""
    yield _precision(document)
    yield _controls(document)
    yield from _clustered(document)
    yield _first_repeats(document)
    yield _doubts(document)
    yield _targets(document)


def _precision(document: dict) -> str:
    baseline, rows = document["study"]["baselines"][0], []
    speedups = pd.DataFrame(document["speedups"])
    known = speedups[speedups["baseline"].eq(baseline) & speedups["size"].ne(ALL) & speedups["ci_low"].notna()]
    for metric, own in known.groupby("metric", sort=False):
        half = np.log(own["ci_high"] / own["ci_low"]) / 2
        median, most = (numbers.percent(np.expm1(half.quantile(share))) for share in (0.5, 0.95))
        flagged = sum(find(notes, *FLAGS) is not None for notes in own["notes"])
        rows.append(
            {
                "metric": metric.replace("_", " "),
                "speedups": len(own),
                "median": median,
                "95 % within": most,
                FLAGGED: flagged,
            }
        )
    return sheet(rows, "lrrrr", f"Half widths of the intervals of the speedups over `{baseline}`")


def _controls(document: dict) -> str:
    tables = [document["control"], document["by_gpu"]]
    rows = []
    for metric in dict.fromkeys(metric for table in tables for metric in table):
        same, gpu = (table.get(metric, {}) for table in tables)
        rows.append({
            "metric": metric.replace("_", " "),
            "A/A cells": same.get("cells"),
            "95 % within": numbers.percent(same.get("p95")),
            "GPUs apart": "{apart} of {of}".format(**gpu) if gpu.get("of") else None,
            "typically by": numbers.percent(gpu["median"] if gpu.get("of") else None),
        })  # fmt: skip
    return sheet(rows, "lrrrr", "Eager against itself (A/A), and dependence on the GPU")


def _first_repeats(document: dict) -> str:
    """Return what the repeats before each look at the data say."""
    named = ("repeats", "metric", *STANDING)
    columns = {name.replace("_", " "): name for name in named}
    caption = (
        "Decided verdicts of all repeats, and what becomes of them with only the repeats before a look at the data"
    )
    return sheet(document["first_repeats"], "rlrrrr", caption, columns)


def _clustered(document: dict) -> Iterator[str]:
    """Yield what becomes of the verdicts with GPUs in the place of repeats, and which ones change."""
    found = document["clustered"]
    columns = {name: name for name in ("gpus", "metric", *STANDING)}
    caption = "Decided verdicts over repeats, and what becomes of them over GPUs, each with the mean of its repeats"
    yield sheet(found, "rlrrrr", caption, columns)
    rows = []
    for row in found:
        if row["metric"] in TIMED:
            for pair in dict.fromkeys((each["verdict"], each["clustered"]) for each in row["changed"]):
                own = [each for each in row["changed"] if (each["verdict"], each["clustered"]) == pair]
                by_mode = {}
                for each in own:
                    by_mode.setdefault(each["mode"], []).append(f"{each['op']} {each['size']}")
                cells = "; ".join(f"`{mode}`: {escape(', '.join(cells))}" for mode, cells in by_mode.items())
                rows.append({"metric": row["metric"], "over repeats": pair[0], "over GPUs": pair[1], "cells": cells})
    yield sheet(rows, "llll", "Verdicts that change with GPUs in the place of repeats")


def _doubts(document: dict) -> str:
    """Return which jobs are in doubt, by why and cell."""
    suspects = document["jobs"]["suspects"] or {"kinds": {}}
    rows = []
    for kind, found in suspects["kinds"].items():
        cells = [f"{cell['op']} {cell['size']}: {cell['jobs']}" for cell in found["cells"]]
        more = [f"{len(cells) - NAMED} more"] if len(cells) > NAMED else []
        rows.append({"why": kind, "jobs": found["jobs"], "cells": escape("; ".join(cells[:NAMED] + more))})
    return sheet(rows, "lrl", f"Jobs in doubt: {suspects.get('jobs')} of {suspects.get('of')}")


def _targets(document: dict) -> str:
    """Return what the kernels reach of their goals; of floors only where a goal has one."""
    has_floors = any(holds_floor(row) is not None for row in document["targets"])
    floors = {"floor": _floor, "worst cell": _least} if has_floors else {}
    columns = {
        "op": code("op"), "sizes": _sizes, "mode": code("mode"), "over": _over,
        "goal": lambda row: numbers.value(row["must"]), "hoped for": lambda row: numbers.value(row["aim"]),
        "reached": lambda row: numbers.value(row["reached"]), "at": lambda row: escape(row["worst"] or "mean"),
        **floors, "": meets,
    }  # fmt: skip
    align = f"llllrrrr{'l' * len(floors)}l"
    return sheet(document["targets"], align, "Goals of the kernels, set before they were tuned", columns)


def _sizes(row: dict) -> list[str] | str:
    """Return the sizes of a goal; of a group how many cells it has, as their names would fill a page."""
    return row["sizes"] if row["dtype"] else f"{len(row['sizes'])} cells"


def _over(row: dict) -> str:
    of = row["of"]
    return f"`{of}`" if isinstance(of, str) else f"best of {', '.join(f'`{mode}`' for mode in of)}"


def _floor(row: dict) -> str | None:
    """Return the floor of a goal, and whether it holds."""
    said = {True: "held", False: "missed"}.get(holds_floor(row))
    return said and f"{numbers.value(row['floor'])}, {said}"


def _least(row: dict) -> str | None:
    """Return the ratio of the worst cell of a goal with a floor, and that cell."""
    return None if row.get("least") is None else f"{numbers.value(row['least'])} at `{row['least_at']}`"


def predictions(studies: Studies) -> Iterator[str]:
    """Yield the constants of the law, how well it predicts each study, and the verdicts that it misses."""
    laws = [{"mode": mode, **vars(law)} for mode, law in studies.laws.items()]
    columns = {
        "mode": code("mode"), "a call, µs": "call", "each launch or copied input, µs": "each",
        "instead of both, µs": "constant",
    }  # fmt: skip
    yield sheet(laws, "lrrr", "Constants of the law, and the one constant that its baseline has instead", columns)
    yield _baselines(studies)
    rows = [{"study": found["study"]["machine"], **row} for found in studies.documents for row in found["law"]]
    columns = {
        "study": code("study"), "mode": code("mode"), "metric": "metric", "predictions": "rows", "decided": "decided",
        "right": "right", "median error": lambda row: numbers.percent(row["error"]), "outside": "missed",
    }  # fmt: skip
    yield sheet(rows, "lllrrrrr", f"Predictions by study, mode (`{host_law.COMPILED}` or replayed) and metric", columns)
    missed = [{**row._asdict(), "speedup": row.measured} for row in studies.predictions if row.on_wrong_side]
    columns = {
        "study": code("study"), "op": code("op"), "size": lambda row: escape(row["size"]), "mode": code("mode"),
        "metric": "metric", "predicted": lambda row: numbers.factor(row["predicted"]), "measured": numbers.ci,
        "verdict": "verdict",
    }  # fmt: skip
    caption = "Predictions on the wrong side of one that the interval excludes by more than δ"
    yield sheet(missed, "llrllrrl", caption, columns)


def _baselines(studies: Studies) -> str:
    """Return how well the law and simpler predictors do, on workloads that the fitted study has and on others."""
    kinds = {"fitted workloads": True, "other workloads": False}
    rows = []
    for mode in host_law.MODES:
        for kind, known in kinds.items():
            own = [row for row in studies.predictions if not row.fitted and (row.mode, row.known) == (mode, known)]
            for predictor, column in host_law.PREDICTORS.items() if own else ():
                found = host_law.accuracy(own, column)
                rows.append({
                    "mode": f"`{mode}`", "cells": kind, "predictor": predictor, "predictions": found["rows"],
                    "right signs": f"{found['right']} of {found['decided']}",
                    "median error": numbers.percent(found["error"]),
                })  # fmt: skip
    return sheet(rows, "lllrrr", "The law and its baselines, without the study that they were fitted to")


def coverage(found: dict) -> Iterator[str]:
    """Yield how often the intervals hold the truth, by what was simulated, and what boots for repeats change."""
    rows = [
        {"simulated": escape(name), **{f"{n} repeats": numbers.percent(share) for n, share in row["held"].items()}}
        for name, row in found["coverage"].items()
    ]
    caption = "Share of 95 % intervals that hold the true speedup, of {draws:,} simulated studies".format(**found)
    yield sheet(rows, "l" + "r" * (len(rows[0]) - 1), caption)
    keys = dict.fromkeys((row["ratio"], row["boots"], row["repeats"]) for row in found["hosts"])
    rows = []
    for ratio, boots, repeats in keys:
        own = {row["design"]: row for row in found["hosts"] if (row["ratio"], row["boots"]) == (ratio, boots)}
        shown = {
            name: f"{numbers.percent(row['covered'])}, {numbers.percent(row['power'])}" for name, row in own.items()
        }
        rows.append({"host spread": ratio, "boots": boots, "repeats": repeats, **shown})
    caption = (
        "Simulated studies of 100 speedups, half of them 10 %: share of intervals that hold the truth of any host, and "
        "share of the effects that get a verdict after Holm's correction, by what an interval is over. Host spread: "
        "standard deviation between boots over that between the repeats of a boot"
    )
    yield sheet(rows, "rrr" + "r" * (len(rows[0]) - 3) if rows else "", caption)
