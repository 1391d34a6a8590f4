"""What compilers said of themselves, by cell and mode: graphs, caches, kernels, changing shapes.

Counts are those of the first repeat, which others share; times are medians over the repeats. Older records say less.
"""

import json

import pandas as pd

from kernelbench.study.cells import ARM

COUNTS = ("graphs", "graph_breaks", "recompiles", "nodes", "kernels", "workers", "tuning_threads")
# Torch's names of the phases of a compilation, from the outer to the inner ones; each contains the next.
PHASES = {
    "dynamo": "_compile.compile_inner",
    "autograd": "create_aot_dispatcher_function",
    "inductor": "compile_fx_inner",
    "code": "GraphLowering.compile_to_module",
}
# Whose counters of hits and misses, and what they are called there.
CACHES = {"compile.inductor": "fxgraph_cache", "compile.autograd": "autograd_cache"}


def summarize(jobs: pd.DataFrame, rows: list[tuple], baseline: str) -> list[dict]:
    """Return for each of the rows that ran its op, dtype, size and mode, and of these fields those that jobs have.

    The COUNTS; breaks: [{place, code, count}] of the graph breaks, unless there are none; hits, misses: of the compile
    caches; skips: how often a CUDA graph was to be recorded and was not, unless never; seconds: by PHASES; launched,
    launches: of one call, as profiled, the number of kernels and that of the host's launches (a CUDA graph is one);
    spared: how many kernels fewer than the baseline's call;
    series: {size, first_call (s), latency (µs), graphs, recompiles} of each of the sizes called one after the other;
    series_recompiles: the recompiles after the last of them.
    """
    ran = dict(list(jobs[jobs.status == "ok"].sort_values("repeat", kind="stable").groupby(ARM)))
    found = {
        tuple(row): said
        for row in rows
        if (own := ran.get(tuple(row))) is not None
        and (
            said := _counts(own)
            | _breaks(own)
            | _caches(own)
            | _skips(own)
            | _phases(own)
            | _launched(own)
            | _series(own)
        )
    }
    for (*cell, _), said in found.items():
        launched = found.get((*cell, baseline), {}).get("launched")
        if launched is not None and "launched" in said:
            said["spared"] = launched - said["launched"]
    return [{**dict(zip(ARM, row, strict=True)), **said} for row, said in found.items()]


def _texts(jobs: pd.DataFrame, column: str) -> list:
    """Return what the jobs say in a column of JSON."""
    return [json.loads(text) for text in jobs[column] if pd.notna(text)] if column in jobs else []


def _counts(jobs: pd.DataFrame) -> dict:
    first = jobs.iloc[0]
    return {name: int(value) for name in COUNTS if pd.notna(value := first.get(f"compile.{name}"))}


def _breaks(jobs: pd.DataFrame) -> dict:
    found = _texts(jobs, "compile.breaks")
    return {"breaks": found[0]} if found and found[0] else {}


def _caches(jobs: pd.DataFrame) -> dict:
    counters = [(of, texts[0]) for column, of in CACHES.items() if (texts := _texts(jobs, column))]
    ends = {"hits": "hit", "misses": "miss"}
    return {name: sum(found.get(f"{of}_{end}", 0) for of, found in counters) for name, end in ends.items() if counters}


def _skips(jobs: pd.DataFrame) -> dict:
    counters = _texts(jobs, "compile.inductor")
    return {"skips": counters[0]["cudagraph_skips"]} if counters and counters[0].get("cudagraph_skips") else {}


def _phases(jobs: pd.DataFrame) -> dict:
    seconds = pd.DataFrame(_texts(jobs, "compile.seconds"))
    found = {name: float(seconds[phase].median()) for name, phase in PHASES.items() if phase in seconds}
    return {"seconds": found} if found else {}


def _launched(jobs: pd.DataFrame) -> dict:
    if "profile.checked" not in jobs:
        return {}
    checked = jobs.loc[jobs["profile.checked"].eq(True), ["profile.kernels"]]
    profiles = _texts(checked, "profile.kernels")
    if not profiles:
        return {}
    found = {"launched": sum(kernel["count"] for kernel in profiles[0])}
    launches = jobs.get("profile.launches", pd.Series(dtype=float)).dropna()
    if len(launches):
        found["launches"] = float(launches.iloc[0])
    return found


def _series(jobs: pd.DataFrame) -> dict:
    runs = _texts(jobs, "series")
    if not runs:
        return {}
    times = {
        name: pd.DataFrame([[p[name] for p in run] for run in runs]).median() for name in ("first_call", "latency")
    }
    series = [point | {name: float(times[name][i]) for name in times} for i, point in enumerate(runs[0])]
    return {"series": series, "series_recompiles": series[-1]["recompiles"]}
