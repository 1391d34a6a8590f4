"""Print how many jobs a study has left, how long they will take and how much disk; measures nothing."""

import argparse
import json
from pathlib import Path

from rich.console import Console

from kernelbench.errors import run
from kernelbench.planning.estimate import format_plan
from kernelbench.study.config import RECORDED
from kernelbench.study.study import Study


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", type=json.loads, required=True, help="the resolved config as JSON")
    parser.add_argument("--gpus", type=int, default=1, help="GPUs that measure at once")
    arguments = parser.parse_args()
    study = Study(arguments.study)
    console = Console(highlight=False, markup=False)
    for piece in format_plan(study, Path(study.results), RECORDED, arguments.gpus):
        console.print(piece, soft_wrap=True)


if __name__ == "__main__":
    run(main)
