"""A copy within the device: the ceiling of every memory-bound operation, a size being the bytes of the source."""

import re
from dataclasses import dataclass

from kernelbench.errors import InputError
from kernelbench.harness.workload import Workload

UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


@dataclass(frozen=True)
class Copy(Workload):
    """x: (bytes of the size / itemsize,)."""

    def shapes(self, size, itemsize):
        match = re.fullmatch(r"([1-9][0-9]*)(KiB|MiB|GiB)", size)
        if not match:
            raise InputError(f"size {size} is not allowed; allowed: an integer and KiB, MiB or GiB, as in 1GiB")
        return {"x": (int(match[1]) * UNITS[match[2]] // itemsize,)}

    def call(self, x):
        return x.clone()

    def flops(self, size):
        return 0


WORKLOAD = Copy
