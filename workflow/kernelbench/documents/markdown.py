"""Markdown as pandoc reads it: tables, figures and what has to be escaped."""

import re

ALIGNED = {"l": ":--", "r": "--:", "c": ":-:"}


def table(header: list[str], rows: list[list[str]], align: str, caption: str = "", label: str = "") -> str:
    """Return a pipe table; `align` has a letter for each column: l, r or c."""
    lines = [header, [ALIGNED[letter] for letter in align], *rows]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{text}\n\n: {caption}{f' {{#{label}}}' if label else ''}\n" if caption else f"{text}\n"


def figure(path: str, caption: str, label: str) -> str:
    """Return a figure on a line of its own; `path` is from the top of the checkout, after a slash."""
    return f"![{caption}]({path}){{#{label}}}\n"


def escape(text: str) -> str:
    """Return text of the data with what Markdown would read as its own signs escaped."""
    return re.sub(r"([\\`*_{}\[\]<>#|~^$@])", r"\\\1", text)
