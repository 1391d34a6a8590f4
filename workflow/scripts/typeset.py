"""Typeset a document's text as a PDF."""

import argparse
from pathlib import Path

from kernelbench.errors import run
from kernelbench.paper.typeset import typeset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True, help="the Markdown")
    parser.add_argument("--defaults", type=Path, required=True, help="pandoc's defaults file")
    parser.add_argument("--template", type=Path, required=True, help="typst's template")
    parser.add_argument("--output", type=Path, required=True, help="the PDF")
    arguments = parser.parse_args()
    typeset(arguments.text, arguments.defaults, arguments.template, arguments.output)


if __name__ == "__main__":
    run(main)
