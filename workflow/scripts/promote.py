"""File what a machine measured as a recorded study: results/<machine> becomes results/recorded/<name>."""

import argparse
import re
from pathlib import Path

from kernelbench.errors import InputError, run
from kernelbench.promote import promote
from kernelbench.study import RECORDED


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="results/<machine>")
    parser.add_argument("--name", help="the recorded study's name (default: the machine's)")
    arguments = parser.parse_args()
    name = arguments.name or arguments.results.resolve().name
    if not re.fullmatch("[a-z0-9][a-z0-9-]*", name):
        raise InputError(f"--name: {name} is not allowed; allowed: lower-case letters, digits and -")
    recorded = RECORDED / name
    commit = promote(arguments.results, recorded)
    print(f"results/recorded/{name}: recorded, measured by the sources of {commit[:12]}")


if __name__ == "__main__":
    run(main)
