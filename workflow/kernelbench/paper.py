"""The paper: its text with the data's numbers filled in, and the PDF that pandoc and typst make of it."""

import re
import subprocess
from functools import cache
from pathlib import Path

import jinja2
import pypandoc
import typst

from kernelbench.documents.words import ci, noted, percent, plural, round_to, runs, sentence, span, value, words
from kernelbench.errors import InputError
from kernelbench.gate import Defect
from kernelbench.harness.provenance import ROOT
from kernelbench.numbers import across
from kernelbench.study import KINDS, kind


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
