"""How planning, running and collecting grow with the number of jobs: python tests/scale.py 1000 10000 50000

Runs the workflow in a copy of the checkout with a stand-in for the measurement (tests/standin.py), so that what is
timed is the workflow, and prints a Markdown table. Ratios are per job, against the row before: 1 is linear.
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
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from checkout import ROOT, TINY, Checkout
from standin import write

from kernelbench.study import RECORDED, Study

RESULTS = "results/cpu-scale"
# A label of an op has four sizes, in five modes, ten repeats each.
JOBS_OF_AN_OP = 4 * 5 * 10
TIMERS = ("device", "latency", "event", "host", "throughput", "graph")


@dataclass
class Cost:
    """What a command took: wall time (s), and the most memory that one of its processes held (MiB)."""

    seconds: float
    memory: float


class Scale(Checkout):
    """A copy of the checkout at `path` with a study of `jobs` jobs that are not really measured."""

    def __init__(self, path: Path, jobs: int):
        super().__init__(path, config(jobs))
        self.jobs = jobs
        shutil.copyfile(ROOT / "tests" / "standin.py", path / "workflow" / "scripts" / "measure.py")
        (path / "record.template").write_text(template(), encoding="utf-8")

    def plan(self, *arguments: str) -> Cost:
        """Return what a dry run costs."""
        return _cost(self.start("--dry-run", "--quiet", "all", *arguments))

    def measure(self, *arguments: str) -> Cost:
        """Run all jobs, plan included, and return what it costs."""
        return _cost(self.start("--until", "measure", "--quiet", "all", *arguments))

    def measure_for(self, seconds: float, *arguments: str) -> float:
        """Run jobs for so long and return the seconds of one, without the plan."""
        process = self.start("--until", "measure", "--quiet", "all", *arguments)
        while process.poll() is None and not self.records():
            time.sleep(1)
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGINT)
        process.communicate()
        times = sorted(self.records().values())
        return (times[-1] - times[0]) / (len(times) - 1)

    def write_records(self) -> None:
        """Write the record of every job without Snakemake."""
        study = Study(config(self.jobs))
        text = template()
        for place, job in enumerate(study.jobs):
            path = self.path / RESULTS / job.path
            path.parent.mkdir(parents=True, exist_ok=True)
            write(text, study.settings_json(job), str(path), place)

    def collect(self) -> Cost:
        """Collect the records that are there, as the workflow's job does, and return what it costs."""
        self.run(f"{RESULTS}/study.yaml", "--quiet", "all")
        command = f"workflow/scripts/collect.py --study {RESULTS}/study.yaml --results {RESULTS}".split()
        library = os.pathsep.join([str(self.path / "workflow"), str(self.path)])
        environment = {**os.environ, "PYTHONPATH": library}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return _cost(subprocess.Popen([sys.executable, *command], cwd=self.path, env=environment, **pipes))


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
    """Return the record of a job of the recorded study, 32 KB with a hundred samples of every timer."""
    jobs = pd.read_parquet(RECORDED / "h200" / "jobs.parquet")
    job = jobs[(jobs.op == "softmax") & (jobs["mode"] == "compile")].iloc[0]
    own = ("op", "dtype", "size", "mode", "repeat", "settings", "place", "started", "ran", "settled", "seconds.imports")
    entry = {"own": 0}
    for name, value in json.loads(job.to_json()).items():
        if value is None or name.startswith(own):
            continue
        *parents, last = name.split(".")
        part = entry
        for parent in parents:
            part = part.setdefault(parent, {})
        part[last] = json.loads(value) if str(value).startswith(("{", "[")) else value
    entry |= {"machine": "cpu-scale", "warm_up": {"values": _values(900), "settled": True}}
    counts = {**dict.fromkeys(TIMERS, 100), "first_call": 1, "peak_memory": 1}
    entry["samples"] = {
        timer: {"unit": "us", "values": _values(count), "flags": ["outlier" if i == 7 else "" for i in range(count)]}
        for timer, count in counts.items()
    }
    return re.sub('"(@[^"]*)"', r"\1", json.dumps(entry))


def _values(count: int) -> list[str]:
    return [f"@{fraction:.13f}".replace("@0", "@") for fraction in np.random.default_rng(count).random(count)]


def _cost(process: subprocess.Popen) -> Cost:
    """Wait for `process`, which has just started, and return what it costs; fail where it fails."""
    start = time.monotonic()
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, output
    return Cost(time.monotonic() - start, usage.ru_maxrss / 1024)
