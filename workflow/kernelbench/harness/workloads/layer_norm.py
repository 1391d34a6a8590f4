"""Layer normalization over the last dimension with weight and bias, a size being the number of columns."""

from dataclasses import dataclass

from kernelbench.harness.workload import Workload, length


@dataclass(frozen=True)
class LayerNorm(Workload):
    """x: (rows, size); weight, bias: (size,)."""

    rows: int = 16384

    def shapes(self, size, itemsize):
        columns = length(size)
        return {"x": (self.rows, columns), "weight": (columns,), "bias": (columns,)}

    def call(self, x, weight, bias):
        import torch

        return torch.nn.functional.layer_norm(x, weight.shape, weight, bias)

    def kernel(self):
        from kernels.layer_norm import layer_norm

        return layer_norm

    def flops(self, size):
        # Per element: add for the mean; subtract, square, add for the variance; subtract, scale, scale, add.
        return 8 * self.rows * length(size)


WORKLOAD = LayerNorm
