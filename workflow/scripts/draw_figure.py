"""Draw one figure from a summary.json."""

import argparse
import json
from pathlib import Path

import yaml

from kernelbench import figures
from kernelbench.errors import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", choices=list(figures.FIGURES), required=True)
    parser.add_argument("--document", type=Path, required=True, help="summary.json")
    parser.add_argument("--published", type=Path, required=True, help="paper/published.yaml")
    parser.add_argument("--output", type=Path, required=True, help="an SVG file")
    arguments = parser.parse_args()
    document = json.loads(arguments.document.read_text(encoding="utf-8"))
    published = yaml.safe_load(arguments.published.read_text(encoding="utf-8"))
    figures.save(figures.draw(arguments.figure, document, published), arguments.output)


if __name__ == "__main__":
    run(main)
