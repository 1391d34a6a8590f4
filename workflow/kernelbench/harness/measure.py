"""Measure one job: from its settings to its record.

`measure` is a plain function. It wants to be the first user of torch in its process and sets what must be set
before; how the process is started is the caller's business.
"""

from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

from kernelbench.harness import accuracy, caches, compiler, modes, profiler, provenance, timers, workloads
from kernelbench.harness.record import VERSION
from kernelbench.harness.workload import Unsupported, Workload
from kernelbench.harness.workload import build as build_workload

MIB = 2**20


def measure(settings: dict, place: int | None = None) -> dict:
    """Run the job that `settings` describes and return its record; whatever the job does, there is one.

    settings: machine, device ("cuda" or "cpu"), op, dtype, size, mode, repeat, workload (name and parameters),
    run (the mode's config entry), sampling, threads, seed. `place` is the job's place in the planned order.
    """
    started = perf_counter()
    record = _blank(settings, place)
    with caches.fresh(settings["threads"]) as root:
        try:
            _run(settings, record, root)
            record["status"] = "ok" if record["accuracy"]["ok"] else "incorrect"
            record["reason"] = record["accuracy"].get("reason", "")
        except Unsupported as error:
            record["status"], record["reason"] = "unsupported", str(error)
        except Exception as error:  # Any failure is a result: it is named in the record and shown in the tables.
            record["status"], record["reason"] = _failure(error)
        if record["status"] != "ok":
            record["samples"] = {}  # No time is reported of what did not run to its end or computed something else.
        record["environment"] = {
            "gpu": provenance.gpu() if settings["device"] == "cuda" else None,
            "host": provenance.host(),
            "software": provenance.software(),
            "variables": provenance.variables(),
        }
    record["seconds"]["total"] = perf_counter() - started
    return record


def _blank(settings: dict, place: int | None) -> dict:
    names = ("machine", "op", "dtype", "size", "mode", "repeat")
    return {
        "version": VERSION,
        **{name: settings[name] for name in names},
        "status": "crashed",
        "reason": "",
        "settings": settings,
        "place": place,
        "started": datetime.now(UTC).isoformat(),
        "seconds": {},
        "samples": {},
    }


def _failure(error: Exception) -> tuple[str, str]:
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
    return ("oom" if "OutOfMemory" in type(error).__name__ else "crashed"), reason


def _run(settings: dict, record: dict, root: Path) -> None:
    """Fill `record` in the order of the protocol: first call, memory, correctness, warm-up, timers, profiler."""
    mode, device = settings["run"], settings["device"]
    if device not in mode.get("devices", [device]):
        raise Unsupported(f"needs {' or '.join(mode['devices'])}, this machine is {device}")
    on_gpu = device == "cuda"
    record["gpu_before"] = provenance.gpu_state() if on_gpu else None
    record["seconds"]["imports"] = _import(mode["runner"])
    import torch

    if on_gpu and not torch.cuda.is_available():
        raise RuntimeError("torch finds no CUDA device")
    torch.set_num_threads(settings["threads"])
    parameters = dict(settings["workload"])
    workload = build_workload(workloads.load(parameters.pop("name")), parameters)
    dtype = getattr(torch, settings["dtype"])
    inputs = _inputs(settings, record, workload, dtype)
    held = torch.cuda.memory_allocated() if on_gpu else 0

    function = modes.build(workload, mode)
    synchronize = timers.synchronizer(device)
    call = partial(function, *inputs[0].values())
    record["samples"]["first_call"] = _samples("s", [timers.wall(call, synchronize)])
    record["compile"] = compiler.observe() if mode["runner"] == "compile" else None
    if on_gpu:
        record["memory"] = _memory(call, synchronize, held)
        record["samples"]["peak_memory"] = _samples("MiB", [record["memory"]["peak"] / MIB])
    checks = [_check(workload, function, given) for given in inputs]
    if all(check["ok"] for check in checks):
        _time(call, synchronize, settings, record)
        checks += [_check(workload, function, given) for given in inputs]
    record["accuracy"] = _judge(checks)
    if mode["runner"] != "eager":
        record["generated_code"] = caches.generated_code(root)
    if mode["runner"] == "compile":
        record["compile"] = compiler.observe()
    record["gpu_after"] = provenance.gpu_state() if on_gpu else None
    if on_gpu and settings["repeat"] == 0:
        before = perf_counter()
        record["profile"] = profiler.kernels(call, synchronize)
        record["seconds"]["profile"] = perf_counter() - before


def _import(runner: str) -> dict[str, float]:
    """Import what the runner needs and return the seconds of each module, so that no import is in the first call."""
    seconds = {}
    for module in modes.IMPORTS[runner]:
        before = perf_counter()
        if find_spec(module):  # A missing package is the runner's to report.
            import_module(module)
            seconds[module] = perf_counter() - before
    return seconds


def _inputs(settings: dict, record: dict, workload: Workload, dtype) -> list[dict]:
    """Make the inputs of both seeds and record what they are; the same for all modes of a cell and repeat."""
    cell = (settings["seed"], settings["op"], settings["dtype"], settings["size"], settings["repeat"])
    seeds = [accuracy.seed_of(*cell, index) for index in range(2)]
    inputs = [accuracy.make_inputs(workload, settings["size"], dtype, settings["device"], seed) for seed in seeds]
    record["seeds"] = seeds
    record["inputs"] = {
        name: {"shape": list(t.shape), "stride": list(t.stride()), "dtype": settings["dtype"]}
        for name, t in inputs[0].items()
    }
    record["work"] = {
        "flops": workload.flops(settings["size"]),
        "bytes": workload.necessary_bytes(settings["size"], dtype.itemsize),
        "bound": workload.bound,
    }
    return inputs


def _memory(call, synchronize, held: int) -> dict[str, int]:
    """Return bytes over the inputs (`held`): the peak of one call, and what stays allocated between calls.

    A mode with CUDA graphs keeps its tensors in a memory pool of its own that the allocator's peak leaves out; the
    whole pool counts, since no one else can use it.
    """
    import torch

    for _ in range(3):  # CUDA graphs are recorded in the second or third call.
        call()
    synchronize()
    between = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    output = call()
    synchronize()
    peak = torch.cuda.max_memory_allocated()
    del output
    segments = [s for s in torch.cuda.memory_snapshot() if tuple(s["segment_pool_id"]) != (0, 0)]
    pools = sum(segment["total_size"] - segment["allocated_size"] for segment in segments)
    return {"inputs": held, "peak": peak - held + pools, "between_calls": between - held + pools, "graph_pools": pools}


def _check(workload: Workload, function, inputs: dict) -> dict:
    # A clone: a mode with CUDA graphs overwrites its output at the next call.
    return accuracy.check(workload, inputs, function(*inputs.values()).clone())


def _judge(checks: list[dict]) -> dict:
    """Return the worst of the checks (two seeds before and, if those passed, after timing) with their number."""
    worst = max(checks, key=lambda check: (not check["ok"], check.get("error") or 0))
    return {**worst, "checks": len(checks)}


def _time(call, synchronize, settings: dict, record: dict) -> None:
    """Warm up, then run each timer of the device."""
    sampling, started = settings["sampling"], perf_counter()
    record["warm_up"] = timers.warm_up(call, synchronize, sampling)
    record["seconds"]["warm_up"] = perf_counter() - started
    started = perf_counter()
    latency = timers.latency(call, synchronize, sampling)
    record["samples"]["latency"] = _samples("us", latency, timers.flags(latency))
    if settings["device"] == "cuda":
        timer = timers.DeviceTimer()
        record["floors"] = timer.floors({**sampling, "samples": sampling["min_samples"]})
        device, covered = timer.samples(call, sampling)
        record["samples"]["device"] = _samples("us", device, timers.flags(device, covered))
        record["delay"] = {"cycles": timer.cycles, "redone": timer.redone}
    record["seconds"]["timers"] = perf_counter() - started


def _samples(unit: str, values: list[float], flags: list[str] | None = None) -> dict:
    return {"unit": unit, "values": values, "flags": flags or [""] * len(values)}
