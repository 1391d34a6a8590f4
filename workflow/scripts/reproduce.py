"""Measure every recorded study again on the device at hand, each into results of its own with a report."""

import argparse
import json
from pathlib import Path

from kernelbench.claims.remeasure import list_topics_once, read_study
from kernelbench.errors import InputError, run
from kernelbench.numbers import duration
from kernelbench.running import job_process, nested_run
from kernelbench.study import machine
from kernelbench.study.config import RECORDED
from kernelbench.study.study import Study


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recorded", nargs="*", default=[], help="the recorded studies")
    parser.add_argument("--gpus", type=int, required=True, help="GPUs that measure at once")
    arguments = parser.parse_args()
    job_process.end_with_run()
    on_cpu = machine.present()[1] == "cpu"
    wanted = list_topics_once(arguments.recorded, on_cpu)
    if not wanted:
        kind = "a CPU" if on_cpu else "a GPU"
        raise InputError(
            f"config: recorded: {arguments.recorded} has no study of {kind}; allowed: one that {kind} measured"
        )
    jobs, seconds = zip(*map(recorded_cost, wanted), strict=True)
    print(f"{len(wanted)} studies, {sum(jobs):,} jobs, {duration(sum(seconds) / arguments.gpus)} by the recorded times")
    for name, count, cost in zip(wanted, jobs, seconds, strict=True):
        print(f"{name}: {count:,} jobs, {duration(cost / arguments.gpus)}", flush=True)
        study = read_study(name)
        # A study from before there was a choice started a new process for each job; a note is of the recording.
        config = {"start": "fresh", **study, "machine": "auto", "recorded": arguments.recorded}
        for key in ("note", "looks"):
            config.pop(key, None)
        results = Path(Study(config).results)
        nested_run.make(config, results, "report.pdf", arguments.gpus, "reproduce")
        print(f"{name}: {results / 'report.pdf'}", flush=True)


def recorded_cost(name: str) -> tuple[int, float]:
    """Return how many jobs a recorded study has and how many seconds of a device they took."""
    environment = json.loads((RECORDED / name / "environment.json").read_text(encoding="utf-8"))
    return environment["jobs"], environment["job_seconds"]


if __name__ == "__main__":
    run(main)
