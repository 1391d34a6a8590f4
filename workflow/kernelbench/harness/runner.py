"""What a way to execute a cell must say of itself.

Importing a runner imports neither torch nor what it runs with: the plan of a study needs its name and options only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from kernelbench.harness import timers
from kernelbench.harness.program import Program
from kernelbench.harness.workload import Unsupported

# How many times eager's error that of products may be which add up in another order.
OTHER_SUMS = 4


@dataclass(frozen=True)
class Package:
    """A package that is not among those of the environment: its name, the module to import, an extra to install."""

    distribution: str
    module: str
    extra: str = ""

    def require(self) -> None:
        """Import it; raise Unsupported, with the line that installs it, where it is missing or incomplete."""
        if not find_spec(self.module.partition(".")[0]):
            raise Unsupported(f"{self.distribution} is not installed; {self.install}")
        try:
            import_module(self.module)
        except ImportError as error:
            raise Unsupported(f"{self.distribution} cannot be imported ({error}); {self.install}") from None

    @property
    def install(self) -> str:
        """The line that installs it."""
        return f"pip install '{self.distribution}[{self.extra}]'" if self.extra else f"pip install {self.distribution}"


class Runner:
    """A way to execute a cell. A mode of the config names one and gives it options."""

    # The keys of a mode's entry that it knows, and those that it needs.
    options: tuple[str, ...] = ()
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

    def compiles(self, options: dict) -> bool:
        """Return whether it goes through torch.compile, which tells of its compilation."""
        return False

    def uses_cuda_graphs(self, options: dict) -> bool:
        """Return whether it has torch.compile record CUDA graphs on a GPU."""
        return False

    def slack(self, options: dict) -> float:
        """Return how many times eager's error that of a mode may be; OTHER_SUMS for one with products of its own."""
        return 2

    def synchronizer(self, device: str) -> Callable[[], None]:
        """Return what waits until a call is done on `device`."""
        return timers.synchronizer(device)

    def tensor(self, output):
        """Return what a call returned as a tensor of PyTorch."""
        return output
