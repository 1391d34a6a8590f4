"""Claims: what the article says, as rules on the tables of its studies, and whether they hold on a machine.

A rule names a study by its topic (`ops`, the default study, unless it names another; a list where it is about several),
a table of summary.json (`speedups` unless it names another), and its rows: op, dtype, size, mode, baseline and metric,
each a value or a list of values, as far as the table has them. Without `size` these are all sizes of the op, without
`dtype` all its dtypes; the baseline is eager unless the rule names another. Where the sizes differ by op, `cells` takes
the place of op and size: a list of texts such as "resnet50 64".

One word says of how many rows a condition must hold: `every`, `some`, `most` (more than half of them) or `none`. The
condition is a verdict, a list of verdicts, or {above: NUMBER}, {below: NUMBER}, {is: NUMBER} or {within: SHARE}, which
allows that share on either side of 1. The whole interval of a row must meet it; `of` names another column than the
table's own value. Repeats in two groups or far apart make an interval too narrow; intervals.FAR widens it first. A row
is undecided if it has no verdict, or if its interval lies on both sides of a limit. A claim stays open if undecided
rows could turn it; `none` asks only that no row is shown to meet the condition, so that only a missing row leaves it
open.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from kernelbench.analysis.intervals import FAR
from kernelbench.analysis.studies import OPS, Studies, topic
from kernelbench.claims.known_names import known
from kernelbench.errors import InputError
from kernelbench.notes import FLAGS, SizesNotMeasured, find
from kernelbench.study import yaml_files
from kernelbench.study.metrics import ALL
from kernelbench.study.validation import (
    ABSENT,
    Model,
    OneOrSeveral,
    Several,
    Size,
    check_model,
    matching,
    require_exactly_one,
    require_known,
    validate,
)  # fmt: skip

CELL = ("op", "dtype", "size")
HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"
DECIDED = ("faster", "slower", "equivalent")
WORDS = ("every", "some", "most", "none")
# What a row says of a condition; LOST: there is no such row, or it has no value.
YES, NO, UNDECIDED, LOST = "yes", "no", "undecided", "lost"
# The tables, by what tells their rows apart.
KEYS = {
    "speedups": (*CELL, "mode", "baseline", "metric"),
    "summary": (*CELL, "mode", "metric"),
    "payback": (*CELL, "mode", "metric"),
    "compilation": (*CELL, "mode"),
    "arms": ("mode", "baseline", "metric"),
    "law": ("mode", "metric"),
    "first_repeats": ("metric",),
}
# How many rows a finding names.
NAMED = 3


Names = OneOrSeveral[str]
Verdict = Literal["faster", "slower", "equivalent"]
Identity = Annotated[str, matching("[a-z][a-z0-9-]*", "a name of lower-case letters, digits and -")]


class Limit(Model):
    """What the interval of a row must meet; `of` names a column other than the table's own value."""

    of: str = ABSENT
    above: float = ABSENT
    below: float = ABSENT
    within: Annotated[float, Field(gt=0, lt=1)] = ABSENT
    exactly: float = Field(default=None, alias="is")

    @check_model(mode="after")
    def require_one_limit(self):
        """Refuse no limit, and two."""
        require_exactly_one(self, ("above", "below", "within", "exactly"))
        return self


Condition = Annotated[
    Annotated[OneOrSeveral[Verdict], Tag("<verdict>")] | Annotated[Limit, Tag("<limit>")],
    Discriminator(lambda given: "<limit>" if isinstance(given, dict) else "<verdict>"),
]


class Rule(Model):
    """Which rows of which table, and what must hold of how many of them."""

    study: Names = ABSENT
    table: Literal[(*KEYS,)] = ABSENT
    op: Names = ABSENT
    cells: Several[Annotated[str, matching("[^ ]+ [^ ]+", "an op and a size, as in resnet50 64")]] = ABSENT
    dtype: Names = ABSENT
    size: OneOrSeveral[Size] = ABSENT
    mode: Names = ABSENT
    baseline: Names = ABSENT
    metric: Names = ABSENT
    every: Condition = ABSENT
    some: Condition = ABSENT
    most: Condition = ABSENT
    none: Condition = ABSENT

    @check_model(mode="after")
    def require_one_word(self):
        """Refuse a rule that does not say once of how many rows it must hold."""
        require_exactly_one(self, WORDS)
        return self


class Claim(Model):
    """A sentence of the article with the rule that judges it."""

    id: Identity
    sentence: Annotated[str, matching(r"(?!.*[.] ).*[.]", "one sentence that ends with a full stop")]
    rule: Rule


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
    """Return the claims of the YAML file at `path`, numbered; raise InputError for the first thing wrong in it.

    A rule may name what `studies` have, besides the recorded ones and those of the repository; any name where it is
    not known what there is.
    """
    claims = yaml_files.read(path)
    validate(Annotated[list[Claim], Field(min_length=1)], claims, path.name)
    require_names(claims, path.name, known(*studies) if names_known else {})
    return [{"number": number, **claim} for number, claim in enumerate(claims, 1)]


def require_names(claims: list[dict], file: str, names: dict[str, list[str]]) -> None:
    """Raise InputError for an id that two claims have, and for a name of a rule that is not one of the `names`."""
    ids = [claim["id"] for claim in claims]
    for claim in claims:
        what, rule = f"{file}: {claim['id']}", claim.get("rule", {})
        if ids.count(claim["id"]) > 1:
            raise InputError(f"{what}: is given twice; allowed: each id once")
        given = {key: values(rule.get(key, [])) for key in names}
        for op, size in map(str.split, rule.get("cells", []) if names else ()):
            given = {**given, "op": [*given["op"], op], "size": [*given["size"], size]}
        for key, allowed in names.items():
            for name in given[key]:
                require_known(f"{what}: rule.{key}", name, allowed)


def topics(rule: dict) -> list[str]:
    """Return the topics of the studies that a rule is about."""
    return values(rule.get("study", OPS))


def is_about_cells(rule: dict) -> bool:
    """Return whether a rule selects rows of single cells, which can be measured again by themselves."""
    return KEYS[rule.get("table", "speedups")][0] == "op"


def word_of(rule: dict) -> str:
    """Return the word of a rule that says of how many rows its condition must hold."""
    return next(word for word in WORDS if word in rule)


def column_of(rule: dict) -> str | None:
    """Return the column that a rule's condition names, None where it is about the table's own value."""
    condition = rule[word_of(rule)]
    return condition.get("of") if isinstance(condition, dict) else None


def selected(rule: dict, study: dict) -> list[tuple]:
    """Return what tells apart the rows that a rule is about in a study, its mapping, in the order of the table's KEYS.

    An op that the study does not have is one row without a size, which no table has.
    """
    keys = KEYS[rule.get("table", "speedups")]
    given = {"baseline": "eager", **rule}
    cells = list(_cells(rule, study)) if is_about_cells(rule) else [()]
    others = [values(given[key]) for key in keys if key not in CELL]
    return [(*cell, *rest) for cell in cells for rest in product(*others)]


def _cells(rule: dict, study: dict) -> Iterator[tuple[str, str, str]]:
    for op, sizes in _ops(rule):
        entry = study["ops"].get(op, {"sizes": [""]})
        dtypes = values(rule.get("dtype", entry.get("dtypes", study["dtypes"])))
        yield from product([op], dtypes, values(entry["sizes"] if sizes is None else sizes))


def _ops(rule: dict) -> list[tuple[str, list | str | None]]:
    """Return each op of a rule with its sizes, None where they are the study's."""
    if "cells" in rule:
        return [tuple(cell.split()) for cell in rule["cells"]]
    return [(op, rule.get("size")) for op in values(rule["op"])]


def evaluate(rule: dict, documents: list[dict]) -> Outcome:
    """Return whether a rule holds of these documents of summary.json, one for each study that it is about."""
    table, rows = rule.get("table", "speedups"), {}
    for document in documents:
        there = {tuple(str(row[key]) for key in KEYS[table]): row for row in document.get(table, [])}
        name = (topic(document["study"]),) if len(documents) > 1 else ()
        rows |= {(*name, *key): there.get(key) for key in selected(rule, document["study"])}
    return decide(rule, rows)


def decide(rule: dict, rows: dict[tuple, dict | None]) -> Outcome:
    """Return whether a rule holds of rows of its table, by their keys; None stands for a missing one."""
    word, table = word_of(rule), rule.get("table", "speedups")
    met = {key: LOST if row is None else _meets(row, rule[word], table) for key, row in rows.items()}
    by = {answer: [key for key, found in met.items() if found == answer] for answer in (YES, NO, UNDECIDED, LOST)}
    outcome, deciding = _outcome(word, by, list(met))
    counts = len(by[YES]), len(met) - len(by[LOST]), len(met)
    return Outcome(outcome, *counts, ["/".join(key) for key in deciding], _finding(rule, word, by, outcome, rows))


def _outcome(word: str, by: dict[str, list[tuple]], rows: list[tuple]) -> tuple[str, list[tuple]]:
    """Return the outcome and the rows that decide it."""
    undecided = by[UNDECIDED] + by[LOST]
    if word == "most":
        half = len(rows) / 2
        steps = ((HOLDS, len(by[YES]) > half and by[YES]), (FAILS, len(by[NO]) >= half and by[NO]), (OPEN, undecided))
    else:
        steps = {
            "every": ((FAILS, by[NO]), (OPEN, undecided), (HOLDS, by[YES])),
            "some": ((HOLDS, by[YES]), (OPEN, undecided), (FAILS, by[NO])),
            "none": ((FAILS, by[YES]), (OPEN, by[LOST]), (HOLDS, rows)),
        }[word]
    return next(((outcome, deciding) for outcome, deciding in steps if deciding), (OPEN, []))


def _meets(row: dict, condition: str | list | dict, table: str) -> str:
    """Return what a row says of a condition."""
    if row.get("size") == ALL and find(row.get("notes", []), SizesNotMeasured):
        return UNDECIDED  # A mean over some of the sizes is another than the one that is asked for.
    if not isinstance(condition, dict):
        if not row["verdict"]:
            return LOST
        return YES if row["verdict"] in values(condition) else NO if row["verdict"] in DECIDED else UNDECIDED
    low, high = bounds(row, table, condition.get("of"))
    if low is None:
        return LOST
    if find(row.get("notes", []), *FLAGS):
        low, high = low / FAR, high * FAR
    least, most = _limits(condition)
    return YES if least <= low and high <= most else NO if high < least or low > most else UNDECIDED


def _limits(condition: dict) -> tuple[float, float]:
    """Return between which values a condition wants a row's interval; the number of `above` and `below` is outside."""
    if "within" in condition:
        return 1 / (1 + condition["within"]), 1 + condition["within"]
    if "is" in condition:
        return condition["is"], condition["is"]
    if "above" in condition:
        return math.nextafter(condition["above"], math.inf), math.inf
    return -math.inf, math.nextafter(condition["below"], -math.inf)


def bounds(row: dict, table: str, column: str | None = None) -> tuple[float | None, float | None]:
    """Return the ends of the interval of a row's value: of the table's own, or of another column, which has none."""
    if column:
        return row.get(column), row.get(column)
    if table in ("speedups", "summary", "arms"):
        value = row.get("estimate" if table == "summary" else "speedup")
        low, high = row.get("ci_low"), row.get("ci_high")
        return (value, value) if low is None else (low, high)
    if table == "payback":
        ends = {"never": (math.inf, math.inf), "after": (row["low"], row["high"])}
        return ends.get(row["kind"], (row["low"] or 0, math.inf))
    value = row["launched" if table == "compilation" else "same" if table == "first_repeats" else "share"]
    return value, value


def _finding(rule: dict, word: str, by: dict, outcome: str, rows: dict) -> str:
    """Return what was found in a few words: how many rows meet the condition, and some of those that speak against."""
    total = sum(map(len, by.values()))
    against = {"every": by[NO] + by[UNDECIDED] + by[LOST], "none": by[YES] + by[LOST], "most": by[NO], "some": []}[word]
    text = f"{len(by[YES])} of {total} rows"
    if outcome == HOLDS or not against:
        return text
    shown = [f"{' '.join(part for part in key if part)} {_value(rows[key], rule)}" for key in against[:NAMED]]
    more = f" and {len(against) - NAMED} more" if len(against) > NAMED else ""
    return f"{text}; not {', '.join(shown)}{more}"


def _value(row: dict | None, rule: dict) -> str:
    if row is None:
        return "(not measured)"
    low, high = bounds(row, rule.get("table", "speedups"), column_of(rule))
    verdict = row.get("verdict")
    shown = "" if low is None else f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
    return f"({', '.join(filter(None, (verdict, shown))) or row.get('reason') or 'no value'})"


def judged(claims: list[dict], studies: Studies) -> list[dict]:
    """Return each claim with its outcome on the studies, their topics, and the command that measures its rows again.

    A claim about a topic that the studies lack cannot be told.
    """
    return [
        {
            **claim,
            **asdict(_judge(claim["rule"], studies)),
            "study": ", ".join(topics(claim["rule"])),
            "command": f"snakemake verify --config 'verify={{claim: {claim['id']}}}'"
            if is_about_cells(claim["rule"])
            else "snakemake reproduce",
        }
        for claim in claims
    ]


def _judge(rule: dict, studies: Studies) -> Outcome:
    missing = [name for name in topics(rule) if name not in studies]
    if missing:
        return Outcome(OPEN, 0, 0, 0, [], f"not measured: {', '.join(missing)}")
    return evaluate(rule, [studies.of(name) for name in topics(rule)])


def local(document: dict) -> Studies:
    """Return a machine's own study as the claims ask for it: one of a CPU by its own topic, and like that of a GPU."""
    name = topic(document["study"])
    return Studies([document], {name: document, name.removeprefix("cpu-"): document})


def values(given) -> list[str]:
    """Return what a rule gives for a key, one value or a list of them, as a list of texts."""
    return [str(value) for value in (given if isinstance(given, list) else [given])]
