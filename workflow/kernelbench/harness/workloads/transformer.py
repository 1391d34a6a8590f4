"""PyTorch's own transformer encoder, a size being the tokens of a sequence."""

from dataclasses import dataclass

from kernelbench.harness.model import Model
from kernelbench.harness.workload import length, share


@dataclass(frozen=True)
class Transformer(Model):
    """x: (batch, size, width), the output as well; `forward` is the width of the layers' hidden part.

    fast_path: with PyTorch's fused layer for inference, as its users have it: one operation, into which no compiler
    looks.
    """

    batch: int = 2
    width: int = 256
    heads: int = 4
    layers: int = 2
    forward: int = 1024
    fast_path: bool = False

    def __post_init__(self):
        share(self.width, self.heads, "heads")

    def shapes(self, size, itemsize):
        return {"x": (self.batch, length(size), self.width)}

    def module(self, size):
        from torch import backends, nn

        backends.mha.set_fastpath_enabled(self.fast_path)
        layer = nn.TransformerEncoderLayer(self.width, self.heads, self.forward, dropout=0.0, batch_first=True)
        return nn.TransformerEncoder(layer, self.layers)


WORKLOAD = Transformer
