"""The paper: its text with the data's numbers filled in, and the PDF that pandoc and typst make of it."""

import re
import subprocess
from functools import cache
from math import floor, log10
from pathlib import Path

import jinja2
import pypandoc
import typst

from kernelbench.errors import InputError
from kernelbench.gate import Defect
from kernelbench.harness.provenance import ROOT
from kernelbench.numbers import across
from kernelbench.study import KINDS, kind

# Keeps a number with its unit, and an interval in one piece.
NBSP = "\u00a0"


def render(text: Path, machines: list[dict], published: dict, coverage: dict, defects: list[dict]) -> str:
    """Return the text of the Markdown file `text` with everything filled in.

    machines: the numbers of each machine with `figures`, the directory of its figures. Studies of how processes start,
    of what the protocol does, of kernels beside those of other libraries and of other topics are told in sections of
    their own; they stand for their machine only where there is no other study. coverage: what
    kernelbench.coverage.table returns. defects: what the gate found (defects.json); with any the paper is a draft.
    A name that the data do not have raises InputError: nothing is ever rendered as empty.
    """
    by_kind = {word: [m for m in machines if kind(m["study"]) == word] for word in KINDS}
    shown = by_kind["machine"] or machines
    topics = _named(by_kind["topic"] if by_kind["machine"] else [])
    try:
        template = _environment(text.parent).get_template(text.name)
        rendered = template.render(
            machines=_named(shown),
            # Those that earlier work is compared with: whose cells are not again those of another.
            studies=_named([m for m in machines if kind(m["study"]) in ("machine", "kernels", "topic")]),
            start_studies=_named(by_kind["start"]),
            protocol_studies=_named(by_kind["protocol"]),
            kernel_studies=[
                # By the key of the machine: one that was measured here as well is another.
                {**k, "elsewhere": {m["key"]: across.elsewhere(k, m, published["mode"]) for m in _named(shown)}}
                for k in _named(by_kind["kernels"])
            ],
            topics=[
                {
                    **topic,
                    "name": f"{topic['title']} (study `{topic['label']}`)",
                    "beyond": across.beyond(topic, by_kind["machine"], topics),
                }
                for topic in topics
            ],
            published=published,
            coverage=coverage,
            defects=[_defect(**found) for found in defects],
        )
    except jinja2.UndefinedError as error:
        raise InputError(f"{text.name}: {error.message}; allowed: the names of numbers.json") from None
    except jinja2.TemplateSyntaxError as error:
        raise InputError(f"{error.name}: line {error.lineno}: {error.message}") from None
    return re.sub(r"\n{3,}", "\n\n", rendered)


def _defect(study: str, **fields) -> str:
    return f"{study}: {Defect(**fields).where}"


@cache
def _environment(directory: Path) -> jinja2.Environment:
    """Return where the templates of a directory are compiled, and stay so until they change."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(directory),
        undefined=jinja2.StrictUndefined,
        # Markdown's own {#label} would start a comment.
        comment_start_string="{*",
        comment_end_string="*}",
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    environment.filters |= {
        "ci": ci, "value": value, "words": words, "runs": runs, "percent": percent, "plural": plural,
        "round_to": round_to, "sentence": sentence, "span": span,
    }  # fmt: skip
    environment.tests["noted"] = noted
    return environment


def typeset(text: Path, defaults: Path, output: Path) -> None:
    """Make the PDF `output` of the Markdown `text`; the same inputs give the same bytes.

    Raises InputError with the first line of what pandoc or typst says.
    """
    source = text.with_suffix(".typ")
    command = [pypandoc.get_pandoc_path(), "--defaults", defaults, "--output", source, text]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise InputError(f"{text}: pandoc: {(done.stderr.strip() or 'it gave no reason').splitlines()[0]}")
    try:
        # Fonts of the machine are left out: only those that typst brings give the same pages everywhere.
        typst.compile(source, output=output, root=ROOT, ignore_system_fonts=True)
    except typst.TypstError as error:
        raise InputError(f"{source}: typst: {str(error).splitlines()[0]}") from None


def _named(machines: list[dict]) -> list[dict]:
    """Return the machines with `name`, which tells them apart in the text, and `key`, which does in references."""
    titles = [machine["title"] for machine in machines if not machine["local"]]
    named, keys = [], set()
    for machine in machines:
        name, key = machine["title"], re.sub(r"[^A-Za-z0-9]+", "-", machine["label"])
        if machine["local"]:
            name, key = f"{name} (this machine)", f"{key}-local"
        elif titles.count(name) > 1:
            name = f"{name} ({machine['label']})"
        while key in keys:
            key += "-again"
        keys.add(key)
        named.append({**machine, "name": name, "key": key})
    return named


def ci(row: dict, key: str = "speedup") -> str:
    """Return an estimate with its interval as text, 1.28 [1.26, 1.30]; without an interval where n is 1.

    All three have the same decimals: two digits of the interval's half width, at most about three of the estimate
    and, of a speedup near 1, two or three decimals. A line may break only before the bracket.
    """
    estimate, low, high = row[key], row["ci_low"], row["ci_high"]
    if estimate is None or low is None:
        return value(estimate)
    decimals = _decimals(estimate)
    if high > low:
        digits = 3 if 0.1 <= estimate < 10 and key == "speedup" else decimals
        least = 2 if estimate < 10 and key == "speedup" else 0
        decimals = max(least, min(digits, 1 - floor(log10((high - low) / 2))))
    return _minus(f"{estimate:,.{decimals}f} [{low:,.{decimals}f},{NBSP}{high:,.{decimals}f}]")


def value(number: float | None) -> str:
    """Return a measured number with about three significant digits, – where there is none."""
    return "–" if number is None else _minus(f"{number:,.{_decimals(number)}f}")


def _minus(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")


def span(low: float, high: float) -> str:
    """Return a range as text, both ends with the same decimals."""
    # One less than of a number by itself, but of a low end that nothing would be left of.
    decimals = _decimals(high) if high >= 10 else max(2, _decimals(low) - (low >= 0.01))
    return f"{low:,.{decimals}f}–{high:,.{decimals}f}"


def _decimals(number: float) -> int:
    """Return the decimals that show about three significant digits."""
    return max(0, min(4, 2 - floor(log10(abs(number))))) if number else 0


def percent(share: float) -> str:
    """Return a share as text with at most two significant digits below 100 %, whole above: 0.0123 is 1.2 %."""
    digits = f"{share * 100:.2g}" if share < 0.995 else f"{share * 100:.0f}"
    return f"{float(digits):.10g}{NBSP}%"


def round_to(number: float, digits: int) -> str:
    """Return a number rounded to `digits` significant digits, 31204 to 2 is 31,000."""
    return f"{float(f'{number:.{digits}g}'):,.10g}"


def words(items) -> str:
    """Return a list as prose: a, b and c."""
    items = [str(item) for item in items]
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def runs(found, of) -> str:
    """Return some of the sizes `of` as prose: a, c and e to h, where three or more follow each other there."""
    found, of, parts = [str(size) for size in found], [str(size) for size in of], []
    for size in found:
        before = parts[-1][-1] if parts else None
        if before in of and of.index(size) == of.index(before) + 1:
            parts[-1].append(size)
        else:
            parts.append([size])
    return words(text for part in parts for text in ([f"{part[0]} to {part[-1]}"] if len(part) > 2 else part))


def noted(row: dict, *codes: str) -> bool:
    """Say whether a row has a note of one of these codes."""
    return any(note["code"] in codes for note in row["notes"])


def plural(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun: 1 cell, 2 cells."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def sentence(text: str) -> str:
    """Return `text` with its first letter large."""
    return text[:1].upper() + text[1:]
