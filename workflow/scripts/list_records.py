"""Print the path of every job's record, in the order in which they are to be measured."""

import argparse
from pathlib import Path

from kernelbench.errors import run
from kernelbench.study import study


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, default="config.yaml", help="the study (default: config.yaml)")
    print(*study.load(parser.parse_args().config).records(), sep="\n")


if __name__ == "__main__":
    run(main)
