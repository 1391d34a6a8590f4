"""Layer normalization over the last dimension with weight and bias, a size being the number of columns."""

from dataclasses import dataclass
from functools import partial

from kernelbench.harness.workload import Workload, length, rows_of, written_in

EPS = 1e-5  # torch's default; others have their own.


@dataclass(frozen=True)
class LayerNorm(Workload):
    """x: (rows, size), or as many rows as make up `bytes`; weight, bias: (size,)."""

    rows: int = 16384
    bytes: str = ""

    either = ("rows", "bytes")
    libraries = ("liger", "quack", "helion")

    def shapes(self, size, itemsize):
        columns = length(size)
        return {"x": (rows_of(self, columns * itemsize), columns), "weight": (columns,), "bias": (columns,)}

    def call(self, x, weight, bias):
        import torch

        return torch.nn.functional.layer_norm(x, weight.shape, weight, bias, EPS)

    def kernel(self):
        from kernelbench.kernels.layer_norm import layer_norm

        return layer_norm

    def library(self, name):
        if name == "liger":
            from liger_kernel.ops import LigerLayerNormFunction

            return lambda x, weight, bias: LigerLayerNormFunction.apply(x, weight, bias, EPS)
        if name == "quack":
            return _quack()
        if name == "helion":
            return partial(written_in(name).layer_norm, eps=EPS)
        return super().library(name)

    def flops(self, size, itemsize):
        # Per element: add for the mean; subtract, square, add for the variance; subtract, scale, scale, add.
        return 8 * rows_of(self, length(size) * itemsize) * length(size)


def _quack():
    """Return QuACK's layer normalization; weight and bias, which it wants in float32, are turned into that once."""
    from quack.rmsnorm import layernorm_fwd

    kept = {}

    def call(x, weight, bias):
        if weight not in kept:  # By identity, which a tensor's hash is.
            kept[weight] = weight.float(), bias.float()
        return layernorm_fwd(x, *kept[weight], EPS)

    return call


WORKLOAD = LayerNorm
