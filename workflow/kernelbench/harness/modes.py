"""The modes of the config: what runs a cell, and with what."""

from collections.abc import Callable
from importlib import import_module, metadata
from importlib.util import find_spec

from kernelbench.harness import plugins, runners
from kernelbench.harness.package import Package
from kernelbench.harness.program import Program
from kernelbench.harness.runner import Runner
from kernelbench.harness.workload import Unsupported, Workload
from kernelbench.notes import InferenceOnly, NotInstalled


def runner_of(mode: dict) -> Runner:
    """Return the runner of a mode's config entry; raise InputError for an unknown one."""
    return plugins.load(runners, "runner", mode["runner"])


def options_of(mode: dict) -> dict:
    """Return what a mode's config entry says to its runner."""
    return {key: value for key, value in mode.items() if key in runner_of(mode).options}


def common_imports() -> tuple[str, ...]:
    """Return the modules of the environment that any mode imports before its first call."""
    every = (name for runner in plugins.names(runners) for name in runner_of({"runner": runner}).imports)
    return tuple(dict.fromkeys(every))


def load(mode: dict, workload: Workload, device: str) -> dict[str, str]:
    """Import what a job of `workload` in `mode` (a mode's config entry) needs before its first call.

    Returns the versions of the packages besides the environment's, by name. Raises Unsupported where one is missing.
    """
    runner = runner_of(mode)
    for module in runner.imports:
        if find_spec(module.partition(".")[0]):  # What the environment lacks is the runner's to report.
            import_module(module)
    packages = (*workload.packages, *runner.packages(options_of(mode), device))
    for package in packages:
        package.require()
    workload.load()
    return _versions(packages)


def _versions(packages: tuple[Package, ...]) -> dict[str, str]:
    try:
        return {package.distribution: metadata.version(package.distribution) for package in packages}
    except metadata.PackageNotFoundError as error:  # Another distribution has a module of that name.
        missing = next(package for package in packages if package.distribution == error.name)
        raise Unsupported(NotInstalled(missing.distribution, missing.install)) from None


def build(program: Program, mode: dict, inputs: tuple) -> Callable:
    """Return what is timed of `program` in `mode` (a mode's config entry), to be called with tensors like `inputs`.

    Raises Unsupported where the mode cannot run the operation.
    """
    runner = runner_of(mode)
    if runner.inference_only and (program.workload.trains or program.autocast):
        what = "training step" if program.workload.trains else "autocast"
        raise Unsupported(InferenceOnly(mode["runner"], what))
    with program.casting():
        return runner.step(program, options_of(mode), inputs)


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
