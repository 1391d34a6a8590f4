"""Measure one job of the study and write its record.

By hand, from the top of the checkout:
    python workflow/scripts/measure.py --op softmax --size 4096 --mode compile --output record.json
"""

import argparse
import json
import os
import time
from pathlib import Path
from statistics import median

from kernelbench import code_digest, notes
from kernelbench.errors import run
from kernelbench.harness import record
from kernelbench.harness.child import PROTOCOL, SETTINGS
from kernelbench.running import gpu_lanes, job_process, retries

# What is neither starting nor compiling: the parts of a job that the measurement itself takes.
MEASUREMENT = ("inputs", "memory", "checks", "warm_up", "timers", "trace", "profile")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--settings", type=_settings, help="all of the job as JSON (the workflow's way)")
    parser.add_argument(
        "--code",
        type=json.loads,
        help="with --settings: digests, by file, of the code that is to measure it, as JSON,",
    )
    parser.add_argument("--place", type=int, help="its place in the planned order,")
    parser.add_argument("--lane", type=int, default=0, help="its lane, from 0 (default: 0),")
    parser.add_argument("--lanes", type=int, default=1, help="the number of lanes (default: 1),")
    parser.add_argument("--timeout", type=float, default=600, help="and its time limit in s (default: 600)")
    parser.add_argument("--config", type=Path, default="config.yaml", help="else: the study that has the job,")
    parser.add_argument("--op", help="its op,")
    parser.add_argument("--dtype", help="dtype (default: the first of the op),")
    parser.add_argument("--size", help="size,")
    parser.add_argument("--mode", help="mode")
    parser.add_argument("--repeat", type=int, default=0, help="and repeat (default: 0)")
    parser.add_argument("--output", type=Path, required=True, help="where the record goes")
    arguments = parser.parse_args()
    if arguments.settings is None:
        arguments = _from_study(arguments)
    job_process.end_with_run()
    arguments.output.parent.mkdir(parents=True, exist_ok=True)  # What cannot be written is not measured.
    gpu = gpu_lanes.find_gpu(arguments.lane, arguments.settings["device"])
    code = arguments.code or code_digest.of_job(arguments.settings)
    before = time.perf_counter()
    with gpu_lanes.hold(gpu) as lock:
        waited = time.perf_counter() - before
        job_process.require_unchanged(arguments.settings, code)
        cores = gpu_lanes.share_cores(arguments.lane, arguments.lanes)
        request = {"settings": arguments.settings, "place": arguments.place, "cores": cores}
        entry, outcome = retries.measure(request, gpu, lock, arguments.timeout)
        job_process.require_unchanged(arguments.settings, code)  # The job has imported some of it meanwhile.
    name = os.environ.get(job_process.NAME) or job_process.identify(os.getpid())  # By hand a job is a run of its own.
    entry["code"] = {"scheme": code_digest.SCHEME, "protocol": PROTOCOL, "files": code}
    entry["process"] = {"start": arguments.settings["start"], "run": name, **outcome}
    again = sum(out["seconds"] for out in outcome["again"])
    entry["seconds"] |= _account(entry["seconds"], arguments.settings["run"]["runner"], waited, again)
    record.write(arguments.output, entry)
    print(_line(entry))


def _account(seconds: dict, runner: str, waited: float, again: float) -> dict:
    """Return the job's wall time, from the start of this process, as overhead + compilation + measurement, in s.

    Not in it: what it waited for the GPU, and the tries that were left out.
    """
    wall = time.clock_gettime(time.CLOCK_BOOTTIME) - _started() - waited - again
    compilation = 0 if runner == "eager" else seconds.get("first_call", 0)
    first_call = seconds.get("first_call", 0) - compilation
    measurement = first_call + sum(seconds.get(name, 0) for name in MEASUREMENT)
    return {
        "wall": wall,
        "waited": waited,
        "compilation": compilation,
        "measurement": measurement,
        "overhead": wall - compilation - measurement,
    }


def _started() -> float:
    """Return when this process started, in s since the machine did."""
    ticks = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    return int(ticks) / os.sysconf("SC_CLK_TCK")


def _line(entry: dict) -> str:
    """Return what became of the job, in one line."""
    latency = entry["samples"].get("latency", {}).get("values")
    found = f"latency {median(latency):.1f} µs" if latency else str(notes.load(entry["reason"]) or "")
    seconds = {name: round(value, 2) for name, value in entry["seconds"].items()}
    parts = "{overhead} overhead + {compilation} compilation + {measurement} measurement".format(**seconds)
    said = list(dict.fromkeys(map(str, [*notes.load(entry["suspect"]), *retries.find_doubts(entry)])))
    said += [f"ended what it left behind: {left}" for left in entry["process"]["left"]]
    return "; ".join([f"{entry['status']} {found}".strip(), f"{seconds['wall']} s = {parts}", *said])


def _settings(text: str) -> dict:
    settings = json.loads(text)  # argparse says in one line what raises a ValueError.
    missing = [key for key in SETTINGS if not isinstance(settings, dict) or key not in settings]
    if missing:
        raise argparse.ArgumentTypeError(f"{text[:40]} has no {missing[0]}; allowed: {', '.join(SETTINGS)}")
    return settings


def _from_study(arguments: argparse.Namespace) -> argparse.Namespace:
    """Return the arguments of a job of the study measured by hand: in a fresh process, on the first GPU."""
    from kernelbench.study import machine, study

    plan = study.load(arguments.config)
    machine.require(plan.machine)
    dtype = arguments.dtype or next((c.dtype for c in plan.cells() if c.op == arguments.op), None)
    job = plan.job(arguments.op, dtype, arguments.size, arguments.mode, arguments.repeat)
    # A warm parent would serve this one job only.
    settings = {**plan.settings(job), "start": "fresh"}
    found = {"settings": settings, "timeout": plan.timeout(job)}
    return argparse.Namespace(**vars(arguments) | found)


if __name__ == "__main__":
    run(main)
