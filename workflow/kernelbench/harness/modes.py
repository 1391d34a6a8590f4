"""The ways to execute a cell. A mode of the config names a runner below and what to pass to it."""

from collections.abc import Callable

from kernelbench.harness.workload import Unsupported, Workload


def _eager(workload: Workload, options: dict) -> Callable:
    return workload.call


def _compile(workload: Workload, options: dict) -> Callable:
    import torch

    return torch.compile(workload.call, **options)


def _kernel(workload: Workload, options: dict) -> Callable:
    try:
        import triton  # noqa: F401
    except ImportError:
        raise Unsupported("triton is not installed; pip install triton") from None
    return workload.kernel()


# What `runner` may say in the config; all other keys of a mode are the runner's options, but for these.
NO_OPTIONS = ("runner", "devices", "flush", "trace_seconds", "static_inputs", "skip_guards")
RUNNERS = {"eager": _eager, "compile": _compile, "kernel": _kernel}

# The modules whose import would otherwise fall into the first call; those that a compilation imports only when it
# needs them among them.
IMPORTS = {
    "eager": ("torch",),
    "compile": (
        "torch",
        "torch._dynamo",
        "torch._inductor.compile_fx",
        "torch._inductor.codegen.triton",
        "torch._inductor.cudagraph_trees",
        "torch._inductor.fx_passes.post_grad",
        "torch.distributed.tensor",
        "triton.compiler",
    ),
    "kernel": ("torch", "triton", "triton.compiler"),
}


def build(workload: Workload, mode: dict) -> Callable:
    """Return the function that runs `workload` in `mode` (a mode's config entry).

    Raises Unsupported where the mode cannot run the operation or a package is missing.
    """
    options = {key: value for key, value in mode.items() if key not in NO_OPTIONS}
    return RUNNERS[mode["runner"]](workload, options)


def mark_static(inputs: list[dict]) -> None:
    """Promise the compiler that the input tensors stay where they are: a CUDA graph then need not copy them."""
    from torch._dynamo import mark_static_address

    for given in inputs:
        for tensor in given.values():
            mark_static_address(tensor)


def skip_guards() -> None:
    """Check of the guards only those that tell compiled variants apart; here there is one variant, compiled already.

    torch 2.11 compiles nothing more after this.
    """
    import torch

    torch.compiler.set_stance(skip_guard_eval_unsafe=True)
