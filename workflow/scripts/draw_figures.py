"""Draw figures from a summary.json."""

import argparse
import json
from pathlib import Path

import yaml

from kernelbench import figures
from kernelbench.errors import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", choices=list(figures.FIGURES), nargs="*", required=True)
    parser.add_argument("--document", type=Path, required=True, help="summary.json")
    parser.add_argument("--published", type=Path, required=True, help="paper/published.yaml")
    parser.add_argument("--output", type=Path, required=True, help="a folder, for an SVG file of each")
    arguments = parser.parse_args()
    document = json.loads(arguments.document.read_text(encoding="utf-8"))
    published = yaml.safe_load(arguments.published.read_text(encoding="utf-8"))
    arguments.output.mkdir(exist_ok=True)
    for name in arguments.figures:
        figures.save(figures.draw(name, document, published), arguments.output / f"{name}.svg")


if __name__ == "__main__":
    run(main)
