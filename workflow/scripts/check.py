"""List what is wrong with the data of studies; fail if anything is."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from kernelbench.errors import InputError, run
from kernelbench.records.quality_gate import DEFAULT, Gate, is_recorded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="directories with the tables of a study")
    parser.add_argument("--configfile", nargs="+", default=[DEFAULT], help="those of this machine's own study")
    parser.add_argument("--config", nargs="*", default=[], metavar="KEY=VALUE", help="what the run's command line gave")
    parser.add_argument("--draft", action="store_true", help="defects are no failure: the paper will be a draft")
    parser.add_argument("--output", type=Path, help="the defects as JSON")
    arguments = parser.parse_args()
    found = []
    for directory in arguments.data:
        if not all((directory / table).is_file() for table in ("jobs.parquet", "speedups.csv")):
            if is_recorded(directory):
                raise InputError(f"{directory}: its tables are not there; allowed: a study that promote.py has filed")
            print(f"{directory}: nothing measured here, or not to the end")
            continue
        defects = Gate(directory, arguments.configfile, arguments.config).find_defects()
        print(f"{directory}: {len(defects) or 'no'} defect{'s' if len(defects) != 1 else ''}")
        found += [(directory, defect) for defect in defects]
    for directory, defect in found:
        print(f"{directory}: {defect}")
    if found and not arguments.draft:
        raise InputError("the gate refuses this data; repair it, or build a draft with --config draft=True")
    if arguments.output:
        told = [{"study": str(directory), **asdict(defect)} for directory, defect in found]
        arguments.output.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main)
