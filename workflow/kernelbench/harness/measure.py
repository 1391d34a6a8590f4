"""Measure one job: from its settings to its record.

Run as a program, this makes the first call of the job whose settings are its stdin, and nothing else: so a job with
`cache: second-process` has its compile caches filled.

`measure` is a plain function. It wants to be the first user of torch's devices in its process; how the process is
started, and what is set before torch is imported, is the caller's business.
"""

import gc
import json
import os
import random
import re
import sys
import traceback
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

from kernelbench import notes
from kernelbench.harness import (
    accuracy,
    caches,
    compiler,
    environment,
    modes,
    plugins,
    profiler,
    provenance,
    timers,
    workloads,
)
from kernelbench.harness.core import Core
from kernelbench.harness.dtypes import DTYPES
from kernelbench.harness.program import Program, prepare
from kernelbench.harness.randomness import read_states
from kernelbench.harness.record import VERSION
from kernelbench.harness.workload import Unsupported
from kernelbench.harness.workload import build as build_workload
from kernelbench.notes import Note

MIB = 2**20
# Calls at each size of a series after its first one.
SERIES_CALLS = 10


def measure(settings: dict, place: int | None = None, publish: Callable[[dict], None] = lambda record: None) -> dict:
    """Run the job that `settings` describes and return its record; whatever the job does, there is one.

    settings: child.SETTINGS; device is "cuda" or "cpu", workload its name and parameters, run the mode's config entry,
    start how the process was started ("warm" or "fresh"). `place` is the job's place in the planned order. `publish` is
    given the record as far as it got before each phase, so that a process that dies leaves it behind.
    """
    job = _Job(settings, place, publish)
    with caches.fresh() as root:
        try:
            job.run(root)
            job.end(*job.verdict())
        except Unsupported as error:
            job.end("unsupported", error.note)
        except Exception as error:  # Any failure is a result: it is named in the record and shown in the tables.
            job.end(*classify(error, job.folders))
    return job.record


def first_call(settings: dict) -> None:
    """Make the first call of the job that `settings` describes and nothing else: the caches keep what it compiles."""
    job = _Job(settings, None, lambda record: None)
    job.prepare()
    program, inputs = job.inputs()
    tensors = tuple(inputs[0].values())
    modes.build(program, settings["run"], tensors)(*tensors)
    job.runner.synchronizer(settings["device"])()


def unfinished(record: dict, status: str, reason: Note | None) -> dict:
    """Return `record` as that of a job that did not run to its end: no time of it is reported."""
    kept = {key: value for key, value in record.items() if key != "phase"}
    return {**kept, "status": status, "reason": notes.dump(reason), "samples": {}}


def classify(error: Exception, folders: list[Path]) -> tuple[str, Note]:
    """Return the status of a job that an error ended, oom or crashed, and the error as a note."""
    words = f"{type(error).__name__}: {' '.join(str(error).split())}"
    # Besides torch's own exception: the driver's and the host's, and those that a compilation wraps.
    ran_out = isinstance(error, MemoryError) or re.search(r"OutOfMemory|out of memory|can't allocate memory", words)
    return ("oom" if ran_out else "crashed"), notes.Raised(words[:300], find_place(error, folders))


def find_place(error: Exception, folders: list[Path]) -> str:
    """Return where in a file of the folders `error` came up, empty where in none: its author can mend that."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).parent in folders]
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}, in {own[-1].name}" if own else ""


def _blank(settings: dict, place: int | None) -> dict:
    names = ("machine", "op", "dtype", "size", "mode", "repeat")
    return {
        "version": VERSION,
        **{name: settings[name] for name in names},
        "status": "crashed",
        "reason": None,
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
            "variables": environment.measured(),
            "carried": environment.carried(),
        },
    }


class _Job:
    """One measurement: its settings, its record, and what is built on the way."""

    def __init__(self, settings: dict, place: int | None, publish: Callable[[dict], None]):
        self.began = perf_counter()
        self.settings, self.publish = settings, publish
        self.on_gpu = settings["device"] == "cuda"
        self.runner = modes.runner_of(settings["run"])
        self.options = modes.options_of(settings["run"])
        # What is not on PyTorch's stream has neither its events nor its allocator.
        self.on_stream = self.on_gpu and self.runner.on_stream
        self.compiles = self.runner.compiles(self.options)
        self.wants_graphs = self.on_gpu and self.runner.uses_cuda_graphs(self.options)
        self.fell_back: Note | None = None
        # The inputs as they were made, by the id of those that calls are given.
        self.kept: dict[int, dict] = {}
        self.record = _blank(settings, place)
        self.folders = [Path(*workloads.__path__)]

    @contextmanager
    def phase(self, name: str):
        """Time a phase of the job; a second one of the same name is added to the first."""
        self.record["phase"] = name
        self.publish(self.record)
        before = perf_counter()
        yield
        self.record["seconds"][name] = self.record["seconds"].get(name, 0) + perf_counter() - before

    def end(self, status: str, reason: Note | None) -> None:
        self.record["seconds"]["total"] = perf_counter() - self.began
        if status == "ok":
            del self.record["phase"]
            self.record |= {"status": status, "reason": notes.dump(reason)}
        else:
            self.record = unfinished(self.record, status, reason)

    def verdict(self) -> tuple[str, Note | None]:
        """Return (status, reason) of a job that ran to its end: whether it is right, and did what its mode asks."""
        found = self.record["accuracy"]
        reason = notes.load(found.get("reason"))
        if not found["ok"]:
            return "incorrect", reason
        fell_back = self.fell_back
        if self.wants_graphs and not self.record["memory"]["graph_pools"]:
            return "unsupported", fell_back or notes.NoGraphRecorded()
        counts = isinstance(fell_back, notes.PartlyEager | notes.GraphsSkipped) and self.runner.takes_part(self.options)
        if fell_back and not counts:
            return "unsupported", fell_back
        return "ok", (fell_back or reason or self.find_compiled()) if found["compared"] else notes.NotCompared(reason)

    def find_compiled(self) -> Note | None:
        """Return a note where eager mode is none: the author compiled a part of the model."""
        compiled = compiler.find_compiled() if self.settings["run"]["runner"] == "eager" else []
        return notes.CompiledInside(compiled) if compiled else None

    def run(self, root: Path) -> None:
        """Fill the record in the order of the protocol: first call, memory, correctness, warm-up, timers, profiler."""
        mode, record, sampling = self.settings["run"], self.record, self.settings["sampling"]
        if self.settings["device"] not in mode.get("devices", [self.settings["device"]]):
            raise Unsupported(notes.NeedsDevice("", mode["devices"], self.settings["device"]))
        if self.on_gpu:
            record["gpu_before"] = provenance.gpu_state()
        self.prepare()
        with self.phase("inputs"):
            program, inputs = self.inputs()
            held = self.torch.cuda.memory_allocated() if self.on_gpu else 0
            if mode.get("static_inputs"):
                modes.mark_static(inputs)
        synchronize = self.runner.synchronizer(self.settings["device"])
        tensors = tuple(inputs[0].values())
        if "cache" in mode:
            with self.phase("fill"):
                self.fill(program, tensors)
        with self.phase("workers"):
            self.runner.start_workers(self.options)
        with self.phase("first_call"):
            before = perf_counter()
            step = modes.build(program, mode, tensors)
            converted = perf_counter() - before if self.runner.converts else 0
            call = partial(step, *tensors)
            record["samples"]["first_call"] = _samples("s", [converted + timers.wall(call, synchronize)])
        with self.phase("workers"):
            self.runner.end_workers()
        if mode.get("skip_guards"):
            modes.skip_guards()
        if self.on_stream:
            with self.phase("memory"):
                record["memory"] = _memory(call, synchronize, held)
                record["samples"]["peak_memory"] = _samples("MiB", [record["memory"]["peak"] / MIB])
        with self.phase("checks"):
            checks = [self.check(program, step, given) for given in inputs]
        if all(check["ok"] for check in checks):
            # On a CPU the cores are what is measured.
            with Core() if self.on_gpu else nullcontext() as core:
                self.warm_up(call, synchronize, sampling, core)
                self.time(call, synchronize, sampling, core)
            with self.phase("checks"):
                checks += [self.check(program, step, given) for given in inputs]
        if self.compiles:
            record["compile"] = compiler.observe()
        if "series" in mode and all(check["ok"] for check in checks):
            with self.phase("series"):
                checks += self.series(program, step, synchronize)
        record["accuracy"] = _judge(checks)
        self.fell_back = compiler.fallback(self.wants_graphs) if self.compiles else None
        if mode["runner"] != "eager":
            record["generated_code"] = caches.generated_code(root)
        if self.on_gpu:
            with self.phase("profile"):
                record["profile"] = profiler.kernels(call, synchronize)
        if isinstance(notes.load(record["accuracy"].get("reason")), notes.OtherRandomNumbers):
            with self.phase("checks"):
                record["accuracy"] = self.check_with_eagers_numbers(program, tensors, inputs) or record["accuracy"]

    def fill(self, program: Program, tensors: tuple) -> None:
        """Fill the compile caches before the first call: by one that is forgotten, or by another process."""
        if self.settings["run"]["cache"] == "second-process":
            caches.fill_by_another_process(self.settings)
            return
        modes.build(program, self.settings["run"], tensors)(*tensors)
        compiler.forget()

    def series(self, program: Program, step: Callable, synchronize: Callable) -> list[dict]:
        """Call at other sizes, one after the other; record what each took and compiled, and return the checks."""
        checks, found = [], self.record.setdefault("series", [])
        dtype, device, seed = DTYPES[self.settings["dtype"]], self.settings["device"], self.record["seeds"][0]
        for size in self.settings["run"]["series"]:
            given = program.workload.draw(size, dtype, device, seed)
            call = partial(step, *given.values())
            times = [timers.wall(call, synchronize) for _ in range(1 + SERIES_CALLS)]
            seen = compiler.observe() if self.compiles else {"graphs": 0, "recompiles": 0}
            counts = {name: seen[name] for name in ("graphs", "recompiles")}
            found.append({"size": size, "first_call": times[0], "latency": median(times[1:]) * 1e6, **counts})
            checks.append(self.check(program, step, given))
        return checks

    def prepare(self) -> None:
        """Import what the mode needs and open the device, so that neither is in the first call."""
        with self.phase("imports"):
            parameters = dict(self.settings["workload"])
            kind = plugins.load(workloads, "workload", parameters.pop("name"))
            self.workload = build_workload(kind, parameters)
            self.folders += self.workload.folders()
            versions = modes.load(self.settings["run"], self.workload, self.settings["device"])
            if versions:
                self.record["library"] = versions
        import torch

        self.torch = torch
        self.record["environment"]["software"] = provenance.software()
        with self.phase("device"):
            torch.set_num_threads(self.settings["threads"])
            random.seed(self.settings["seed"])
            torch.manual_seed(self.settings["seed"])
            dtype = DTYPES[self.settings["dtype"]]
            dtype.apply()
            torch.set_grad_enabled(self.workload.trains or not self.workload.is_foreign)
            _freeze()
            if self.on_gpu:
                torch.cuda.init()  # It says itself if there is no GPU; is_available would ask NVML for all of them.
                timers.synchronizer("cuda")()
            dtype.require(self.settings["dtype"], self.settings["device"])

    def inputs(self) -> tuple[Program, list[dict]]:
        """Make weights, and the inputs of both seeds, and record what they are; the same for all modes of a repeat."""
        settings, record, workload = self.settings, self.record, self.workload
        dtype, size, device = DTYPES[settings["dtype"]], settings["size"], settings["device"]
        cell = (settings["seed"], settings["op"], settings["dtype"], size, settings["repeat"])
        record["seeds"] = [accuracy.seed_of(*cell, index) for index in range(2)]
        program = prepare(workload, size, dtype, device, accuracy.seed_of(*cell, "weights"))
        self.torch.set_num_threads(settings["threads"])  # A model's file may have set others.
        inputs = [workload.draw(size, dtype, device, seed) for seed in record["seeds"]]
        if workload.is_foreign:
            self.kept = {id(given): {name: tensor.clone() for name, tensor in given.items()} for given in inputs}
        record["inputs"] = {
            name: {"shape": list(t.shape), "stride": list(t.stride()), "dtype": str(t.dtype).removeprefix("torch.")}
            for name, t in inputs[0].items()
        }
        if work := workload.work(size, dtype.itemsize):
            record["work"] = work
        return program, inputs

    def check(self, program: Program, step: Callable, inputs: dict, own_numbers: bool | None = None) -> dict:
        """Compare what `step` makes of the inputs with the reference.

        own_numbers: whether it draws random numbers of its own; None: as the runner says.
        """
        outputs = program.outcome(lambda *given: self.runner.tensor(step(*given)), inputs)
        after = read_states()
        for name, kept in self.kept.get(id(inputs), {}).items():
            if not ((inputs[name] == kept) | (kept != kept)).all():
                return {"ok": False, "compared": True, "reason": notes.WritesToInput(name).to_json()}
        if own_numbers is None:
            own_numbers = self.runner.eagers_numbers(self.options) is not None
        return accuracy.check(program, inputs, outputs, self.runner.slack(self.options), None if own_numbers else after)

    def check_with_eagers_numbers(self, program: Program, tensors: tuple, inputs: list[dict]) -> dict | None:
        """Compare what the mode gives when built anew so that it draws eager's random numbers; None where it cannot.

        With those that it was timed with, nothing it returns could be told from a wrong result.
        """
        numbers = self.runner.eagers_numbers(self.options)
        if numbers is None:
            return None
        compiler.forget()
        with numbers:
            step = modes.build(program, self.settings["run"], tensors)
            step(*tensors)  # The first call of a CUDA graph is no replay.
            return _judge([self.check(program, step, given, own_numbers=False) for given in inputs])

    def warm_up(self, call: Callable, synchronize: Callable, sampling: dict, core: Core | None) -> None:
        """Call until the times agree."""
        with self.phase("warm_up"):
            _freeze()
            self.record["warm_up"] = timers.warm_up(call, synchronize, sampling, core)

    def time(self, call: Callable, synchronize: Callable, sampling: dict, core: Core | None) -> None:
        """Run the timers of the device; the GPU's state is read while it still is that of the timers."""
        record = self.record
        with self.phase("timers"):
            device = timers.DeviceTimer() if self.on_stream else None
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
            if self.on_stream and sampling.get("do_bench"):
                values = timers.do_bench(call)
                series["do_bench"] = values, [""] * len(values)
            for metric, (values, flags) in series.items():
                record["samples"][metric] = _samples("us", values, timers.flagged(values, flags))
        seconds = self.settings["run"].get("trace_seconds")
        if seconds:
            with self.phase("trace"):
                calls = timers.batch(median(series["latency"][0]), timers.TRACE_BATCH)
                state = provenance.gpu_load if self.on_gpu else dict
                record["trace"] = timers.trace(call, synchronize, calls, seconds, state)
        if self.on_stream:
            record["delay"] = {"cycles": device.cycles, "redone": device.redone}
        if self.on_gpu:
            record["core"] = {"loop": core.full, "again": core.again, "slow": core.slow}
            record["gpu_after"] = provenance.gpu_state()
            record["suspect"] = notes.dump(provenance.suspect(record["gpu_before"], record["gpu_after"]))

    def single(self, call: Callable, synchronize: Callable, device: timers.DeviceTimer | None, series: dict) -> list:
        """Return the timers that wait for each call."""
        chosen = [timers.latency(call, synchronize, apart=self.on_stream)]
        if self.on_stream:
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
        if not self.on_stream:
            return []
        calls = timers.graph_calls(median(series["latency"][0]))
        replay, reason = self.captured(call, calls)
        self.record["graph"] = {"calls": calls if replay else 0, "reason": notes.dump(reason)}
        return [device.graph(replay, calls)] if replay else []

    def captured(self, call: Callable, calls: int) -> tuple[Callable | None, Note | None]:
        """Return (what replays a graph of `calls` calls, None where there is none; why)."""
        if self.record["memory"]["graph_pools"]:
            return None, notes.OwnGraphs()
        try:
            # Some models take other inputs for their blocks while they are captured.
            with compiler.compiling_nothing() if self.compiles else nullcontext():
                return timers.captured(call, calls), None
        except RuntimeError as error:
            return None, notes.NotCaptured(" ".join(str(error).split())[:200])


def _freeze() -> None:
    """Leave what is on the heap out of all collections to come: imports and compilers leave no garbage.

    A forked process shares it with its parent, which has frozen it; a fresh one would look through it again and again.
    """
    gc.collect()
    gc.freeze()


def _memory(call, synchronize, held: int) -> dict[str, int]:
    """Return bytes over the inputs (`held`): the peak of one call, and what stays allocated between calls.

    A mode with CUDA graphs keeps its tensors in memory pools of its own (graph_pools), of which the allocator's peak
    has only what is in use; the whole pool counts, since no one else can use it.
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
    pools = sum(segment["total_size"] for segment in segments)
    unused = pools - sum(segment["allocated_size"] for segment in segments)
    return {
        "inputs": held,
        "peak": peak - held + unused,
        "between_calls": between - held + unused,
        "graph_pools": pools,
    }


def _judge(checks: list[dict]) -> dict:
    """Return the worst of the checks (two seeds before and, if those passed, after timing) with their number."""
    found = accuracy.worst(checks)
    return {**{name: value for name, value in found.items() if value is not None}, "checks": len(checks)}


def _samples(unit: str, values: list[float], flags: list[str] | None = None) -> dict:
    return {"unit": unit, "values": values, "flags": flags or [""] * len(values)}


if __name__ == "__main__":
    first_call(json.load(sys.stdin))
    sys.stdout.flush()
    os._exit(0)  # What torch tears down at exit takes longer than the end of a process.
