"""A matrix product and the softmax of its rows, a size being the edge of square matrices."""

from dataclasses import dataclass

from kernelbench.harness.workload import Workload, length


@dataclass(frozen=True)
class MatmulSoftmax(Workload):
    """x, y: (size, size)."""

    bound = "compute"

    def shapes(self, size, itemsize):
        return {"x": (length(size), length(size)), "y": (length(size), length(size))}

    def call(self, x, y):
        import torch

        return torch.softmax(x @ y, dim=1)

    def jax(self):
        import jax

        return lambda x, y: jax.nn.softmax(x @ y, axis=1)

    def flops(self, size, itemsize):
        return 2 * length(size) ** 3 + 5 * length(size) ** 2


WORKLOAD = MatmulSoftmax
