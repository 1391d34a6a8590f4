"""File what a machine measured as a recorded study: results/<machine> becomes results/recorded/<machine>."""

import argparse
from pathlib import Path

from kernelbench.errors import run
from kernelbench.records.promote import promote
from kernelbench.study.config import RECORDED


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="results/<machine>")
    arguments = parser.parse_args()
    name = arguments.results.resolve().name
    recorded = RECORDED / name
    commit = promote(arguments.results, recorded)
    print(f"results/recorded/{name}: recorded, measured by the code of {commit[:12]}")


if __name__ == "__main__":
    run(main)
