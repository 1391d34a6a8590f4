"""What is claimed, as tables: by the article, with rules and outcomes, and by earlier work, with our verdicts."""

from collections.abc import Iterator

from kernelbench import numbers
from kernelbench.analysis.studies import Studies, name_device
from kernelbench.claims import published
from kernelbench.claims.by_machine import NOT_MEASURED, judge_by_machine, machine_of
from kernelbench.claims.rules import column_of, say_studies, values, word_of
from kernelbench.numbers import BLANK
from kernelbench.paper.markdown import code, escape, sheet


def claims(judged: list[dict], studies: Studies) -> Iterator[str]:
    """Yield the claims of each section of the article, with their rules and outcomes, also on each GPU alone."""
    gpus = {
        machine_of(found["study"]): name_device(found) for found in studies.documents if found["environment"]["gpu"]
    }
    outcomes = judge_by_machine(judged, studies)
    judged = [
        claim | {"on": {gpu: outcomes[gpu][place].replace(NOT_MEASURED, BLANK) for gpu in gpus}}
        for place, claim in enumerate(judged)
    ]
    columns = {
        "": "number", "id": code("id"), "claim": "sentence", "rule": lambda claim: escape(rule(claim["rule"])),
        "outcome": "outcome", **{name: lambda claim, gpu=gpu: claim["on"][gpu] for gpu, name in gpus.items()},
        "found": lambda claim: escape(claim["found"]),
    }  # fmt: skip
    for section in dict.fromkeys(claim["section"] for claim in judged):
        own = [claim for claim in judged if claim["section"] == section]
        yield sheet(own, "r" + "l" * (len(columns) - 1), f"Claims of “{section}”", columns)


def rule(of: dict) -> str:
    """Return a claim's rule as one line: which rows of which study, and what holds of how many of them."""
    word = word_of(of)
    table = of.get("table", "speedups")
    sizes = [f"({_listed(of['size'])})"] if "size" in of else []
    kind = {True: "training", False: "inference"}
    named = [_listed(of[key]) for key in ("workload", "op", "cells") if key in of]
    cells = " ".join([*named, *([kind[of["trains"]]] if "trains" in of else [])])
    baseline = of.get("baseline", "eager" if table in ("speedups", "arms") else None)
    compared = " over ".join(_listed(part) for part in (of.get("mode"), baseline) if part)
    parts = [
        say_studies(of),
        *([] if table == "speedups" else [f"table {table}"]),
        " ".join(part for part in (cells, *sizes, _listed(of.get("dtype", []))) if part),
        compared,
        _listed(of.get("metric", [])),
        f"{word} {_condition(of[word])}",
    ]
    return "; ".join(part for part in parts if part)


def _condition(condition) -> str:
    if not isinstance(condition, dict):
        return " or ".join(values(condition))
    limits = " and ".join(f"{name} {limit}" for name, limit in condition.items() if name != "of")
    return f"{condition['of']} {limits}" if "of" in condition else limits


def _listed(given) -> str:
    return ", ".join(values(given))


def earlier(studies: Studies, work: dict) -> Iterator[str]:
    """Yield two tables of an earlier work: what our studies say to its claims, and the claims that none can test."""
    title = f"{work['title'][0].upper()}{work['title'][1:]} ({work['machine']})"
    tested, rest = [], []
    for claim in work["claims"]:
        said = {"said": claim["says"], "figure": escape(claim.get("figure", ""))}
        found = list(published.judge(claim, studies.documents))
        if not found:
            rest.append({**said, "answer": claim.get("answer", "not measured")})
        for label, outcome, rows in found:
            met = f"{outcome.outcome}, {outcome.met} of {outcome.of}"
            ours = escape(_range(claim["rule"], rows))
            tested.append({**said, "study": f"`{label}`", "ours": ours, "outcome, rows": met})
            said = {"said": "", "figure": ""}
    yield sheet(tested, "lllll", title)
    yield sheet(rest, "lll", f"{title}: not tested")


def _range(rule: dict, rows: list[dict]) -> str:
    """Return from where to where our rows go: speedups, counts, or calls until compiling has paid."""
    if rule.get("table") == "payback":
        return f"paid after {', '.join(dict.fromkeys(map(numbers.calls, rows)))}"
    if rule.get("table") == "compilation":
        column = column_of(rule)
        ends = min(row[column] for row in rows), max(row[column] for row in rows)
        return f"{' to '.join(dict.fromkeys(map(numbers.number, ends)))} {column.replace('_', ' ')}"
    return numbers.span([row["speedup"] for row in rows])
