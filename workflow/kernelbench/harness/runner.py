"""What a way to execute a cell must say of itself.

Importing a runner imports neither torch nor what it runs with: the plan of a study needs its name and options only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec

from kernelbench.harness import timers
from kernelbench.harness.program import Program
from kernelbench.harness.workload import Unsupported


@dataclass(frozen=True)
class Package:
    """A package that is not among those of the environment: the name to install, and the one to import."""

    distribution: str
    module: str

    def require(self) -> None:
        """Raise Unsupported, with the line that installs it, where the package is missing."""
        if not find_spec(self.module):
            raise Unsupported(f"{self.distribution} is not installed; pip install {self.distribution}")


class Runner:
    """A way to execute a cell. A mode of the config names one and gives it options."""

    # The keys of a mode's entry that it knows, and those that it needs.
    options: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    # Whether what it builds is part of PyTorch: runs on its stream, under its autocast, and has a backward pass.
    within_torch = True
    # The modules of the environment whose import would otherwise fall into the first call.
    imports: tuple[str, ...] = ("torch",)

    def packages(self, options: dict) -> tuple[Package, ...]:
        """Return the packages besides those of the environment that it needs."""
        return ()

    def build(self, program: Program, options: dict, inputs: tuple) -> Callable:
        """Return what runs in the place of `program.function`, with its signature; raise Unsupported where it cannot.

        options: those of `options` that the mode's entry has; inputs: the tensors that it will be called with first.
        """
        raise NotImplementedError

    def synchronizer(self, device: str) -> Callable[[], None]:
        """Return what waits until a call is done on `device`."""
        return timers.synchronizer(device)

    def tensor(self, output):
        """Return what a call returned as a tensor of PyTorch."""
        return output

    def versions(self, options: dict) -> dict[str, str]:
        """Return the version of each of `packages`, by its name."""
        return {package.distribution: metadata.version(package.distribution) for package in self.packages(options)}
