"""Collect the records of a study into samples.parquet, jobs.parquet and environment.json beside it."""

import argparse
import json
from pathlib import Path

from kernelbench.errors import run
from kernelbench.records.collect import collect
from kernelbench.study import study


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", type=Path, required=True, help="study.yaml")
    parser.add_argument("--results", type=Path, required=True, help="the directory of records/")
    arguments = parser.parse_args()
    samples, jobs, environment = collect(study.load(arguments.study), arguments.results)
    samples.to_parquet(arguments.results / "samples.parquet", compression="zstd", index=False)
    jobs.to_parquet(arguments.results / "jobs.parquet", compression="zstd", index=False)
    text = json.dumps(environment, indent=1) + "\n"
    (arguments.results / "environment.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run(main)
