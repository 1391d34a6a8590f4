"""Write the study as it is run to study.yaml."""

import argparse
import json
from pathlib import Path

import yaml

from kernelbench.errors import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", type=json.loads, required=True, help="the resolved config as JSON")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    text = yaml.safe_dump(arguments.study, sort_keys=False, allow_unicode=True)
    arguments.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run(main)
