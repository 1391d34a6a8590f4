"""Softmax over the last dimension, a size being the number of columns."""

from dataclasses import dataclass

from kernelbench.harness.workload import Workload, length


@dataclass(frozen=True)
class Softmax(Workload):
    """x: (rows, size)."""

    rows: int = 8192

    def shapes(self, size, itemsize):
        return {"x": (self.rows, length(size))}

    def call(self, x):
        import torch

        return torch.softmax(x, dim=-1)

    def kernel(self):
        from kernels.softmax import softmax

        return softmax

    def flops(self, size):
        # Per element: compare, subtract, exponentiate, add, divide.
        return 5 * self.rows * length(size)


WORKLOAD = Softmax
