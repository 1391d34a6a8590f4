"""The article: prose by people, with values by address, findings that name their claim, figures and tables by name.

In the text `{{ name("…", …) }}` calls a function with literals and stands for what it returns; there is nothing else to
write between the braces. `claim("id")` follows the sentence that says it. A claim that does not hold on the data, or a
value that the data lack, is marked in its place, and the article is then a draft.
"""

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from pathlib import Path

from kernelbench.analysis.studies import NoData
from kernelbench.claims.rules import HOLDS
from kernelbench.errors import InputError
from kernelbench.figures.article import ARTICLE
from kernelbench.paper import markdown
from kernelbench.study.validation import require_known

ADDRESS = re.compile(r"\{\{(.*?)\}\}")
HEADING = re.compile(r"# ([^{]+)")
NAMED = re.compile(r"""claim\(["']([^"']+)["']\)""")


@dataclass(frozen=True)
class Mark:
    """Where a text says what the data do not: its line, what is wrong there, and its file."""

    line: int
    what: str
    file: str = "paper.md"


def render(
    text: str, name: str, functions: dict[str, Callable[..., str]], claims: list[dict]
) -> tuple[str, list[Mark]]:
    """Return the text with each address replaced, and the marks that make it a draft.

    name: of the text, for messages; functions: what an address may call, besides `claim`; claims: with their outcomes.
    Raises InputError with the line of an address that no data could have, and for a claim that no sentence names.
    """
    marks, named = [], []
    by_id = {claim["id"]: claim for claim in claims}

    def claim(identity: str) -> str:
        if identity not in by_id:
            raise InputError(f"claim {identity} is not known; allowed: an id of claims.yaml")
        named.append(identity)
        found = by_id[identity]
        if found["outcome"] != HOLDS:
            raise NoData(f"claim {identity} {found['outcome']}: {found['found']}")
        return f"^C{found['number']}^"

    lines = [
        _fill(line, number, name, {**functions, "claim": claim}, marks)
        for number, line in enumerate(text.splitlines(), 1)
    ]
    unused = [identity for identity in by_id if identity not in named]
    if unused:
        raise InputError(
            f"{name}: no sentence names the claims {', '.join(unused)}; allowed: claims that the text makes"
        )
    return "\n".join(lines) + "\n", marks


def _fill(line: str, number: int, name: str, functions: dict[str, Callable[..., str]], marks: list[Mark]) -> str:
    """Return a line with its addresses replaced; add a mark for each that has no data."""

    def replace(found: re.Match) -> str:
        try:
            return call(found[1].strip(), functions)
        except NoData as error:
            marks.append(Mark(number, str(error)))
            mark = f"**[⚠ {len(marks)}]**"
            # What has a line of its own is a table, and its caption needs one.
            return markdown.table([mark], [], "l") if found[0] == line.strip() else mark
        except InputError as error:
            raise InputError(f"{name}: line {number}: {error}") from None

    return ADDRESS.sub(replace, line)


def call(address: str, functions: dict[str, Callable[..., str]]) -> str:
    """Return what a call with literals returns; raise InputError for anything else."""
    try:
        found = ast.parse(address, mode="eval").body
        positional = [ast.literal_eval(argument) for argument in found.args]
        named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in found.keywords}
        function = functions[found.func.id]
    except (SyntaxError, AttributeError, ValueError):
        raise InputError(f"{address}: is no address; allowed: a function with texts and numbers") from None
    except KeyError as error:
        raise InputError(f"{address}: {error.args[0]} is not known; allowed: {', '.join(functions)}") from None
    try:
        signature(function).bind(*positional, **named)
    except TypeError as error:
        raise InputError(f"{address}: {error}") from None
    return function(*positional, **named)


def figure(name: str, folder: Path) -> str:
    """Return the path of a figure from the top of the checkout, for which typst wants a slash in front."""
    require_known("figure", name, ARTICLE)
    return f"/{folder.as_posix()}/{name}.svg"


def sections(text: str) -> dict[str, str]:
    """Return by id of a claim the title of the first section that makes it; what comes before all of them is none."""
    found, section = {}, ""
    for line in text.splitlines():
        if heading := HEADING.match(line):
            section = heading[1].strip()
        for identity in NAMED.findall(line) if section else ():
            found.setdefault(identity, section)
    return found


def head(marks: list[Mark], defects: list[str]) -> str:
    """Return the metadata of a draft: that it is one, and why; nothing where the article is none."""
    notes = [f"{place}. {mark.file}, line {mark.line}: {mark.what}" for place, mark in enumerate(marks, 1)]
    notes += [f"- {defect}" for defect in defects]
    return (
        "\n".join(["---", "draft: true", "notes: |", *(f"  {note}" for note in notes), "---", "", ""]) if notes else ""
    )
