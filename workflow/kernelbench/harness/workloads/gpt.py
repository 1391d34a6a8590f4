"""A stack of GPT-style decoder blocks, without embeddings, a size being the number of layers."""

from dataclasses import dataclass

from kernelbench.harness.model import Model
from kernelbench.harness.workload import length, share


@dataclass(frozen=True)
class Gpt(Model):
    """x: (batch, sequence, width), the output as well."""

    batch: int = 8
    sequence: int = 1024
    width: int = 1024
    heads: int = 16

    def __post_init__(self):
        share(self.width, self.heads, "heads")

    def shapes(self, size, itemsize):
        length(size)
        return {"x": (self.batch, self.sequence, self.width)}

    def module(self, size):
        from torch import nn

        return nn.Sequential(*(_block(self.width, self.heads) for _ in range(length(size))))


def _block(width: int, heads: int):
    """Return a decoder block: causal attention and a perceptron, each after a layer norm and around a residual."""
    from torch import nn
    from torch.nn.functional import scaled_dot_product_attention

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
            self.queries_keys_values = nn.Linear(width, 3 * width)
            self.projection = nn.Linear(width, width)
            self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            each = self.queries_keys_values(self.norms[0](x)).unflatten(-1, (3, heads, -1))
            q, k, v = each.permute(2, 0, 3, 1, 4)
            attended = scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
            x = x + self.projection(attended)
            return x + self.perceptron(self.norms[1](x))

    return Block()


WORKLOAD = Gpt
