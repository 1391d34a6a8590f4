"""Draw the figures of a study from its summary.json: those that it has data for."""

import argparse
import json
from pathlib import Path

from kernelbench import figures
from kernelbench.errors import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--document", type=Path, required=True, help="summary.json")
    parser.add_argument("--output", type=Path, required=True, help="a folder, for an SVG file of each")
    arguments = parser.parse_args()
    document = json.loads(arguments.document.read_text(encoding="utf-8"))
    arguments.output.mkdir(exist_ok=True)
    for name, draw in figures.FIGURES.items():
        if figure := draw(document):
            figures.save(figure, arguments.output / f"{name}.svg")


if __name__ == "__main__":
    run(main)
