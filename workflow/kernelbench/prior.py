"""Earlier work: its figures and claims, each as a rule on what a study of ours found, and the verdict.

A rule selects rows by op, dtype, size, mode, baseline and metric, each a value or a list of values, or `each`: any (but
not the mean over the sizes). What it expects is

speedup  faster, slower or equivalent: the verdict that each row should have; an inconclusive one is open.
published  a number, the speedup that was told: each interval holds it, and not 1 as well; one that does not hold it
         agrees in part where its verdict is on the same side of 1, and one that holds both is open.
above    a number: each speedup lies above it with its whole interval; one whose interval holds it is open.
below    a number: likewise.
within   a number: each interval lies inside 1 ± it (symmetric on logs); one that is partly outside is open.
unpaid   a number: of calls of which fewer than the whole interval do not earn back what compiling cost; no baseline.
count    {of, is}: of kernels, launched, recompiles, …, as compilation.COUNTS and `launched` say; rows have no metric.
         Or {of, fewer_than}: each count is below that of another mode of the cell.

An interval that promises too much (of repeats in two peaks, or far off) says no only if it does so when it is wider by
FAR at either end; else the row is open.
With `times`, rows of speedups tell the times that they are of, too, and how long the first call took.

The claim *holds* where all rows are as expected (with `any`, one of them), *holds in part* where some are or agree in
part, *does not hold* where none is and one is decided otherwise, is *open* where all are (with `any`, where one is and
none holds), and *not tested* where there is no row. With `most` it holds where more than half of the rows are as
expected, does not hold where half of them or more are decided otherwise, and is open else.
"""

from pathlib import Path

import yaml

from kernelbench.claims import DECIDED, values
from kernelbench.errors import InputError
from kernelbench.harness.provenance import ROOT
from kernelbench.names import known
from kernelbench.notes import FLAGS, SizesNotMeasured, find
from kernelbench.statistics import FAR
from kernelbench.study import refuse_duplicates, require_known, validate
from kernelbench.words import ALL

SCHEMA = ROOT / "workflow" / "schemas" / "published.schema.yaml"
SPEEDUP = ("op", "dtype", "size", "mode", "baseline", "metric")
CELL = ("op", "dtype", "size")
COUNTED = (*CELL, "mode")
PAID = (*COUNTED, "metric")
HOLDS, PART, FAILS, OPEN, UNTESTED = "holds", "holds in part", "does not hold", "open", "not tested"
EACH = "each"


def load(path: Path, *studies: dict) -> dict:
    """Return the YAML file of published figures at `path`; raise InputError for the first thing wrong with it.

    A rule may name what `studies` have, besides the recorded ones and those of the repository.
    """
    refuse_duplicates([path])
    published = yaml.safe_load(path.read_text(encoding="utf-8"))
    validate(published, SCHEMA, path.name)
    ids = [claim["id"] for claim in published["claims"]]
    for name in ids:
        if ids.count(name) > 1:
            raise InputError(f"{path.name}: claims: {name} is given twice; allowed: each id once")
    _require_names(published, path.name, known(*studies))
    works = [work["id"] for work in published["works"]]
    for claim in published["claims"]:
        if claim["work"] not in works:
            raise InputError(f"{path.name}: {claim['id']}: work: {claim['work']} is not known; allowed: {works}")
    return published


def _require_names(published: dict, name: str, allowed: dict[str, list[str]]) -> None:
    """Raise InputError for a name that no study has: it would select nothing, and the claim be not tested."""
    for key in ("mode", "baseline", "dtype"):
        require_known(f"{name}: {key}", published[key], allowed[key])
    for claim in published["claims"]:
        rule, what = claim.get("rule", {}), f"{name}: {claim['id']}: rule"
        for key in SPEEDUP:
            given = values(rule.get(key, []))
            if EACH in given and len(given) > 1:
                raise InputError(f"{what}.{key}: {EACH} is not allowed beside others; allowed: {EACH} by itself")
            for word in given if given != [EACH] else ():
                require_known(f"{what}.{key}", word, [*allowed[key], EACH])
        if "fewer_than" in rule.get("count", {}):
            require_known(f"{what}.count.fewer_than", rule["count"]["fewer_than"], allowed["mode"])


def judged(claims: list[dict], document: dict) -> dict[str, dict]:
    """Return by id {verdict, rows, unsupported}: what the study whose summary.json is `document` says to each claim.

    rows: [{label, speedup, ci_low, ci_high, flagged, times or kind, calls, low or count, of, than, agrees}]; agrees:
    True, PART, False or None (open). times, if the rule asks for them: {baseline, mode and, of calls, first_call}, each
    {estimate, ci_low, ci_high, unit}; than: the count of the other mode, if there is one. unsupported: why there are no
    rows, if the study has the mode and could not run it.
    """
    found = {}
    for claim in claims:
        device = "cuda" if document["environment"]["gpu"] else "cpu"
        here = claim.get("device", device) == device and "rule" in claim
        rows = _rows(claim["rule"], document) if here else []
        verdict = _verdict([row["agrees"] for row in rows], claim.get("rule", {}))
        unsupported = _unsupported(claim["rule"], document) if here and not rows else []
        found[claim["id"]] = {"verdict": verdict, "rows": rows, "unsupported": unsupported}
    return found


def _verdict(agrees: list[bool | str | None], rule: dict) -> str:
    if not agrees:
        return UNTESTED
    if "most" in rule:
        yes, no = (2 * agrees.count(answer) for answer in (True, False))
        return HOLDS if yes > len(agrees) else FAILS if no >= len(agrees) else OPEN
    if any(agrees):
        return HOLDS if all(row is True for row in agrees) or ("any" in rule and True in agrees) else PART
    return OPEN if all(row is None for row in agrees) or ("any" in rule and None in agrees) else FAILS


def _rows(rule: dict, document: dict) -> list[dict]:
    if "count" in rule:
        names, table, found = COUNTED, document.get("compilation", []), _counted
    elif "unpaid" in rule:
        names, table, found = PAID, document["payback"], _paid
    else:
        names, table, found = SPEEDUP, document["speedups"], _compared
    told = [(row, found(rule, row, document)) for row in _selected(rule, names, table)]
    return [{"label": _label(row, names, rule, document), **what} for row, what in told if what]


def _unsupported(rule: dict, document: dict) -> list[str]:
    """Return the reasons of rows of speedups that the rule selects and the machine could not run, each once."""
    rows = _selected(rule, SPEEDUP, document["speedups"]) if "baseline" in rule else []
    return list(dict.fromkeys(row["reason"] for row in rows if row["status"] == "unsupported"))


def _selected(rule: dict, names: tuple, table: list[dict]) -> list[dict]:
    wanted = {name: values(rule[name]) for name in names}
    return [row for row in table if all(_selects(wanted[name], row[name]) for name in names)]


def _selects(wanted: list[str], value: str) -> bool:
    return value in wanted or (wanted == [EACH] and value != ALL)


def _counted(rule: dict, row: dict, document: dict) -> dict | None:
    number = _number(rule, row)
    if "is" in rule["count"]:
        agrees = number == rule["count"]["is"]
        return None if number is None else {"count": number, "of": rule["count"]["of"], "agrees": agrees}
    cell = [row[name] for name in CELL] + [rule["count"]["fewer_than"]]
    others = [other for other in document["compilation"] if [other[name] for name in COUNTED] == cell]
    than = _number(rule, others[0]) if others else None
    if number is None or than is None:
        return None
    return {"count": number, "of": rule["count"]["of"], "than": than, "agrees": number < than}


def _number(rule: dict, row: dict) -> float | None:
    what = rule["count"]["of"]
    return row["series"][-1]["recompiles"] if what == "recompiles" and "series" in row else row.get(what)


def _paid(rule: dict, row: dict, document: dict) -> dict:
    least = rule["unpaid"]
    if row["kind"] == "never" or (row["low"] or 0) > least:
        agrees = True
    else:
        agrees = False if row["kind"] == "after" and row["high"] < least else None
    return {**{key: row[key] for key in ("kind", "calls", "low")}, "agrees": agrees}


def _compared(rule: dict, row: dict, document: dict) -> dict | None:
    if row["speedup"] is None:
        return None
    # Of repeats in two peaks, or far off, an interval promises too much.
    flagged = find(row["notes"], *FLAGS) is not None
    agrees = _agrees(rule, row)
    if flagged and agrees is False and _agrees(rule, row, FAR) is not False:
        agrees = None
    told = {
        **{key: row[key] for key in ("speedup", "ci_low", "ci_high")},
        "flagged": flagged,
        "agrees": agrees,
    }
    return told | {"times": _times(row, document["summary"])} if "times" in rule else told


def _times(row: dict, summary: list[dict]) -> dict[str, dict]:
    """Return what the speedup is of: the baseline's time, the mode's, and its first call's where that is another.

    Both times of calls are in ms where one takes 1 ms, as other works give them.
    """
    wanted = {"baseline": (row["baseline"], row["metric"]), "mode": (row["mode"], row["metric"])}
    if row["metric"] != "first_call":
        wanted["first_call"] = (row["mode"], "first_call")
    of_cell = {
        (other["mode"], other["metric"]): {key: other[key] for key in ("estimate", "ci_low", "ci_high", "unit")}
        for other in summary
        if all(other[name] == row[name] for name in CELL)
    }
    times = {name: of_cell[key] for name, key in wanted.items()}
    in_ms = any(time["unit"] == "µs" and time["estimate"] >= 1000 for time in times.values())
    return {name: _ms(time) if in_ms and time["unit"] == "µs" else time for name, time in times.items()}


def _ms(time: dict) -> dict:
    return {**{key: time[key] and time[key] / 1000 for key in ("estimate", "ci_low", "ci_high")}, "unit": "ms"}


def _agrees(rule: dict, row: dict, wider: float = 1) -> bool | str | None:
    # Where a repeat is not ok there is no verdict; a mean over some of the sizes is another than what is asked for.
    if not row["verdict"] or (row["size"] == ALL and find(row["notes"], SizesNotMeasured)):
        return None
    if "speedup" in rule:
        return row["verdict"] == rule["speedup"] if row["verdict"] in DECIDED else None
    if row["ci_low"] is None:
        return None
    low, high = row["ci_low"] / wider, row["ci_high"] * wider
    if "published" in rule:
        holds = [low <= number <= high for number in (rule["published"], 1)]
        if holds[0]:
            return None if holds[1] else True
        return PART if row["verdict"] == ("faster" if rule["published"] > 1 else "slower") else False
    if "within" in rule:
        least, most = 1 / (1 + rule["within"]), 1 + rule["within"]
        inside = least <= low and high <= most
        return inside if inside or high < least or low > most else None
    limit = rule.get("above", rule.get("below"))
    return (low > limit) == ("above" in rule) if not low <= limit <= high else None


def _label(row: dict, names: tuple, rule: dict, document: dict) -> str:
    """Return what tells a row from the others that the rule selects; of a mean, over how many sizes it is."""
    told = [row[name] for name in names if len(values(rule[name])) > 1 or rule[name] == EACH]
    if row["size"] == ALL:
        told.append(f"over {len(document['study']['ops'][row['op']]['sizes'])} sizes")
    return " ".join(told)
