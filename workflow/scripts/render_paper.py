"""Fill the numbers of each machine into the paper's text."""

import argparse
import json
from pathlib import Path

import yaml

from kernelbench.errors import InputError, run
from kernelbench.paper import render


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True, help="paper.md")
    parser.add_argument("--published", type=Path, required=True, help="published.yaml")
    parser.add_argument(
        "--numbers", type=Path, nargs="*", required=True, help="numbers.json of each machine, figures/ beside it"
    )
    parser.add_argument("--defects", type=Path, nargs="*", required=True, help="defects.json of each machine")
    parser.add_argument("--coverage", type=Path, required=True, help="coverage.json")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    if not arguments.numbers:
        raise InputError("config: recorded: [] names no study to build the paper from; allowed: see results/recorded")
    published = yaml.safe_load(arguments.published.read_text(encoding="utf-8"))
    machines = [
        # typst takes a path from the top of the checkout when it starts with a slash.
        {**json.loads(path.read_text(encoding="utf-8")), "figures": f"/{path.parent.as_posix()}/figures"}
        for path in arguments.numbers
    ]
    coverage = json.loads(arguments.coverage.read_text(encoding="utf-8"))
    defects = [defect for path in arguments.defects for defect in json.loads(path.read_text(encoding="utf-8"))]
    text = render(arguments.text, machines, published, coverage, defects)
    arguments.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run(main)
