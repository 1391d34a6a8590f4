"""torch.compile."""

import os
from copy import deepcopy
from itertools import chain
from typing import Literal

from kernelbench.harness import caches, compiler
from kernelbench.harness.runner import OTHER_SUMS, Runner
from kernelbench.harness.workload import Unsupported
from kernelbench.notes import NoRepeatedBlocks

PASSED = ("backend", "mode", "dynamic", "fullgraph")
# The values of `mode` with which Inductor records CUDA graphs.
CUDA_GRAPHS = ("reduce-overhead", "max-autotune")
# Tuning compiles dozens of candidates before it times the first: one after the other, most of the first call is that.
TUNING_THREADS = 8


class Compile(Runner):
    options = {  # noqa: RUF012
        "backend": str,
        "mode": Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"],
        **dict.fromkeys(("dynamic", "fullgraph", "regional", "partial", "skip_guards", "static_inputs"), bool),
        "workers": range(1, 65),
        "cache": Literal["warm", "second-process"],
    }
    # Those that a compilation imports only when it needs them among them.
    imports = (
        "torch",
        "torch._dynamo",
        "torch._inductor.compile_fx",
        "torch._inductor.codegen.triton",
        "torch._inductor.cudagraph_trees",
        "torch._inductor.fx_passes.post_grad",
        "torch.distributed.tensor",
        "triton.compiler",
    )

    def compiles(self, options):
        return True

    def takes_part(self, options):
        return options.get("partial", False)

    def uses_cuda_graphs(self, options):
        return options.get("mode") in CUDA_GRAPHS or options.get("backend") == "cudagraphs"

    def slack(self, options):
        # Tuning takes products of Inductor's own where they are faster than eager's.
        return OTHER_SUMS if "max-autotune" in options.get("mode", "") else super().slack(options)

    def eagers_numbers(self, options):
        if options.get("backend", "inductor") != "inductor":
            return None
        from torch._inductor import config

        return config.patch(fallback_random=True)

    def build(self, program, options, inputs):
        import torch

        if "max-autotune" in options.get("mode", ""):
            _tune_in_threads()
        passed = {key: value for key, value in options.items() if key in PASSED}
        if options.get("regional"):
            return _compiled_by_block(program.module, passed)
        return torch.compile(program.function, **passed)

    def start_workers(self, options):
        if options.get("backend", "inductor") == "inductor":
            caches.prepare_headers()
        compiler.start_workers(options.get("workers", 1))

    def end_workers(self):
        compiler.end_workers()


def _compiled_by_block(module, options: dict):
    """Return a copy of `module` that shares its tensors and has each of its repeated blocks compiled.

    Blocks of one graph are compiled once, which makes the first call of a deep model short. Raises Unsupported where
    there are none.
    """
    if module is None:
        raise Unsupported(NoRepeatedBlocks(is_model=False))
    shared = {id(tensor): tensor for tensor in chain(module.parameters(), module.buffers())}
    copy = deepcopy(module, shared)
    blocks = find_blocks(copy)
    if not blocks:
        raise Unsupported(NoRepeatedBlocks(is_model=True))
    for block in blocks:
        block.compile(**options)
    return copy


def find_blocks(module) -> list:
    """Return the repeated blocks of `module`: children of one class, with children of their own, of one container."""
    from torch import nn

    own = list(module.children())
    alike = len(own) > 1 and len({type(child) for child in own}) == 1 and all(list(child.children()) for child in own)
    if alike and isinstance(module, nn.ModuleList | nn.Sequential):
        return own
    return [block for child in own for block in find_blocks(child)]


def _tune_in_threads() -> None:
    """Let Inductor compile what tuning tries in threads of this process, which end before it times any of it.

    Inductor goes by one variable twice: at its import for a pool of processes, of which there is none, and here.
    """
    import torch._inductor.config  # noqa: F401

    os.environ[compiler.WORKERS] = str(min(TUNING_THREADS, len(os.sched_getaffinity(0))))


RUNNER = Compile()
