"""Earlier work: its figures and claims, each as a rule on what a study of ours found, and the verdict.

A rule selects rows by op, dtype, size (`each`: all but the mean over them), mode, baseline and metric, each a value or
a list of values. What it expects is

speedup  faster, slower or equivalent: the verdict that each row should have; an inconclusive one is open.
published  a number, the speedup that was told: each interval holds it, and not 1 as well; one that does not hold it
         agrees in part where its verdict is on the same side of 1, and one that holds both is open.
above    a number: each speedup lies above it with its whole interval; one whose interval holds it is open.
within   a number: each interval lies inside 1 ± it (symmetric on logs); one that is partly outside is open.
unpaid   a number: of calls of which fewer than the whole interval do not earn back what compiling cost; no baseline.
count    {of, is}: of kernels, launched, recompiles, …, as compilation.COUNTS and `launched` say; rows have no metric.

The claim *holds* where all rows are as expected (with `any`, one of them), *holds in part* where some are or agree in
part, *does not hold* where none is and one is decided otherwise, is *open* where all are (with `any`, where one is and
none holds), and *not tested* where there is no row.
"""

from pathlib import Path

import yaml

from kernelbench.errors import InputError
from kernelbench.harness.provenance import ROOT
from kernelbench.study import validate
from kernelbench.words import ALL, FAR_NOTE, PEAKS_NOTE

SCHEMA = ROOT / "workflow" / "schemas" / "published.schema.yaml"
SPEEDUP = ("op", "dtype", "size", "mode", "baseline", "metric")
COUNTED = ("op", "dtype", "size", "mode")
PAID = (*COUNTED, "metric")
HOLDS, PART, FAILS, OPEN, UNTESTED = "holds", "holds in part", "does not hold", "open", "not tested"
DECIDED = ("faster", "slower", "equivalent")
EACH = "each"


def load(path: Path) -> dict:
    """Return the YAML file of published figures at `path`; raise InputError for the first thing wrong with it."""
    published = yaml.safe_load(path.read_text(encoding="utf-8"))
    validate(published, SCHEMA, path.name)
    ids = [claim["id"] for claim in published["claims"]]
    for name in ids:
        if ids.count(name) > 1:
            raise InputError(f"{path.name}: claims: {name} is given twice; allowed: each id once")
    works = [work["id"] for work in published["works"]]
    for claim in published["claims"]:
        if claim["work"] not in works:
            raise InputError(f"{path.name}: {claim['id']}: work: {claim['work']} is not known; allowed: {works}")
    return published


def judged(claims: list[dict], document: dict) -> dict[str, dict]:
    """Return by id {verdict, rows}: what the study whose summary.json is `document` says to each claim.

    rows: [{label, speedup, ci_low, ci_high, flagged or kind, calls, low or count, agrees}]; agrees: True, PART, False
    or None (open).
    """
    found = {}
    for claim in claims:
        device = "cuda" if document["environment"]["gpu"] else "cpu"
        here = claim.get("device", device) == device and "rule" in claim
        rows = _rows(claim["rule"], document) if here else []
        verdict = _verdict([row["agrees"] for row in rows], "any" in claim.get("rule", {}))
        found[claim["id"]] = {"verdict": verdict, "rows": rows}
    return found


def _verdict(agrees: list[bool | str | None], one_is_enough: bool) -> str:
    if any(agrees):
        return HOLDS if all(row is True for row in agrees) or (one_is_enough and True in agrees) else PART
    if not agrees:
        return UNTESTED
    return OPEN if all(row is None for row in agrees) or (one_is_enough and None in agrees) else FAILS


def _rows(rule: dict, document: dict) -> list[dict]:
    if "count" in rule:
        names, table, found = COUNTED, document.get("compilation", []), _counted
    elif "unpaid" in rule:
        names, table, found = PAID, document["payback"], _paid
    else:
        names, table, found = SPEEDUP, document["speedups"], _compared
    wanted = {name: _values(rule[name]) for name in names}
    rows = [row for row in table if all(_selects(wanted[name], row[name]) for name in names)]
    return [told for row in rows if (told := found(rule, row, names))]


def _selects(wanted: list[str], value: str) -> bool:
    return value in wanted or (wanted == [EACH] and value != ALL)


def _values(given) -> list[str]:
    return [str(value) for value in (given if isinstance(given, list) else [given])]


def _counted(rule: dict, row: dict, names: tuple) -> dict | None:
    what, wanted = rule["count"]["of"], rule["count"]["is"]
    number = row["series"][-1]["recompiles"] if what == "recompiles" and "series" in row else row.get(what)
    if number is None:
        return None
    return {"label": _label(row, names, rule), "count": number, "agrees": number == wanted}


def _paid(rule: dict, row: dict, names: tuple) -> dict:
    least = rule["unpaid"]
    if row["kind"] == "never" or (row["low"] or 0) > least:
        agrees = True
    else:
        agrees = False if row["kind"] == "after" and row["high"] < least else None
    return {"label": _label(row, names, rule), **{key: row[key] for key in ("kind", "calls", "low")}, "agrees": agrees}


def _compared(rule: dict, row: dict, names: tuple) -> dict | None:
    if row["speedup"] is None:
        return None
    agrees = _agrees(rule, row)
    return {
        "label": _label(row, names, rule),
        **{key: row[key] for key in ("speedup", "ci_low", "ci_high")},
        # Of repeats in two peaks, or far off, an interval promises too much.
        "flagged": any(note in (row["reason"] or "") for note in (PEAKS_NOTE, FAR_NOTE)),
        "agrees": agrees,
    }


def _agrees(rule: dict, row: dict) -> bool | str | None:
    low, high = row["ci_low"], row["ci_high"]
    if "speedup" in rule:
        return row["verdict"] == rule["speedup"] if row["verdict"] in DECIDED else None
    if low is None:
        return None
    if "published" in rule:
        holds = [low <= number <= high for number in (rule["published"], 1)]
        if holds[0]:
            return None if holds[1] else True
        return PART if row["verdict"] == ("faster" if rule["published"] > 1 else "slower") else False
    if "within" in rule:
        least, most = 1 / (1 + rule["within"]), 1 + rule["within"]
        inside = least <= low and high <= most
        return inside if inside or high < least or low > most else None
    return low > rule["above"] if not low <= rule["above"] <= high else None


def _label(row: dict, names: tuple, rule: dict) -> str:
    """Return what tells a row from the others that the rule selects."""
    return " ".join(row[name] for name in names if len(_values(rule[name])) > 1 or rule[name] == EACH)
