"""Print how many repeats narrow intervals need, what they cost, and where to spend the time; measures nothing."""

import argparse
from pathlib import Path

from rich.console import Console

from kernelbench.errors import InputError, run
from kernelbench.precision import report, table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="the first of these that has tables")
    parser.add_argument("--output", type=Path, help="every cell, mode and metric as CSV")
    arguments = parser.parse_args()
    there = [directory for directory in arguments.data if (directory / "summary.json").is_file()]
    if not there:
        raise InputError(f"{arguments.data[0]}: nothing measured here, and no recorded study; run snakemake first")
    console = Console(highlight=False, markup=False)
    for piece in report(there[0]):
        console.print(piece, soft_wrap=True)
    if arguments.output:
        table(there[0]).to_csv(arguments.output, index=False, float_format="%.4g", lineterminator="\n")


if __name__ == "__main__":
    run(main)
