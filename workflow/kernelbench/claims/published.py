"""What was published before: its figures, and its claims as rules on the rows of our studies.

The rules are in the language of the article's claims (claims.py). Each study that has rows of a rule judges it by those
that it has: what a study did not measure says nothing about what others published.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from kernelbench.claims.known_names import known
from kernelbench.claims.rules import KEYS, Identity, Outcome, Rule, bounds, column_of, decide, require_names, values
from kernelbench.study import yaml_files
from kernelbench.study.metrics import ALL
from kernelbench.study.validation import ABSENT, Model, check_model, matching, require_any, require_known, validate

Speedup = Annotated[float, Field(gt=0)]


class Means(Model):
    """The published mean speedup of an op, and its range over the sizes."""

    mean: Speedup
    low: Speedup
    high: Speedup


class Claim(Model):
    """What a work says, in our words, with a rule on our rows, or an answer where nothing can be measured."""

    id: Identity
    says: Annotated[str, matching(".*[^.]", "what it says in our words, without a full stop")]
    figure: str = ABSENT
    device: Literal["cuda", "cpu"] = ABSENT
    answer: str = ABSENT
    rule: Rule = ABSENT

    @check_model(mode="after")
    def require_reply(self):
        """Refuse a claim that nothing is said to."""
        require_any(self, "rule", "answer")
        return self


class Work(Model):
    """A published work, where its figures come from, and its claims."""

    title: str
    machine: str
    claims: Annotated[list[Claim], Field(min_length=1)]


class Published(Model):
    """published.yaml."""

    machine: str
    dtype: str
    baseline: str
    mode: str
    ops: dict[str, Means]
    works: Annotated[list[Work], Field(min_length=1)]


def load(path: Path, *studies: dict) -> dict:
    """Return the YAML file of published figures at `path`; raise InputError for the first thing wrong with it.

    A rule may name what `studies` have, besides the recorded ones and those of the repository.
    """
    published = yaml_files.read(path)
    validate(Published, published, path.name)
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
