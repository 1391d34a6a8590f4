"""Print how many repeats narrow intervals need, what they cost, and where to spend the time; measures nothing."""

import argparse
import json
from pathlib import Path

from rich.console import Console

from kernelbench.analysis.summary import summarize
from kernelbench.errors import InputError, run
from kernelbench.planning.precision import report, tabulate
from kernelbench.records.job_table import read as read_jobs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, nargs="+", required=True, help="the first of these that was measured is reported"
    )
    parser.add_argument("--output", type=Path, help="every cell, mode and metric as CSV")
    arguments = parser.parse_args()
    there = [directory for directory in arguments.data if (directory / "jobs.parquet").is_file()]
    if not there:
        raise InputError(f"{arguments.data[0]}: nothing measured here, and no recorded study; run snakemake first")
    written = there[0] / "summary.json"
    # A recorded study has none. Where one is measured, its study.yaml may already be that of the next run.
    document = json.loads(written.read_text(encoding="utf-8")) if written.is_file() else summarize(there[0])[2]
    found = tabulate(document, read_jobs(there[0] / "jobs.parquet"))
    console = Console(highlight=False, markup=False)
    for piece in report(document["study"], found):
        console.print(piece, soft_wrap=True)
    if arguments.output:
        found.to_csv(arguments.output, index=False, float_format="%.4g", lineterminator="\n")


if __name__ == "__main__":
    run(main)
