"""What an operation must say of itself to be measured.

Importing a workload does not import torch: the plan of a study needs shapes and work only.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib import import_module
from math import prod
from pathlib import Path
from types import ModuleType

from kernelbench.errors import InputError, nearest
from kernelbench.notes import NoKernel, Note, NotInJax, NotInLibrary

# Inductor indexes a tensor with 32 bits.
MAX_ELEMENTS = 2**31 - 1
# An integer input is a torch.int64.
INTEGER_BYTES = 8
UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class Unsupported(Exception):
    """The mode cannot run this cell here; `note` says why."""

    def __init__(self, note: Note):
        super().__init__(str(note))
        self.note = note


@dataclass(frozen=True)
class Workload:
    """An operation; the fields of a subclass are the parameters that a study fixes for it.

    Sizes reach a workload as the strings of the config (`4096`), shapes leave it as tuples of int.
    """

    # "memory" or "compute": which ceiling of the machine the operation can at best reach.
    bound = "memory"
    # The inputs that are split, like the output, when the reference is made in chunks, none for one that is made whole;
    # and how many of their leading dimensions count things that do not depend on one another.
    split = ("x",)
    independent = 1
    # Parameters of which a config gives one at most.
    either = ()
    # The kernels of other libraries that `library` returns, by the name that a mode gives them.
    libraries = ()
    # The label of the only dtype that `call` takes, empty where it takes all that no other workload has to itself; and
    # whether a step changes weights.
    only_dtype = ""
    trains = False
    # Whether it is a user's model, of which nothing is known beforehand.
    is_foreign = False
    # The packages besides those of the environment that it needs (kernelbench.harness.package).
    packages = ()

    def shapes(self, size: str, itemsize: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of each input tensor, in the order in which `call` takes them.

        `itemsize` is the bytes of an element, for an operation whose sizes are given in bytes.
        """
        raise NotImplementedError

    def folders(self) -> list[Path]:
        """Return the folders besides that of the workloads whose lines an error message names."""
        return []

    def load(self) -> None:
        """Import what would otherwise fall into the first call, of `packages` that are there."""

    def bounds(self) -> dict[str, int]:
        """Return by name, of the inputs that are integers, the bound below which they are drawn; none by default."""
        return {}

    def call(self, *inputs):
        """Compute the operation the way a PyTorch user writes it; this is what is compiled."""
        raise NotImplementedError

    def lay_out(self, inputs: dict) -> dict:
        """Return the inputs, tensors by name, with the strides that `call` wants them to have."""
        return inputs

    def draw(self, size: str, dtype, device: str, seed: int) -> dict:
        """Return the input tensors by name, N(0, 1) from `seed`: never zeros, which draw less power and run faster.

        dtype: a kernelbench.harness.dtypes.Dtype. Integers are drawn evenly below their bound.
        """
        import torch

        generator = torch.Generator(device).manual_seed(seed)
        storage = getattr(torch, dtype.storage)
        drawn = storage if storage.itemsize > 1 else torch.float32  # There are no random numbers in float8.
        bounds, inputs = self.bounds(), {}
        for name, shape in self.shapes(size, dtype.itemsize).items():
            if name in bounds:
                inputs[name] = torch.randint(bounds[name], shape, device=device, generator=generator)
            else:
                inputs[name] = torch.randn(shape, dtype=drawn, device=device, generator=generator).to(storage)
        return self.lay_out(inputs)

    def forwarded(self, inputs: tuple) -> tuple:
        """Return those of the inputs that the forward pass takes."""
        return inputs

    def step(self, function: Callable, module) -> Callable:
        """Return what is timed: by default `function`, what a mode made of `call` or of a model's `module`, itself."""
        return function

    def judged(self, output, module) -> tuple:
        """Return the tensors that are compared with eager's, of what a step returned and left in `module`.

        A clone: a mode with CUDA graphs overwrites its output at the next call.
        """
        return (output.clone(),)

    def segments(self, module) -> list[int]:
        """Return the lengths of the parts of the last tensor of `judged` that are judged by themselves as well."""
        return []

    @property
    def _name(self) -> str:
        """The workload's name, which is that of its file."""
        return type(self).__module__.rpartition(".")[2]

    def kernel(self) -> Callable:
        """Return the hand-written kernel with the signature of `call`; raise Unsupported where none exists."""
        raise Unsupported(NoKernel(self._name))

    def jax(self) -> Callable:
        """Return the operation in JAX, with the signature of `call`; raise Unsupported where there is none."""
        raise Unsupported(NotInJax(self._name))

    def library(self, name: str) -> Callable:
        """Return the kernel of another library with the signature of `call`; raise Unsupported where there is none."""
        raise Unsupported(NotInLibrary(name, self._name))

    def work(self, size: str, itemsize: int) -> dict | None:
        """Return {flops, bytes, bound} of one call, None where they are not known."""
        flops, necessary = self.flops(size, itemsize), self.necessary_bytes(size, itemsize)
        return {"flops": flops, "bytes": necessary, "bound": self.bound}

    def flops(self, size: str, itemsize: int) -> int:
        """Return the floating-point operations of one call."""
        raise NotImplementedError

    def output_shape(self, size: str, itemsize: int) -> tuple[int, ...]:
        """Return the shape of the output; that of the first input unless said otherwise."""
        return next(iter(self.shapes(size, itemsize).values()))

    def necessary_bytes(self, size: str, itemsize: int) -> int:
        """Return the bytes one call cannot avoid: each input read once, the output written once."""
        whole = self.bounds()
        read = sum(
            prod(shape) * (INTEGER_BYTES if name in whole else itemsize)
            for name, shape in self.shapes(size, itemsize).items()
        )
        return read + prod(self.output_shape(size, itemsize)) * itemsize

    def check_size(self, size: str, itemsize: int) -> None:
        """Raise InputError unless every tensor of this size exists and can be indexed."""
        shapes = {**self.shapes(size, itemsize), "output": self.output_shape(size, itemsize)}
        for name, shape in shapes.items():
            if prod(shape) > MAX_ELEMENTS:
                raise InputError(
                    f"size {size} gives {name} {prod(shape):,} elements; allowed: at most {MAX_ELEMENTS:,}"
                )


def length(size: str) -> int:
    """Return a size that is one positive integer; raise InputError for anything else."""
    if not size.isascii() or not size.isdigit() or int(size) < 1:
        raise InputError(f"size {size} is not allowed; allowed: an integer of at least 1")
    return int(size)


def bytes_of(text: str) -> int:
    """Return the bytes that `text` gives with their unit; raise InputError for anything else."""
    match = re.fullmatch(r"([1-9][0-9]*)(KiB|MiB|GiB)", text)
    if not match:
        raise InputError(f"{text} is not allowed; allowed: an integer and KiB, MiB or GiB, as in 1GiB")
    return int(match[1]) * UNITS[match[2]]


def share(whole: int, each: int, what: str) -> int:
    """Return how many times `each` goes into `whole`; raise InputError, which begins with `what`, where it does not."""
    if whole % each or whole < each:
        raise InputError(f"{what}: {each:,} does not divide {whole:,}; allowed: a divisor of it")
    return whole // each


def rows_of(workload: Workload, row: int) -> int:
    """Return the rows of a workload that has so many `rows`, or else so many as make up its `bytes`; row: its bytes."""
    return share(bytes_of(workload.bytes), row, "bytes") if workload.bytes else workload.rows


def written_in(library: str) -> ModuleType:
    """Return the module of kernels that are written here in the language of another library.

    By name, as a job loads all that its settings choose: such a kernel is no part of the jobs that do not choose it.
    """
    return import_module(f"kernelbench.harness.libraries.{library}")


def build(workload: type, parameters: dict) -> Workload:
    """Return `workload` with the parameters of its config entry; raise InputError naming a wrong one."""
    known = {field.name: field for field in fields(workload)}
    both = [name for name in workload.either if name in parameters]
    if len(both) > 1:
        raise InputError(f"{' and '.join(both)} are both given; allowed: one of them")
    for name, value in parameters.items():
        if name not in known:
            allowed = ", ".join(["workload", "sizes", "draw", "dtypes", "modes", *known])
            raise InputError(f"{name} is not a known key{nearest(name, allowed.split(', '))}; allowed: {allowed}")
        wanted = known[name].type
        if type(value) is not wanted or (wanted is int and value < 1):
            words = {bool: "true or false", str: "text", dict: "a mapping"}
            allowed = words.get(wanted, "an integer of at least 1")
            raise InputError(f"{name}: {value!r} is not allowed; allowed: {allowed}")
    return workload(**parameters)
