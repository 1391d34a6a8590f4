"""What torch.compile says of itself: graphs, breaks, recompiles, caches, fusion, time by phase."""

import linecache
import os
import re
import sys
from collections import Counter
from pathlib import Path

from kernelbench.notes import GraphsSkipped, Note, NothingCompiled, PartlyEager

# How many compile at a time.
WORKERS = "TORCHINDUCTOR_COMPILE_THREADS"
# How many processes compile, as start_workers left it.
_workers = 1
# Dynamo's name of a function that goes on after a graph break.
RESUMED = re.compile(r"^torch_dynamo_resume_in_.*_at_(\d+)$")
# Phases shorter than this are noise beside a compilation of seconds.
NOTABLE_SECONDS = 0.01


def observe() -> dict:
    """Return the compiler's counters of this process; all zero where nothing was compiled.

    Returns {graphs, graph_breaks, breaks (as find_breaks), recompiles, nodes (of Inductor's graph before fusion),
    kernels (that it generated), inductor and autograd (their counters, cache hits and misses among them), seconds (wall
    time by phase, from 10 ms on), workers (that compiled side by side), tuning_threads (that compiled what was tried)}.
    """
    from torch._dynamo import utils
    from torch._inductor import metrics

    counters = utils.counters
    totals = {name: round(sum(times), 6) for name, times in utils.compilation_time_metrics.items()}
    return {
        "graphs": counters["stats"]["unique_graphs"],
        "graph_breaks": sum(counters["graph_break"].values()),
        "breaks": find_breaks(),
        "recompiles": sum(entry.recompile_reason is not None for entry in utils.get_compilation_metrics()),
        "nodes": metrics.ir_nodes_pre_fusion,
        "kernels": metrics.generated_kernel_count,
        "inductor": _numbers(counters["inductor"]),
        "autograd": _numbers(counters["aot_autograd"]),
        "seconds": {name: total for name, total in totals.items() if total >= NOTABLE_SECONDS},
        "workers": _workers,
        "tuning_threads": int(os.environ.get(WORKERS, 1)),
    }


def find_breaks() -> list[dict]:
    """Return where torch.compile left a graph, in order: {place: file and line, code: that line, count}.

    Dynamo compiles what follows a break as a function of its own, whose name has the line; where it cannot, it gives up
    the whole frame, and says at which line.
    """
    from torch._dynamo import utils

    places: Counter[tuple[str, int]] = Counter()
    for entry in utils.get_compilation_metrics():
        resumed = RESUMED.search(entry.co_name or "")
        if resumed and not entry.recompile_reason:
            places[entry.co_filename, int(resumed[1])] += 1
        if entry.fail_user_frame_lineno:
            places[entry.fail_user_frame_filename, entry.fail_user_frame_lineno] += 1
    return [
        {"place": f"{Path(file).name}:{line}", "code": linecache.getline(file, line).strip(), "count": count}
        for (file, line), count in places.items()
    ]


def find_compiled() -> list[str]:
    """Return what this process compiled with torch.compile, as `file:line, function`; without importing Dynamo."""
    utils = sys.modules.get("torch._dynamo.utils")
    entries = utils.get_compilation_metrics() if utils and utils.counters["stats"]["unique_graphs"] else []
    places = [f"{Path(e.co_filename or '').name}:{e.co_firstlineno}, {e.co_name}" for e in entries]
    return list(dict.fromkeys(places))


def start_workers(count: int) -> None:
    """Start `count` processes, at most one per core, that compile for Inductor; 1: this process compiles.

    They are forks, which have imported what they need, and are ready when this returns. `observe` reports their number:
    first calls compare only where it is the same.
    """
    global _workers
    _workers = min(count, len(os.sched_getaffinity(0)))
    if _workers > 1:
        from torch._inductor import config
        from torch._inductor.async_compile import AsyncCompile

        config.compile_threads, config.worker_start_method = _workers, "fork"
        AsyncCompile.wait_pool_ready()


def end_workers() -> None:
    """End these processes; from now on this process compiles."""
    if _workers > 1:
        from torch._inductor import config
        from torch._inductor.async_compile import AsyncCompile, shutdown_compile_workers

        shutdown_compile_workers()
        AsyncCompile.pool().shutdown()
        AsyncCompile.pool.cache_clear()
        config.compile_threads = 1


def compiling_nothing():
    """Return a context in which a call that would have to compile raises RuntimeError."""
    import torch

    return torch.compiler.set_stance("fail_on_recompile")


def fallback(cuda_graphs: bool) -> Note | None:
    """Return why what this process ran was not compiled as its mode asks, in whole or in part; None where it was.

    cuda_graphs: whether the mode asks for CUDA graphs. A graph break is no fallback: what is on both sides of it is
    compiled, and `observe` counts it. Dynamo counts the frames that it was given, and those that it compiled or found
    nothing to compile in. The rest runs in eager mode: it reached the recompile limit, met an error that was
    suppressed, or broke where nothing can be resumed.
    """
    from torch._dynamo.utils import counters

    frames, skips = counters["frames"], counters["inductor"]["cudagraph_skips"]
    failed = frames["total"] - frames["ok"]
    if not counters["stats"]["unique_graphs"]:
        return NothingCompiled()
    if failed:
        why = next((text.partition("\n")[0] for text in counters["unimplemented"]), "an error was suppressed")
        return PartlyEager(failed, frames["total"], why)
    return GraphsSkipped(skips) if cuda_graphs and skips else None


def _numbers(counters: dict) -> dict[str, int]:
    return {name: count for name, count in counters.items() if isinstance(count, int)}


def forget() -> None:
    """Drop what this process compiled, and what the compiler said of it; what it left in the caches stays."""
    import torch
    from torch._dynamo import utils
    from torch._inductor import metrics

    torch._dynamo.reset()
    metrics.reset()
    utils.counters.clear()
    utils.compilation_time_metrics.clear()
    utils.clear_compilation_metrics()
