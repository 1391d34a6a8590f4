"""The claims of the article by machine: their outcomes, and the rows that decide them as a figure of intervals."""

from collections.abc import Iterator
from math import isinf

from kernelbench import numbers
from kernelbench.analysis.studies import Studies
from kernelbench.claims import rules
from kernelbench.claims.by_machine import judge_by_machine
from kernelbench.claims.rule_file import values
from kernelbench.claims.rules import VALUES, column_of, find_bounds, find_rows, table_of
from kernelbench.op_names import name
from kernelbench.paper.judgements import rule as say_rule


def describe(judged: list[dict], studies: Studies) -> Iterator[dict]:
    """Yield of each claim {number, id, sentence, section, outcome, found, command, rule, by_machine, axis, rows}.

    judged: the claims with their outcomes on all studies; by_machine: the outcome on the studies of one machine alone;
    axis: what the rows are values of.
    """
    outcomes = judge_by_machine(judged, studies)
    for place, claim in enumerate(judged):
        own = {key: claim[key] for key in ("number", "id", "sentence", "section", "outcome", "found", "command")}
        yield {
            **own,
            "rule": say_rule(claim["rule"]),
            "by_machine": {machine: found[place] for machine, found in outcomes.items()},
            "axis": _name_axis(claim["rule"]),
            "rows": list(_list_rows(claim["rule"], studies)),
        }


def _name_axis(rule: dict) -> str:
    table, column = table_of(rule), column_of(rule)
    names = {"arms": "speedup", "speedups": "speedup", "payback": "calls", "law": "share of verdicts that are right"}
    metrics = ", ".join(values(rule.get("metric", [])))
    return (column or names.get(table) or metrics).replace("_", " ")


def _list_rows(rule: dict, studies: Studies) -> Iterator[dict]:
    """Yield {label, value, low, high, verdict, text} of each row of a rule that has a finite value."""
    found = {
        (document["study"]["machine"], *key): row
        for document in rules.find_documents(rule, studies)
        for key, row in find_rows(rule, document).items()
        if row
    }
    varies = [len(set(column)) > 1 for column in zip(*found, strict=True)]
    # A column that the rule names, and what has no interval, is its own bounds.
    column = "calls" if table_of(rule) == "payback" else VALUES[table_of(rule)]
    for (machine, *key), row in found.items():
        low, high = find_bounds(row, rule)
        if low is None or isinf(high):
            continue
        value = low if low == high else row[column]
        bounds = (low, high) if low < high else (None, None)
        text = numbers.ci(dict(zip(("speedup", "ci_low", "ci_high"), (value, *bounds), strict=True)))
        own = {"value": value, "low": low, "high": high, "verdict": row.get("verdict") or "", "text": text}
        yield {"label": _label(machine, key, varies, rule), **own}


def _label(machine: str, key: list[str], varies: list[bool], rule: dict) -> str:
    """Return the cell of a row, and of its other words those that are not the same in all rows."""
    words = [machine, *key]
    if not rules.is_about_cells(rule):
        return ", ".join(word for word, own in zip(words, varies, strict=True) if own) or ", ".join(key)
    _, op, dtype, size, *rest = words
    others = zip((machine, dtype, *rest), (varies[0], varies[2], *varies[4:]), strict=True)
    return ", ".join([name(op, size), *(word for word, own in others if own)])
