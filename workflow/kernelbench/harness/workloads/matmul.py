"""Matrix product: c[i, j] = Σ_k a[i, k] · b[k, j], a size being the edge of square matrices, or MxKxN."""

import re
from dataclasses import dataclass

from kernelbench.errors import InputError
from kernelbench.harness.workload import Workload


@dataclass(frozen=True)
class Matmul(Workload):
    """a: (M, K), b: (K, N)."""

    bound = "compute"
    split = ("a",)

    def shapes(self, size, itemsize):
        m, k, n = _extents(size)
        return {"a": (m, k), "b": (k, n)}

    def output_shape(self, size, itemsize):
        m, _, n = _extents(size)
        return m, n

    def call(self, a, b):
        return a @ b

    def kernel(self):
        from kernelbench.kernels.matmul import matmul

        return matmul

    def jax(self):
        return lambda a, b: a @ b

    def flops(self, size, itemsize):
        m, k, n = _extents(size)
        return 2 * m * k * n


def _extents(size: str) -> tuple[int, int, int]:
    """Return (M, K, N)."""
    if not re.fullmatch("[1-9][0-9]*(x[1-9][0-9]*x[1-9][0-9]*)?", size):
        raise InputError(f"size {size} is not allowed; allowed: an integer of at least 1, or three as in 16x4096x4096")
    extents = [int(extent) for extent in size.split("x")]
    return tuple(extents * 3 if len(extents) == 1 else extents)


WORKLOAD = Matmul
