"""The compiler under observation: fusion counted, caches that are cold, warm and another process's, changing shapes."""

import json
import subprocess
import sys

import pytest
from checkout import TINY

from kernelbench.harness import record
from kernelbench.study import machine
from kernelbench.study.study import Study

SERIES = {"elementwise_chain": [3001, 3002, 3000, 3003]}
MODES = {
    "eager": {"runner": "eager"},
    "compile": {"runner": "compile"},
    "compile-warm": {"runner": "compile", "cache": "warm"},
    "compile-second": {"runner": "compile", "cache": "second-process"},
    # What recompiles is Dynamo; Inductor behind it would only take longer.
    "compile-static": {"runner": "compile", "backend": "eager", "dynamic": False, "series": SERIES},
    "compile-dynamic": {"runner": "compile", "backend": "eager", "dynamic": True, "series": SERIES},
}
OPS = {"elementwise_chain": {"sizes": [3000]}}
SCRIPT = """
import json, sys
from kernelbench.harness.measure import measure
json.dump(measure(json.load(sys.stdin)), sys.stdout)
"""


@pytest.fixture
def compiled(monkeypatch):
    """Return what measures an op in a mode, in a process that compiled nothing before."""
    monkeypatch.setattr(machine, "present", lambda: ("cpu-test", "cpu", "X"))

    def measured(mode):
        study = Study({**TINY, "ops": OPS, "modes": MODES})
        settings = study.settings(study.job("elementwise_chain", "float32", "3000", mode, 0))
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, input=json.dumps(settings), capture_output=True, text=True, check=True)
        entry = json.loads(done.stdout)
        assert entry["status"] == "ok" and record.problem(entry) is None, entry["reason"]
        return entry

    return measured


@pytest.mark.nightly
def test_six_operations_become_one_kernel_and_a_warm_cache_or_anothers_has_it(compiled):
    cold, warm, second = (compiled(mode) for mode in ("compile", "compile-warm", "compile-second"))

    def cache(entry):
        return [entry["compile"]["inductor"].get(f"fxgraph_cache_{what}", 0) for what in ("miss", "hit")]

    assert cache(cold) == [1, 0]
    assert [cold["compile"][what] for what in ("graphs", "graph_breaks", "kernels")] == [1, 0, 1]
    # The cache of AOTAutograd, before Inductor's, has it already.
    for entry in (warm, second):
        assert entry["compile"]["autograd"]["autograd_cache_hit"] == 1 and cache(entry)[0] == 0
        assert entry["compile"]["kernels"] == cold["compile"]["kernels"], "a hit says what was generated"
        assert entry["seconds"]["fill"] > 0


@pytest.mark.nightly
def test_shapes_that_change_recompile_once_or_each_time(compiled):
    entries = [compiled(f"compile-{mode}") for mode in ("static", "dynamic")]
    assert [entry["compile"]["recompiles"] for entry in entries] == [0, 0], "what follows is not the cell's own"
    static, dynamic = (entry["series"] for entry in entries)
    assert [point["size"] for point in static] == ["3001", "3002", "3000", "3003"]
    assert [point["recompiles"] for point in static] == [1, 2, 2, 3], "3000 was compiled for at first"
    assert [point["recompiles"] for point in dynamic] == [0] * 4
    assert all(point["first_call"] > 0 and point["latency"] > 0 for point in static + dynamic)
