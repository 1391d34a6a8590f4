"""Typeset: from Markdown to PDF by pandoc and typst, the same bytes from the same inputs."""

import subprocess
from pathlib import Path

import pypandoc
import typst

from kernelbench.errors import InputError
from kernelbench.paths import ROOT


def typeset(text: Path, defaults: Path, template: Path, output: Path) -> None:
    """Make the PDF `output` of the Markdown `text`.

    Raises InputError with the first line of what pandoc or typst says.
    """
    source = text.with_suffix(".typ")
    command = [pypandoc.get_pandoc_path(), "--defaults", defaults, "--template", template, "--output", source, text]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise InputError(f"{text}: pandoc: {(done.stderr.strip() or 'it gave no reason').splitlines()[0]}")
    try:
        # Fonts of the machine are left out: only those that typst brings give the same pages everywhere.
        typst.compile(source, output=output, root=ROOT, ignore_system_fonts=True)
    except typst.TypstError as error:
        raise InputError(f"{source}: typst: {str(error).splitlines()[0]}") from None
