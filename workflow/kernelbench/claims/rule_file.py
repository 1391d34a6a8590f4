"""The form of a rule in claims.yaml and published.yaml; docs/extending.md explains its keys."""

import re
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from kernelbench.study.validation import ABSENT, Model, OneOrSeveral, Several, Size, matching, require_exactly_one

# The words of which a rule has one: it says how many rows must meet the condition.
WORDS = ("every", "some", "most", "none")
CELL = ("op", "dtype", "size")
# The tables of summary.json that a rule may be about, by the columns that identify a row.
KEYS = {
    "speedups": (*CELL, "mode", "baseline", "metric"),
    "summary": (*CELL, "mode", "metric"),
    "payback": (*CELL, "mode", "metric"),
    "compilation": (*CELL, "mode"),
    "arms": ("mode", "baseline", "metric"),
    "law": ("mode", "metric"),
    "first_repeats": ("repeats", "metric"),
    "clustered": ("metric",),
}
Names = OneOrSeveral[str]
Verdict = Literal["faster", "slower", "equivalent"]
Identity = Annotated[str, matching("[a-z][a-z0-9-]*", "a name of lower-case letters, digits and -")]


class Limit(Model):
    """A limit on the interval of a row; `of` names a column other than the table's own value."""

    of: str = ABSENT
    above: float = ABSENT
    below: float = ABSENT
    within: Annotated[float, Field(gt=0, lt=1)] = ABSENT
    exactly: float = Field(default=None, alias="is")

    @model_validator(mode="after")
    def require_one_limit(self):
        """Refuse a condition with no limit or with two."""
        require_exactly_one(self, ("above", "below", "within", "exactly"))
        return self


Condition = Annotated[
    Annotated[OneOrSeveral[Verdict], Tag("<verdict>")] | Annotated[Limit, Tag("<limit>")],
    Discriminator(lambda given: "<limit>" if isinstance(given, dict) else "<verdict>"),
]


class Rule(Model):
    """The rows of a table that a claim is about, and the condition that they must meet."""

    study: Names = ABSENT
    device: Literal["cuda", "cpu"] = ABSENT
    table: Literal[(*KEYS,)] = ABSENT
    op: Names = ABSENT
    workload: Names = ABSENT
    trains: bool = ABSENT
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

    @model_validator(mode="after")
    def require_one_word(self):
        """Refuse a rule that does not say, once, how many rows must meet the condition."""
        require_exactly_one(self, WORDS)
        return self


class Claim(Model):
    """A sentence of the article with the rule that judges it."""

    id: Identity
    sentence: Annotated[str, matching(r"(?!.*[.] ).*[.]", "one sentence that ends with a full stop")]
    rule: Rule


def names_study(text: str, name: str) -> bool:
    """Say whether a text names the study of a topic, as in "the ops study" or "the ops and kernels studies"."""
    bare = name.removeprefix("cpu-")
    return re.search(rf"\b{re.escape(bare)}\b[^.]*\bstud(y|ies)\b", text) is not None


def values(given) -> list[str]:
    """Return what a rule gives for a key, one value or several, as a list of texts."""
    return [str(value) for value in (given if isinstance(given, list) else [given])]
