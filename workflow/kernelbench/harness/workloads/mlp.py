"""A multilayer perceptron with one hidden layer, a size being the batch."""

from dataclasses import dataclass

from kernelbench.harness.model import Model
from kernelbench.harness.workload import length


@dataclass(frozen=True)
class Mlp(Model):
    """x: (size, features), the output as well."""

    features: int = 256
    hidden: int = 512

    def shapes(self, size, itemsize):
        return {"x": (length(size), self.features)}

    def module(self, size):
        from torch import nn

        return nn.Sequential(nn.Linear(self.features, self.hidden), nn.ReLU(), nn.Linear(self.hidden, self.features))


WORKLOAD = Mlp
