"""Claims: what the paper says, as rules on the verdicts of speedups.csv, and whether they hold on a machine.

A rule selects rows by op, dtype, size, mode, baseline and metric, each a value or a list of values; without `size`,
every size that the study has of the op. One word says which verdicts must hold of them:

every  each row has one of these verdicts. Another decided verdict refutes it; an open row (inconclusive, without a
       verdict, or not there) leaves it untold.
some   a row has one of these verdicts. It fails where all rows are decided otherwise; else open rows leave it untold.
none   no row is found to have one of these verdicts. A row that has refutes it; inconclusive is a finding of none; only
       rows that are not there or have no verdict leave it untold.
"""

from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import yaml

from kernelbench.errors import InputError
from kernelbench.figures import FIGURES
from kernelbench.harness.provenance import ROOT
from kernelbench.names import known
from kernelbench.study import refuse_duplicates, require_known, validate

SCHEMA = ROOT / "workflow" / "schemas" / "claims.schema.yaml"
KEY = ("op", "dtype", "size", "mode", "baseline", "metric")
HOLDS, FAILS, UNTOLD = "holds", "does not hold", "cannot tell"
DECIDED = ("faster", "slower", "equivalent")
# Sections of the paper, of all machines, whose tables or sentences show what no figure does.
SECTIONS = ("sec-control", "sec-tables")


@dataclass(frozen=True)
class Outcome:
    """Whether a claim holds, how many of its rows have a verdict, of how many, and the names of those that decide."""

    outcome: str
    rows: int
    of: int
    deciding: list[str]


def load(path: Path, *studies: dict) -> list[dict]:
    """Return the claims of the YAML file at `path`; raise InputError for the first thing that is wrong in it.

    A rule may name what `studies` have, besides the recorded ones and those of the repository.
    """
    refuse_duplicates([path])
    claims = yaml.safe_load(path.read_text(encoding="utf-8"))
    validate(claims, SCHEMA, path.name)
    ids, names = [claim["id"] for claim in claims], known(*studies)
    for claim in claims:
        what = f"{path.name}: {claim['id']}"
        if ids.count(claim["id"]) > 1:
            raise InputError(f"{what}: is given twice; allowed: each id once")
        require_known(f"{what}: figure", claim["figure"], [*FIGURES, *SECTIONS])
        for key, allowed in names.items():
            for name in values(claim["rule"].get(key, [])):
                require_known(f"{what}: rule.{key}", name, allowed)
    return claims


def selected(rule: dict, study: dict) -> list[tuple]:
    """Return the (op, dtype, size, mode, baseline, metric) that a rule is about in a study, its mapping.

    An op that the study does not have is one row without a size, which no table has.
    """
    return [
        (op, dtype, size, *others)
        for op in values(rule["op"])
        for dtype in values(rule["dtype"])
        for size in _sizes(rule, op, study)
        for others in product(*(values(rule[key]) for key in ("mode", "baseline", "metric")))
    ]


def evaluate(rule: dict, speedups: list[dict], study: dict) -> Outcome:
    """Return whether a rule holds of the rows `speedups` of a summary.json, of all that it is about in `study`."""
    verdicts = {tuple(row[key] for key in KEY): row["verdict"] for row in speedups}
    rows = {key: verdicts.get(key, "") for key in selected(rule, study)}
    word = next(word for word in ("every", "some", "none") if word in rule)
    wanted = values(rule[word])
    hits = [key for key, verdict in rows.items() if verdict in wanted]
    others = [key for key, verdict in rows.items() if verdict in DECIDED and verdict not in wanted]
    untested = [key for key, verdict in rows.items() if not verdict]
    undecided = [key for key, verdict in rows.items() if verdict not in DECIDED]
    if word == "every":
        steps = ((FAILS, others), (UNTOLD, undecided), (HOLDS, hits))
    elif word == "some":
        steps = ((HOLDS, hits), (UNTOLD, undecided), (FAILS, others))
    else:
        steps = ((FAILS, hits), (UNTOLD, untested), (HOLDS, list(rows)))
    outcome, deciding = next(step for step in steps if step[1])
    return Outcome(outcome, len(rows) - len(untested), len(rows), ["/".join(key) for key in deciding])


def evaluated(claims: list[dict], document: dict) -> list[dict]:
    """Return each claim with its outcome on the machine whose summary.json is `document`."""
    found = [evaluate(claim["rule"], document["speedups"], document["study"]) for claim in claims]
    return [{**claim, **asdict(outcome)} for claim, outcome in zip(claims, found, strict=True)]


def values(given) -> list[str]:
    """Return what a rule gives for a key, one value or a list of them, as a list of texts."""
    return [str(value) for value in (given if isinstance(given, list) else [given])]


def _sizes(rule: dict, op: str, study: dict) -> list[str]:
    if "size" in rule:
        return values(rule["size"])
    return values(study["ops"][op]["sizes"]) if op in study["ops"] else [""]
