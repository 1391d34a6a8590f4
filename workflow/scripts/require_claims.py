"""Refuse an article or a README that says what its data do not: name each such line, unless a draft was asked for."""

import argparse
import json
import sys
from pathlib import Path

from kernelbench.errors import InputError, run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--outcomes", type=Path, required=True, help="claims.json, as write_article.py writes it")
    parser.add_argument("--draft", action="store_true", help="name the lines and go on")
    arguments = parser.parse_args()
    marks = json.loads(arguments.outcomes.read_text(encoding="utf-8"))["marks"]
    for mark in marks:
        print(f"{mark['file']}: line {mark['line']}: {mark['what']}", file=sys.stderr)
    if marks and not arguments.draft:
        raise InputError(
            f"paper/paper.pdf is a draft: {len(marks)} places say what the recorded data do not; rewrite these lines, "
            "or set draft: true in the config"
        )


if __name__ == "__main__":
    run(main)
