"""A linear layer and its activation, a size being the features in and out."""

from dataclasses import dataclass

from kernelbench.harness.model import Model
from kernelbench.harness.workload import length


@dataclass(frozen=True)
class LinearRelu(Model):
    """x: (rows, size), the output as well."""

    rows: int = 4096

    def shapes(self, size, itemsize):
        return {"x": (self.rows, length(size))}

    def module(self, size):
        from torch import nn

        return nn.Sequential(nn.Linear(length(size), length(size)), nn.ReLU())


WORKLOAD = LinearRelu
