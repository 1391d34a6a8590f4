"""Product of float8 matrices, a size being the edge of square matrices, or MxKxN; the output is bfloat16."""

from dataclasses import dataclass

from kernelbench.harness.workload import Workload
from kernelbench.harness.workloads.matmul import Matmul


@dataclass(frozen=True)
class ScaledMatmul(Matmul):
    """a: (M, K), b: (K, N) by columns, the only way in which cuBLAS multiplies float8; scale: one float32, 1."""

    only_dtype = "float8"

    def lay_out(self, inputs):
        import torch

        a, b = inputs.values()
        return {"a": a, "b": b.t().contiguous().t(), "scale": torch.ones((), device=a.device)}

    def call(self, a, b, scale):
        import torch

        if a.itemsize > 1:  # The float64 reference.
            return a @ b
        return torch._scaled_mm(a, b, scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16)

    # Those of the product that it is otherwise have no scale.
    kernel = Workload.kernel
    jax = Workload.jax

    def necessary_bytes(self, size, itemsize):
        m, n = self.output_shape(size, itemsize)
        return super().necessary_bytes(size, itemsize) + m * n * itemsize  # The output has two bytes an element.


WORKLOAD = ScaledMatmul
