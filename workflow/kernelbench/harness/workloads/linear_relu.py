"""A linear layer and its activation, relu(x Wᵀ + b), a size being the features in and out."""

from dataclasses import dataclass

from kernelbench.harness.workload import Workload, length


@dataclass(frozen=True)
class LinearRelu(Workload):
    """x: (rows, size), weight: (size, size), bias: (size,)."""

    rows: int = 4096

    bound = "compute"

    def shapes(self, size, itemsize):
        features = length(size)
        return {"x": (self.rows, features), "weight": (features, features), "bias": (features,)}

    def call(self, x, weight, bias):
        import torch

        return torch.nn.functional.linear(x, weight, bias).relu()

    def jax(self):
        import jax.numpy as jnp

        return lambda x, weight, bias: jnp.maximum(x @ weight.T + bias, 0)

    def flops(self, size, itemsize):
        # The product with its sum, the bias and the activation.
        return self.rows * length(size) * (2 * length(size) + 2)


WORKLOAD = LinearRelu
