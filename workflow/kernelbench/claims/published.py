"""What was published before: its figures, and its claims as rules on the rows of our studies.

The rules are in the language of the article's claims (claims.py). Each study that has rows of a rule judges it by those
that it has: what a study did not measure says nothing about what others published.
"""

from collections.abc import Iterator
from pathlib import Path

import yaml

from kernelbench.analysis.metrics import ALL
from kernelbench.claims.known_names import known
from kernelbench.claims.rules import KEYS, Outcome, bounds, column_of, decide, require_names, values
from kernelbench.harness.provenance import ROOT
from kernelbench.study.study import refuse_duplicates, require_known, validate

SCHEMA = ROOT / "workflow" / "schemas" / "published.schema.yaml"


def load(path: Path, *studies: dict) -> dict:
    """Return the YAML file of published figures at `path`; raise InputError for the first thing wrong with it.

    A rule may name what `studies` have, besides the recorded ones and those of the repository.
    """
    refuse_duplicates([path])
    published = yaml.safe_load(path.read_text(encoding="utf-8"))
    validate(published, SCHEMA, path.name)
    names = known(*studies)
    for key in ("mode", "baseline", "dtype"):
        require_known(f"{path.name}: {key}", published[key], names[key])
    claims = [claim for work in published["works"] for claim in work["claims"]]
    require_names(claims, path.name, names)
    return published


def judged(claim: dict, documents: list[dict]) -> Iterator[tuple[str, Outcome, list[dict]]]:
    """Yield the label of each study that has rows of a claim, what they say, and the rows.

    documents: the content of each study's summary.json.
    """
    for document in documents if "rule" in claim else ():
        device = "cuda" if document["environment"]["gpu"] else "cpu"
        rows = _rows(claim["rule"], document) if claim.get("device", device) == device else {}
        if rows:
            yield document["study"]["machine"], decide(claim["rule"], rows), list(rows.values())


def _rows(rule: dict, document: dict) -> dict[tuple, dict]:
    """Return by key the rows of a rule that the document has a value for."""
    table, wanted = rule.get("table", "speedups"), {"baseline": "eager", **rule}
    keys = KEYS[table]
    return {
        tuple(str(row[key]) for key in keys): row
        for row in document.get(table, [])
        if all(_is_wanted(wanted, key, str(row[key])) for key in keys)
        and bounds(row, table, column_of(rule))[0] is not None
    }


def _is_wanted(rule: dict, key: str, value: str) -> bool:
    return value in values(rule[key]) if key in rule else key != "size" or value != ALL
