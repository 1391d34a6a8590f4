"""The ways to execute a cell. A mode of the config names a runner below and what to pass to it."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec

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


def _library(workload: Workload, options: dict) -> Callable:
    name = options["library"]
    package = PACKAGES.get(name)
    if package and not find_spec(package.module):
        raise Unsupported(f"{package.distribution} is not installed; pip install {package.distribution}")
    return workload.library(name)


@dataclass(frozen=True)
class Package:
    """A package that is not among those of the environment: the name to install, and the one to import."""

    distribution: str
    module: str


# The libraries that `library` may say besides PyTorch itself.
PACKAGES = {"liger": Package("liger-kernel", "liger_kernel"), "quack": Package("quack-kernels", "quack")}

# What `runner` may say in the config; all other keys of a mode are the runner's options, but for these.
NO_OPTIONS = ("runner", "devices", "flush", "trace_seconds", "static_inputs", "skip_guards")
RUNNERS = {"eager": _eager, "compile": _compile, "kernel": _kernel, "library": _library}

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
    "library": ("torch", "triton.compiler", "torch.nn.attention.flex_attention"),
}


def imports(mode: dict) -> tuple[str, ...]:
    """Return the modules that a job of `mode` (a mode's config entry) imports before its first call."""
    package = PACKAGES.get(mode.get("library"))
    return IMPORTS[mode["runner"]] + ((package.module,) if package else ())


def versions(mode: dict) -> dict[str, str]:
    """Return the version of the package that `mode` needs besides the environment's, by its name; empty without one."""
    package = PACKAGES.get(mode.get("library"))
    return {package.distribution: metadata.version(package.distribution)} if package else {}


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
