"""Summarize the samples of a directory into summary.csv, speedups.csv and summary.json."""

import argparse
import json
from pathlib import Path

from kernelbench.analysis.summary import summarize, write_csv
from kernelbench.errors import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="samples, jobs, study and environment")
    parser.add_argument("--output", type=Path, required=True, help="the directory of the tables")
    arguments = parser.parse_args()
    summary, speedups, document = summarize(arguments.data)
    write_csv(summary, arguments.output / "summary.csv")
    write_csv(speedups, arguments.output / "speedups.csv")
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    (arguments.output / "summary.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run(main)
