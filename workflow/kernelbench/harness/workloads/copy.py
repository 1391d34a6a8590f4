"""A copy within the device: the ceiling of every memory-bound operation, a size being the bytes of the source."""

from dataclasses import dataclass

from kernelbench.errors import InputError
from kernelbench.harness.workload import Workload, bytes_of


@dataclass(frozen=True)
class Copy(Workload):
    """x: (bytes of the size / itemsize,)."""

    def shapes(self, size, itemsize):
        try:
            return {"x": (bytes_of(size) // itemsize,)}
        except InputError as error:
            raise InputError(f"size {error}") from None

    def call(self, x):
        return x.clone()

    def flops(self, size, itemsize):
        return 0


WORKLOAD = Copy
