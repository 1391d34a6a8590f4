"""Scaled dot-product attention, a size being the length of the sequence: of keys and values, and of queries."""

from dataclasses import dataclass
from functools import partial

from kernelbench.errors import InputError
from kernelbench.harness.workload import Unsupported, Workload, length, share
from kernelbench.notes import RuntimeRefused

# PyTorch's own implementations, by the name that a mode gives them.
BACKENDS = {
    "sdpa-flash": "FLASH_ATTENTION",
    "sdpa-cudnn": "CUDNN_ATTENTION",
    "sdpa-efficient": "EFFICIENT_ATTENTION",
    "sdpa-math": "MATH",
}


@dataclass(frozen=True)
class Attention(Workload):
    """q: (batch, heads, queries, head_dim); k, v: (batch, kv_heads, size, head_dim).

    queries: as many as keys if 0; 1 is a step of decoding, against a cache of keys. kv_heads: as many as heads if 0;
    fewer are each shared by a group of heads. batch may be given as `tokens`, batch times size.
    """

    batch: int = 8
    tokens: int = 0
    heads: int = 16
    head_dim: int = 64
    causal: bool = False
    queries: int = 0
    kv_heads: int = 0

    bound = "compute"
    split = ("q", "k", "v")
    either = ("batch", "tokens")
    libraries = (*BACKENDS, "flex", "fa4")

    @property
    def independent(self):
        return 1 if self.kv_heads else 2  # Heads that share keys stay together.

    def shapes(self, size, itemsize):
        if self.causal and self.queries:
            raise InputError("queries: not allowed with causal: true; allowed: one of the two")
        share(self.heads, self.kv_heads or self.heads, "kv_heads")
        batch = share(self.tokens, length(size), "tokens") if self.tokens else self.batch
        keys = (batch, self.kv_heads or self.heads, length(size), self.head_dim)
        return {"q": (batch, self.heads, self.queries or length(size), self.head_dim), "k": keys, "v": keys}

    def call(self, q, k, v):
        import torch

        shared = {"enable_gqa": True} if self.kv_heads else {}
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal, **shared)

    def kernel(self):
        from kernelbench.kernels.attention import attention

        return partial(attention, causal=self.causal)

    def library(self, name):
        if name in BACKENDS:
            return self._backend(name)
        if name == "flex":
            return _flex(self.causal, bool(self.kv_heads))
        if name == "fa4":
            return _fa4(self.causal)
        return super().library(name)

    def _backend(self, name: str):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backend = getattr(SDPBackend, BACKENDS[name])

        def call(q, k, v):
            try:
                with sdpa_kernel(backend):
                    return self.call(q, k, v)
            except RuntimeError as error:
                if "No available kernel" not in str(error):
                    raise
                raise Unsupported(
                    RuntimeRefused(name, "it has no kernel for these heads and lengths on this GPU")
                ) from None

        return call

    def flops(self, size, itemsize):
        # Two matrix products; the usual convention counts half of them under a causal mask and no softmax.
        batch, heads, queries, dim = self.shapes(size, itemsize)["q"]
        full = 4 * batch * heads * queries * length(size) * dim
        return full // 2 if self.causal else full


def _flex(causal: bool, shared: bool):
    """Return FlexAttention, compiled; a causal mask is made in the first call, which knows the length."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    compiled, masks = torch.compile(flex_attention), {}

    def call(q, k, v):
        n = q.shape[-2]
        if n not in masks:
            masks[n] = create_block_mask(_is_past, None, None, n, n, device=q.device) if causal else None
        return compiled(q, k, v, block_mask=masks[n], enable_gqa=shared)

    return call


def _fa4(causal: bool):
    """Return FlashAttention-4, which wants and returns (batch, length, heads, head_dim): views, nothing is copied."""
    from flash_attn.cute import flash_attn_func

    def call(q, k, v):
        try:
            found = flash_attn_func(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), causal=causal)
        except (AssertionError, NotImplementedError) as error:  # So it refuses dtypes, head_dims and GPUs.
            said = " ".join(str(error).split())[:150] or type(error).__name__
            raise Unsupported(RuntimeRefused("fa4", said)) from None
        output = found[0] if isinstance(found, tuple) else found  # Beside it may stand the sums of the softmax.
        return output.transpose(1, 2)

    return call


def _is_past(batch, head, query, key):
    return query >= key


WORKLOAD = Attention
