"""Scaled dot-product attention, softmax(q k^T * scale) v, forward only.

On Hopper, `attention_hopper.py` takes the shapes it has a tile for. The kernel here takes all others, anywhere:
FlashAttention (Dao et al., 2022, arXiv:2205.14135) in the order of FlashAttention-2 (Dao, 2023,
arXiv:2307.08691): a program owns a tile of queries and walks over the keys, so the matrix of scores
never leaves the chip. Maximum and sum of a row of scores are kept as in the online softmax of
Milakov and Gimelshein (2018, arXiv:1805.02867), and the output is divided by the sum at the end.
Scores are taken to base 2, with log2(e) folded into the scale. Keys come in two stretches: tiles
that every query of the program sees whole, without a mask, then those that the diagonal or the end
of the sequence cuts.
"""

import math
from collections import OrderedDict

import torch
import triton
import triton.language as tl

from . import attention_hopper, launch

# (are tensor cores used?, head_dim) -> (queries per program, keys per step, warps, stages).
# Without tensor cores registers bound the tiles.
_TILES = {
    (True, 16): (128, 64, 4, 3),
    (True, 32): (128, 64, 8, 3),
    (True, 64): (128, 64, 8, 3),
    (True, 128): (128, 64, 8, 3),
    (False, 16): (64, 32, 4, 2),
    (False, 32): (64, 32, 4, 2),
    (False, 64): (64, 32, 8, 2),
    (False, 128): (32, 16, 4, 2),
}
_HEAD_DIMS = (16, 32, 64, 128)


@triton.jit
def _attend(
    accumulator, total, top, q, query, k_ptr, v_ptr, first, stop, keys, scale, k_s, k_d, v_s, v_d,
    HEAD: tl.constexpr, BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Take in keys and values from `first` to `stop`; MASKED if not every query sees them all."""
    dim = tl.arange(0, HEAD).to(tl.int64)
    key = first + tl.arange(0, BLOCK_K)
    wide = key.to(tl.int64)
    k_ptrs = k_ptr + wide[None, :] * k_s + dim[:, None] * k_d
    v_ptrs = v_ptr + wide[:, None] * v_s + dim[None, :] * v_d
    step = tl.full([], BLOCK_K, tl.int64)
    for _ in range(first, stop, BLOCK_K):
        k = tl.load(k_ptrs, mask=(key < keys)[None, :], other=0.0) if MASKED else tl.load(k_ptrs)
        scores = tl.dot(q, k, input_precision="ieee")
        if MASKED:
            seen = (key < keys)[None, :]
            if CAUSAL:
                seen = seen & (key[None, :] <= query[:, None])
            scores = tl.where(seen, scores, -float("inf"))
        higher = tl.maximum(top, tl.max(scores, axis=1) * scale)
        p = tl.exp2(scores * scale - higher[:, None])
        shrink = tl.exp2(top - higher)
        total = total * shrink + tl.sum(p, axis=1)
        accumulator = accumulator * shrink[:, None]
        v = tl.load(v_ptrs, mask=(key < keys)[:, None], other=0.0) if MASKED else tl.load(v_ptrs)
        accumulator = tl.dot(p.to(v.dtype), v, accumulator, input_precision="ieee")
        top = higher
        key += BLOCK_K
        k_ptrs += step * k_s
        v_ptrs += step * v_s
    return accumulator, total, top


@triton.jit
def _attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, heads, queries, keys, scale,
    q_b, q_h, q_s, q_d, k_b, k_h, k_s, k_d, v_b, v_h, v_s, v_d,
    HEAD: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    CAUSAL: tl.constexpr, EVEN_K: tl.constexpr,
):  # fmt: skip
    # The tiles of one head follow each other and share its keys in the L2 cache; the last tile of
    # a causal head has most to do and goes first, so that short ones fill the end.
    tiles = tl.cdiv(queries, BLOCK_Q)
    tile = tl.program_id(0) % tiles
    if CAUSAL:
        tile = tiles - 1 - tile
    both = (tl.program_id(0) // tiles).to(tl.int64)
    batch = both // heads
    head = both % heads
    k_ptr += batch * k_b + head * k_h
    v_ptr += batch * v_b + head * v_h

    query = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    wide = query.to(tl.int64)[:, None]
    dim = tl.arange(0, HEAD).to(tl.int64)[None, :]
    inside = (query < queries)[:, None]
    q_at = batch * q_b + head * q_h + wide * q_s + dim * q_d
    q = tl.load(q_ptr + q_at, mask=inside, other=0.0)

    # The maximum starts at the lowest finite number, so that scores of -inf weigh 0, not NaN.
    top = tl.full([BLOCK_Q], -3.4028234663852886e38, tl.float32)
    total = tl.zeros([BLOCK_Q], dtype=tl.float32)
    accumulator = tl.zeros([BLOCK_Q, HEAD], dtype=tl.float32)
    stop = tl.minimum((tile + 1) * BLOCK_Q, keys) if CAUSAL else keys
    whole = (tile * BLOCK_Q if CAUSAL else keys) // BLOCK_K * BLOCK_K
    accumulator, total, top = _attend(
        accumulator, total, top, q, query, k_ptr, v_ptr, 0, whole, keys, scale,
        k_s, k_d, v_s, v_d, HEAD, BLOCK_K, CAUSAL, False,
    )  # fmt: skip
    if CAUSAL or not EVEN_K:
        accumulator, total, top = _attend(
            accumulator, total, top, q, query, k_ptr, v_ptr, whole, stop, keys, scale,
            k_s, k_d, v_s, v_d, HEAD, BLOCK_K, CAUSAL, True,
        )  # fmt: skip
    o = (accumulator * (1.0 / total)[:, None]).to(o_ptr.dtype.element_ty)
    tl.store(o_ptr + (both * queries + wide) * HEAD + dim, o, mask=inside)


_INTERPRETED = not isinstance(_attention_kernel, triton.JITFunction)  # TRITON_INTERPRET=1


def _check(q, k, v, causal, scale, real=True):
    launch.check({"q": q, "k": k, "v": v}, _INTERPRETED, real)
    for name, t in (("q", q), ("k", k), ("v", v)):
        if t.dim() != 4:
            shape = tuple(t.shape)
            raise ValueError(f"{name} has shape {shape}; it must be (batch, heads, sequence, dim)")
    if q.shape[3] not in _HEAD_DIMS:
        raise ValueError(f"q has head_dim {q.shape[3]}; allowed are {_HEAD_DIMS}")
    want = (*q.shape[:2], k.shape[2], q.shape[3])
    for name, t in (("k", k), ("v", v)):
        if t.shape != want:
            shape = tuple(t.shape)
            raise ValueError(f"{name} has shape {shape}; for this q and k it must be {want}")
    if causal and k.shape[2] != q.shape[2]:
        raise ValueError(f"k has {k.shape[2]} keys; causal needs as many as queries, {q.shape[2]}")
    if scale is not None and not math.isfinite(scale):
        raise ValueError(f"scale is {scale}; it must be finite")


_KEPT = OrderedDict()


def _start(q, k, v, o, causal, scale):
    """Start the kernel that suits the GPU and the tensors. Returns what launch.start does."""
    capability = launch.limits(q.device)[0]
    if capability == 9 and q.device.type != "cpu" and attention_hopper.reads(q, k, v, causal):
        return attention_hopper.start(q, k, v, o, causal, scale)
    batch, heads, queries, head_dim = q.shape
    keys = k.shape[2]
    # No tensor core is IEEE float32, and Triton uses none before compute capability 8.
    block_q, block_k, warps, stages = _TILES[q.element_size() == 2 and capability >= 8, head_dim]
    grid = (triton.cdiv(queries, block_q) * batch * heads,)
    numbers = (heads, queries, keys, scale, *q.stride(), *k.stride(), *v.stride())
    constants = (head_dim, block_q, block_k, causal, keys % block_k == 0)
    return launch.start(_attention_kernel, grid, (q, k, v, o), numbers + constants, num_warps=warps, num_stages=stages)


def _key(q, k, v, causal, scale):
    """What a kept launch depends on, or None where none is kept."""
    plain = launch.PLAIN
    if type(q) not in plain or type(k) not in plain or type(v) not in plain:
        return None
    if (q.requires_grad or k.requires_grad or v.requires_grad) and torch.is_grad_enabled():
        return None
    device = q.device
    if k.device != device or v.device != device:
        return None
    shapes = q.shape, k.shape, v.shape, q.stride(), k.stride(), v.stride()
    return *shapes, q.dtype, k.dtype, v.dtype, device, causal, scale


def _kept(q, k, v, causal, scale):
    """attention() by a kept launch, or None."""
    try:
        again = _KEPT.get(_key(q, k, v, causal, scale))
        if again is None:
            return None
        q_at, k_at, v_at = q.data_ptr(), k.data_ptr(), v.data_ptr()
    except RuntimeError:
        return None
    o = torch.empty_like(q, memory_format=torch.contiguous_format)
    return o if again(q_at, k_at, v_at, o.data_ptr()) else None


def _anew(q, k, v, causal, scale):
    """attention() of what was checked, without a look at what was done before."""
    o = _empty(q, k, v, causal, scale)
    if q.numel() == 0 or k.shape[2] == 0:
        return o.zero_()
    factor = q.shape[3] ** -0.5 if scale is None else scale
    if factor > 0:
        again = _start(q, k, v, o, causal, factor * math.log2(math.e))
        launch.keep(_KEPT, _key(q, k, v, causal, scale), again)
    else:
        # The kernel scales the maximum of a row of scores, which needs a positive factor.
        q, factor = (-q, -factor) if factor < 0 else (q * 0, 1.0)
        _start(q, k, v, o, causal, factor * math.log2(math.e))
    return o


def _empty(q, k, v, causal, scale):
    return torch.empty(q.shape, dtype=q.dtype, device=q.device)


_SCHEMA = "attention(Tensor q, Tensor k, Tensor v, bool causal, float? scale) -> Tensor"
_otherwise = launch.operator(_SCHEMA, _check, _kept, _anew, _empty)


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
) -> torch.Tensor:
    """Scaled dot-product attention, `softmax(q @ k.mT * scale) @ v`, accumulated in float32.

    q: (batch, heads, queries, head_dim); k, v: (batch, heads, keys, head_dim); all float16,
    bfloat16 or float32, on one CUDA device, any strides. head_dim is 16, 32, 64 or 128. float32 is
    IEEE single precision, never TF32. causal: True or False; if True, query i sees keys 0 to i, and
    there must be as many keys as queries. scale: a finite number, 1 / sqrt(head_dim) if None: a
    float or int, or of another type, such as NumPy's or a tensor of no dimension. Those break the
    graph of torch.compile, and such a tensor is read on the host.

    Returns a new contiguous tensor of the shape and dtype of `q`; zeros if there are no keys.

    Under torch.compile, in transforms such as vmap and for subclasses of tensors it is the operator
    `kernelbench::attention`.

    Raises TypeError if an argument is no tensor, not a dense one (but sparse, nested, quantized), or
    the dtypes differ or are others, `causal` is not a bool or `scale` no number; ValueError if a
    shape or device does not fit, `scale` is not finite, or a gradient is needed: a tensor requires
    grad while grad mode is on, or has a tangent.
    """
    if type(causal) is not bool:
        launch.flag("causal", causal)
    if scale is not None and type(scale) is not float:
        scale = launch.number("scale", scale)
    o = None if launch.watched(q, k, v) else _kept(q, k, v, causal, scale)
    return _otherwise(q, k, v, causal, scale) if o is None else o
