"""Judge claims: a rule holds, does not hold, or stays open on the tables of the studies that it is about.

docs/extending.md explains the keys of a rule. The whole interval of a row must meet the rule's condition. If the
repeats of a row are in two groups or far apart, its interval is too narrow, and we widen it by intervals.FAR first. A
row is undecided if it has no clear verdict, or if its interval lies on both sides of a limit. A claim stays open if the
undecided rows could change its outcome. `none` only asks that no row is shown to meet the condition, so that nothing
but a missing row leaves it open.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Annotated

from pydantic import Field

from kernelbench.analysis.intervals import FAR
from kernelbench.analysis.studies import OPS, Studies, topic
from kernelbench.claims.known_names import check_names, known
from kernelbench.claims.rule_file import CELL, KEYS, WORDS, Claim, values
from kernelbench.notes import FLAGS, SizesNotMeasured, find
from kernelbench.study import yaml_files
from kernelbench.study.metrics import ALL
from kernelbench.study.validation import validate

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"
# What a row answers to a condition; LOST: there is no such row, or it has no value.
YES, NO, UNDECIDED, LOST = "yes", "no", "undecided", "lost"
# The columns that a condition is about by default; payback has an interval in `low` and `high` instead.
VALUES = {
    **dict.fromkeys(("speedups", "arms"), "speedup"),
    **{"summary": "estimate", "compilation": "launched", "law": "share", "first_repeats": "same"},
}
# How many rows a finding names.
NAMED = 3


@dataclass(frozen=True)
class Outcome:
    """Whether a claim holds, and why.

    met: how many rows meet the condition; rows: how many have a value; of: how many there should be; deciding: the
    names of those that decide; found: what was found, in a few words.
    """

    outcome: str
    met: int
    rows: int
    of: int
    deciding: list[str]
    found: str


def load(path: Path, *studies: dict, names_known: bool = True) -> list[dict]:
    """Return the numbered claims of the YAML file at `path`; raise InputError for the first mistake in it.

    A rule may use the names of `studies`, of the recorded ones and of the repository, or any name without
    `names_known`.
    """
    claims = yaml_files.read(path)
    validate(Annotated[list[Claim], Field(min_length=1)], claims, path.name)
    check_names(claims, path.name, known(*studies) if names_known else {})
    return [{"number": number, **claim} for number, claim in enumerate(claims, 1)]


def judge(claims: list[dict], studies: Studies) -> list[dict]:
    """Return each claim with its outcome, the topics of its studies, and the command that measures its rows again."""
    judged = []
    for claim in claims:
        rule, names = claim["rule"], topics(claim["rule"])
        missing = [name for name in names if name not in studies]
        if missing:
            outcome = Outcome(OPEN, 0, 0, 0, [], f"not measured: {', '.join(missing)}")
        else:
            outcome = evaluate(rule, [studies.of(name) for name in names])
        verify = f"snakemake verify --config 'verify={{claim: {claim['id']}}}'"
        command = verify if is_about_cells(rule) else "snakemake reproduce"
        judged.append({**claim, **asdict(outcome), "study": ", ".join(names), "command": command})
    return judged


def file_by_topic(document: dict) -> Studies:
    """Return the study of one machine under the topics that claims may ask for: a CPU's also as if it were a GPU's."""
    name = topic(document["study"])
    return Studies([document], {name: document, name.removeprefix("cpu-"): document})


def topics(rule: dict) -> list[str]:
    """Return the topics of the studies that a rule is about."""
    return values(rule.get("study", OPS))


def table_of(rule: dict) -> str:
    """Return the table that a rule is about."""
    return rule.get("table", "speedups")


def is_about_cells(rule: dict) -> bool:
    """Say whether a rule selects rows of single cells, which can be measured again by themselves."""
    return KEYS[table_of(rule)][0] == "op"


def word_of(rule: dict) -> str:
    """Return the word of a rule that says how many rows must meet its condition."""
    return next(word for word in WORDS if word in rule)


def column_of(rule: dict) -> str | None:
    """Return the column that a rule's condition names, None if it is about the table's own value."""
    condition = rule[word_of(rule)]
    return condition.get("of") if isinstance(condition, dict) else None


def select(rule: dict, study: dict) -> list[tuple]:
    """Return the keys, as KEYS orders them, of the rows that a rule is about in the mapping of a study.

    An op that the study lacks counts as one row without a size, which no table has.
    """
    given = {"baseline": "eager", **rule}
    cells = list(_select_cells(rule, study)) if is_about_cells(rule) else [()]
    others = [values(given[key]) for key in KEYS[table_of(rule)] if key not in CELL]
    return [(*cell, *rest) for cell in cells for rest in product(*others)]


def _select_cells(rule: dict, study: dict) -> Iterator[tuple[str, str, str]]:
    if "cells" in rule:
        wanted = [cell.split() for cell in rule["cells"]]
    else:
        wanted = [(op, rule.get("size")) for op in values(rule.get("op", [*study["ops"]]))]
    for op, sizes in wanted:
        entry = study["ops"].get(op, {"sizes": [""]})
        dtypes = values(rule.get("dtype", entry.get("dtypes", study["dtypes"])))
        yield from product([op], dtypes, values(entry["sizes"] if sizes is None else sizes))


def find_rows(rule: dict, document: dict) -> dict[tuple, dict | None]:
    """Return the rows of a summary.json that a rule is about, by their keys; None stands for a missing row."""
    table = document.get(table_of(rule), [])
    there = {tuple(str(row[key]) for key in KEYS[table_of(rule)]): row for row in table}
    return {key: there.get(key) for key in select(rule, document["study"])}


def evaluate(rule: dict, documents: list[dict]) -> Outcome:
    """Return whether a rule holds on documents of summary.json, one for each study that it is about."""
    rows = {}
    for document in documents:
        name = (topic(document["study"]),) if len(documents) > 1 else ()
        rows |= {(*name, *key): row for key, row in find_rows(rule, document).items()}
    return decide(rule, rows)


def decide(rule: dict, rows: dict[tuple, dict | None]) -> Outcome:
    """Return whether a rule holds on the rows of its table, by their keys; None stands for a missing row."""
    by_answer = {answer: [] for answer in (YES, NO, UNDECIDED, LOST)}
    for key, row in rows.items():
        by_answer[_answer(row, rule)].append(key)
    outcome, deciding = _weigh(word_of(rule), by_answer, list(rows))
    met, lost = len(by_answer[YES]), len(by_answer[LOST])
    names = ["/".join(key) for key in deciding]
    return Outcome(outcome, met, len(rows) - lost, len(rows), names, _describe(rule, by_answer, outcome, rows))


def _answer(row: dict | None, rule: dict) -> str:
    """Return whether a row meets the condition of a rule: YES, NO, UNDECIDED or LOST."""
    condition = rule[word_of(rule)]
    if row is None:
        return LOST
    if row.get("size") == ALL and find(row.get("notes", []), SizesNotMeasured):
        return UNDECIDED  # The rule asks for a mean over all sizes, and this is one over some of them.
    if not isinstance(condition, dict):
        if row["verdict"] in values(condition):
            return YES
        return {"inconclusive": UNDECIDED, "": LOST, None: LOST}.get(row["verdict"], NO)
    low, high = find_bounds(row, rule)
    if low is None:
        return LOST
    if find(row.get("notes", []), *FLAGS):
        low, high = low / FAR, high * FAR
    least, most = _limits(condition)
    if least <= low and high <= most:
        return YES
    return NO if high < least or low > most else UNDECIDED


def _limits(condition: dict) -> tuple[float, float]:
    """Return the lowest and the highest value that a condition allows."""
    if "within" in condition:
        return 1 / (1 + condition["within"]), 1 + condition["within"]
    if "is" in condition:
        return condition["is"], condition["is"]
    if "above" in condition:  # The limit itself is not above it.
        return math.nextafter(condition["above"], math.inf), math.inf
    return -math.inf, math.nextafter(condition["below"], -math.inf)


def find_bounds(row: dict, rule: dict) -> tuple[float | None, float | None]:
    """Return the interval of what a rule compares in a row; a value without an interval is both of its ends."""
    table, column = table_of(rule), column_of(rule)
    if table == "payback" and not column:
        ends = {"never": (math.inf, math.inf), "after": (row["low"], row["high"])}
        return ends.get(row["kind"], (row["low"] or 0, math.inf))
    if column or row.get("ci_low") is None:
        value = row.get(column or VALUES[table])
        return value, value
    return row["ci_low"], row["ci_high"]


def _weigh(word: str, by_answer: dict[str, list[tuple]], rows: list[tuple]) -> tuple[str, list[tuple]]:
    """Return the outcome of a rule with this word, and the rows that decide it."""
    yes, no, half = by_answer[YES], by_answer[NO], len(rows) / 2
    undecided = by_answer[UNDECIDED] + by_answer[LOST]
    # The first outcome that any row speaks for.
    steps = {
        "every": [(FAILS, no), (OPEN, undecided), (HOLDS, yes)],
        "some": [(HOLDS, yes), (OPEN, undecided), (FAILS, no)],
        "most": [(HOLDS, yes if len(yes) > half else []), (FAILS, no if len(no) >= half else []), (OPEN, undecided)],
        "none": [(FAILS, yes), (OPEN, by_answer[LOST]), (HOLDS, rows)],
    }
    return next(((outcome, deciding) for outcome, deciding in steps[word] if deciding), (OPEN, []))


def _describe(rule: dict, by_answer: dict[str, list[tuple]], outcome: str, rows: dict) -> str:
    """Return how many rows meet the condition and, unless the rule holds, some of the rows that speak against it."""
    text = f"{len(by_answer[YES])} of {len(rows)} rows"
    answers = {"every": (NO, UNDECIDED, LOST), "none": (YES, LOST), "most": (NO,), "some": ()}[word_of(rule)]
    against = [key for answer in answers for key in by_answer[answer]]
    if outcome == HOLDS or not against:
        return text
    shown = [f"{' '.join(filter(None, key))} ({_show(rows[key], rule)})" for key in against[:NAMED]]
    more = f" and {len(against) - NAMED} more" if len(against) > NAMED else ""
    return f"{text}; not {', '.join(shown)}{more}"


def _show(row: dict | None, rule: dict) -> str:
    """Return the verdict and the value of a row as text."""
    if row is None:
        return "not measured"
    low, high = find_bounds(row, rule)
    value = "" if low is None else f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
    return ", ".join(filter(None, (row.get("verdict"), value))) or row.get("reason") or "no value"
