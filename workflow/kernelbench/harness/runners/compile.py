"""torch.compile."""

from kernelbench.harness.runner import OTHER_SUMS, Runner

PASSED = ("backend", "mode", "dynamic", "fullgraph")


class Compile(Runner):
    dynamo = True
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

    def slack(self, options):
        # Tuning takes products of Inductor's own where they are faster than eager's.
        return OTHER_SUMS if "max-autotune" in options.get("mode", "") else super().slack(options)

    def build(self, program, options, inputs):
        import torch

        return torch.compile(program.function, **{key: value for key, value in options.items() if key in PASSED})


RUNNER = Compile()
