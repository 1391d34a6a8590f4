"""Measure one job of the study and write its record.

By hand, from the top of the checkout:
    python workflow/scripts/measure.py --op softmax --size 4096 --mode compile --output record.json
"""

import argparse
import json
from pathlib import Path
from statistics import median

from kernelbench import machine, study
from kernelbench.errors import run
from kernelbench.harness import record
from kernelbench.harness.measure import measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--settings", type=_settings, help="all of the job as JSON (the workflow's way)")
    parser.add_argument("--config", type=Path, default="config.yaml", help="else: the study that has the job,")
    parser.add_argument("--op", help="its op,")
    parser.add_argument("--dtype", help="dtype (default: the first of the op),")
    parser.add_argument("--size", help="size,")
    parser.add_argument("--mode", help="mode")
    parser.add_argument("--repeat", type=int, default=0, help="and repeat (default: 0)")
    parser.add_argument("--place", type=int, help="the job's place in the planned order")
    parser.add_argument("--output", type=Path, required=True, help="where the record goes")
    arguments = parser.parse_args()
    settings = _from_study(arguments) if arguments.settings is None else arguments.settings
    machine.require(settings["machine"])
    arguments.output.parent.mkdir(parents=True, exist_ok=True)  # What cannot be written is not measured.
    result = measure(settings, arguments.place)
    record.write(arguments.output, result)
    latency = result["samples"].get("latency", {}).get("values", [])
    print(f"{result['status']} {result['reason']}".strip(), f"latency {median(latency):.1f} µs" if latency else "")


def _settings(text: str) -> dict:
    settings = json.loads(text)  # argparse says in one line what raises a ValueError.
    missing = [key for key in study.SETTINGS if not isinstance(settings, dict) or key not in settings]
    if missing:
        raise argparse.ArgumentTypeError(f"{text[:40]} has no {missing[0]}; allowed: {', '.join(study.SETTINGS)}")
    return settings


def _from_study(arguments: argparse.Namespace) -> dict:
    plan = study.load(arguments.config)
    dtype = arguments.dtype or next((c.dtype for c in plan.cells() if c.op == arguments.op), None)
    return plan.settings(plan.job(arguments.op, dtype, arguments.size, arguments.mode, arguments.repeat))


if __name__ == "__main__":
    run(main)
