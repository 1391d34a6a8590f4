"""Models of libraries, on the CPU in small: right in every mode that has them, trained, decoded, refused in one line.

The study is workflow/studies/architectures.yaml itself, each of its models made small.
"""

import os
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec

import pytest
import torch
import yaml
from checkout import ROOT, TINY
from torch import nn

from kernelbench.errors import InputError
from kernelbench.harness import accuracy, compiler, package, record
from kernelbench.harness.dtypes import DTYPES
from kernelbench.harness.measure import measure
from kernelbench.harness.program import Program, prepare
from kernelbench.harness.runners.compile import find_blocks
from kernelbench.harness.workload import build
from kernelbench.harness.workloads.torchvision import Torchvision
from kernelbench.harness.workloads.transformer import Transformer
from kernelbench.harness.workloads.transformers import Transformers
from kernelbench.notes import NeedsDevice, NoRepeatedBlocks, NotInstalled, OtherRandomNumbers, ZeroReference, load
from kernelbench.study import machine
from kernelbench.study.study import Study
from kernelbench.study.study import load as load_study

FILE = ROOT / "workflow" / "studies" / "architectures.yaml"
SMALL_LLAMA = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
}
SMALL_GPT2 = {"n_embd": 32, "n_head": 4, "n_layer": 2, "vocab_size": 100, "bos_token_id": 0, "eos_token_id": 0}
# Without dropout, which is random.
DRY = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
SMALL_BERT = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 100,
}
SMALL = {
    "bert_base": {"config": SMALL_BERT, "sizes": ["2x12"]},
    "gpt2_prefill": {"config": SMALL_GPT2, "sizes": ["1x12"]},
    "llama_1b_prefill": {"config": SMALL_LLAMA, "sizes": ["1x12"]},
    "llama_1b_decode": {"config": SMALL_LLAMA, "sizes": ["2x12"]},
    "gpt2_training": {"config": SMALL_GPT2 | DRY, "sizes": ["2x12"]},
    "transformer_fast": {"width": 32, "sizes": [12]},
}
RESNET = {"layer_type": "basic", "depths": [1, 1], "hidden_sizes": [8, 16], "embedding_size": 8, "num_labels": 10}

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
needs_transformers = pytest.mark.skipif(
    not find_spec("transformers") and "NEEDS_MODELS" not in os.environ, reason="needs transformers: make models"
)


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    """Let our kernels be imported as conftest.py imports Triton: transformers looks for a package called kernels."""
    if not torch.cuda.is_available():
        monkeypatch.setenv("TRITON_INTERPRET", "1")


@pytest.fixture
def study(monkeypatch) -> Study:
    """Return the study on a CPU, its models small, without what is not small and not of transformers."""
    monkeypatch.setattr(machine, "present", lambda: ("cpu-test", "cpu", "X"))
    config = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    ops = {op: {**config["ops"][op], **small, "dtypes": ["float32"]} for op, small in SMALL.items()}
    modes = {mode: {**entry, "workers": 1} if "workers" in entry else entry for mode, entry in config["modes"].items()}
    for entry in modes.values():
        if "only" in entry:
            entry["only"] = {op: SMALL[op]["sizes"] for op in entry["only"] if op in SMALL}
        if entry["runner"] == "compile":  # Inductor takes ten seconds a job; by night it is asked, too.
            entry["backend"] = "aot_eager"
            entry.pop("mode", None)
    apart = {"ops": ops, "modes": modes, "presets": {}, "sampling": TINY["sampling"], "repeats": 1}
    return Study({**config, **apart})


def run(study: Study, op: str, mode: str, **changed) -> dict:
    settings = study.settings(study.job(op, "float32", str(SMALL[op]["sizes"][0]), mode, 0))
    return measured(settings | {"run": settings["run"] | changed})


def measured(settings: dict) -> dict:
    entry = measure(settings)
    compiler.forget()
    assert record.problem(entry) is None
    return entry


def made(workload, size: str, dtype: str = "float32", seed: int = 4) -> tuple[Program, dict]:
    program = prepare(workload, size, DTYPES[dtype], "cpu", seed)
    return program, workload.draw(size, DTYPES[dtype], "cpu", seed=3)


@needs_transformers
@pytest.mark.parametrize("op", SMALL)
@pytest.mark.parametrize("mode", ["eager", "compile"])
def test_each_model_is_right_in_eager_mode_and_compiled(study, op, mode):
    entry = run(study, op, mode)
    assert entry["status"] == "ok", entry["reason"]
    assert entry["accuracy"]["reference"] == "float64"
    assert entry["work"]["flops"] > 0 and entry["work"]["bytes"] > 0
    assert mode == "eager" or (entry["compile"]["graph_breaks"], entry["compile"]["workers"]) == (0, 1)
    assert op == "transformer_fast" or set(entry["library"]) == {"transformers"}


@needs_transformers
@pytest.mark.parametrize("mode", ["compile-regional", "compile-dynamic"])
def test_modes_for_some_models_are_right_at_each_of_them(study, mode):
    for op in study.modes[mode]["only"]:
        entry = run(study, op, mode)
        assert entry["status"] == "ok", f"{op}: {entry['reason']}"
        assert entry["compile"]["graphs"] == 1


@needs_transformers
@pytest.mark.nightly
@pytest.mark.parametrize(("op", "mode"), [(op, "compile") for op in SMALL] + [("bert_base", "compile-regional")])
def test_each_model_is_right_with_inductor(study, op, mode):
    entry = run(study, op, mode, backend="inductor")
    assert entry["status"] == "ok", entry["reason"]


def test_a_cuda_graph_needs_a_gpu(study):
    entry = run(study, "transformer_fast", "cuda-graph")
    assert (entry["status"], load(entry["reason"])) == ("unsupported", NeedsDevice("", ["cuda"], "cpu"))


@pytest.mark.parametrize(
    ("workload", "size", "requirements"),
    [
        ({"name": "torchvision", "model": "resnet50"}, "1", "envs/models-cuda.txt"),
        ({"name": "transformers", "model": "BertModel"}, "1x8", "envs/models.txt"),
    ],
)
def test_a_missing_library_is_unsupported_and_says_what_installs_it(study, monkeypatch, workload, size, requirements):
    settings = study.settings(study.jobs[0])
    monkeypatch.setattr(package, "find_spec", lambda module: None)
    entry = measured(settings | {"workload": workload, "size": size, "run": {"runner": "eager"}})
    name = workload["name"]
    assert (entry["status"], entry["samples"]) == ("unsupported", {})
    assert load(entry["reason"]) == NotInstalled(name, f"pip install -r {requirements}")
    assert (ROOT / requirements).is_file()


@pytest.mark.skipif("NEEDS_MODELS" not in os.environ, reason="other versions than the pinned ones may be there")
def test_make_models_installs_the_versions_that_are_pinned():
    lines = (ROOT / "envs" / "models.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert "transformers" in pinned
    assert {name: metadata.version(name) for name in pinned} == pinned


# Transformers


@needs_transformers
def test_images_are_taken_as_well():
    workload = Transformers(model="ResNetForImageClassification", config=RESNET, image=32)
    program, inputs = made(workload, "3")
    (output,) = program.results(program.function, inputs)
    assert inputs["images"].shape == (3, 3, 32, 32) and output.shape == (3, 10)
    assert accuracy.check(program, inputs, (output,))["ok"]


@needs_transformers
def test_tokens_are_integers_of_the_vocabulary_that_follow_from_the_seed():
    workload = Transformers(model="BertModel", config=SMALL_BERT)
    first, again, other = (workload.draw("32x128", DTYPES["float16"], "cpu", seed)["tokens"] for seed in (3, 3, 4))
    assert first.dtype == torch.int64 and first.shape == (32, 128)
    assert (int(first.min()), int(first.max())) == (0, 99)
    assert torch.equal(first, again) and not torch.equal(first, other)


@needs_transformers
def test_no_weight_is_zero_and_they_follow_from_the_seed():
    workload = Transformers(model="GPT2LMHeadModel", config=SMALL_GPT2)
    first, again, other = (made(workload, "1x8", seed=seed)[0].module.state_dict() for seed in (4, 4, 5))
    assert all(weight.any() for weight in first.values())
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


@needs_transformers
def test_what_a_model_computes_when_it_is_made_keeps_its_dtype():
    program, _ = made(Transformers(model="LlamaForCausalLM", config=SMALL_LLAMA), "1x8", "bfloat16")
    buffers = dict(program.module.named_buffers())
    assert {buffer.dtype for name, buffer in buffers.items() if "inv_freq" in name} == {torch.float32}
    assert {weight.dtype for weight in program.module.parameters()} == {torch.bfloat16}


@needs_transformers
@pytest.mark.parametrize(
    ("model", "config"), [("LlamaForCausalLM", SMALL_LLAMA), ("GPT2LMHeadModel", SMALL_GPT2)], ids=["llama", "gpt2"]
)
def test_decoding_goes_on_from_what_is_in_the_cache(model, config):
    """With the keys and values of a text in the cache, the next logits are those of the text as a whole."""
    program, _ = made(Transformers(model=model, config=config, phase="decode"), "2x9")
    tokens = torch.randint(100, (2, 9))
    with torch.no_grad():
        whole = program.module.model(tokens, use_cache=False).logits[:, -1]
        cached = program.module.model(tokens[:, :-1], use_cache=True)
        past = getattr(cached, "cache", None) or cached.past_key_values
        for layer, full in zip(program.module.layers, past.layers, strict=True):
            layer.keys[:, :, :-1], layer.values[:, :, :-1] = full.keys, full.values
        output = program.module(tokens[:, -1:])[:, -1]
    torch.testing.assert_close(output, whole, rtol=1e-4, atol=1e-5)


@needs_transformers
def test_the_cache_does_not_advance():
    config = {**SMALL_LLAMA, "num_hidden_layers": 1}
    program, inputs = made(Transformers(model="LlamaForCausalLM", config=config, phase="decode"), "1x9")
    with torch.no_grad():
        first = program.function(*inputs.values()).clone()
        for _ in range(10_000):
            last = program.function(*inputs.values())
    assert torch.equal(first, last)


@needs_transformers
def test_prefill_gives_the_logits_of_the_last_token():
    programs = [
        made(Transformers(model="GPT2LMHeadModel", config=SMALL_GPT2, phase=phase), "2x8")
        for phase in ("forward", "prefill")
    ]
    every, last = (program.results(program.function, inputs)[0] for program, inputs in programs)
    assert every.shape == (2, 8, 100) and last.shape == (2, 1, 100)
    torch.testing.assert_close(every[:, -1:], last)


# Training


@needs_transformers
def test_training_is_judged_by_the_losses_and_all_gradients():
    program, inputs = made(Transformers(model="GPT2LMHeadModel", config=SMALL_GPT2 | DRY, trains=True), "2x8")
    step = program.around(program.function)
    means = [float(step(*inputs.values()).mean()) for _ in range(3)]
    assert means[0] > means[1] > means[2], "the optimizer made no step"
    losses, gradients = program.outcome(step, inputs)
    assert losses.shape == (14,)
    assert gradients.numel() == sum(weight.numel() for weight in program.module.parameters())
    assert accuracy.check(program, inputs, (losses, gradients))["ok"], "weights are not as they were made"
    for wrong in ((1.01 * losses, gradients), (losses, 1.01 * gradients)):
        assert not accuracy.check(program, inputs, wrong)["ok"]


# References


def test_a_reference_of_zeros_and_one_that_eager_misses_compare_nothing():
    class Model(Transformer):
        def module(self, size):
            return nn.Linear(self.width, self.width)

    program, inputs = made(Model(width=8, heads=2), "4")
    noise = torch.rand(2, 4, 8)
    with torch.no_grad():
        program.module.weight.zero_()
        program.module.bias.zero_()
    verdict = accuracy.check(program, inputs, (noise,))
    assert not verdict["ok"] and load(verdict["reason"]) == ZeroReference()
    program.module.forward = lambda x: torch.randn_like(x) if x.dtype == torch.float32 else x
    verdict = accuracy.check(program, inputs, (noise,))
    assert not verdict["compared"] and load(verdict["reason"]) == OtherRandomNumbers()


def test_a_reference_in_float32_says_so_and_judges_half_precision():
    program, inputs = made(Transformer(width=32, heads=4, forward=64), "12", "bfloat16")
    rough = Program(program.workload, program.module, reference="float32")
    (output,) = program.results(program.function, inputs)
    exact, found = (accuracy.check(each, inputs, (output,)) for each in (program, rough))
    assert (exact["reference"], found["reference"]) == ("float64", "float32")
    assert found["ok"] and found["error"] == pytest.approx(exact["error"], rel=1e-2)
    assert not accuracy.check(rough, inputs, (1.1 * output,))["ok"]


# What is refused


@pytest.mark.parametrize(
    ("kind", "parameters", "said"),
    [
        (Transformers, {}, "model is missing"),
        (Transformers, {"model": "BertModel", "phase": "generate"}, "phase: generate is not allowed"),
        (Transformers, {"model": "ResNetModel", "image": 32, "phase": "decode"}, "not allowed with image"),
        (Transformers, {"model": "GPT2LMHeadModel", "trains": True, "phase": "decode"}, "trains: true is not allowed"),
        (Transformers, {"model": "BertModel", "config": 3}, "config: 3 is not allowed; allowed: a mapping"),
        (Transformers, {"model": 3}, "model: 3 is not allowed; allowed: text"),
        (Torchvision, {"model": "resnet50", "image": 0}, "image: 0 is not allowed"),
        (Transformer, {"width": 32, "heads": 5}, "heads: 5 does not divide 32"),
    ],
)
def test_a_wrong_parameter_is_refused_in_one_line(kind, parameters, said):
    with pytest.raises(InputError, match=said):
        build(kind, parameters)


@pytest.mark.parametrize("size", ["128", "0x128", "1x", "axb", "1x128x3"])
def test_a_size_that_is_no_batch_of_texts_is_refused(size):
    with pytest.raises(InputError, match=f"size {size} is not allowed"):
        Transformers(model="BertModel").check_size(size, 4)


@needs_transformers
@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ({"model": "BurtModel"}, "has no model class BurtModel"),
        ({"model": "BertModel", "config": SMALL_BERT | {"num_attention_heads": 5}}, "(transformers.py:"),
    ],
)
def test_what_goes_wrong_in_a_job_names_the_place(study, workload, said):
    settings = study.settings(study.job("bert_base", "float32", "2x12", "eager", 0))
    entry = measured(settings | {"workload": {"name": "transformers", **workload}})
    told = str(load(entry["reason"]))
    assert entry["status"] == "crashed" and said in told
    assert "\n" not in told


# Blocks, processes that compile


@needs_transformers
@pytest.mark.parametrize(
    ("model", "config", "blocks"),
    [("BertModel", SMALL_BERT, 2), ("GPT2LMHeadModel", SMALL_GPT2, 2), ("LlamaForCausalLM", SMALL_LLAMA, 2)],
)
def test_the_repeated_blocks_of_a_model_are_its_layers(model, config, blocks):
    program, _ = made(Transformers(model=model, config=config), "1x8")
    assert len(find_blocks(program.module)) == blocks


def test_an_operation_has_no_blocks_to_compile(study):
    settings = study.settings(study.job("transformer_fast", "float32", "12", "compile", 0))
    regional = {"runner": "compile", "regional": True}
    for workload, size in (({"name": "softmax", "rows": 4}, "8"), ({"name": "mlp"}, "4")):
        entry = measured(settings | {"workload": workload, "size": size, "run": regional})
        assert entry["status"] == "unsupported" and isinstance(load(entry["reason"]), NoRepeatedBlocks)


ALONE = """
import os
import torch
from kernelbench.harness import compiler
from kernelbench.harness.runners.compile import _compiled_by_block

class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width + 1)

    def forward(self, x):
        return self.linear(x)

"""


def alone(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", ALONE + code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_blocks_that_share_no_graph_reach_the_limit_which_is_no_result():
    out = alone("""
model = torch.nn.Sequential(*(Block(width) for width in range(2, 14)))
compiled = _compiled_by_block(model, {"backend": "eager"})
assert compiled[0].linear.weight is model[0].linear.weight and not hasattr(model[0]._compiled_call_impl, "__call__")
compiled(torch.ones(3, 2))
print(compiler.fallback(False))
""")
    assert "to eager mode" in out


def test_processes_that_compile_have_ended_before_anything_is_timed():
    out = alone("""
import psutil
from torch._inductor import config
config.compile_threads = 1
compiler.start_workers(2)
during = len(psutil.Process().children())
function = torch.compile(lambda x: torch.relu(x) + 1)
assert torch.equal(function(torch.ones(8)), torch.full((8,), 2.0))
compiler.end_workers()
print(during, len(psutil.Process().children()), compiler.observe()["workers"], config.compile_threads)
print([name for name in (open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task"))
       if "ThreadPool" in name])
""")
    first, threads = out.splitlines()
    cores = min(2, len(os.sched_getaffinity(0)))
    if cores > 1:
        during, after, workers, left = map(int, first.split())
        assert during == 2 and (after, workers, left) == (0, 2, 1)
    assert threads == "[]"


# The study's file


def test_the_study_has_its_models_and_modes():
    study = load_study(FILE)
    assert {"resnet50", "vit_b_16", "convnext_tiny", *SMALL, "resnet50_training"} < set(study.config["ops"])
    assert {"cuda-graph", "compile-regional", "compile-one-worker"} < set(study.modes)


@pytest.mark.gpu
@needs_gpu
@needs_transformers
@pytest.mark.parametrize("op", SMALL)
def test_a_captured_model_is_right(study, op):
    settings = study.settings(study.job(op, "float32", str(SMALL[op]["sizes"][0]), "eager", 0))
    entry = measured(settings | {"device": "cuda", "run": {"runner": "cuda_graph"}})
    assert entry["status"] == "ok", entry["reason"]
    assert entry["memory"]["graph_pools"] > 0
    assert entry["profile"]["launches"] < sum(kernel["count"] for kernel in entry["profile"]["kernels"])


@pytest.mark.gpu
@needs_gpu
def test_do_bench_keeps_all_its_samples(study):
    settings = study.settings(study.job("transformer_fast", "float32", "12", "eager", 0))
    entry = measured(settings | {"device": "cuda", "sampling": settings["sampling"] | {"do_bench": True}})
    assert len(entry["samples"]["do_bench"]["values"]) > 10
