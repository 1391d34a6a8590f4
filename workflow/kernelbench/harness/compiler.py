"""What torch.compile says of itself: graphs, breaks, recompiles, cache counters, time by phase."""

# Phases shorter than this are noise beside a compilation of seconds.
NOTABLE_SECONDS = 0.01


def observe() -> dict:
    """Return the compiler's counters of this process; all zero where nothing was compiled.

    Returns {graphs, graph_breaks, recompiles, inductor (its counters, cache hits and misses among them),
    seconds (wall time by phase, those of 10 ms and more)}.
    """
    from torch._dynamo import utils

    counters = utils.counters
    totals = {name: round(sum(times), 6) for name, times in utils.compilation_time_metrics.items()}
    return {
        "graphs": counters["stats"]["unique_graphs"],
        "graph_breaks": sum(counters["graph_break"].values()),
        "recompiles": sum(entry.recompile_reason is not None for entry in utils.get_compilation_metrics()),
        "inductor": {k: v for k, v in counters["inductor"].items() if isinstance(v, int)},
        "seconds": {name: total for name, total in totals.items() if total >= NOTABLE_SECONDS},
    }
