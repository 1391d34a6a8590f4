"""Square matrix product: c[i, j] = Σ_k a[i, k] · b[k, j], a size being the edge."""

from dataclasses import dataclass

from kernelbench.harness.workload import Workload, length


@dataclass(frozen=True)
class Matmul(Workload):
    """a, b: (size, size)."""

    bound = "compute"
    split = ("a",)

    def shapes(self, size, itemsize):
        n = length(size)
        return {"a": (n, n), "b": (n, n)}

    def call(self, a, b):
        return a @ b

    def kernel(self):
        from kernels.matmul import matmul

        return matmul

    def flops(self, size):
        return 2 * length(size) ** 3


WORKLOAD = Matmul
