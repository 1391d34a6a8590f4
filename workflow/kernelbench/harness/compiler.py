"""What torch.compile says of itself: graphs, breaks, recompiles, caches, fusion, time by phase."""

import os

# How many compile at a time.
WORKERS = "TORCHINDUCTOR_COMPILE_THREADS"
# Phases shorter than this are noise beside a compilation of seconds.
NOTABLE_SECONDS = 0.01


def observe() -> dict:
    """Return the compiler's counters of this process; all zero where nothing was compiled.

    Returns {graphs, graph_breaks, recompiles, nodes (of Inductor's graph before fusion), kernels (that it generated),
    inductor and autograd (their counters, cache hits and misses among them), seconds (wall time by phase, from 10 ms
    on), tuning_threads (that compiled what was tried)}.
    """
    from torch._dynamo import utils
    from torch._inductor import metrics

    counters = utils.counters
    totals = {name: round(sum(times), 6) for name, times in utils.compilation_time_metrics.items()}
    return {
        "graphs": counters["stats"]["unique_graphs"],
        "graph_breaks": sum(counters["graph_break"].values()),
        "recompiles": sum(entry.recompile_reason is not None for entry in utils.get_compilation_metrics()),
        "nodes": metrics.ir_nodes_pre_fusion,
        "kernels": metrics.generated_kernel_count,
        "inductor": _numbers(counters["inductor"]),
        "autograd": _numbers(counters["aot_autograd"]),
        "seconds": {name: total for name, total in totals.items() if total >= NOTABLE_SECONDS},
        "tuning_threads": int(os.environ.get(WORKERS, 1)),
    }


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
