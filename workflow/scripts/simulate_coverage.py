"""Simulate how often the intervals of speedups hold the truth, on the hosts of a study and on others."""

import argparse
import json
from pathlib import Path

import yaml

from kernelbench.analysis import coverage, host_coverage
from kernelbench.errors import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", type=Path, required=True, help="study.yaml, whose order the drift follows")
    parser.add_argument("--output", type=Path, required=True, help="the coverage as JSON")
    arguments = parser.parse_args()
    found = coverage.tabulate(yaml.safe_load(arguments.study.read_text(encoding="utf-8"))) | {
        "hosts": host_coverage.tabulate()
    }
    arguments.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main)
