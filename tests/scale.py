"""How planning, running and collecting grow with the number of jobs: python tests/scale.py 1000 10000 50000

Runs the workflow in a copy of the checkout with a stand-in for the measurement (tests/standin.py), so that what is
timed is the workflow, and prints a Markdown table. Seconds are those of the CPU, which other load does not move.
In brackets: growth per job against the row before, 1 where the growth is linear.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import psutil
from checkout import ROOT, TINY, Checkout
from standin import write

from kernelbench import code_digest
from kernelbench.harness import record
from kernelbench.records.collect import KEY
from kernelbench.study.config import RECORDED
from kernelbench.study.study import Study

RESULTS = "results/cpu-scale"
# A label of an op has four sizes, in five modes, ten repeats each.
JOBS_OF_AN_OP = 4 * 5 * 10
TIMERS = ("device", "latency", "event", "host", "throughput", "graph")
SLICE = 1000


class Cost(NamedTuple):
    """What a command took: CPU time of its processes (s), and the most memory that one of them held (MiB)."""

    seconds: float
    memory: float


class Scale(Checkout):
    """A copy of the checkout at `path` with a study of `jobs` jobs, a multiple of 200, that are not really measured."""

    def __init__(self, path: Path, jobs: int):
        super().__init__(path, config(jobs))
        self.study = Study(config(jobs))
        shutil.copyfile(ROOT / "tests" / "standin.py", path / "workflow" / "scripts" / "measure.py")
        (path / "record.template").write_text(template(), encoding="utf-8")

    def plan(self) -> Cost:
        """Return what a dry run of the whole study costs."""
        return cost(self.start("--dry-run", "--quiet", "rules"))

    def measure(self, *records: str) -> Cost:
        """Return what it costs to plan and run the jobs of `records`, by default all of the study."""
        return cost(self.start(*records, "--until", "measure", "--quiet", "all"))

    def measure_for(self, seconds: float) -> float:
        """Run the study for some `seconds` from its first record on; return the CPU seconds of a job."""
        process = self.start("--until", "measure", "--quiet", "all")
        before, spent = self._wait_for_records(process, 1)
        time.sleep(seconds)
        after, spent_then = self._wait_for_records(process, before + 5)
        os.killpg(process.pid, signal.SIGINT)
        process.communicate()
        return (spent_then - spent) / (after - before)

    def _wait_for_records(self, process: subprocess.Popen, count: int) -> tuple[int, float]:
        """Wait until `count` records are there; return their number and the CPU seconds of `process` until now."""
        while len(self.records()) < count:
            assert process.poll() is None, process.stdout.read()
            time.sleep(0.2)
        return len(self.records()), sum(psutil.Process(process.pid).cpu_times()[:4])

    def write_records(self) -> None:
        """Write the record of every job, without Snakemake."""
        text = template()
        for place, job in enumerate(self.study.jobs):
            path = self.path / RESULTS / job.path
            path.parent.mkdir(parents=True, exist_ok=True)
            code = json.dumps(code_digest.of_job(self.study.settings(job)))
            write(text, self.study.settings_json(job), code, str(path), place)

    def collect(self) -> Cost:
        """Return what it costs to collect the records that are there, as the workflow's job does."""
        self.run(f"{RESULTS}/study.yaml", "--quiet", "all")
        command = f"workflow/scripts/collect.py --study {RESULTS}/study.yaml --results {RESULTS}".split()
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return cost(subprocess.Popen([sys.executable, *command], cwd=self.path, env=self.variables, **pipes))


def cost(process: subprocess.Popen) -> Cost:
    """Wait for `process` and return what it cost, its children included; fail where it failed."""
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, output
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def config(jobs: int) -> dict:
    """Return a study of `jobs` jobs on a CPU."""
    labels = [f"softmax_{number}" for number in range(jobs // JOBS_OF_AN_OP)]
    entry = {"workload": "softmax", "rows": 64, "sizes": [128, 256, 512, 1024]}
    modes = ("eager", "eager-control", "other", "another", "third")
    return {
        **TINY,
        "machine": "cpu-scale",
        "repeats": 10,
        "ops": {label: entry for label in labels},
        "modes": {mode: {"runner": "eager"} for mode in modes},
    }


def template() -> str:
    """Return the record of a job of the recorded study, with a hundred samples of every timer: 32 KB."""
    jobs = pd.read_parquet(RECORDED / "h200" / "jobs.parquet")
    job = jobs[(jobs.op == "softmax") & (jobs["mode"] == "compile")].iloc[0]
    own = (*KEY, "settings", "place", "started", "ran", "settled", "seconds.imports")
    entry = {"own": 0}
    for name, value in json.loads(job.to_json()).items():
        if value is None or name.startswith(own):
            continue
        *parents, last = name.split(".")
        part = entry
        for parent in parents:
            part = part.setdefault(parent, {})
        part[last] = json.loads(value) if str(value).startswith(("{", "[")) else value
    del entry["environment"]["software"]["sources"]  # Of an older scheme; these are measured by this checkout.
    entry |= {"version": record.VERSION, "reason": None, "suspect": [], "seconds": {"wall": 1.0}}
    entry |= {"graph": {"calls": 20, "reason": None}, "warm_up": {"values": _values(900), "settled": True}}
    counts = {**dict.fromkeys(TIMERS, 100), "first_call": 1, "peak_memory": 1}
    entry["samples"] = {
        timer: {"unit": "us", "values": _values(count), "flags": ["outlier" if i == 7 else "" for i in range(count)]}
        for timer, count in counts.items()
    }
    return re.sub('"(@[^"]*)"', r"\1", json.dumps(entry))


def _values(count: int) -> list[str]:
    fractions = np.random.default_rng(count).random(count)
    return [f"@{fraction:.13f}".replace("@0", "@") for fraction in fractions]


def measured(jobs: int) -> dict[str, Cost]:
    """Return what a study of `jobs` jobs costs: {stage: Cost}, of running that of one job."""
    with tempfile.TemporaryDirectory() as directory:
        scale = Scale(Path(directory), jobs)
        costs = {"plan": scale.plan()}
        # A slice in the middle of the study, planned and run by itself.
        start = max(0, (jobs - SLICE) // 2)
        middle = scale.study.records()[start : start + SLICE]
        seconds, memory = scale.measure(*middle)
        costs["a job, in slices of 1,000"] = Cost(seconds / len(middle), memory)
        shutil.rmtree(scale.path / RESULTS)
        costs["a job, all at once"] = Cost(scale.measure_for(20), float("nan"))
        scale.write_records()
        costs["collect"] = scale.collect()
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("jobs", type=int, nargs="+", help=f"numbers of jobs, multiples of {JOBS_OF_AN_OP}")
    rows = {}
    for jobs in parser.parse_args().jobs:
        if jobs <= 0 or jobs % JOBS_OF_AN_OP:
            parser.error(f"jobs: {jobs} is not allowed; allowed: multiples of {JOBS_OF_AN_OP}")
        rows[jobs] = measured(jobs)
        print(jobs, rows[jobs], file=sys.stderr)
    stages = list(next(iter(rows.values())))
    print("| jobs |", " | ".join(stages), "|")
    print("| ---: |", " | ".join("---:" for _ in stages), "|")
    before = None
    for jobs, costs in rows.items():
        cells = [_cell(stage, costs[stage], jobs, before) for stage in stages]
        print(f"| {jobs:,} |", " | ".join(cells), "|")
        before = jobs, costs


def _cell(stage: str, own: Cost, jobs: int, before: tuple[int, dict] | None) -> str:
    of_a_job = stage.startswith("a job")
    time_text = f"{own.seconds * 1e3:.0f} ms" if of_a_job else f"{own.seconds:.1f} s"
    memory = "" if np.isnan(own.memory) else f", {own.memory:.0f} MiB"
    if before is None:
        return time_text + memory
    growth = own.seconds / before[1][stage].seconds / (1 if of_a_job else jobs / before[0])
    return f"{time_text} ({growth:.2f}){memory}"


if __name__ == "__main__":
    main()
