"""Print which mode to run a model in, from recommendation.json, and where the page is that says more."""

import argparse
import json
from pathlib import Path

from rich.console import Console

from kernelbench.errors import run
from kernelbench.page.terminal import format_recommendation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recommendation", type=Path, required=True, help="recommendation.json")
    parser.add_argument("--page", type=Path, required=True, help="the page that was written with it")
    arguments = parser.parse_args()
    console = Console(highlight=False, markup=False)
    for piece in format_recommendation(json.loads(arguments.recommendation.read_text(encoding="utf-8"))):
        console.print(piece)
    console.print(f"\n{arguments.page}", soft_wrap=True)


if __name__ == "__main__":
    run(main)
