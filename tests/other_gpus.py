"""A GPU that is not here: what the harness asks of one, answered as an A100 or a T4 does, and its memory.

`measured` runs the measuring code on tensors that have a shape and a device and no data, as far as that goes without a
card: it finds what is unsupported or does not fit. It times nothing, and no kernel runs.
"""

import os
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from unittest.mock import patch

import torch
from torch._dynamo.utils import counters
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernelbench.harness import accuracy, modes, profiler, provenance
from kernelbench.harness import measure as harness
from kernelbench.harness.runners.compile import CUDA_GRAPHS
from kernelbench.harness.workload import Workload

# A copy of a tensor is of the same mode.
FAKE = FakeTensorMode()
FAKE.__deepcopy__ = lambda memo: FAKE


@dataclass(frozen=True)
class Card:
    """memory: the bytes that a process can have; limits: what the kernels ask, as kernels.launch.limits returns it."""

    label: str
    name: str
    capability: tuple[int, int]
    processors: int
    shared: int
    memory: int
    l2: int

    @property
    def limits(self) -> tuple[int, int, int]:
        return self.capability[0], self.processors, self.shared

    @property
    def has_bfloat16(self) -> bool:
        return self.capability >= (8, 0)


A100 = Card("a100", "NVIDIA A100-SXM4-40GB", (8, 0), 108, 166_912, 42_297_786_368, 40 << 20)
T4 = Card("t4", "Tesla T4", (7, 5), 40, 65_536, 15_655_829_504, 4 << 20)


class Elsewhere(TorchFunctionMode):
    """Has tensors say that they are on the card; a build without CUDA can make none there, not even without data."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.is_cuda.__get__:
            return True
        if "cuda" in str((kwargs or {}).get("device")):
            kwargs = {**kwargs, "device": "cpu"}
        return function(*args, **(kwargs or {}))


class Memory(TorchDispatchMode):
    """Counts the bytes of the tensors that are alive on the card, and ends what asks for more than it has."""

    def __init__(self, card: Card):
        super().__init__()
        self.card, self.live, self.peak = card, {}, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is torch.ops.aten._local_scalar_dense.default:
            return 1.0  # There are no data to read.
        found = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(found):
            if isinstance(tensor, torch.Tensor):
                self._count(tensor.untyped_storage())
        return found

    def _count(self, storage) -> None:
        self.live[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self.peak = max(self.peak, self.held())
        if self.peak > self.card.memory:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    def held(self) -> int:
        self.live = {key: each for key, each in self.live.items() if not each[0].expired()}
        return sum(size for _, size in self.live.values())

    def reset(self) -> None:
        self.peak = self.held()


def measured(card: Card, settings: dict) -> dict:
    """Return the record of a job on the card, as far as it can be told: one that is `ok` has no times."""
    with ExitStack() as stack:
        if not torch.cuda.is_available():  # Triton was imported for its interpreter, see conftest.py.
            stack.enter_context(patch.dict(os.environ, TRITON_INTERPRET="1"))
        for module in (*modes.runner_of(settings["run"]).imports, "kernelbench.kernels.launch"):
            import_module(module)  # What an import makes are real tensors.
        for replaced in _replaced(card):
            stack.enter_context(replaced)
        return harness.measure(settings)


def _replaced(card: Card):
    """Yield what stands in for the card while a job is measured: its answers, its memory, and all that takes time."""
    memory = Memory(card)
    properties = SimpleNamespace(
        name=card.name, major=card.capability[0], minor=card.capability[1], L2_cache_size=card.l2,
        multi_processor_count=card.processors, shared_memory_per_block_optin=card.shared, total_memory=card.memory,
    )  # fmt: skip
    generator, autocast, graphs = torch.Generator, torch.autocast, []
    answers = {
        "init": lambda: None,
        "synchronize": lambda: None,
        "current_device": lambda: 0,
        "get_device_capability": lambda device=None: card.capability,
        "get_device_properties": lambda device=None: properties,
        "mem_get_info": lambda device=None: (card.memory - memory.held(), card.memory),
        "memory_allocated": memory.held,
        "max_memory_allocated": lambda: memory.peak,
        "reset_peak_memory_stats": memory.reset,
        "memory_snapshot": lambda: [{"segment_pool_id": (0, 1), "total_size": 1, "allocated_size": 1}] * len(graphs),
    }
    yield from (patch.object(torch.cuda, name, answer) for name, answer in answers.items())
    yield patch.object(torch, "Generator", lambda device: generator("cpu"))
    yield patch.object(torch.random, "fork_rng", lambda devices: nullcontext())
    yield patch.object(torch, "autocast", lambda device, dtype: autocast("cpu", dtype))
    yield patch.object(torch, "compile", lambda function, **options: _compiled(card, function, options, graphs))
    yield patch.object(torch.nn.functional, "scaled_dot_product_attention", partial(_attention, card))
    # Its tensors are not on the card: what it would start there, test_kernels_compile.py compiles.
    yield patch("kernelbench.kernels.launch.check", lambda *arguments: None)
    yield patch.object(harness._Job, "warm_up", lambda *arguments: None)
    yield patch.object(harness._Job, "time", lambda *arguments: None)
    yield patch.object(harness, "Core", nullcontext)
    yield patch.object(profiler, "kernels", lambda call, synchronize: {"kernels": [], "checked": True})
    yield patch.object(accuracy, "read_states", list)  # Those of the generators are real tensors.
    yield patch.object(harness, "read_states", list)
    yield patch.object(accuracy._Sums, "verdict", lambda self, top: {"ok": True, "compared": True, "reason": None})
    yield patch.object(provenance, "gpu", lambda: None)
    yield patch.object(provenance, "gpu_state", lambda: None)
    yield patch.dict(counters)
    yield patch.object(Workload, "work", lambda *arguments: None)  # It counts in a mode of its own.
    yield FAKE
    yield memory
    yield Elsewhere()


def _compiled(card: Card, function, options: dict, graphs: list):
    """Return `function`, and have torch.compile's counters say what Inductor makes of it on the card.

    test_inductor_leaves_bfloat16_to_eager_mode shows that it skips a graph in bfloat16 where the GPU has none.
    """

    def call(*inputs):
        counters.clear()
        if card.has_bfloat16 or all(tensor.dtype != torch.bfloat16 for tensor in inputs):
            counters["stats"]["unique_graphs"] = 1
            graphs[:] = [1] if options.get("mode") in CUDA_GRAPHS else []
        return function(*inputs)

    return call


def _attention(card: Card, q, k, v, *rest, **options):
    """Return an output that takes the memory of one without a matrix of scores.

    FlashAttention-2 and cuDNN's attention are for compute capability 8.0 and above; without one that is allowed and can
    run, PyTorch says so in these words.
    """
    allowed = [torch.backends.cuda.mem_efficient_sdp_enabled(), torch.backends.cuda.math_sdp_enabled()]
    if card.capability >= (8, 0):
        allowed += [torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.cudnn_sdp_enabled()]
    if not any(allowed):
        raise RuntimeError("No available kernel. Aborting execution.")
    return torch.empty_like(q)
