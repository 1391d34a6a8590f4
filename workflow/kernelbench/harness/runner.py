"""What a way to execute a cell must say of itself.

Importing a runner imports neither torch nor what it runs with: the plan of a study needs its name and options only.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from kernelbench.harness import timers
from kernelbench.harness.package import Package
from kernelbench.harness.program import Program

# How many times eager's error that of products may be which add up in another order.
OTHER_SUMS = 4


class Runner:
    """A way to execute a cell. A mode of the config names one and gives it options."""

    # The keys of a mode's entry that it knows, each with the type of its values or, of integers, their range; and those
    # that it needs.
    options: dict[str, Any] = {}  # noqa: RUF012
    needed: tuple[str, ...] = ()
    # Whether building converts the model, which is then part of the first call: others do so when they are called.
    converts = False
    # Whether what it builds runs on PyTorch's stream, and whether it has neither a backward pass nor autocast.
    on_stream = True
    inference_only = False
    # The modules of the environment whose import would otherwise fall into the first call.
    imports: tuple[str, ...] = ("torch",)

    def packages(self, options: dict, device: str) -> tuple[Package, ...]:
        """Return the packages besides those of the environment that it needs on "cuda" or "cpu"."""
        return ()

    def build(self, program: Program, options: dict, inputs: tuple) -> Callable:
        """Return what runs in the place of `program.function`, with its signature; raise Unsupported where it cannot.

        options: those of `options` that the mode's entry has; inputs: tensors as it will be called with.
        """
        raise NotImplementedError

    def step(self, program: Program, options: dict, inputs: tuple) -> Callable:
        """Return what is timed: what `build` returns, within what is around it; it takes all `inputs` of the workload.

        Raises Unsupported as `build` does.
        """
        return program.around(self.build(program, options, program.workload.forwarded(inputs)))

    def start_workers(self, options: dict) -> None:
        """Start what helps the first call before it is timed."""

    def end_workers(self) -> None:
        """End it, when the first call is done: nothing of it runs beside what is timed next."""

    def compiles(self, options: dict) -> bool:
        """Return whether it goes through torch.compile, which tells of its compilation."""
        return False

    def takes_part(self, options: dict) -> bool:
        """Return whether a mode counts of which the compiler left a part to eager mode, or skipped a CUDA graph."""
        return False

    def uses_cuda_graphs(self, options: dict) -> bool:
        """Return whether it has torch.compile record CUDA graphs on a GPU."""
        return False

    def slack(self, options: dict) -> float:
        """Return how many times eager's error that of a mode may be; OTHER_SUMS for one with products of its own."""
        return 2

    def eagers_numbers(self, options: dict) -> AbstractContextManager | None:
        """Return a context in which what is built draws eager's random numbers; None where it does so anyway."""
        return None

    def synchronizer(self, device: str) -> Callable[[], None]:
        """Return what waits until a call is done on `device`."""
        return timers.synchronizer(device)

    def tensor(self, output):
        """Return what a call returned as a tensor of PyTorch."""
        return output
