"""Restore the records of a recorded study below results/<machine>, where a run measures only what is added to it."""

import argparse
from pathlib import Path

from kernelbench.errors import run
from kernelbench.records.restore import restore


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recorded", type=Path, help="results/recorded/<name>")
    parser.add_argument("--results", type=Path, default="results", help="below what (default: results)")
    arguments = parser.parse_args()
    directory, count = restore(arguments.recorded, arguments.results)
    print(f"{directory}: {count:,} records of {arguments.recorded}")


if __name__ == "__main__":
    run(main)
