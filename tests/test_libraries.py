"""Kernels of other libraries, by stand-ins for their packages: what they are given, what they refuse, what is ours."""

import sys
from types import ModuleType

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from kernelbench.harness.dtypes import DTYPES
from kernelbench.harness.workload import Unsupported
from kernelbench.harness.workloads.attention import Attention
from kernelbench.harness.workloads.layer_norm import LayerNorm
from kernelbench.harness.workloads.softmax import Softmax
from kernelbench.notes import RuntimeRefused

TILE = 1000


@pytest.fixture
def install(monkeypatch):
    """Return what makes a module of these functions importable."""

    def made(name: str, **functions):
        module = ModuleType(name)
        vars(module).update(functions)
        monkeypatch.setitem(sys.modules, name, module)
        return module

    return made


def inputs_of(workload, size: str, dtype: str = "float32"):
    return tuple(workload.draw(size, DTYPES[dtype], "cpu", seed=3).values())


@pytest.mark.parametrize("with_sums", [True, False])
@pytest.mark.parametrize(
    "workload",
    [Attention(batch=2, heads=3, head_dim=16, causal=True), Attention(batch=2, heads=6, kv_heads=3, queries=1)],
)
def test_fa4_is_given_views_with_the_heads_last_and_its_output_is_turned_back(install, workload, with_sums):
    given = []

    def flash_attn_func(q, k, v, causal=False):
        given.extend((q, k, v))
        heads_first = (x.transpose(1, 2) for x in (q, k, v))
        output = scaled_dot_product_attention(*heads_first, is_causal=causal, enable_gqa=True).transpose(1, 2)
        return (output, None) if with_sums else output

    install("flash_attn")
    install("flash_attn.cute", flash_attn_func=flash_attn_func)
    inputs = inputs_of(workload, "40")
    assert torch.allclose(workload.library("fa4")(*inputs), workload.call(*inputs), atol=1e-5)
    assert [x.data_ptr() for x in given] == [x.data_ptr() for x in inputs]
    assert [tuple(x.shape) for x in given] == [tuple(x.transpose(1, 2).shape) for x in inputs]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (AssertionError("inputs must be\nfloat16"), "inputs must be float16"),
        (AssertionError(), "AssertionError"),
        (NotImplementedError("no FP8"), "no FP8"),
    ],
)
def test_what_fa4_refuses_is_unsupported_with_its_reason(install, error, said):
    def flash_attn_func(q, k, v, causal=False):
        raise error

    install("flash_attn")
    install("flash_attn.cute", flash_attn_func=flash_attn_func)
    workload = Attention(batch=1, heads=1)
    with pytest.raises(Unsupported) as refused:
        workload.library("fa4")(*inputs_of(workload, "16"))
    assert refused.value.note == RuntimeRefused("fa4", said)


@pytest.fixture
def configs(install, monkeypatch):
    """Let PyTorch run what is written in Helion, tile by tile; return the lists of configs, in the order they came."""
    found = []

    def kernel(function, configs, **settings):
        found.append(configs)
        return function

    def tile(length):
        return [slice(start, min(start + TILE, length)) for start in range(0, length, TILE)]

    def full(shape, value, dtype):
        return torch.full([each.stop - each.start for each in shape], value, dtype=dtype)

    language = install("helion.language", tile=tile, full=full, zeros=lambda shape, dtype: full(shape, 0, dtype))
    power = {"next_power_of_2": lambda n: 1 << (n - 1).bit_length()}
    install("helion", kernel=kernel, Config=dict, language=language, **power)
    monkeypatch.delitem(sys.modules, "kernelbench.harness.libraries.helion", raising=False)
    yield found
    sys.modules.pop("kernelbench.harness.libraries.helion", None)


@pytest.mark.parametrize(
    ("workload", "size"),
    [(of(rows=5), size) for of in (Softmax, LayerNorm) for size in ("1", "77", "4096", "32769")]
    + [(of(rows=2 * TILE + 1), "7") for of in (Softmax, LayerNorm)],
)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_what_is_written_in_helion_is_right_at_any_width(configs, workload, size, dtype):
    inputs = inputs_of(workload, size, dtype)
    written, eager = workload.library("helion")(*inputs), workload.call(*inputs)
    assert written.dtype == eager.dtype
    assert torch.allclose(written.float(), eager.float(), atol=1e-5 if dtype == "float32" else 4e-3)


@pytest.mark.parametrize("workload", [Softmax(rows=5), LayerNorm(rows=5)])
@pytest.mark.parametrize("size", ["1", "77", "3000", "4097", "16384", "32768", "32769", "151936"])
def test_helion_has_a_few_configs_to_choose_from_and_none_twice(configs, workload, size):
    inputs, call = inputs_of(workload, size), workload.library("helion")
    call(*inputs)
    call(*inputs)
    (chosen,) = configs
    assert 3 <= len(chosen) <= 8
    assert len({str(config) for config in chosen}) == len(chosen)
    elements = [config["block_sizes"][0] * int(size) for config in chosen if config.get("reduction_loops") == [None]]
    assert max(elements, default=0) <= 32768, "what a program has registers for"
