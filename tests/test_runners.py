"""The runners besides eager and compile, on the CPU: right, timed as what they are, or unsupported with the reason."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch
import torch._dynamo
from checkout import ROOT, TINY

from kernelbench.harness import modes, package, record
from kernelbench.harness.measure import measure
from kernelbench.harness.program import Program
from kernelbench.harness.runners import onnx
from kernelbench.harness.workload import Unsupported
from kernelbench.harness.workloads import matmul_softmax
from kernelbench.notes import DtypeNotSupported, InferenceOnly, NeedsDevice, NoProvider, NotInJax, NotInstalled, load
from kernelbench.study import machine
from kernelbench.study.study import Study

OPS = {
    "softmax": {"rows": 64, "sizes": [128]},
    "matmul_softmax": {"sizes": [100]},
    "elementwise_chain": {"sizes": [3000]},
    "linear_relu": {"rows": 24, "sizes": [32]},
    "mlp": {"sizes": [4]},
    "conv": {"channels": 8, "sizes": [16]},
    "transformer": {"width": 32, "forward": 64, "sizes": [12]},
    "gpt": {"batch": 2, "sequence": 12, "width": 32, "heads": 4, "sizes": [1]},
    "gpt_training": {"batch": 2, "sequence": 12, "width": 32, "heads": 4, "sizes": [1]},
}
MODELS = ("linear_relu", "mlp", "conv", "transformer", "gpt")
CHAINS = ("softmax", "matmul_softmax", "elementwise_chain")


@pytest.fixture
def run(monkeypatch):
    """Return what measures an op by a runner."""
    monkeypatch.setattr(machine, "present", lambda: ("cpu-test", "cpu", "X"))
    torch._dynamo.reset()  # A job is alone in its process, and no other has used up the compiler's limits.
    modes = {name: {"runner": name} for name in ("eager", "compile", "jit", "onnx", "tensorrt", "jax")}

    def measured(op, name, dtype="float32"):
        study = Study({**TINY, "machine": "cpu-test", "dtypes": [dtype], "ops": OPS, "modes": modes})
        size = study.config["ops"][op]["sizes"][0]
        entry = measure(study.settings(study.job(op, dtype, str(size), name, 0)))
        assert record.problem(entry) is None
        return entry

    return measured


def needs(module):
    missing = not find_spec(module) and "NEEDS_RUNTIMES" not in os.environ
    return pytest.mark.skipif(missing, reason=f"needs {module}: make runtimes")


@pytest.mark.parametrize("op", [*CHAINS, *MODELS, "gpt_training"])
@pytest.mark.parametrize("dtype", ["float32", "autocast-bfloat16"])
def test_torchscript_is_right(run, op, dtype):
    entry = run(op, "jit", dtype)
    assert entry["status"] == "ok", entry["reason"]


@needs("onnxruntime")
@pytest.mark.parametrize("op", [*CHAINS, *MODELS])
def test_onnx_runtime_is_right(run, op):
    entry = run(op, "onnx")
    assert entry["status"] == "ok", entry["reason"]
    assert set(entry["library"]) == {"onnxruntime", "onnxscript"}


@pytest.mark.parametrize("converts", [False, True])
def test_where_building_converts_the_model_it_is_part_of_the_first_call(run, monkeypatch, converts):
    now, build = 0, modes.build  # s

    def slow(*given):
        nonlocal now
        now += 1000
        return build(*given)

    monkeypatch.setattr(modes, "build", slow)
    monkeypatch.setattr("kernelbench.harness.measure.perf_counter", lambda: now)
    monkeypatch.setattr(modes.runner_of({"runner": "eager"}), "converts", converts, raising=False)
    (first_call,) = run("mlp", "eager")["samples"]["first_call"]["values"]
    assert (first_call > 1000) is converts
    assert onnx.RUNNER.converts


@needs("jax")
@pytest.mark.parametrize("op", CHAINS)
def test_jax_is_right(run, op):
    entry = run(op, "jax")
    assert entry["status"] == "ok", entry["reason"]
    assert set(entry["library"]) == {"jax"}


@needs("jax")
def test_what_has_no_version_in_jax_says_so(run):
    entry = run("mlp", "jax")
    assert (entry["status"], load(entry["reason"])) == ("unsupported", NotInJax("mlp"))


@pytest.mark.parametrize(("name", "missing"), [("onnx", "onnxruntime"), ("jax", "jax"), ("tensorrt", "torch-tensorrt")])
def test_a_missing_package_is_unsupported_and_says_what_installs_it(run, monkeypatch, name, missing):
    monkeypatch.setattr(package, "find_spec", lambda module: None)
    entry = run("mlp", name)
    assert (entry["status"], entry["samples"]) == ("unsupported", {})
    assert load(entry["reason"]) == NotInstalled(missing, f"pip install {missing}")


@needs("onnxruntime")
@pytest.mark.parametrize(
    ("op", "dtype", "reason"),
    [
        ("gpt_training", "float32", InferenceOnly("onnx", "training step")),
        ("mlp", "autocast-bfloat16", InferenceOnly("onnx", "autocast")),
        ("mlp", "bfloat16", DtypeNotSupported("torch.bfloat16")),
    ],
)
def test_what_a_runtime_cannot_do_is_unsupported(run, op, dtype, reason):
    entry = run(op, "onnx", dtype)
    assert (entry["status"], load(entry["reason"])) == ("unsupported", reason)


@needs("onnxruntime")
def test_onnx_runtime_never_takes_the_cpu_in_the_place_of_a_gpu():
    with pytest.raises(Unsupported) as refused:
        onnx._session(b"", "cuda")
    assert refused.value.note == NoProvider("CUDAExecutionProvider", "pip install onnxruntime-gpu")


@pytest.mark.nightly
def test_a_training_step_is_compiled_and_right(run):
    entry = run("gpt_training", "compile")
    assert entry["status"] == "ok", entry["reason"]
    assert entry["accuracy"]["checks"] == 4


def test_tf32_is_for_gpus_and_float32_never_rounds_to_it(run):
    entry = run("mlp", "eager", "tf32")
    assert (entry["status"], load(entry["reason"])) == ("unsupported", NeedsDevice("tf32", ["cuda"], "cpu"))
    assert torch.backends.cudnn.allow_tf32 and torch.get_float32_matmul_precision() == "high"
    assert run("mlp", "eager")["status"] == "ok"
    assert not torch.backends.cudnn.allow_tf32 and torch.get_float32_matmul_precision() == "highest"


def by_hand(study, op, size, mode, path, dtype="float32"):
    """Measure a job of a study of workflow/studies in a process of its own and return its record."""
    names = {"config": f"workflow/studies/{study}.yaml", "op": op, "size": size, "mode": mode, "dtype": dtype}
    options = [word for name, value in names.items() for word in (f"--{name}", value)]
    command = [sys.executable, "workflow/scripts/measure.py", *options, "--output", str(path / "record.json")]
    subprocess.run(command, cwd=ROOT, check=True)
    return record.read(path / "record.json")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_six_kernels_become_one(tmp_path):
    eager, compiled = (
        sum(kernel["count"] for kernel in by_hand(*cell, mode, tmp_path)["profile"]["kernels"])
        for cell in [("elementwise", "elementwise_chain", "20971520")]
        for mode in ("eager", "compile")
    )
    assert (eager, compiled) == (6, 1)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("mode", ["eager", "compile", "jit"])
def test_a_training_step_on_a_gpu_is_right(mode, tmp_path):
    entry = by_hand("training", "gpt_training", "1", mode, tmp_path, "autocast-bfloat16")
    assert entry["status"] == "ok", entry["reason"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("mode", ["eager", "compile"])
def test_float8_on_a_gpu_is_right_or_unsupported(mode, tmp_path):
    entry = by_hand("dtypes", "scaled_matmul", "1024", mode, tmp_path, "float8")
    has_it = torch.cuda.get_device_capability() >= (8, 9)
    assert entry["status"] == ("ok" if has_it else "unsupported"), entry["reason"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("mode", ["onnx", "jax"])
def test_a_runtime_off_the_stream_has_what_its_timers_can_tell(mode, tmp_path):
    entry = by_hand("elementwise", "elementwise_chain", "65536", mode, tmp_path)
    if entry["status"] == "unsupported":
        assert "pip install" in load(entry["reason"]).install
    else:
        assert entry["status"] == "ok", entry["reason"]
        assert set(entry["samples"]) == {"first_call", "latency", "throughput"}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@needs("onnxruntime")
def test_what_onnx_runtime_returns_on_a_gpu_is_written_when_it_is_read():
    given = tuple(torch.randn(4096, 4096, device="cuda") for _ in range(2))
    try:
        call = onnx.RUNNER.build(Program(matmul_softmax.WORKLOAD(), device="cuda"), {}, given)
    except Unsupported as reason:  # The package of that name for a CPU.
        pytest.skip(str(reason))
    first = onnx.RUNNER.tensor(call(*given)).clone()
    for _ in range(10):
        call(*given).fill_(float("nan"))
        torch.cuda.synchronize()
        assert onnx.RUNNER.tensor(call(*given)).equal(first)


@pytest.mark.parametrize(("mode", "most"), [({}, 2), ({"mode": "reduce-overhead"}, 2), ({"mode": "max-autotune"}, 4)])
def test_tuned_products_may_add_up_in_another_order(mode, most):
    assert modes.runner_of({"runner": "compile"}).slack(mode) == most


@pytest.mark.parametrize(
    ("mode", "threads"),
    [
        pytest.param("default", 1, marks=pytest.mark.nightly),
        ("max-autotune", min(8, len(os.sched_getaffinity(0)))),
    ],
)
def test_tuning_compiles_in_threads_of_the_job_and_nothing_in_a_pool(mode, threads):
    script = f"""
from types import SimpleNamespace
from kernelbench.harness import compiler, modes
modes.runner_of({{"runner": "compile"}}).build(SimpleNamespace(function=abs), {{"mode": "{mode}"}}, ())
from torch._inductor import config, select_algorithm
print(config.compile_threads, select_algorithm.get_num_workers(), compiler.observe()["tuning_threads"])
"""
    environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert done.stdout.split() == ["1", str(threads), str(threads)], done.stderr
