"""A small convolutional network, two blocks and a 1×1 head, a size being the edge of the square images."""

from dataclasses import dataclass
from itertools import pairwise

from kernelbench.harness.model import Model
from kernelbench.harness.workload import length


@dataclass(frozen=True)
class Conv(Model):
    """x: (batch, 3, size, size), the output: (batch, classes, size, size)."""

    batch: int = 4
    channels: int = 16
    classes: int = 10

    def shapes(self, size, itemsize):
        return {"x": (self.batch, 3, length(size), length(size))}

    def output_shape(self, size, itemsize):
        return self.batch, self.classes, length(size), length(size)

    def module(self, size):
        from torch import nn

        widths = (3, self.channels, 2 * self.channels)
        blocks = [
            nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())
            for i, o in pairwise(widths)
        ]
        return nn.Sequential(*blocks, nn.Conv2d(widths[-1], self.classes, 1))


WORKLOAD = Conv
