"""Matrix product: c[i, j] = Σ_k a[i, k] · b[k, j], a size being the edge of square matrices, or MxKxN.

`layout` says how a and b lie in memory, as BLAS does: n by rows, t by columns, as the weight of a linear layer does.
"""

import re
from dataclasses import dataclass

from kernelbench.errors import InputError
from kernelbench.harness.workload import Workload

LAYOUTS = ("nn", "nt", "tn", "tt")


@dataclass(frozen=True)
class Matmul(Workload):
    """a: (M, K), b: (K, N)."""

    layout: str = "nn"

    bound = "compute"
    split = ("a",)

    def shapes(self, size, itemsize):
        if self.layout not in LAYOUTS:
            raise InputError(f"layout: {self.layout} is not allowed; allowed: {', '.join(LAYOUTS)}")
        m, k, n = _extents(size)
        return {"a": (m, k), "b": (k, n)}

    def lay_out(self, inputs):
        by_columns = dict(zip(inputs, self.layout, strict=True))
        return {name: t.t().contiguous().t() if by_columns[name] == "t" else t for name, t in inputs.items()}

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
