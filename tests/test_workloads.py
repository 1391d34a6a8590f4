"""Models and chains of operations on the CPU: their work, their weights, their check in every dtype, and training."""

import pytest
import torch

from kernelbench.harness import accuracy
from kernelbench.harness.dtypes import DTYPES
from kernelbench.harness.program import prepare
from kernelbench.harness.workloads.conv import Conv
from kernelbench.harness.workloads.elementwise_chain import ElementwiseChain
from kernelbench.harness.workloads.gpt import Gpt
from kernelbench.harness.workloads.gpt_training import GptTraining
from kernelbench.harness.workloads.linear_relu import LinearRelu
from kernelbench.harness.workloads.matmul_softmax import MatmulSoftmax
from kernelbench.harness.workloads.mlp import Mlp
from kernelbench.harness.workloads.scaled_matmul import ScaledMatmul
from kernelbench.harness.workloads.transformer import Transformer

GPT = {"batch": 2, "sequence": 12, "width": 32, "heads": 4}
ALL = [
    (MatmulSoftmax(), "40"),
    (ElementwiseChain(), "3000"),
    (LinearRelu(rows=24), "32"),
    (Mlp(), "4"),
    (Conv(channels=8), "16"),
    (Transformer(width=32, heads=4, forward=64), "12"),
    (Gpt(**GPT), "2"),
    (GptTraining(**GPT), "2"),
]
NAMES = [type(workload).__name__ for workload, _ in ALL]
CASES = [
    (*pair, dtype)
    for pair in ALL
    for dtype in ("float16", "bfloat16", "float32", "autocast-float16", "autocast-bfloat16")
    # A training step in float16 alone has no room for its gradients without a scaler of them.
    if not (pair[0].trains and dtype == "float16")
]


def made(workload, size, dtype="float32", seed=4):
    program = prepare(workload, size, DTYPES[dtype], "cpu", seed)
    return program, workload.draw(size, DTYPES[dtype], "cpu", seed=3)


@pytest.mark.parametrize(("workload", "size", "dtype"), CASES)
def test_eager_is_right_and_a_hundredth_off_is_not(workload, size, dtype):
    program, inputs = made(workload, size, dtype)
    results = program.results(program.function, inputs)
    found = accuracy.check(program, inputs, results)
    assert found["ok"] and 0 < found["error"] < 0.05
    off = accuracy.check(program, inputs, (*results[:-1], 1.1 * results[-1]))
    assert not off["ok"]


@pytest.mark.parametrize(("workload", "size"), ALL, ids=NAMES)
def test_the_shape_of_the_output_is_the_one_that_is_declared(workload, size):
    program, inputs = made(workload, size)
    output = program.around(program.function)(*inputs.values())
    assert output.numel() == torch.Size(workload.output_shape(size, 4)).numel()


@pytest.mark.parametrize(("workload", "size"), [pair for pair in ALL if pair[0].split], ids=NAMES[:-1])
def test_the_reference_in_chunks_is_that_of_the_whole(workload, size, monkeypatch):
    program, inputs = made(workload, size)
    results = program.results(program.function, inputs)
    whole = accuracy.check(program, inputs, results)
    monkeypatch.setattr(accuracy, "CHUNK_ELEMENTS", 1000)
    assert whole["error"] == pytest.approx(accuracy.check(program, inputs, results)["error"], rel=1e-6)


def test_weights_follow_from_the_seed_and_leave_other_random_numbers_alone():
    before = torch.random.get_rng_state()
    first, again, other = (made(Mlp(), "4", seed=seed)[0].module.state_dict() for seed in (4, 4, 5))
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["0.weight"], other["0.weight"])


def test_the_work_of_models_is_that_of_their_products():
    tokens, width = 2 * 12, 32
    products = 2 * tokens * width * 12 * width + 2 * 2 * 2 * 12 * 12 * width
    assert Gpt(**GPT).flops("2", 4) == 2 * products
    backward = 2 * products  # A product has two in the backward pass; the first input wants no gradient.
    assert GptTraining(**GPT).flops("2", 4) == pytest.approx(2 * (products + backward), rel=0.1)
    assert Mlp().flops("4", 4) == 2 * 4 * 256 * 512 * 2
    assert Mlp().necessary_bytes("4", 4) == 4 * (2 * 4 * 256 + 2 * 256 * 512 + 512 + 256)


def test_a_training_step_changes_weights_and_its_check_begins_anew():
    program, inputs = made(GptTraining(**GPT), "1")
    step = program.around(program.function)
    predictions = [step(*inputs.values()).detach() for _ in range(3)]
    losses = [float((found - inputs["target"]).square().mean()) for found in predictions]
    assert losses[0] > losses[1] > losses[2], "the optimizer made no step"
    first, again = (program.results(program.function, inputs) for _ in range(2))
    assert torch.equal(first[0], predictions[0]) and torch.equal(first[1], again[1])


def test_float8_is_right_and_its_output_has_two_bytes():
    program, inputs = made(ScaledMatmul(), "64x32x48", "float8")
    results = program.results(program.function, inputs)
    assert results[0].dtype == torch.bfloat16
    assert accuracy.check(program, inputs, results)["ok"]
    assert ScaledMatmul().necessary_bytes("64x32x48", 1) == 64 * 32 + 32 * 48 + 2 * 64 * 48
    assert ScaledMatmul().flops("64x32x48", 1) == 2 * 64 * 32 * 48


def test_only_autocast_may_give_another_dtype():
    for dtype, ok in (("float32", False), ("autocast-bfloat16", True)):
        program, inputs = made(Mlp(), "4", dtype)
        (output,) = program.results(program.function, inputs)
        assert accuracy.check(program, inputs, (output.double(),))["ok"] == ok


def test_an_optimizer_makes_its_own_tensors_with_memory_where_operations_are_counted():
    """Those of torch 2.11 count their steps in a tensor of the default device, and read it."""
    with GptTraining(**GPT)._without_memory("1", 4) as (module, _):
        assert next(module.parameters()).is_meta and not torch.empty(1).is_meta
