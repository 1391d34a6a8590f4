"""Scaled dot-product attention, softmax(q k^T * scale) v, forward only.

On Hopper, `attention_hopper.py` takes the shapes it has a tile for. Few queries, such as a step of decoding, take two
kernels here: one for all queries that share keys, and a part of those, and one that joins the parts (Flash-Decoding:
Dao, Haziza, Massa and Sizov, 2023). The first kernel here takes all others, anywhere:
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

# (are tensor cores used?, head_dim, as a power of two) -> (queries per program, keys per step, warps, stages).
# Without tensor cores registers bound the tiles.
_TILES = {
    (True, 16): (128, 64, 4, 3),
    (True, 32): (128, 64, 8, 3),
    (True, 64): (128, 64, 8, 3),
    (True, 128): (128, 64, 8, 3),
    (True, 256): (64, 32, 4, 2),
    (False, 16): (64, 32, 4, 2),
    (False, 32): (64, 32, 4, 2),
    (False, 64): (64, 32, 8, 2),
    (False, 128): (32, 16, 4, 2),
    (False, 256): (16, 16, 4, 2),
}
# The same for few queries, of a head_dim up to 128, with tensor cores.
_FEW, _TILE_OF_FEW = 128, (64, 64, 4, 3)
_WIDEST = 256  # head_dim
_FEW_ROWS = (
    16  # queries, of all heads that share keys, up to which keys are cut into parts rather than queries into tiles
)
# How: keys per step, warps, stages; programs for each multiprocessor at most, keys of a part at least.
_PARTS = 64, 4, 3, 2, 128
_PARTS_OF_FLOAT32 = 16, 4, 2, 2, 128
_WHOLE = 512  # keys up to which joining parts would take longer than it gains


@triton.jit
def _load(ptrs, in_length, in_row, CUT_LENGTH: tl.constexpr, CUT_ROW: tl.constexpr):
    """Load with the masks that are needed."""
    if CUT_LENGTH and CUT_ROW:
        return tl.load(ptrs, mask=in_length & in_row, other=0.0)
    elif CUT_LENGTH:
        return tl.load(ptrs, mask=in_length, other=0.0)
    elif CUT_ROW:
        return tl.load(ptrs, mask=in_row, other=0.0)
    else:
        return tl.load(ptrs)


@triton.jit
def _attend(
    accumulator, total, top, q, query, k_ptr, v_ptr, first, stop, keys, scale, k_s, k_d, v_s, v_d,
    DIM: tl.constexpr, HEAD: tl.constexpr, BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Take in keys and values from `first` to `stop`; MASKED if not every query sees them all."""
    dim = tl.arange(0, HEAD).to(tl.int64)
    key = first + tl.arange(0, BLOCK_K)
    wide = key.to(tl.int64)
    k_ptrs = k_ptr + wide[None, :] * k_s + dim[:, None] * k_d
    v_ptrs = v_ptr + wide[:, None] * v_s + dim[None, :] * v_d
    step = tl.full([], BLOCK_K, tl.int64)
    for _ in range(first, stop, BLOCK_K):
        k = _load(k_ptrs, (key < keys)[None, :], (dim < DIM)[:, None], MASKED, DIM < HEAD)
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
        v = _load(v_ptrs, (key < keys)[:, None], (dim < DIM)[None, :], MASKED, DIM < HEAD)
        accumulator = tl.dot(p.to(v.dtype), v, accumulator, input_precision="ieee")
        top = higher
        key += BLOCK_K
        k_ptrs += step * k_s
        v_ptrs += step * v_s
    return accumulator, total, top


@triton.jit
def _attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, heads, shared, queries, keys, scale,
    q_b, q_h, q_s, q_d, k_b, k_h, k_s, k_d, v_b, v_h, v_s, v_d,
    DIM: tl.constexpr, HEAD: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
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
    k_ptr += batch * k_b + head // shared * k_h
    v_ptr += batch * v_b + head // shared * v_h

    query = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    wide = query.to(tl.int64)[:, None]
    dim = tl.arange(0, HEAD).to(tl.int64)[None, :]
    inside = (query < queries)[:, None]
    q_at = batch * q_b + head * q_h + wide * q_s + dim * q_d
    q = _load(q_ptr + q_at, inside, dim < DIM, True, DIM < HEAD)

    # The maximum starts at the lowest finite number, so that scores of -inf weigh 0, not NaN.
    top = tl.full([BLOCK_Q], -3.4028234663852886e38, tl.float32)
    total = tl.zeros([BLOCK_Q], dtype=tl.float32)
    accumulator = tl.zeros([BLOCK_Q, HEAD], dtype=tl.float32)
    stop = tl.minimum((tile + 1) * BLOCK_Q, keys) if CAUSAL else keys
    whole = (tile * BLOCK_Q if CAUSAL else keys) // BLOCK_K * BLOCK_K
    accumulator, total, top = _attend(
        accumulator, total, top, q, query, k_ptr, v_ptr, 0, whole, keys, scale,
        k_s, k_d, v_s, v_d, DIM, HEAD, BLOCK_K, CAUSAL, False,
    )  # fmt: skip
    if CAUSAL or not EVEN_K:
        accumulator, total, top = _attend(
            accumulator, total, top, q, query, k_ptr, v_ptr, whole, stop, keys, scale,
            k_s, k_d, v_s, v_d, DIM, HEAD, BLOCK_K, CAUSAL, True,
        )  # fmt: skip
    o = (accumulator * (1.0 / total)[:, None]).to(o_ptr.dtype.element_ty)
    mask = inside & (dim < DIM) if DIM < HEAD else inside
    tl.store(o_ptr + (both * queries + wide) * DIM + dim, o, mask=mask)


@triton.jit
def _part_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, heads, shared, queries, keys, scale, span,
    q_b, q_h, q_s, q_d, k_b, k_h, k_s, k_d, v_b, v_h, v_s, v_d,
    DIM: tl.constexpr, HEAD: tl.constexpr, ROWS: tl.constexpr, BLOCK_K: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """All queries that share a head of keys, and `span` keys of it: the output if WHOLE, else a part of it."""
    sheet = tl.program_id(0).to(tl.int64)
    batch, head = sheet // heads, sheet % heads
    row = tl.arange(0, ROWS)[:, None].to(tl.int64)
    dim = tl.arange(0, HEAD)[None, :].to(tl.int64)
    inside = row < shared * queries
    q_at = batch * q_b + (head * shared + row // queries) * q_h + row % queries * q_s + dim * q_d
    q = _load(q_ptr + q_at, inside, dim < DIM, True, DIM < HEAD)
    k_ptr += batch * k_b + head * k_h
    v_ptr += batch * v_b + head * v_h
    first = tl.program_id(1) * span
    stop = tl.minimum(first + span, keys)
    whole = first + (stop - first) // BLOCK_K * BLOCK_K
    top = tl.full([ROWS], -3.4028234663852886e38, tl.float32)
    total = tl.zeros([ROWS], dtype=tl.float32)
    accumulator = tl.zeros([ROWS, HEAD], dtype=tl.float32)
    accumulator, total, top = _attend(
        accumulator, total, top, q, row, k_ptr, v_ptr, first, whole, keys, scale,
        k_s, k_d, v_s, v_d, DIM, HEAD, BLOCK_K, False, False,
    )  # fmt: skip
    accumulator, total, top = _attend(
        accumulator, total, top, q, row, k_ptr, v_ptr, whole, stop, stop, scale,
        k_s, k_d, v_s, v_d, DIM, HEAD, BLOCK_K, False, True,
    )  # fmt: skip
    if WHOLE:
        o = (accumulator * (1.0 / total)[:, None]).to(o_ptr.dtype.element_ty)
        tl.store(o_ptr + (sheet * (shared * queries) + row) * DIM + dim, o, mask=inside & (dim < DIM))
    else:
        # Each row with its sum and maximum behind it.
        at = o_ptr + ((sheet * (shared * queries) + row) * tl.num_programs(1) + tl.program_id(1)) * (DIM + 2)
        tl.store(at + dim, accumulator, mask=inside & (dim < DIM))
        tl.store(at + DIM, total[:, None], mask=inside)
        tl.store(at + DIM + 1, top[:, None], mask=inside)


@triton.jit
def _join_kernel(part_ptr, o_ptr, parts, DIM: tl.constexpr, HEAD: tl.constexpr, PARTS: tl.constexpr):
    """One row of the output, from its parts."""
    row = tl.program_id(0).to(tl.int64)
    part = tl.arange(0, PARTS)
    dim = tl.arange(0, HEAD)
    at = part_ptr + (row * parts + part) * (DIM + 2)
    total = tl.load(at + DIM, mask=part < parts, other=0.0)
    top = tl.load(at + DIM + 1, mask=part < parts, other=-float("inf"))
    mask = (part < parts)[:, None] & (dim < DIM)[None, :]
    accumulator = tl.load(at[:, None] + dim[None, :], mask=mask, other=0.0)
    weight = tl.exp2(top - tl.max(top, axis=0))
    o = tl.sum(accumulator * weight[:, None], axis=0) / tl.sum(total * weight, axis=0)
    tl.store(o_ptr + row * DIM + dim, o.to(o_ptr.dtype.element_ty), mask=dim < DIM)


_INTERPRETED = not isinstance(_attention_kernel, triton.JITFunction)  # TRITON_INTERPRET=1


def _check(q, k, v, causal, scale, real=True):
    launch.check({"q": q, "k": k, "v": v}, _INTERPRETED, real)
    for name, t in (("q", q), ("k", k), ("v", v)):
        if t.dim() != 4:
            shape = tuple(t.shape)
            raise ValueError(f"{name} has shape {shape}; it must be (batch, heads, sequence, dim)")
    if not 0 < q.shape[3] <= _WIDEST:
        raise ValueError(f"q has head_dim {q.shape[3]}; allowed are 1 to {_WIDEST}")
    if q.shape[1] != k.shape[1] and (k.shape[1] == 0 or q.shape[1] % k.shape[1]):
        raise ValueError(f"k has {k.shape[1]} heads; q's {q.shape[1]} must be a multiple")
    want = (q.shape[0], *k.shape[1:3], q.shape[3])
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
    capability, processors, _ = launch.limits(q.device)
    if q.shape[1] // k.shape[1] * q.shape[2] <= _FEW_ROWS and not causal:
        return _by_parts(q, k, v, o, scale, processors)
    if capability == 9 and q.device.type != "cpu" and attention_hopper.reads(q, k, v, causal):
        return attention_hopper.start(q, k, v, o, causal, scale)
    return _plain(q, k, v, o, causal, scale, capability)


def _plain(q, k, v, o, causal, scale, capability):
    """Start the kernel for any GPU."""
    batch, heads, queries, dim = q.shape
    keys, shared = k.shape[2], heads // k.shape[1]
    head = max(16, triton.next_power_of_2(dim))
    # No tensor core is IEEE float32, and Triton uses none before compute capability 8.
    tensor = q.element_size() == 2 and capability >= 8
    few = tensor and queries <= _FEW and 64 <= head <= 128
    block_q, block_k, warps, stages = _TILE_OF_FEW if few else _TILES[tensor, head]
    grid = (triton.cdiv(queries, block_q) * batch * heads,)
    numbers = (heads, shared, queries, keys, scale, *q.stride(), *k.stride(), *v.stride())
    constants = (dim, head, block_q, block_k, causal, keys % block_k == 0)
    return launch.start(_attention_kernel, grid, (q, k, v, o), numbers + constants, num_warps=warps, num_stages=stages)


def _by_parts(q, k, v, o, scale, processors):
    """Start the kernels for few queries, whose keys are cut into parts if that occupies the GPU."""
    (batch, heads, queries, dim), keys = q.shape, k.shape[2]
    sheets, shared = batch * k.shape[1], heads // k.shape[1]
    head = max(16, triton.next_power_of_2(dim))
    block, warps, stages, most, least = _PARTS if q.element_size() == 2 else _PARTS_OF_FLOAT32
    parts = max(1, min(processors * most // sheets, triton.cdiv(keys, least))) if keys > _WHOLE else 1
    span = triton.cdiv(triton.cdiv(keys, parts), block) * block
    parts = triton.cdiv(keys, span)
    numbers = (k.shape[1], shared, queries, keys, scale, span, *q.stride(), *k.stride(), *v.stride())
    constants = (dim, head, _FEW_ROWS, block, parts == 1)
    options = {"num_warps": warps, "num_stages": stages}
    if parts == 1:
        return launch.start(_part_kernel, (sheets, 1), (q, k, v, o), numbers + constants, **options)
    room = q.new_empty((batch * heads * queries, parts, dim + 2), dtype=torch.float32)
    part = launch.start(_part_kernel, (sheets, parts), (q, k, v, room), numbers + constants, **options)
    rest = (parts, dim, head, triton.next_power_of_2(parts))
    join = launch.start(_join_kernel, (len(room),), (room, o), rest, num_warps=4)
    steps = [(part, ("q", "k", "v", "parts")), (join, ("parts", "o"))]
    return launch.chain(("q", "k", "v", "o"), {"parts": room}, steps)


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

    q: (batch, heads, queries, head_dim); k, v: (batch, key_heads, keys, head_dim); all float16,
    bfloat16 or float32, on one CUDA device, any strides. head_dim is 1 to 256. heads is a multiple
    of key_heads: as many heads in a row share each head of k and v, as with PyTorch's `enable_gqa`.
    There are no masks but causal: True or False; if True, query i sees keys 0 to i, and there must
    be as many keys as queries. scale: a finite number, 1 / sqrt(head_dim) if None: a float or int,
    or of another type, such as NumPy's or a tensor of no dimension. Those break the graph of
    torch.compile, and such a tensor is read on the host. float32 is IEEE single precision, never
    TF32.

    Returns a new contiguous tensor of the shape and dtype of `q`; zeros if there are no keys.

    Under torch.compile, in transforms such as vmap and for subclasses of tensors it is an operator
    of PyTorch, `launch.OPERATORS["attention"]`.

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
