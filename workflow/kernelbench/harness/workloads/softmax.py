"""Softmax over the last dimension, a size being the number of columns."""

from dataclasses import dataclass

from kernelbench.harness.workload import Workload, length, rows_of, written_in


@dataclass(frozen=True)
class Softmax(Workload):
    """x: (rows, size), or as many rows as make up `bytes`."""

    rows: int = 8192
    bytes: str = ""

    either = ("rows", "bytes")
    libraries = ("liger", "quack", "helion")

    def shapes(self, size, itemsize):
        return {"x": (rows_of(self, length(size) * itemsize), length(size))}

    def call(self, x):
        import torch

        return torch.softmax(x, dim=-1)

    def kernel(self):
        from kernelbench.kernels.softmax import softmax

        return softmax

    def jax(self):
        import jax

        return jax.nn.softmax

    def library(self, name):
        if name == "liger":
            from liger_kernel.ops import LigerSoftmaxFunction

            return LigerSoftmaxFunction.apply
        if name == "quack":
            from quack.softmax import softmax

            return softmax
        if name == "helion":
            return written_in(name).softmax
        return super().library(name)

    def flops(self, size, itemsize):
        # Per element: compare, subtract, exponentiate, add, divide.
        return 5 * rows_of(self, length(size) * itemsize) * length(size)


WORKLOAD = Softmax
