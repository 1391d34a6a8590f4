"""torch.compile."""

import os

from kernelbench.harness.compiler import WORKERS
from kernelbench.harness.runner import OTHER_SUMS, Runner

PASSED = ("backend", "mode", "dynamic", "fullgraph")
# The values of `mode` with which Inductor records CUDA graphs.
CUDA_GRAPHS = ("reduce-overhead", "max-autotune")
# Tuning compiles dozens of candidates before it times the first: one after the other, most of the first call is that.
TUNING_THREADS = 8


class Compile(Runner):
    options = (*PASSED, "skip_guards", "static_inputs", "cache")
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

    def uses_cuda_graphs(self, options):
        return options.get("mode") in CUDA_GRAPHS or options.get("backend") == "cudagraphs"

    def slack(self, options):
        # Tuning takes products of Inductor's own where they are faster than eager's.
        return OTHER_SUMS if "max-autotune" in options.get("mode", "") else super().slack(options)

    def build(self, program, options, inputs):
        import torch

        if "max-autotune" in options.get("mode", ""):
            _tune_in_threads()
        return torch.compile(program.function, **{key: value for key, value in options.items() if key in PASSED})


def _tune_in_threads() -> None:
    """Let Inductor compile what tuning tries in threads of this process, which end before it times any of it.

    Inductor goes by one variable twice: at its import for a pool of processes, of which there is none, and here.
    """
    import torch._inductor.config  # noqa: F401

    os.environ[WORKERS] = str(min(TUNING_THREADS, len(os.sched_getaffinity(0))))


RUNNER = Compile()
