"""The README: each block of it that states a result is one of a template, with addresses and claims as in the article.

readme.md has these blocks in the words of the README; an address stands for its value, and `{{ claim("id") }}` for
nothing. A block is a paragraph, an item of a list, a row of a table, or a line of code. In the sections that state
results, a block with a figure or a universal word has to be in the template.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

from kernelbench.analysis.studies import NoData
from kernelbench.claims.rules import HOLDS
from kernelbench.errors import InputError
from kernelbench.numbers import NBSP
from kernelbench.paper.article import ADDRESS, Mark, call
from kernelbench.study.validation import require_known

# Where results are stated: from the top of the README to the first of its other sections.
ENDS = "## A model of a library"
FIGURE = re.compile(r"\d[.,]\d|\d–\d|\d %")
UNIVERSAL = re.compile(r"\b(every|never|no|none|nowhere|nothing|always|any|lowest|highest)\b", re.IGNORECASE)
# An address that is about all recorded studies of GPUs.
OF_EVERY_STUDY = re.compile(r"[\"']every[\"']|studies\(\)")
CODE = " " * 4
BEGINS_BLOCK = re.compile(r"- |\||#|>|!?\[!?")


@dataclass(frozen=True)
class Block:
    """Lines of a text that belong together, joined by spaces; line: the number of the first."""

    line: int
    lines: list[str]

    @property
    def text(self) -> str:
        return " ".join(self.lines)

    def line_at(self, offset: int) -> int:
        """Return the number of the line that has the character at `offset` of the text."""
        for place, line in enumerate(self.lines):
            if offset <= len(line):
                return self.line + place
            offset -= len(line) + 1
        return self.line + len(self.lines) - 1


def split(text: str) -> list[Block]:
    """Return the blocks of a Markdown text."""
    blocks, ended = [], True
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            ended = True
        elif ended or (BEGINS_BLOCK.match(line) and not line.startswith(CODE)):
            blocks.append(Block(number, [line.strip()]))
            ended = False
        else:
            blocks[-1].lines.append(line.strip())
    return blocks


def check(readme: str, template: str, functions: dict[str, Callable[..., str]], claims: list[dict]) -> list[Mark]:
    """Return the marks of what README.md states and the data do not, and of what is bound to nothing.

    functions, claims: as for article.render. Raises InputError for a block of the template that the README lacks, or
    that binds a universal word or a figure to nothing, and for an address that no data could have.
    """
    blocks = split(readme.split(ENDS)[0])
    by_id, marks, bound = {claim["id"]: claim for claim in claims}, [], set()
    for own in split(template):
        _require_bound(own)
        said = [_find_said(address, own, functions, by_id) for address in ADDRESS.findall(own.text)]
        # Where the README says something else, its block is the one with the same words around the addresses.
        patterns = [_compile(own.text, said), _compile(own.text, [None] * len(said))]
        matches = ((block, pattern.fullmatch(block.text)) for pattern in patterns for block in blocks)
        found = next(((block, match) for block, match in matches if match), None)
        if found is None:
            raise InputError(
                f"paper/readme.md: line {own.line}: README.md has no such block; allowed: its words, with addresses"
            )
        block, match = found
        bound.add(block.line)
        marks += _judge(own, block, match, said)
    marks += [
        Mark(block.line, f"is not in paper/readme.md: {said[0]}", "README.md")
        for block in blocks
        if block.line not in bound and (said := FIGURE.search(block.text) or UNIVERSAL.search(block.text))
    ]
    return sorted(marks, key=lambda mark: mark.line)


def _compile(text: str, said: list[str | NoData | None]) -> re.Pattern:
    """Return a pattern of the README's text, with a group for what each address says; any words where that is open."""
    literals = map(re.escape, ADDRESS.split(text)[::2])
    groups = [re.escape(each) if isinstance(each, str) else ".*?" for each in said]
    return re.compile(
        "".join(literal + group for literal, group in zip_longest(literals, (f"({g})" for g in groups), fillvalue=""))
    )


def _find_said(address: str, block: Block, functions: dict, by_id: dict[str, dict]) -> str | NoData:
    """Return what an address says: its value, nothing for a claim that holds, or why the data do not say it."""
    functions = {**functions, "claim": lambda identity: _require_holds(identity, by_id)}
    try:
        return call(address.strip(), functions).replace(NBSP, " ")
    except NoData as error:
        return error
    except InputError as error:
        raise InputError(f"paper/readme.md: line {block.line}: {error}") from None


def _is_claim(address: str) -> bool:
    return address.strip().startswith("claim(")


def _require_bound(block: Block) -> None:
    """Raise InputError where words of the template state what no address of the block gives."""
    addresses, literal = ADDRESS.findall(block.text), ADDRESS.sub("", block.text)
    if not addresses:
        raise InputError(f"paper/readme.md: line {block.line}: has no address; allowed: blocks that state results")
    word, figure = UNIVERSAL.search(literal), FIGURE.search(literal)
    if word and not any(_is_claim(address) or OF_EVERY_STUDY.search(address) for address in addresses):
        raise InputError(
            f'paper/readme.md: line {block.line}: "{word[0]}" is bound to nothing; allowed: with a claim, or with an '
            'address of "every" study'
        )
    if figure:
        raise InputError(f"paper/readme.md: line {block.line}: {figure[0]} is no address; allowed: figures by address")


def _judge(own: Block, block: Block, match: re.Match, said: list[str | NoData]) -> Iterator[Mark]:
    """Yield a mark for each address of a block that does not say what the README says."""
    for group, (address, each) in enumerate(zip(ADDRESS.findall(own.text), said, strict=True), 1):
        line = block.line_at(match.start(group))
        if isinstance(each, NoData):
            yield Mark(line, str(each), "README.md")
        elif each != match[group]:
            yield Mark(line, f"says {match[group]}, and the data {each}: {address.strip()}", "README.md")


def _require_holds(identity: str, by_id: dict[str, dict]) -> str:
    require_known("claim", identity, by_id)
    found = by_id[identity]
    if found["outcome"] != HOLDS:
        raise NoData(f"claim {identity} {found['outcome']}: {found['found']}")
    return ""
