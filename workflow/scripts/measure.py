"""Measure one job of the study and write its record.

By hand, from the top of the checkout:
    python workflow/scripts/measure.py --op softmax --size 4096 --mode compile --output record.json
"""

import argparse
import json
from pathlib import Path

from kernelbench import machine, study
from kernelbench.harness import record
from kernelbench.harness.measure import measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--settings", type=json.loads, help="all of the job as JSON (the workflow's way)")
    parser.add_argument("--config", type=Path, default="config.yaml", help="else: the study that has the job,")
    parser.add_argument("--op", help="its op,")
    parser.add_argument("--dtype", help="dtype (default: the first of the op),")
    parser.add_argument("--size", help="size,")
    parser.add_argument("--mode", help="mode")
    parser.add_argument("--repeat", type=int, default=0, help="and repeat (default: 0)")
    parser.add_argument("--place", type=int, help="the job's place in the planned order")
    parser.add_argument("--output", type=Path, required=True, help="where the record goes")
    arguments = parser.parse_args()
    settings = arguments.settings or _from_study(arguments)
    machine.require(settings["machine"])
    result = measure(settings, arguments.place)
    record.write(arguments.output, result)
    print(f"{result['status']} {result['reason']}".strip())


def _from_study(arguments: argparse.Namespace) -> dict:
    plan = study.load(arguments.config)
    dtype = arguments.dtype or next((c.dtype for c in plan.cells() if c.op == arguments.op), None)
    return plan.settings(plan.job(arguments.op, dtype, arguments.size, arguments.mode, arguments.repeat))


if __name__ == "__main__":
    main()
