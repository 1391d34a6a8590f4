"""Judge claims: a rule holds, does not hold, or stays open on the tables of the studies that it is about.

A rule is about every recorded row that it selects, whichever study has it, unless it names the study; then the claim's
sentence names it, too. docs/extending.md explains the keys of a rule. The whole interval of a row must meet the rule's
condition. If the repeats of a row are in two groups or far apart, its interval is too narrow, and we widen it by
intervals.FAR first. A row is undecided if it has no clear verdict, or if its interval lies on both sides of a limit. A
claim stays open if the undecided rows could change its outcome. `none` only asks that no row is shown to meet the
condition, so that nothing but a missing row leaves it open.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Annotated

from pydantic import Field

from kernelbench.analysis.intervals import FAR
from kernelbench.analysis.studies import GPU, Studies, topic
from kernelbench.claims.known_names import check_names, known
from kernelbench.claims.rule_file import CELL, KEYS, WORDS, Claim, names_study, values
from kernelbench.errors import InputError
from kernelbench.notes import (
    FLAGS,
    NearFloor,
    ProfileIncomplete,
    SizesNotMeasured,
    Uncovered,
    find,
    find_of_either,
)
from kernelbench.study import yaml_files
from kernelbench.study.cells import Cell, cells_of, find_diagnosed, modes_of, trains, workload_name
from kernelbench.study.metrics import ALL
from kernelbench.study.validation import validate

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"
# What a row answers to a condition; LOST: there is no such row, or it has no value.
YES, NO, UNDECIDED, LOST = "yes", "no", "undecided", "lost"
# The columns that a condition is about by default; payback has an interval in `low` and `high` instead.
VALUES = {
    **dict.fromkeys(("speedups", "arms"), "speedup"),
    **{"summary": "estimate", "compilation": "launched", "law": "share", "first_repeats": "same", "clustered": "same"},
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
    for claim in claims:
        for name in values(claim["rule"].get("study", [])):
            if not names_study(claim["sentence"], name):
                raise InputError(
                    f"{path.name}: {claim['id']}: the sentence does not name the {name} study, which is all that the "
                    f"rule is about; name it, or leave out `study`"
                )
    return [{"number": number, **claim} for number, claim in enumerate(claims, 1)]


def judge(claims: list[dict], studies: Studies) -> list[dict]:
    """Return each claim with its outcome, the studies it is about, and the command that measures its rows again."""
    judged = []
    for claim in claims:
        rule = claim["rule"]
        missing = [name for name in values(rule.get("study", [])) if name not in studies]
        documents = [] if missing else find_documents(rule, studies)
        if documents:
            outcome = evaluate(rule, documents)
        else:
            outcome = Outcome(OPEN, 0, 0, 0, [], f"not measured: {', '.join(missing or ['nothing that it is about'])}")
        verify = f"snakemake verify --config 'verify={{claim: {claim['id']}}}'"
        command = verify if is_about_cells(rule) else "snakemake reproduce"
        judged.append({**claim, **asdict(outcome), "study": say_studies(rule), "command": command})
    return judged


def file_by_topic(document: dict) -> Studies:
    """Return the study of one machine under the topics that claims may ask for: a CPU's also as if it were a GPU's."""
    name = topic(document["study"])
    return Studies([document], {name: document, name.removeprefix("cpu-"): document}, device=GPU)


def find_documents(rule: dict, studies: Studies) -> list[dict]:
    """Return the documents that a rule is about: of the studies that it names, or else of all that have a row of it.

    A rule that names no study is about those of GPUs, or with `device: cpu` about those of CPUs.
    """
    if "study" in rule:
        return [studies.of(name) for name in values(rule["study"]) if name in studies]
    own = studies.measured_on(rule.get("device", GPU))
    return [document for document in own if find_rows(rule, document)]


def say_studies(rule: dict) -> str:
    """Return in words which studies a rule is about."""
    every = {GPU: "every study of a GPU", "cpu": "every study of a CPU"}
    return " and ".join(values(rule["study"])) if "study" in rule else every[rule.get("device", GPU)]


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
    """Return the keys, as KEYS orders them, of the rows of a study that a rule is about and that the study plans."""
    others = [values(_given(rule)[key]) for key in KEYS[table_of(rule)] if key not in CELL]
    return [
        (op, dtype, size, *rest)
        for op, dtype, size, modes in _select_cells(rule, study)
        for rest in product(*others)
        if _is_planned(rule, study, modes, rest)
    ]


def _given(rule: dict) -> dict:
    return {"baseline": "eager", **rule}


def _select_cells(rule: dict, study: dict) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield (op, dtype, size, modes) of the cells of a study that a rule is about; the size ALL where it asks so."""
    cells = cells_of(study)
    if ALL in values(rule.get("size", [])):
        several = Counter((cell.op, cell.dtype) for cell in cells)
        means = {(cell.op, cell.dtype): modes_of(study, cell) for cell in cells if several[cell.op, cell.dtype] > 1}
        named = [(Cell(op, dtype, ALL), modes) for (op, dtype), modes in means.items()]
    else:
        named = [(cell, modes_of(study, cell)) for cell in cells]
    for cell, modes in named:
        entry = study["ops"][cell.op]
        asked = {"op": cell.op, "dtype": cell.dtype, "size": cell.size, "workload": workload_name(cell.op, entry)}
        if (
            all(own in values(rule[key]) for key, own in asked.items() if key in rule)
            and f"{cell.op} {cell.size}" in rule.get("cells", [f"{cell.op} {cell.size}"])
            and rule.get("trains", trains(cell.op, entry)) == trains(cell.op, entry)
        ):
            yield cell.op, cell.dtype, cell.size, modes


def _is_planned(rule: dict, study: dict, modes: list[str], rest: tuple) -> bool:
    """Say whether a study plans a row of a cell that runs in these modes; rest: its key without op, dtype and size."""
    named = dict(zip((key for key in KEYS[table_of(rule)] if key not in CELL), rest, strict=True))
    mode, baseline = named["mode"], named.get("baseline")
    if mode not in modes:
        return False
    diagnosed = find_diagnosed(study, mode)
    return baseline is None or (baseline in modes and baseline in ([diagnosed] if diagnosed else study["baselines"]))


def find_rows(rule: dict, document: dict) -> dict[tuple, dict | None]:
    """Return the rows of a summary.json that a rule is about, by their keys; None stands for a missing row.

    A metric that the study did not measure has no rows, and neither has a mode where it cannot run.
    """
    table = document.get(table_of(rule), [])
    names = KEYS[table_of(rule)]
    there = {tuple(str(row[key]) for key in names): row for row in table}
    if not is_about_cells(rule):
        return {
            key: row for key, row in there.items() if _find_named(rule, document["study"], key) in _list_named(rule)
        }
    metrics = {key[names.index("metric")] for key in there} if "metric" in names else None
    found = {key: there.get(key) for key in select(rule, document["study"])}
    return {
        key: row
        for key, row in found.items()
        if (metrics is None or key[names.index("metric")] in metrics) and not _cannot_run(row)
    }


def _cannot_run(row: dict | None) -> bool:
    """Say whether a row is one that no machine like this could have; a time that was taken and does not count could."""
    if row is None or row.get("status") != "unsupported":
        return False
    return find_of_either(row.get("notes", []), Uncovered, ProfileIncomplete) is None


def evaluate(rule: dict, documents: list[dict]) -> Outcome:
    """Return whether a rule holds on documents of summary.json, one for each study that it is about.

    What the rule names and no document has counts as one missing row.
    """
    rows, missing = {}, dict.fromkeys(_list_named(rule))
    for document in documents:
        label = (document["study"]["machine"],) if len(documents) > 1 else ()
        for key, row in find_rows(rule, document).items():
            rows[*label, *key] = row
            missing.pop(_find_named(rule, document["study"], key), None)
    return decide(rule, rows | missing)


def _list_named(rule: dict) -> list[tuple]:
    """Return each combination of the names in a rule, as `_find_named` does."""
    if not is_about_cells(rule):
        return list(product(*(values(_given(rule)[key]) for key in KEYS[table_of(rule)] if key in _given(rule))))
    if "cells" in rule:
        heads = [tuple(pair.split()) for pair in rule["cells"]]
    else:
        heads = list(product(values(rule.get("op", rule.get("workload", ""))), values(rule.get("size", ""))))
    rest = [values(_given(rule)[key]) for key in KEYS[table_of(rule)] if key not in CELL]
    return [(*head, *others) for head in heads for others in product(*rest)]


def _find_named(rule: dict, study: dict, key: tuple) -> tuple:
    """Return the combination of the names in a rule that selects the row with this key."""
    if not is_about_cells(rule):
        return tuple(own for name, own in zip(KEYS[table_of(rule)], key, strict=True) if name in _given(rule))
    op, _, size, *rest = key
    what = op if {"op", "cells"} & {*rule} else workload_name(op, study["ops"][op]) if "workload" in rule else ""
    return what, size if {"size", "cells"} & {*rule} else "", *rest


def decide(rule: dict, rows: dict[tuple, dict | None]) -> Outcome:
    """Return whether a rule holds on the rows of its table, by their keys; None stands for a missing row."""
    by_answer = {answer: [] for answer in (YES, NO, UNDECIDED, LOST)}
    for key, row in rows.items():
        by_answer[_answer(row, rule)].append(key)
    outcome, deciding = _weigh(word_of(rule), by_answer, list(rows))
    met, lost = len(by_answer[YES]), len(by_answer[LOST])
    names = ["/".join(filter(None, key)) for key in deciding]
    return Outcome(outcome, met, len(rows) - lost, len(rows), names, _describe(rule, by_answer, outcome, rows))


def _answer(row: dict | None, rule: dict) -> str:
    """Return whether a row meets the condition of a rule: YES, NO, UNDECIDED or LOST."""
    condition = rule[word_of(rule)]
    if row is None or find_of_either(row.get("notes", []), NearFloor):
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
