"""Scaled dot-product attention, a size being the sequence length of queries, keys and values."""

from dataclasses import dataclass
from functools import partial

from kernelbench.harness.workload import Workload, length


@dataclass(frozen=True)
class Attention(Workload):
    """q, k, v: (batch, heads, size, head_dim)."""

    batch: int = 8
    heads: int = 16
    head_dim: int = 64
    causal: bool = False

    bound = "compute"
    split = ("q", "k", "v")

    def shapes(self, size, itemsize):
        shape = (self.batch, self.heads, length(size), self.head_dim)
        return {"q": shape, "k": shape, "v": shape}

    def call(self, q, k, v):
        import torch

        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)

    def kernel(self):
        from kernels.attention import attention

        return partial(attention, causal=self.causal)

    def flops(self, size):
        # Two matrix products; the usual convention counts half of them under a causal mask and no softmax.
        full = 4 * self.batch * self.heads * length(size) ** 2 * self.head_dim
        return full // 2 if self.causal else full


WORKLOAD = Attention
