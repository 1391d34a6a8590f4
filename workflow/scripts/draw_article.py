"""Draw the figures of the article from the summary.json of each recorded study."""

import argparse
import json
from pathlib import Path

from kernelbench import figures
from kernelbench.analysis import host_law
from kernelbench.analysis.studies import Studies
from kernelbench.errors import run
from kernelbench.figures.article import ARTICLE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=Path, nargs="*", required=True, help="summary.json of each recorded study")
    parser.add_argument("--output", type=Path, required=True, help="a folder, for an SVG file of each")
    arguments = parser.parse_args()
    studies = Studies([json.loads(path.read_text(encoding="utf-8")) for path in arguments.documents])
    host_law.apply(studies)
    arguments.output.mkdir(exist_ok=True)
    for name, draw in ARTICLE.items():
        figures.save(draw(studies), arguments.output / f"{name}.svg")


if __name__ == "__main__":
    run(main)
