"""Markdown as pandoc reads it: tables, and what has to be escaped."""

import re
from collections.abc import Callable
from math import ceil

from kernelbench import numbers

ALIGNED = {"l": ":-", "r": "-:"}
# Begins a new line in a cell.
BREAK = "`#linebreak()`{=typst}"
# What lies between two columns, in digits, and what is narrower than a digit, by how much.
GAP = 2.5
NARROW, THINNER = re.compile(r"[\s.,;:()\[\]]"), 0.4
# How many digits of a table a page of the supplement has side by side.
ROOM = 148
# Into how many parts a page is divided among the columns; pandoc.yaml tells pandoc the same number.
WHOLE = 1000


def table(header: list[str], rows: list[list[str]], align: str, caption: str = "", room: int = 0) -> str:
    """Return a pipe table; `align` has a letter for each column: l or r.

    room: how many digits a page has side by side; a table that needs more takes the page's width. Without it no
    column has a width of its own.
    """
    dashes = [
        ALIGNED[letter].replace("-", "-" * n) for letter, n in zip(align, _dashes([header, *rows], room), strict=True)
    ]
    text = "\n".join("| " + " | ".join(line) + " |" for line in [header, dashes, *rows])
    return f"{text}\n\n: {caption}\n" if caption else f"{text}\n"


def sheet(rows: list[dict], align: str, caption: str, columns: dict[str, str | Callable] | None = None) -> str:
    """Return a table that keeps to the page, nothing without rows.

    columns: by header the key of a row, or a function of a row; without it the keys of the rows are the headers.
    """
    columns = columns or {key: key for row in rows[:1] for key in row}
    shown = [
        [numbers.text(column(row) if callable(column) else row[column]) for column in columns.values()] for row in rows
    ]
    return table(list(columns), shown, align, caption, ROOM) if rows else ""


def code(key: str) -> Callable[[dict], str]:
    """Return a column of `sheet` that shows a name as code."""
    return lambda row: f"`{row[key]}`"


def _dashes(rows: list[list[str]], room: int) -> list[int]:
    """Return how many dashes each column has; pandoc takes them for widths where they are more than WHOLE."""
    widths = widths_of(rows)
    if not room or sum(width for width, _ in widths) <= room:
        return [2] * len(widths)
    # The widest ones give way, none below its longest word.
    fitted = [[max(min(width, cap), word) for width, word in widths] for cap in range(room, -1, -1)]
    own = next((own for own in fitted if sum(own) <= room), fitted[-1])
    return [ceil(WHOLE * width / sum(own)) for width in own]


def widths_of(rows: list[list[str]]) -> list[tuple[float, float]]:
    """Return for each column how many digits its longest cell is wide, and its longest word."""
    plain = [[re.sub(r"\*\*|\\(?=.)", "", cell).split(BREAK) for cell in row] for row in rows]
    columns = [[line for cell in column for line in cell] for column in zip(*plain, strict=True)]
    return [
        (max(map(_width, cells)) + GAP, max(_width(word) for cell in cells for word in re.split("[ -]", cell)) + GAP)
        for cells in columns
    ]


def _width(text: str) -> float:
    """Return how wide a text is; all signs of code are as wide as a digit."""
    return len(text.replace("`", "")) - (0 if "`" in text else THINNER * len(NARROW.findall(text)))


def escape(text: str) -> str:
    """Return text of the data with what Markdown would read as its own signs escaped."""
    return re.sub(r"([\\`*_{}\[\]<>#|~^$@])", r"\\\1", text)
