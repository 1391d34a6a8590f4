"""Say what this host is good for now, in about a minute, and write it as JSON; measures no job."""

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path

from kernelbench.errors import run
from kernelbench.harness import record
from kernelbench.planning.host_probe import probe
from kernelbench.planning.host_verdict import format_host, judge
from kernelbench.running import gpu_lanes, job_process
from kernelbench.study import machine
from kernelbench.study.study import Study


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", type=json.loads, required=True, help="the resolved config as JSON")
    parser.add_argument("--output", type=Path, required=True, help="where the JSON goes")
    arguments = parser.parse_args()
    study = Study(arguments.study)
    machine.require(study.machine)
    gpu, began = gpu_lanes.find_gpu(0, study.device), time.perf_counter()
    job_process.enter_environment({**study.config, "repeat": 0}, gpu)
    with gpu_lanes.hold(gpu):
        found = probe(study.device, study.config["sampling"])
    found = {"machine": study.machine, "device": study.device, "asked": datetime.now(UTC).isoformat(), **found}
    found |= {"verdict": judge(found, study.device), "seconds": time.perf_counter() - began}
    record.write(arguments.output, found)
    print(*format_host(found), sep="\n")


if __name__ == "__main__":
    run(main)
