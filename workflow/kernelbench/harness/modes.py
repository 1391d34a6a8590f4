"""The modes of the config: what runs a cell, and with what."""

from collections.abc import Callable

from kernelbench.harness import plugins, runners
from kernelbench.harness.program import Program
from kernelbench.harness.runner import Runner
from kernelbench.harness.workload import Unsupported


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


def imports(mode: dict) -> tuple[str, ...]:
    """Return the modules that a job of `mode` (a mode's config entry) imports before its first call."""
    runner = runner_of(mode)
    return runner.imports + tuple(package.module for package in runner.packages(options_of(mode)))


def versions(mode: dict) -> dict[str, str]:
    """Return the versions of the packages that `mode` needs besides the environment's, by name; empty without one."""
    return runner_of(mode).versions(options_of(mode))


def build(program: Program, mode: dict, inputs: tuple) -> Callable:
    """Return what runs `program` in `mode` (a mode's config entry); `inputs` are the tensors of the first call.

    Raises Unsupported where the mode cannot run the operation or a package is missing.
    """
    runner, options = runner_of(mode), options_of(mode)
    for package in runner.packages(options):
        package.require()
    if not runner.within_torch and (program.workload.trains or program.autocast):
        what = "a training step" if program.workload.trains else "torch.autocast"
        raise Unsupported(f"{mode['runner']} leaves PyTorch for the forward pass; {what} does not reach it")
    with program.casting():
        return runner.build(program, options, inputs)


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
