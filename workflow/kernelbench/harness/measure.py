"""Measure one job: from its settings to its record.

`measure` is a plain function. It wants to be the first user of torch's devices in its process; how the process is
started, and what is set before torch is imported, is the caller's business.
"""

import gc
import random
import re
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter

from kernelbench.harness import accuracy, caches, compiler, modes, profiler, provenance, timers, workloads
from kernelbench.harness.core import Core
from kernelbench.harness.record import VERSION
from kernelbench.harness.workload import Unsupported, Workload
from kernelbench.harness.workload import build as build_workload

MIB = 2**20
# What a measurement depends on.
SETTINGS = (
    *("machine", "device", "op", "dtype", "size", "mode", "repeat"),
    *("workload", "run", "sampling", "threads", "start", "seed"),
)


def measure(settings: dict, place: int | None = None, publish: Callable[[dict], None] = lambda record: None) -> dict:
    """Run the job that `settings` describes and return its record; whatever the job does, there is one.

    settings: SETTINGS; device is "cuda" or "cpu", workload its name and parameters, run the mode's config entry, start
    how the process was started ("warm" or "fresh"). `place` is the job's place in the planned order. `publish` is given
    the record as far as it got before each phase, so that a process that dies leaves it behind.
    """
    job = _Job(settings, place, publish)
    with caches.fresh() as root:
        try:
            job.run(root)
            job.end("ok" if job.record["accuracy"]["ok"] else "incorrect", job.record["accuracy"].get("reason", ""))
        except Unsupported as error:
            job.end("unsupported", str(error))
        except Exception as error:  # Any failure is a result: it is named in the record and shown in the tables.
            job.end(*_failure(error))
    return job.record


def unfinished(record: dict, status: str, reason: str) -> dict:
    """Return `record` as that of a job that did not run to its end: no time of it is reported."""
    phase = record.get("phase")
    kept = {key: value for key, value in record.items() if key != "phase"}
    return {**kept, "status": status, "reason": f"{reason} during {phase}" if phase else reason, "samples": {}}


def _failure(error: Exception) -> tuple[str, str]:
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    # Besides torch's own exception: the driver's and the host's, and those that a compilation wraps.
    ran_out = isinstance(error, MemoryError) or re.search(r"OutOfMemory|out of memory|can't allocate memory", reason)
    return ("oom" if ran_out else "crashed"), reason[:300]


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
        "suspect": [],
        "environment": {
            "gpu": provenance.gpu() if settings["device"] == "cuda" else None,
            "host": provenance.host(),
            "software": provenance.software(),
            "variables": provenance.variables(),
        },
    }


class _Job:
    """One measurement: its settings, its record, and what is built on the way."""

    def __init__(self, settings: dict, place: int | None, publish: Callable[[dict], None]):
        self.began = perf_counter()
        self.settings, self.publish = settings, publish
        self.on_gpu = settings["device"] == "cuda"
        self.record = _blank(settings, place)

    @contextmanager
    def phase(self, name: str):
        """Time a phase of the job; a second one of the same name is added to the first."""
        self.record["phase"] = name
        self.publish(self.record)
        before = perf_counter()
        yield
        self.record["seconds"][name] = self.record["seconds"].get(name, 0) + perf_counter() - before

    def end(self, status: str, reason: str) -> None:
        self.record["seconds"]["total"] = perf_counter() - self.began
        if status == "ok":
            del self.record["phase"]
            self.record["status"] = status
        else:
            # The exception names what failed; a phase is said of those that died without a word.
            self.record.pop("phase", None)
            self.record = unfinished(self.record, status, reason)

    def run(self, root: Path) -> None:
        """Fill the record in the order of the protocol: first call, memory, correctness, warm-up, timers, profiler."""
        mode, record, sampling = self.settings["run"], self.record, self.settings["sampling"]
        if self.settings["device"] not in mode.get("devices", [self.settings["device"]]):
            needed = " or ".join(mode["devices"])
            raise Unsupported(f"needs {needed}, this machine is {self.settings['device']}")
        if self.on_gpu:
            record["gpu_before"] = provenance.gpu_state()
        self.prepare()
        with self.phase("inputs"):
            workload, inputs = self.inputs()
            held = self.torch.cuda.memory_allocated() if self.on_gpu else 0
            if mode.get("static_inputs"):
                modes.mark_static(inputs)
        synchronize = timers.synchronizer(self.settings["device"])
        with self.phase("first_call"):
            function = modes.build(workload, mode)
            call = partial(function, *inputs[0].values())
            record["samples"]["first_call"] = _samples("s", [timers.wall(call, synchronize)])
        if mode.get("skip_guards"):
            modes.skip_guards()
        if self.on_gpu:
            with self.phase("memory"):
                record["memory"] = _memory(call, synchronize, held)
                record["samples"]["peak_memory"] = _samples("MiB", [record["memory"]["peak"] / MIB])
        with self.phase("checks"):
            checks = [_check(workload, function, given) for given in inputs]
        if all(check["ok"] for check in checks):
            # On a CPU the cores are what is measured.
            with Core() if self.on_gpu else nullcontext() as core:
                self.warm_up(call, synchronize, sampling)
                self.time(call, synchronize, sampling, core)
            with self.phase("checks"):
                checks += [_check(workload, function, given) for given in inputs]
        record["accuracy"] = _judge(checks)
        if mode["runner"] != "eager":
            record["generated_code"] = caches.generated_code(root)
        if mode["runner"] == "compile":
            record["compile"] = compiler.observe()
        if "library" in mode:
            record["library"] = modes.versions(mode)
        if self.on_gpu and self.settings["repeat"] == 0:
            with self.phase("profile"):
                record["profile"] = profiler.kernels(call, synchronize)

    def prepare(self) -> None:
        """Import what the mode needs and open the device, so that neither is in the first call."""
        with self.phase("imports"):
            for module in modes.imports(self.settings["run"]):
                if find_spec(module.partition(".")[0]):  # A missing package is the runner's to report.
                    import_module(module)
        import torch

        self.torch = torch
        self.record["environment"]["software"] = provenance.software()
        with self.phase("device"):
            torch.set_num_threads(self.settings["threads"])
            random.seed(self.settings["seed"])
            torch.manual_seed(self.settings["seed"])
            _freeze()
            if self.on_gpu:
                torch.cuda.init()  # It says itself if there is no GPU; is_available would ask NVML for all of them.
                timers.synchronizer("cuda")()

    def inputs(self) -> tuple[Workload, list[dict]]:
        """Make the inputs of both seeds and record what they are; the same for all modes of a cell and repeat."""
        settings, record = self.settings, self.record
        parameters = dict(settings["workload"])
        workload = build_workload(workloads.load(parameters.pop("name")), parameters)
        dtype, size = getattr(self.torch, settings["dtype"]), settings["size"]
        cell = (settings["seed"], settings["op"], settings["dtype"], size, settings["repeat"])
        record["seeds"] = [accuracy.seed_of(*cell, index) for index in range(2)]
        inputs = [accuracy.make_inputs(workload, size, dtype, settings["device"], seed) for seed in record["seeds"]]
        record["inputs"] = {
            name: {"shape": list(t.shape), "stride": list(t.stride()), "dtype": settings["dtype"]}
            for name, t in inputs[0].items()
        }
        record["work"] = {
            "flops": workload.flops(size, dtype.itemsize),
            "bytes": workload.necessary_bytes(size, dtype.itemsize),
            "bound": workload.bound,
        }
        return workload, inputs

    def warm_up(self, call: Callable, synchronize: Callable, sampling: dict) -> None:
        """Call until the times agree."""
        with self.phase("warm_up"):
            _freeze()
            self.record["warm_up"] = timers.warm_up(call, synchronize, sampling)

    def time(self, call: Callable, synchronize: Callable, sampling: dict, core: Core | None) -> None:
        """Run the timers of the device; the GPU's state is read while it still is that of the timers."""
        record = self.record
        with self.phase("timers"):
            device = timers.DeviceTimer() if self.on_gpu else None
            series = {}
            # Those that load the device with many calls at once come last: they heat it. They come one by one, the one
            # that some modes do not have at the end, so that the load before each is the same for all modes.
            for name, choose in {"single": self.single, "throughput": self.throughput, "graph": self.graph}.items():
                chosen = choose(call, synchronize, device, series)
                if not chosen:
                    continue
                series |= timers.in_turns(chosen, lambda: (call(), synchronize()), sampling, core)
                if self.on_gpu:
                    record.setdefault("clocks", {})[name] = provenance.gpu_load().get("sm_clock")
            for metric, (values, flags) in series.items():
                record["samples"][metric] = _samples("us", values, timers.flagged(values, flags))
        seconds = self.settings["run"].get("trace_seconds")
        if seconds:
            with self.phase("trace"):
                calls = timers.batch(median(series["latency"][0]), timers.TRACE_BATCH)
                state = provenance.gpu_load if self.on_gpu else dict
                record["trace"] = timers.trace(call, synchronize, calls, seconds, state)
        if self.on_gpu:
            record["delay"] = {"cycles": device.cycles, "redone": device.redone}
            record["core"] = {"loop": core.full, "again": core.again, "slow": core.slow}
            record["gpu_after"] = provenance.gpu_state()
            record["suspect"] = provenance.suspect(record["gpu_before"], record["gpu_after"])

    def single(self, call: Callable, synchronize: Callable, device: timers.DeviceTimer | None, series: dict) -> list:
        """Return the timers that wait for each call."""
        chosen = [timers.latency(call, synchronize, apart=self.on_gpu)]
        if self.on_gpu:
            self.record["floors"] = device.floors(self.settings["sampling"]["min_samples"])
            flush = self.settings["run"].get("flush", "read")
            chosen += [timers.event(call, synchronize), device.device(call, flush)]
        return chosen

    def throughput(
        self, call: Callable, synchronize: Callable, device: timers.DeviceTimer | None, series: dict
    ) -> list:
        """Return the timer of many calls back to back; how many goes by the latency in `series`."""
        self.record["batch"] = timers.batch(median(series["latency"][0]))
        return [timers.throughput(call, synchronize, self.record["batch"])]

    def graph(self, call: Callable, synchronize: Callable, device: timers.DeviceTimer | None, series: dict) -> list:
        """Return the timer of a captured graph of calls, where there is one."""
        if not self.on_gpu:
            return []
        replay, self.record["graph"] = self.captured(call)
        return [device.graph(replay)] if replay else []

    def captured(self, call: Callable) -> tuple[Callable | None, dict]:
        """Return (what replays a graph of calls, None where there is none; {calls, reason})."""
        if self.record["memory"]["graph_pools"]:
            return None, {"calls": 0, "reason": "the mode replays CUDA graphs of its own"}
        try:
            return timers.captured(call), {"calls": timers.GRAPH_CALLS, "reason": ""}
        except RuntimeError as error:
            return None, {"calls": 0, "reason": f"cannot be captured: {' '.join(str(error).split())[:200]}"}


def _freeze() -> None:
    """Leave what is on the heap out of all collections to come: imports and compilers leave no garbage.

    A forked process shares it with its parent, which has frozen it; a fresh one would look through it again and again.
    """
    gc.collect()
    gc.freeze()


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


def _samples(unit: str, values: list[float], flags: list[str] | None = None) -> dict:
    return {"unit": unit, "values": values, "flags": flags or [""] * len(values)}
