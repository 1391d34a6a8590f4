"""One measurement on the CPU: its record, its correctness check, and failures that become records."""

import gc
import json
import os
import re
import statistics
import subprocess
import sys
from contextlib import ExitStack
from math import inf
from pathlib import Path

import pytest
import torch
import yaml

from kernelbench.errors import InputError
from kernelbench.harness import accuracy, caches, compiler, core, modes, package, provenance, record, timers
from kernelbench.harness.dtypes import DTYPES
from kernelbench.harness.measure import measure
from kernelbench.harness.program import Program, prepare
from kernelbench.harness.workloads.attention import Attention
from kernelbench.harness.workloads.layer_norm import LayerNorm
from kernelbench.harness.workloads.matmul import Matmul
from kernelbench.harness.workloads.softmax import Softmax
from kernelbench.notes import (
    ErrorTooLarge,
    GraphsSkipped,
    NeedsDevice,
    NoGraphRecorded,
    NothingCompiled,
    NotInstalled,
    PartlyEager,
    Raised,
    RowsTooWide,
    load,
)
from kernelbench.study import machine
from kernelbench.study.study import Study

ROOT = Path(__file__).parents[1]
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
SAMPLING = {
    "samples": 5, "min_samples": 3, "max_seconds": 0.1,
    "warmup_window": 2, "warmup_tolerance": 0.5, "warmup_max_seconds": 0.2,
}  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_compiled():
    """Dynamo counts as in the fresh process that a job has, whatever other tests compiled in this one."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch._dynamo.utils.clear_compilation_metrics()


class Clock:
    """A clock that stands still but while someone sleeps by it."""

    def __init__(self):
        self.ns = 0

    def sleep(self, seconds: float) -> None:
        self.ns += round(seconds * 1e9)


@pytest.fixture
def clock(monkeypatch) -> Clock:
    """The clock that the timers read, so that a busy host is not told from an idle one."""
    clock = Clock()
    monkeypatch.setattr(timers, "perf_counter", lambda: clock.ns / 1e9)
    monkeypatch.setattr(timers, "perf_counter_ns", lambda: clock.ns)
    return clock


@pytest.fixture
def settings(monkeypatch):
    monkeypatch.setattr(machine, "present", lambda: ("cpu-x", "cpu", "X"))
    ops = {**CONFIG["ops"], "softmax": {"rows": 64, "sizes": [128]}}
    presets = {"cpu": {"dtypes": ["float32"], "sampling": SAMPLING}}
    modes = {mode: entry for mode, entry in CONFIG["modes"].items() if "only" not in entry}
    study = Study({**CONFIG, "ops": ops, "modes": modes, "recorded": [], "presets": presets})

    def of(mode="eager", **changes):
        return {**study.settings(study.job("softmax", "float32", "128", mode, 0)), **changes}

    return of


def test_a_record_follows_the_schema_and_says_what_was_measured(settings, tmp_path):
    entry = measure(settings(), place=7)
    record.write(tmp_path / "a" / "0.json", entry)
    read = record.read(tmp_path / "a" / "0.json")
    assert read == json.loads(json.dumps(entry))
    assert (read["status"], read["place"], read["reason"]) == ("ok", 7, None)
    assert read["inputs"]["x"] == {"shape": [64, 128], "stride": [128, 1], "dtype": "float32"}
    assert read["work"] == {"flops": 5 * 64 * 128, "bytes": 2 * 64 * 128 * 4, "bound": "memory"}
    assert set(read["samples"]) == {"first_call", "latency", "throughput"}, "on a CPU the host is the device"
    assert all(3 <= len(read["samples"][timer]["values"]) <= 5 for timer in ("latency", "throughput"))
    assert read["accuracy"]["checks"] == 4
    assert read["environment"]["software"]["torch"] == torch.__version__
    assert not list((tmp_path / "a").glob(".*")), "no temporary file stays"


@pytest.mark.nightly
def test_a_compiled_job_reports_its_compilation(settings):
    compiler.forget()  # What another test compiled.
    entry = measure(settings("compile"))
    assert entry["status"] == "ok"
    assert (entry["compile"]["graphs"], entry["compile"]["graph_breaks"], entry["compile"]["recompiles"]) == (1, 0, 0)
    assert entry["compile"]["inductor"]["fxgraph_cache_miss"] == 1, "the caches were not empty"
    assert entry["generated_code"]


def suppressed(patch, stack) -> dict:
    """Return a mode whose compiler fails, and is told to run eagerly instead of saying so."""

    def fail(graph, inputs):
        raise RuntimeError("no compiler today")

    stack.enter_context(torch._dynamo.config.patch(suppress_errors=True))
    patch.setattr(modes, "build", lambda program, mode, inputs: torch.compile(program.function, backend=fail))
    return {}


def disabled(patch, stack) -> dict:
    """Return a mode in a process in which someone has turned Dynamo off."""
    stack.enter_context(torch._dynamo.config.patch(disable=True))
    return {}


def forced_eager(patch, stack) -> dict:
    """Return a mode in a process with another stance."""
    stack.enter_context(torch.compiler.set_stance("force_eager"))
    return {}


def limited(patch, stack) -> dict:
    """Return a mode that compiles for each of more sizes than Dynamo keeps."""
    return {"dynamic": False, "series": [str(width) for width in range(8, 20)]}


def skipped(patch, stack) -> dict:
    """Return a mode of a function that breaks where nothing can be resumed."""

    def broken(x):
        for _ in range(2):
            torch._dynamo.graph_break()
            x = torch.softmax(x, dim=-1)
        return x

    compiled = torch.compile(broken, backend="eager")
    patch.setattr(Softmax, "call", lambda self, x: broken(x))
    patch.setattr(modes, "build", lambda program, mode, inputs: compiled)
    return {}


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (disabled, NothingCompiled),
        (forced_eager, NothingCompiled),
        (suppressed, NothingCompiled),
        (skipped, NothingCompiled),
        (limited, PartlyEager),
    ],
)
def test_a_compiled_job_that_fell_back_to_eager_is_no_result(settings, monkeypatch, spoil, said):
    with ExitStack() as stack:
        run = {"runner": "compile", "backend": "eager", **spoil(monkeypatch, stack)}
        entry = measure(settings("compile", run=run))
    assert (entry["status"], entry["samples"]) == ("unsupported", {}), entry["reason"]
    assert isinstance(load(entry["reason"]), said), entry["reason"]
    assert record.problem(entry) is None


def test_a_frame_of_several_that_fell_back_is_enough():
    script = """
import torch
from kernelbench.harness import compiler
class Block(torch.nn.Module):
    def __init__(self, breaks):
        super().__init__()
        self.breaks = breaks
    def forward(self, x):
        for _ in range(2):
            if self.breaks:
                torch._dynamo.graph_break()
            x = x.sin()
        return x
for breaks in ([False, False], [False, True]):
    torch._dynamo.reset(); torch._dynamo.utils.counters.clear()
    blocks = torch.nn.Sequential(*map(Block, breaks))
    for block in blocks:
        block.compile(backend="eager")
    blocks(torch.ones(3))
    print(repr(compiler.fallback(False)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    whole, part = done.stdout.splitlines()
    assert whole == "None" and part.startswith("PartlyEager(eager=1, frames=2, ")


def test_skipped_cuda_graphs_are_a_fallback_where_they_are_asked_for():
    torch._dynamo.utils.counters["stats"]["unique_graphs"] = 1
    torch._dynamo.utils.counters["inductor"]["cudagraph_skips"] = 2
    assert compiler.fallback(cuda_graphs=False) is None
    assert compiler.fallback(cuda_graphs=True) == GraphsSkipped(2)


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, False),
        ({"mode": "default"}, False),
        ({"mode": "reduce-overhead"}, True),
        ({"mode": "max-autotune"}, True),
        ({"mode": "max-autotune-no-cudagraphs"}, False),
        ({"backend": "cudagraphs"}, True),
    ],
)
def test_which_modes_ask_for_cuda_graphs(options, asked):
    assert modes.runner_of({"runner": "compile"}).uses_cuda_graphs(options) is asked


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_mode_that_skips_guards_does_so_once_it_is_compiled_and_is_right(settings, monkeypatch):
    """Before, torch 2.11 would refuse to compile; how many guards are left is for the diagnostic arm to show."""
    stances, set_stance = [], torch.compiler.set_stance

    def recorded(**given):
        stances.append((given, torch._dynamo.utils.counters["stats"]["unique_graphs"]))
        set_stance(**given)

    monkeypatch.setattr(torch.compiler, "set_stance", recorded)
    try:
        entry = measure(settings("compile", run={"runner": "compile", "backend": "aot_eager", "skip_guards": True}))
    finally:
        set_stance("default")
    assert entry["status"] == "ok", entry["reason"]
    assert stances == [({"skip_guard_eval_unsafe": True}, 1)], "once, after one graph was compiled"
    assert entry["compile"]["graphs"] == 1 and entry["compile"]["recompiles"] == 0


def test_skipped_guards_are_not_looked_at():
    """A global that the code was compiled for changes, of which only a guard can know."""
    script = """
import torch
from kernelbench.harness import modes
x = torch.ones(3)
for skip in (False, True):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x * factor, backend="eager")
    factor = 1
    print(int(compiled(x)[0]))
    if skip:
        modes.skip_guards()
    factor = 2
    print(int(compiled(x)[0]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert [int(line) for line in done.stdout.splitlines()] == [1, 2, 1, 1]


def test_a_graph_break_is_no_recompilation_and_another_shape_is():
    script = """
import torch
from kernelbench.harness import compiler
def broken(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2
compiled = torch.compile(broken, backend="eager")
for width in (3, 3, 5):
    compiled(torch.ones(width))
    seen = compiler.observe()
    print(seen["graphs"], seen["graph_breaks"], seen["recompiles"])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    first, again, other = ([int(n) for n in line.split()] for line in done.stdout.splitlines())
    assert first == again == [2, 1, 0], "two graphs, one break between them"
    assert other[2] == 2, "both parts anew"


def test_a_job_of_a_gpu_where_torch_finds_none_says_so(settings):
    entry = measure(settings(device="cuda"))
    assert record.problem(entry) is None
    assert (entry["status"], entry["samples"]) == ("crashed", {})
    assert re.search("CUDA|NVIDIA", load(entry["reason"]).error), entry["reason"]


@pytest.mark.parametrize(("packages", "version"), [({"nvidia-cudnn-cu13": "9.19.0.56"}, "9.19.0.56"), ({}, "91900")])
def test_the_version_of_cudnn_is_its_packages_or_else_its_own(packages, version, monkeypatch):
    def of_package(name: str) -> str:
        if name not in packages:
            raise provenance.metadata.PackageNotFoundError(name)
        return packages[name]

    monkeypatch.setattr(provenance.metadata, "version", of_package)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91900)
    assert provenance.software()["cudnn"] == version


def test_a_mode_of_another_device_is_a_visible_record(settings):
    entry = measure(settings("triton"))
    assert (entry["status"], entry["samples"]) == ("unsupported", {})
    assert load(entry["reason"]) == NeedsDevice("", ["cuda"], "cpu")
    assert record.problem(entry) is None


def wrong(x):
    return torch.softmax(x, dim=-1) * 1.01


def broken(x):
    raise RuntimeError("a kernel\nfell over")


def exhausted(x):
    raise torch.OutOfMemoryError("no memory left")


@pytest.mark.parametrize(
    ("function", "status", "kind", "fields"),
    [
        (wrong, "incorrect", ErrorTooLarge, {"error": pytest.approx(0.01, rel=0.01), "special": True}),
        (broken, "crashed", Raised, {"error": "RuntimeError: a kernel fell over"}),
        (exhausted, "oom", Raised, {"error": "OutOfMemoryError: no memory left"}),
    ],
)
def test_failures_become_records_without_times(settings, monkeypatch, function, status, kind, fields):
    monkeypatch.setattr(modes, "build", lambda program, mode, inputs: function)
    entry = measure(settings())
    assert entry["status"] == status
    reason = load(entry["reason"])
    assert isinstance(reason, kind) and {name: getattr(reason, name) for name in fields} == fields
    assert entry["samples"] == {}
    assert record.problem(entry) is None


@pytest.mark.parametrize(
    ("workload", "size", "shapes", "flops"),
    [
        (Softmax(bytes="1MiB"), "1024", {"x": (512, 1024)}, 5 * 512 * 1024),
        (LayerNorm(bytes="1MiB"), "512", {"x": (1024, 512), "weight": (512,), "bias": (512,)}, 8 * 1024 * 512),
        (Matmul(), "8", {"a": (8, 8), "b": (8, 8)}, 2 * 8**3),
        (Matmul(), "2x3x5", {"a": (2, 3), "b": (3, 5)}, 2 * 2 * 3 * 5),
        (Matmul(layout="tt"), "2x3x5", {"a": (2, 3), "b": (3, 5)}, 2 * 2 * 3 * 5),
        (Attention(tokens=64, heads=2), "16", {n: (4, 2, 16, 64) for n in "qkv"}, 4 * 4 * 2 * 16**2 * 64),
        (
            Attention(batch=3, heads=6, kv_heads=2),
            "16",
            {"q": (3, 6, 16, 64), **{n: (3, 2, 16, 64) for n in "kv"}},
            4 * 3 * 6 * 16**2 * 64,
        ),
        (
            Attention(batch=3, heads=6, kv_heads=2, queries=1),
            "16",
            {"q": (3, 6, 1, 64), **{n: (3, 2, 16, 64) for n in "kv"}},
            4 * 3 * 6 * 16 * 64,
        ),
    ],
)
def test_sizes_make_shapes_and_work(workload, size, shapes, flops):
    assert workload.shapes(size, 2) == shapes
    assert workload.flops(size, 2) == flops


@pytest.mark.parametrize(
    ("layout", "strides"),
    [("nn", [(3, 1), (5, 1)]), ("nt", [(3, 1), (1, 3)]), ("tn", [(1, 2), (5, 1)]), ("tt", [(1, 2), (1, 3)])],
)
def test_a_layout_says_how_the_factors_lie_and_not_what_they_are(layout, strides):
    plain, laid = (Matmul(layout=of).draw("2x3x5", DTYPES["float32"], "cpu", seed=3) for of in ("nn", layout))
    assert [t.stride() for t in laid.values()] == strides
    assert all(torch.equal(plain[name], laid[name]) for name in plain)


def test_keys_that_a_group_of_heads_shares_are_read_once():
    alone, shared = Attention(heads=6, queries=1), Attention(heads=6, kv_heads=2, queries=1)
    query = 8 * 6 * 64 * 2
    assert alone.necessary_bytes("16", 2) - 2 * query == 3 * (shared.necessary_bytes("16", 2) - 2 * query)


@pytest.mark.parametrize("library", ["sdpa-flash", "sdpa-math"])
def test_a_library_is_measured_in_the_place_of_the_operation(settings, library):
    of = {"name": "attention", "batch": 1, "heads": 2, "head_dim": 16, "causal": True}
    run = {"runner": "library", "library": library}
    entry = measure(settings(op="attention", size="32", workload=of, run=run))
    assert entry["status"] == "ok" and "library" not in entry, "it is no package of its own"
    assert record.problem(entry) is None


@pytest.mark.parametrize(
    ("library", "name", "wanted"),
    [
        ("liger", "liger-kernel", "liger-kernel"),
        ("quack", "quack-kernels", "quack-kernels"),
        ("fa4", "flash-attn-4", "'flash-attn-4[cu13]>=4.0.0b1'"),
        ("helion", "helion", "helion"),
    ],
)
def test_a_missing_library_is_unsupported_and_says_what_installs_it(settings, monkeypatch, library, name, wanted):
    monkeypatch.setattr(package, "find_spec", lambda module: None)
    entry = measure(settings(run={"runner": "library", "library": library}))
    assert (entry["status"], load(entry["reason"])) == ("unsupported", NotInstalled(name, f"pip install {wanted}"))


def test_rows_wider_than_a_library_takes_are_unsupported(settings, monkeypatch):
    monkeypatch.setattr(package, "find_spec", lambda name: name)
    monkeypatch.setattr(package, "import_module", lambda name: None)
    monkeypatch.setattr(modes.metadata, "version", lambda name: "0")
    entry = measure(settings(size="65537", run={"runner": "library", "library": "liger"}))
    assert (entry["status"], load(entry["reason"])) == ("unsupported", RowsTooWide("liger", 65536))


def test_a_mode_that_goes_wrong_later_is_caught_after_timing(settings, monkeypatch):
    calls = []

    def drifting(x):
        calls.append(1)
        return torch.softmax(x, dim=-1) * (1.01 if len(calls) > 8 else 1)

    monkeypatch.setattr(modes, "build", lambda program, mode, inputs: drifting)
    assert measure(settings())["status"] == "incorrect"


def test_inputs_are_the_same_for_all_modes_and_differ_between_repeats(settings):
    eager, compiled = measure(settings()), measure(settings("eager-control"))
    assert eager["seeds"] == compiled["seeds"]
    assert eager["seeds"] != measure(settings(repeat=1))["seeds"]
    assert len(set(eager["seeds"])) == 2


@pytest.mark.parametrize(
    ("workload", "size"),
    [(Matmul(), "96"), (Softmax(rows=33), "70"), (LayerNorm(rows=33), "70"),
     (Attention(batch=2, heads=3, head_dim=16), "40"), (Attention(tokens=80, heads=3, head_dim=16, causal=True), "40"),
     (Matmul(), "16x96x40"), (Matmul(layout="nt"), "16x96x40"), (Matmul(layout="tn"), "40x96x16"),
     (Attention(batch=2, heads=6, head_dim=16, kv_heads=3), "40"),
     (Attention(batch=2, heads=6, head_dim=16, kv_heads=2, queries=1), "400")],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_eager_passes_its_own_check_in_chunks_and_whole(workload, size, dtype, monkeypatch):
    inputs = workload.draw(size, DTYPES[dtype], "cpu", seed=3)
    program = prepare(workload, size, DTYPES[dtype], "cpu", seed=4)
    output = program.results(program.function, inputs)
    whole = accuracy.check(program, inputs, output)
    monkeypatch.setattr(accuracy, "CHUNK_ELEMENTS", 1000)
    chunked = accuracy.check(program, inputs, output)
    assert whole["ok"] and chunked["ok"]
    assert whole["error"] == pytest.approx(chunked["error"], rel=1e-6)
    assert 0 < whole["error"] < 2e-2


def test_nan_inf_shape_and_dtype_are_seen():
    softmax = Program(Softmax(rows=4))
    inputs = softmax.workload.draw("8", DTYPES["float32"], "cpu", seed=3)
    right = softmax.function(*inputs.values())
    for position, value in ((0, float("nan")), (1, float("inf"))):
        bad = right.clone()
        bad[0, position] = value
        verdict = accuracy.check(softmax, inputs, (bad,))
        assert not verdict["ok"] and load(verdict["reason"]).special is False
    assert not accuracy.check(softmax, inputs, (right[:2],))["ok"]
    assert not accuracy.check(softmax, inputs, (right.double(),))["ok"]
    assert not accuracy.check(softmax, inputs, (torch.zeros_like(right),))["ok"]


def test_nan_where_eager_has_nan_is_right():
    softmax = Program(Softmax(rows=4))
    inputs = softmax.workload.draw("8", DTYPES["float32"], "cpu", seed=3)
    inputs["x"][2, 3] = float("nan")
    assert accuracy.check(softmax, inputs, (softmax.function(*inputs.values()),))["ok"]


def test_at_the_first_call_the_collector_has_nothing_of_the_imports_to_look_through(settings, monkeypatch):
    counts, build = [], modes.build

    def counted(*given):
        counts.append((gc.get_freeze_count(), len(gc.get_objects())))
        return build(*given)

    monkeypatch.setattr(modes, "build", counted)
    gc.unfreeze()
    assert measure(settings())["status"] == "ok"
    frozen, left = counts[0]
    assert frozen > 100_000 and left < 10_000


def test_a_graph_has_twenty_calls_and_fewer_of_a_long_one():
    assert [timers.graph_calls(latency) for latency in (5, 1000, 2000, 9000, 40_000)] == [20, 20, 10, 2, 1]


def test_what_tuning_picked_is_part_of_the_code_and_how_long_it_took_is_not(tmp_path):
    code, pick = tmp_path / "kernel.py", tmp_path / "kernel.best_config"
    code.write_text("pass")
    digests = [caches.generated_code(tmp_path)]
    for warps, milliseconds in ((4, 10), (4, 99), (8, 10)):
        pick.write_text(json.dumps({"num_warps": warps, "time_taken_ms": milliseconds}))
        digests.append(caches.generated_code(tmp_path))
    assert digests[1] == digests[2] and len(set(digests)) == 3


def test_caches_are_fresh_and_taken_back(monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", "/mine")
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    with caches.fresh() as root:
        assert os.environ["TRITON_CACHE_DIR"].startswith(str(root))
    assert os.environ["TRITON_CACHE_DIR"] == "/mine"
    assert "TORCHINDUCTOR_CACHE_DIR" not in os.environ
    assert not root.exists()


def test_warm_up_settles_or_says_so(clock):
    sampling = {**SAMPLING, "warmup_tolerance": 1e-9}
    steps = iter(range(10_000))
    slower = lambda: clock.sleep(next(steps) * 2e-4)  # noqa: E731
    restless = timers.warm_up(slower, lambda: None, sampling)
    assert restless["settled"] is False
    assert 0.2 < sum(restless["values"]) / 1e6 < 0.22, "it ends with the window in which its time is over"
    steady = timers.warm_up(lambda: clock.sleep(2e-3), lambda: None, SAMPLING)
    assert steady == {"values": [2000] * 3 * SAMPLING["warmup_window"], "settled": True}


def test_a_window_of_slow_calls_ends_early(clock):
    sampling = {**SAMPLING, "warmup_window": 50}
    slow = timers.warm_up(lambda: clock.sleep(0.02), lambda: None, sampling)
    assert len(slow["values"]) == 3 * timers.WINDOW_CALLS and slow["settled"]


def test_latency_is_the_wall_time_of_the_call_in_microseconds(clock):
    sample = timers.latency(lambda: clock.sleep(0.01), lambda: None, apart=False)
    series = timers.in_turns([sample], lambda: clock.sleep(0.5), SAMPLING)
    assert series == {"latency": ([10_000] * 5, [""] * 5)}


def test_host_ends_with_the_call_and_latency_with_the_device(clock):
    sample = timers.latency(lambda: clock.sleep(0.002), lambda: clock.sleep(0.01), apart=True)
    assert sample() == ({"latency": 12_000, "host": 2_000}, "")


def test_throughput_waits_once_for_many_calls(clock):
    waits = []
    values, _ = timers.throughput(lambda: clock.sleep(0.001), lambda: waits.append(clock.sleep(0.05)), 10)()
    assert values["throughput"] == 6_000, "10 ms of calls and one wait of 50 ms, over 10"
    assert len(waits) == 2, "before the clock starts, and before it stops"


@pytest.mark.parametrize(("latency", "calls"), [(1, 100), (50, 100), (500, 10), (4_000, 2), (100_000, 2)])
def test_calls_back_to_back_fill_five_milliseconds_within_bounds(latency, calls):
    assert timers.batch(latency) == calls


def test_timers_take_turns_so_that_a_slow_moment_falls_on_all_of_them(clock):
    order = []

    def timer(name):
        return lambda: (order.append(name), ({name: 1.0}, ""))[1]

    sampling = {"samples": 20, "min_samples": 5, "max_seconds": 1.0}
    series = timers.in_turns([timer("a"), timer("b")], lambda: order.append("|"), sampling)
    assert "".join(order) == "|aa|bb" * 10
    assert series == {name: ([1.0] * 20, [""] * 20) for name in "ab"}


def test_a_slow_timer_stops_at_its_time_and_the_others_go_on(clock):
    slow = lambda: (clock.sleep(0.02), ({"slow": 1.0}, ""))[1]  # noqa: E731
    quick = lambda: ({"quick": 1.0}, "")  # noqa: E731
    for least, taken in ((2, 3), (4, 4)):
        sampling = {"samples": 30, "min_samples": least, "max_seconds": 0.05}
        series = timers.in_turns([slow, quick], lambda: None, sampling)
        assert (len(series["slow"][0]), len(series["quick"][0])) == (taken, 30)


def test_a_turn_of_slow_samples_is_short(clock):
    turns = []
    slow = lambda: (clock.sleep(0.003), ({"slow": 1.0}, ""))[1]  # noqa: E731
    sampling = {"samples": 30, "min_samples": 30, "max_seconds": 1.0}
    timers.in_turns([slow], lambda: turns.append(clock.ns), sampling)
    assert len(turns) == 15, "two samples in each, for three there is no time"


class Spells:
    """A host whose cores take twice as long in the spells that `slow` says of (core, how often it was asked)."""

    def __init__(self, monkeypatch, cores: int, slow):
        self.here, self.asked, self.slow = set(range(cores)), 0, slow
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: self.here)
        monkeypatch.setattr(os, "sched_setaffinity", lambda _, cores: setattr(self, "here", set(cores)))
        monkeypatch.setattr(core, "_spin", self.spin)

    def spin(self) -> int:
        self.asked += 1
        (here,) = self.here
        return 200_000 if self.slow(here, self.asked) else 100_000


def test_the_thread_stays_on_a_core_at_full_speed(monkeypatch):
    spells = Spells(monkeypatch, 4, lambda here, _: here != 2)
    with core.Core() as kept:
        assert spells.here == {2} and kept.full == 100
        assert kept.undisturbed(lambda: [7]) == ([7], True) and kept.again == 0
    assert spells.here == {0, 1, 2, 3}, "the rest of the job has all of its cores"


def test_samples_of_a_slow_core_are_taken_again_on_another(monkeypatch, clock):
    spells = Spells(monkeypatch, 3, lambda here, asked: here == 0 and asked > 8)
    taken = []
    with core.Core() as kept:
        assert spells.here == {0}
        sample = lambda: (taken.append(spells.here), ({"a": float(len(taken))}, ""))[1]  # noqa: E731
        series = timers.in_turns([sample], lambda: None, {**SAMPLING, "samples": 10}, kept)
    assert series["a"] == ([float(n) for n in range(2, 12)], [""] * 10), "the first one is taken again"
    assert taken == [{0}] + [{1}] * 10 and (kept.again, kept.slow) == (1, 0)


def test_a_window_of_the_warm_up_on_a_slow_core_is_taken_again_on_another(monkeypatch, clock):
    spells = Spells(monkeypatch, 2, lambda here, asked: here == 0 and asked > 6)
    where, sampling = [], {**SAMPLING, "warmup_window": 4}

    def call():
        where.append(min(spells.here))
        clock.sleep(2e-3)

    with core.Core() as kept:
        warm = timers.warm_up(call, lambda: None, sampling, kept)
    assert where == [0] * 4 + [1] * 12 and kept.again == 1
    assert len(warm["values"]) == 12, "what the slow core did is left out"


def test_on_a_host_that_stays_slow_samples_are_kept_and_flagged(monkeypatch, clock):
    spells = Spells(monkeypatch, 2, lambda _, asked: asked > 6)
    monkeypatch.setattr(core, "AGAIN", 5)
    with core.Core() as kept:
        series = timers.in_turns([lambda: ({"a": 1.0}, "")], lambda: None, {**SAMPLING, "samples": 10}, kept)
    assert series["a"] == ([1.0] * 10, ["slow host"] * 10)
    assert (kept.again, kept.slow) == (5, 10)
    assert spells.asked < 200, "a slow host is not asked for ever"


def test_a_real_host_has_a_speed(monkeypatch):
    before, spin, took = os.sched_getaffinity(0), core._spin, []
    monkeypatch.setattr(core, "_spin", lambda: took.append(spin()) or took[-1])
    with core.Core() as kept:
        assert len(os.sched_getaffinity(0)) == 1
        assert kept.undisturbed(lambda: [1])[0] == [1]
    assert os.sched_getaffinity(0) == before
    assert 0 < kept.full == min(took) / 1e3 < inf, "µs, of ns"


def test_a_trace_lasts_as_long_as_it_is_told_and_keeps_the_state_of_the_device(clock):
    points = timers.trace(lambda: clock.sleep(0.001), lambda: clock.sleep(0.003), 5, 0.1, lambda: {"power": 7.0})
    assert all(point["call"] == 1_600 and point["power"] == 7.0 for point in points)
    assert [round(point["at"], 3) for point in points][-2:] == [0.096, 0.104]


def test_outliers_are_flagged_and_kept():
    assert timers.flagged([10, 10.1, 9.9, 10, 50], [""] * 5) == ["", "", "", "", "outlier"]
    assert timers.flagged([10, 10.1, 9.9], ["", "uncovered", ""]) == ["", "uncovered", ""]


@pytest.mark.parametrize("content", ["", "{", '{"version": 1}', "[]", '{"version": 3, "status": "fine"}'])
def test_a_bad_record_is_named_with_its_repair(tmp_path, content):
    path = tmp_path / "0.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"0\.json: .*delete it to measure it again"):
        record.read(path)


def test_a_record_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"0\.json: no such file; run snakemake to measure it"):
        record.read(tmp_path / "0.json")


def measured_by_hand(op: str, size: str, mode: str, folder: Path) -> dict:
    """Return the record of a job in a process of its own: what another left in the GPU's memory would be counted."""
    script, path = ROOT / "workflow" / "scripts" / "measure.py", folder / "0.json"
    job = ["--op", op, "--size", size, "--mode", mode, "--output", str(path)]
    subprocess.run([sys.executable, str(script), *job], cwd=ROOT, check=True)
    return record.read(path)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("mode", ["eager", "compile", "triton"])
def test_a_gpu_record_has_all_timers(mode, tmp_path):
    entry = measured_by_hand("softmax", "1024", mode, tmp_path)
    assert entry["status"] == "ok", entry["reason"]
    timed = {"device", "latency", "event", "host", "throughput", "graph"}
    assert set(entry["samples"]) == {"first_call", "peak_memory", *timed}
    assert entry["samples"]["device"]["flags"].count("uncovered") == 0
    mid = {timer: statistics.median(entry["samples"][timer]["values"]) for timer in timed}
    assert mid["graph"] < mid["device"], "warm, and cold"
    assert mid["graph"] < mid["event"] and mid["host"] < mid["latency"], "the kernel with its launch; the host's part"
    assert mid["graph"] < 1.05 * mid["throughput"], "the device alone, and with the host beside it"
    assert set(entry["clocks"]) == {"single", "throughput", "graph"}
    assert entry["floors"]["event_pair"] < entry["floors"]["empty_kernel"] < 20
    assert entry["memory"]["peak"] == 8192 * 1024 * 2
    assert entry["profile"]["checked"] and entry["profile"]["kernels"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_the_memory_of_a_graph_is_counted(tmp_path):
    entry = measured_by_hand("softmax", "1024", "compile-reduce-overhead", tmp_path)
    tensor = 8192 * 1024 * 2
    assert 2 * tensor <= entry["memory"]["peak"] < 4 * tensor, "a copy of the input, and the output"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize(("mode", "copies"), [("compile-reduce-overhead", 1), ("compile-reduce-overhead-static", 0)])
def test_a_graph_does_not_copy_inputs_that_stay_where_they_are(mode, copies, tmp_path):
    entry = measured_by_hand("softmax", "1024", mode, tmp_path)
    assert entry["profile"]["checked"]
    assert sum("copy" in kernel["name"].lower() for kernel in entry["profile"]["kernels"]) == copies


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_cuda_graphs_that_the_gpu_job_skipped_are_no_result(settings, monkeypatch):
    """A part on the host, with which Inductor records no CUDA graph unless it may do so of the other parts."""

    def half_on_the_host(self, x):
        one = (x[0, 0].cpu() * 0 + 1).to(x.device)
        return torch.softmax(x, dim=-1) * one

    monkeypatch.setattr(Softmax, "call", half_on_the_host)
    with torch._inductor.config.patch(graph_partition=False):
        entry = measure(settings("compile", device="cuda", run={"runner": "compile", "mode": "reduce-overhead"}))
    assert (entry["status"], entry["samples"]) == ("unsupported", {}), entry["reason"]
    assert isinstance(load(entry["reason"]), (NoGraphRecorded, GraphsSkipped))
