"""File what a machine measured as a recorded study: results/<machine> becomes results/recorded/<name>."""

import argparse
from pathlib import Path

from kernelbench.promote import promote


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="results/<machine>")
    parser.add_argument("--name", help="the recorded study's name (default: the machine's)")
    arguments = parser.parse_args()
    recorded = Path("results/recorded", arguments.name or arguments.results.name)
    commit = promote(arguments.results, recorded)
    print(f"{recorded}: recorded, measured by the sources of {commit[:12]}")


if __name__ == "__main__":
    main()
