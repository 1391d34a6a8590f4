"""The figures and claims that others published; each of our studies judges the claims by the rows that it has.

What a study did not measure says nothing about what others published.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from kernelbench.claims.known_names import check_names, known
from kernelbench.claims.rule_file import Identity, Rule
from kernelbench.claims.rules import Outcome, decide, find_bounds, find_rows
from kernelbench.study import yaml_files
from kernelbench.study.validation import ABSENT, Model, check_model, matching, require_any, require_known, validate

Speedup = Annotated[float, Field(gt=0)]


class Means(Model):
    """The published mean speedup of an op, and its range over the sizes."""

    mean: Speedup
    low: Speedup
    high: Speedup


class Claim(Model):
    """A claim of a work in our words, with a rule on our rows, or with an answer if we cannot measure it."""

    id: Identity
    says: Annotated[str, matching(".*[^.]", "what it says in our words, without a full stop")]
    figure: str = ABSENT
    device: Literal["cuda", "cpu"] = ABSENT
    answer: str = ABSENT
    rule: Rule = ABSENT

    @check_model(mode="after")
    def require_reply(self):
        """Refuse a claim that has neither a rule nor an answer."""
        require_any(self, "rule", "answer")
        return self


class Work(Model):
    """A published work, the machine of its figures, and its claims."""

    title: str
    machine: str
    claims: Annotated[list[Claim], Field(min_length=1)]


class Published(Model):
    """The content of published.yaml."""

    machine: str
    dtype: str
    baseline: str
    mode: str
    ops: dict[str, Means]
    works: Annotated[list[Work], Field(min_length=1)]


def load(path: Path, *studies: dict) -> dict:
    """Return the content of the YAML file at `path`; raise InputError for the first mistake in it.

    A rule may use the names of `studies`, of the recorded ones and of the repository.
    """
    published, names = yaml_files.read(path), known(*studies)
    validate(Published, published, path.name)
    for key in ("mode", "baseline", "dtype"):
        require_known(f"{path.name}: {key}", published[key], names[key])
    check_names([claim for work in published["works"] for claim in work["claims"]], path.name, names)
    return published


def judge(claim: dict, documents: list[dict]) -> Iterator[tuple[str, Outcome, list[dict]]]:
    """Yield the label of each study that has rows of a claim, the outcome on these rows, and the rows.

    documents: the content of each study's summary.json.
    """
    for document in documents if "rule" in claim else ():
        device = "cuda" if document["environment"]["gpu"] else "cpu"
        found = find_rows(claim["rule"], document) if claim.get("device", device) == device else {}
        rows = {key: row for key, row in found.items() if row and find_bounds(row, claim["rule"])[0] is not None}
        if rows:
            yield document["study"]["machine"], decide(claim["rule"], rows), list(rows.values())
