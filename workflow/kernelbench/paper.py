"""The paper: its text with the data's numbers filled in, and the PDF that pandoc and typst make of it."""

import re
import subprocess
from math import floor, log10
from pathlib import Path

import jinja2
import pypandoc
import typst

from kernelbench.errors import InputError
from kernelbench.harness.provenance import ROOT


def render(text: Path, machines: list[dict], published: dict) -> str:
    """Return the text of the Markdown file `text` with everything filled in.

    machines: the numbers of each machine with `figures`, the directory of its figures. A name that the data do not
    have raises InputError: nothing is ever rendered as empty.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(text.parent),
        undefined=jinja2.StrictUndefined,
        # Markdown's own {#label} would start a comment.
        comment_start_string="{*",
        comment_end_string="*}",
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    environment.filters |= {"ci": ci, "value": value, "words": words, "percent": percent, "plural": plural}
    try:
        rendered = environment.get_template(text.name).render(machines=machines, published=published)
    except jinja2.UndefinedError as error:
        raise InputError(f"{text.name}: {error.message}; allowed: the names of numbers.json") from None
    except jinja2.TemplateSyntaxError as error:
        raise InputError(f"{text.name}: line {error.lineno}: {error.message}") from None
    return re.sub(r"\n{3,}", "\n\n", rendered)


def typeset(text: Path, defaults: Path, output: Path) -> None:
    """Make the PDF `output` of the Markdown `text`; the same inputs give the same bytes.

    Raises InputError with the first line of what pandoc or typst says.
    """
    source = text.with_suffix(".typ")
    command = [pypandoc.get_pandoc_path(), "--defaults", defaults, "--output", source, text]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise InputError(f"{text}: pandoc: {done.stderr.strip().splitlines()[0]}")
    try:
        # Fonts of the machine are left out: only those that typst brings give the same pages everywhere.
        typst.compile(source, output=output, root=ROOT, ignore_system_fonts=True)
    except typst.TypstError as error:
        raise InputError(f"{source}: typst: {str(error).splitlines()[0]}") from None


def ci(row: dict, key: str = "speedup") -> str:
    """Return an estimate with its interval as text, 1.28 [1.26, 1.30]; without an interval where n is 1."""
    if row[key] is None:
        return "–"
    if row["ci_low"] is None:
        return value(row[key])
    # A narrow interval around 1 needs a digit more than a wide one to be seen at all.
    narrow = row["ci_high"] - row["ci_low"] < 0.02 and row[key] < 10
    low, middle, high = (f"{x:.3f}" if narrow else value(x) for x in (row["ci_low"], row[key], row["ci_high"]))
    return f"{middle} [{low}, {high}]"


def value(number: float | None) -> str:
    """Return a measured number with about three significant digits, – where there is none."""
    if number is None:
        return "–"
    if number == 0:
        return "0"
    decimals = max(0, min(4, 2 - floor(log10(abs(number)))))
    return f"{number:,.{decimals}f}"


def percent(share: float) -> str:
    """Return a share as text: 0.0123 is 1.2 %."""
    return f"{value(float(f'{share * 100:.2g}')) if share else 0} %"


def words(items) -> str:
    """Return a list as prose: a, b and c."""
    items = [str(item) for item in items]
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def plural(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun: 1 cell, 2 cells."""
    return f"{count} {one if count == 1 else many or one + 's'}"
