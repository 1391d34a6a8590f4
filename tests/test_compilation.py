"""What compilers said of themselves, from the jobs' records."""

import json

import pandas as pd

from kernelbench.analysis.compilation import summarize
from kernelbench.study.cells import ARM
from kernelbench.study.config import RECORDED


def test_what_jobs_say_of_their_compilation():
    point = {"size": "3", "first_call": 1.0, "latency": 5.0, "graphs": 2, "recompiles": 1}
    text = '[{"name": "a", "count": 2.0, "time": 1.0}, {"name": "b", "count": 1.0, "time": 1.0}]'
    row = {
        "op": "a", "dtype": "float32", "size": "1", "mode": "compile", "status": "ok", "compile.graphs": 1.0,
        "compile.kernels": 1.0, "compile.inductor": '{"fxgraph_cache_miss": 1, "extern_calls": 2}',
        "compile.seconds": '{"_compile.compile_inner": 2.0}',
    }  # fmt: skip
    jobs = [
        row | {"repeat": repeat, "series": json.dumps([point | {"first_call": seconds}]), "profile.kernels": profile}
        for repeat, seconds, profile in ((0, 1.0, text), (1, 3.0, None))
    ]
    jobs = [job | {"profile.checked": True} for job in jobs]
    rows = [tuple(row[name] for name in ARM)]
    (found,) = summarize(pd.DataFrame(jobs), rows, "eager")
    unsure = [job | {"profile.checked": False} for job in jobs]
    assert "launched" not in summarize(pd.DataFrame(unsure), rows, "eager")[0]
    assert "launches" not in found, "older records do not say"
    counted = [job | {"profile.launches": 2.0, "compile.workers": 8.0} for job in jobs]
    (counted,) = summarize(pd.DataFrame(counted), rows, "eager")
    assert (counted["launches"], counted["workers"]) == (2.0, 8)
    assert (found["graphs"], found["kernels"], found["launched"]) == (1, 1, 3.0)
    assert (found["hits"], found["misses"], found["seconds"]) == (0, 1, {"dynamo": 2.0})
    assert (found["series"], found["series_recompiles"]) == ([point | {"first_call": 2.0}], 1)


def test_what_a_mode_spares_is_counted_against_the_baseline_of_its_cell():
    row = {"op": "a", "dtype": "float32", "status": "ok", "repeat": 0, "profile.checked": True}
    launched = (("1", "eager", 6), ("1", "compile", 1), ("2", "compile", 1))
    jobs = [
        row | {"size": size, "mode": mode, "profile.kernels": json.dumps([{"name": "k", "count": count, "time": 1.0}])}
        for size, mode, count in launched
    ]
    found = summarize(pd.DataFrame(jobs), [("a", "float32", size, mode) for size, mode, _ in launched], "eager")
    assert [row.get("spared") for row in found] == [0, 5, None]


def test_what_is_answered_of_graphs_and_their_breaks_is_so_in_every_recorded_compilation():
    """Two answers say it in words: one graph with fullgraph=True, and no break in any program."""
    tables = [pd.read_parquet(path) for path in RECORDED.glob("*/jobs.parquet")]
    rows = [[*table[ARM].drop_duplicates().itertuples(index=False, name=None)] for table in tables]
    found = [row for table, own in zip(tables, rows, strict=True) for row in summarize(table, own, "eager")]
    compiled = [row for row in found if "graph_breaks" in row]
    assert {row["graph_breaks"] for row in compiled} == {0}
    assert {row["graphs"] for row in compiled if row["mode"] == "compile-fullgraph"} == {1}
