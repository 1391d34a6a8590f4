"""Probe the host for less than a minute: its cores, its GPU, its memory and the time of a launch.

The loop that tells a job of a slow core measures the cores. Launches are timed as a job times its calls, and the GPU is
watched as it is beside a job. So the probe finds what a job would meet.
"""

import multiprocessing
import os
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from functools import partial
from statistics import median, quantiles
from time import perf_counter

import psutil

from kernelbench import notes
from kernelbench.errors import InputError
from kernelbench.harness import provenance, timers
from kernelbench.harness.core import SLOW, Core
from kernelbench.harness.dtypes import DTYPES
from kernelbench.harness.workload import Workload
from kernelbench.harness.workloads.copy import Copy
from kernelbench.harness.workloads.matmul import Matmul

# How long each part takes, in s. With imports, which take up to 17 s on a slow host, all of it stays below a minute.
CORES_SECONDS, LAUNCH_SECONDS, LOAD_SECONDS = 2, 8, 4
# A core gets at least so many of them: shorter than a time slice of the scheduler would not show who else is there.
CORE_SECONDS = 0.05
# The tensor of a launch is so small that the call is all host.
ELEMENTS = 1024
# The copy as in the study of each device, and a matrix product that keeps all of a GPU busy, which heats it.
COPIED = {"cuda": "1GiB", "cpu": "128MiB"}
COPIES = 10
MULTIPLIED, DTYPE = "4096", "float16"


def probe(device: str, sampling: dict) -> dict:
    """Return what this host does now; `sampling` is the study's, by which the warm-up and the launches are timed.

    {host: provenance.host(), cores: find_cores(), gpu, processes: ids of those on the GPU, suspect: what about the GPU
    would put a job in doubt, launch: find_launches(), copy: {gbps}, load: the GPU at work}. A value is None
    if the host has no such thing, or if it was not measured because others use the GPU.
    """
    found = {"host": provenance.host(), "cores": find_cores()}  # Before torch: what it starts would be in the forks.
    found |= dict.fromkeys(("gpu", "processes", "launch", "copy", "load")) | {"suspect": []}
    if device == "cpu":
        return found | _time(device, sampling)
    before = provenance.gpu_state()
    found |= {"gpu": _ask_gpu(), "processes": list_processes(), "suspect": provenance.suspect(before, before)}
    if not found["processes"]:  # Else it would disturb them, and find nothing that holds for an idle GPU.
        found |= _time(device, sampling) | {"load": find_load()}
        found["suspect"] = provenance.suspect(before, provenance.gpu_state())
    return found | {"suspect": notes.dump(found["suspect"])}


def _time(device: str, sampling: dict) -> dict:
    import torch

    torch.set_grad_enabled(False)
    with _enough_memory():
        return {"launch": find_launches(device, sampling), "copy": {"gbps": find_copy_rate(device)}}


@contextmanager
def _enough_memory():
    import torch

    try:
        yield
    except (torch.OutOfMemoryError, MemoryError):
        raise InputError(
            "preflight: no memory is left for a copy and a matrix product; free some and ask again"
        ) from None


# Cores


def find_cores() -> dict:
    """Return what the cores of this process do: of each while no other is asked (alone), and of all at once (together).

    stolen: the share of the time that the host of this virtual machine took meanwhile, None where it does not say. See
    `summarize_cores` for the rest.
    """
    cores = sorted(os.sched_getaffinity(0))
    try:
        alone = [_work(core, max(CORE_SECONDS, CORES_SECONDS / len(cores))) for core in cores]
    finally:
        os.sched_setaffinity(0, cores)
    before = psutil.cpu_times()
    with multiprocessing.get_context("fork").Pool(len(cores)) as pool:
        together = pool.starmap(_work, [(core, CORES_SECONDS) for core in cores], chunksize=1)
    after = psutil.cpu_times()
    passed = sum(after) - sum(before)
    return summarize_cores(alone, together) | {"stolen": (after.steal - before.steal) / passed if passed else None}


def summarize_cores(alone: list[tuple[float, float]], together: list[tuple[float, float]]) -> dict:
    """Return {count: of cores, alone, together, free, worth} of what `_work` returned for each core.

    alone, together: the work of each core as a share of that of one at full speed, the fastest moment that any had;
    free: how many do alone what a job takes for full speed; worth: how many at full speed all at once are worth. That
    is less where two of them share a physical core, or where the host does not give this machine what it shows.
    """
    full = min(fastest for _, fastest in (*alone, *together))
    shares = {name: [rate * full for rate, _ in work] for name, work in (("alone", alone), ("together", together))}
    free = sum(share >= 1 / SLOW for share in shares["alone"])
    return {"count": len(alone), "free": free, "worth": sum(shares["together"]), **shares}


def _work(core: int, seconds: float) -> tuple[float, float]:
    """Keep this process on a core for so long; return (harness's loops per µs, µs of the fastest one)."""
    os.sched_setaffinity(0, {core})
    loop, asked, began = Core(), 0, perf_counter()
    while (spent := perf_counter() - began) < seconds or not asked:
        loop.at_full_speed()  # Runs the loop twice.
        asked += 1
    return 2 * asked / spent / 1e6, loop.full


# Launches


def find_launches(device: str, sampling: dict) -> dict:
    """Return what one small call takes that is waited for, timed for some seconds as a job times its calls.

    median, p95, worst: µs; samples: their number; turns: how many were kept, and `again` how often one was taken once
    more because the core was slow; slow: samples that were kept from a slow core; settled: whether the warm-up settled.
    Of a CPU, on which jobs take no turn again, `again` and `slow` are 0.
    """
    call, synchronize, turns = _make_launch(device), timers.synchronizer(device), []
    keep = Core if device == "cuda" else nullcontext  # As in a job.
    values, flags, again, began = [], [], 0, perf_counter()
    with keep() as core:
        settled = timers.warm_up(call, synchronize, sampling, core)["settled"]
    while not values or perf_counter() - began < LAUNCH_SECONDS:
        with keep() as core:
            timer = timers.latency(call, synchronize, apart=device == "cuda")
            settle = lambda: (turns.append(1), call(), synchronize())  # noqa: E731
            taken, flagged = timers.in_turns([timer], settle, sampling, core)["latency"]
        values += taken
        flags += flagged
        again += core.again if core else 0
    spread = {"median": median(values), "p95": quantiles(values, n=20)[-1], "worst": max(values)}
    counts = {"samples": len(values), "turns": len(turns) - again, "again": again, "slow": flags.count("slow host")}
    return {**spread, **counts, "settled": settled}


def _make_launch(device: str) -> Callable:
    import torch

    return partial(torch.add, torch.ones(ELEMENTS, device=device), 1)


# The GPU, and memory


def find_copy_rate(device: str) -> float:
    """Return GB/s, read and written, of a copy: by the time on the GPU or, of a CPU, by its latency."""
    call, size = _make_call(Copy(), COPIED[device], device), COPIED[device]
    if device == "cuda":
        sample, timer = timers.DeviceTimer().device(call, "read"), "device"
    else:
        sample, timer = timers.latency(call, timers.synchronizer(device), apart=False), "latency"
    sample()  # The first one allocates.
    took = median(sample()[0][timer] for _ in range(COPIES))
    return Copy().work(size, DTYPES[DTYPE].itemsize)["bytes"] / took / 1e3


def find_load() -> dict:
    """Return SM clock (MHz, the lowest), power (W) and temperature (°C, the highest) of the GPU while it multiplies."""
    with _enough_memory():
        call, synchronize = _make_call(Matmul(), MULTIPLIED, "cuda"), timers.synchronizer("cuda")
        call()  # The first one loads the library.
        calls = timers.batch(timers.wall(call, synchronize) * 1e6, timers.TRACE_BATCH)
        points = timers.trace(call, synchronize, calls, LOAD_SECONDS, provenance.gpu_load)
    known = {name: [point[name] for point in points if point.get(name) is not None] for name in points[0]}
    chosen = {"sm_clock": min, "power": max, "temperature": max}
    return {name: choose(known[name]) if known.get(name) else None for name, choose in chosen.items()}


def _make_call(workload: Workload, size: str, device: str) -> Callable:
    inputs = workload.draw(size, DTYPES[DTYPE], device, seed=0)
    return partial(workload.call, **inputs)


def _ask_gpu() -> dict:
    """Return what the GPU is, as in a record, its state, and its power limit (W)."""
    limit = _ask("DeviceGetEnforcedPowerLimit")
    return {**provenance.gpu(), "state": provenance.gpu_state(), "power_limit": limit and limit / 1000}


def list_processes() -> list[int]:
    """Return the ids of the processes that compute on the GPU; of a container's neighbours they are the host's."""
    return sorted(process.pid for process in _ask("DeviceGetComputeRunningProcesses") or ())


def _ask(question: str):
    library = provenance.nvml()
    return None if library is None else provenance.ask(library, question, provenance.visible_gpu(library))
