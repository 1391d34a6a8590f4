"""Scaled dot-product attention, a size being the sequence length of queries, keys and values."""

from dataclasses import dataclass
from functools import partial

from kernelbench.harness.workload import Workload, length, share

# PyTorch's own implementations, by the name that a mode gives them.
BACKENDS = {
    "sdpa-flash": "FLASH_ATTENTION",
    "sdpa-cudnn": "CUDNN_ATTENTION",
    "sdpa-efficient": "EFFICIENT_ATTENTION",
    "sdpa-math": "MATH",
}


@dataclass(frozen=True)
class Attention(Workload):
    """q, k, v: (batch, heads, size, head_dim); batch may be given as `tokens`, batch times size."""

    batch: int = 8
    tokens: int = 0
    heads: int = 16
    head_dim: int = 64
    causal: bool = False

    bound = "compute"
    split = ("q", "k", "v")
    independent = 2
    either = ("batch", "tokens")
    libraries = (*BACKENDS, "flex")

    def shapes(self, size, itemsize):
        batch = share(self.tokens, length(size), "tokens") if self.tokens else self.batch
        shape = (batch, self.heads, length(size), self.head_dim)
        return {"q": shape, "k": shape, "v": shape}

    def call(self, q, k, v):
        import torch

        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)

    def kernel(self):
        from kernelbench.kernels.attention import attention

        return partial(attention, causal=self.causal)

    def library(self, name):
        if name in BACKENDS:
            return self._backend(BACKENDS[name])
        if name == "flex":
            return _flex(self.causal)
        return super().library(name)

    def _backend(self, name: str):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backend = getattr(SDPBackend, name)

        def call(q, k, v):
            with sdpa_kernel(backend):
                return self.call(q, k, v)

        return call

    def flops(self, size, itemsize):
        # Two matrix products; the usual convention counts half of them under a causal mask and no softmax.
        batch, heads, n, dim = self.shapes(size, itemsize)["q"]
        full = 4 * batch * heads * n**2 * dim
        return full // 2 if self.causal else full


def _flex(causal: bool):
    """Return FlexAttention, compiled; a causal mask is made in the first call, which knows the length."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    compiled, masks = torch.compile(flex_attention), {}

    def call(q, k, v):
        n = q.shape[-2]
        if n not in masks:
            masks[n] = create_block_mask(_is_past, None, None, n, n, device=q.device) if causal else None
        return compiled(q, k, v, block_mask=masks[n])

    return call


def _is_past(batch, head, query, key):
    return query >= key


WORKLOAD = Attention
