"""Softmax over the last dimension, forward only.

Up to some 32,768 columns a row is held in registers, so that it is read once and written once; of 16 bits in 16 bits,
which leaves room for more rows at a time. Narrow rows share a program, with as few threads to a row as leave each
thread several loads of 16 bytes, which keeps the reductions across threads short.

Wider rows wait in shared memory (ring.py), where the GPU has enough. Else a row is read twice: the first pass keeps a
running maximum and a sum that is rescaled whenever the maximum grows (the online softmax of Milakov and Gimelshein,
2018, arXiv:1805.02867), both for each thread alone, and the second pass writes. That walks backwards, since what the
first pass read last is what the L2 cache still holds.
"""

from collections import OrderedDict

import torch
import triton
import triton.language as tl

from . import launch, ring, rowwise
from .rowwise import Online, Ring, Rows

# GPU (rowwise.gpu) and bytes per element -> (widest row, way), of which the first that is wide enough is taken.
_ANY = float("inf")
_NARROW = (
    *((16 << i, Rows(128 >> i, 16 << i, 4)) for i in range(7)),
    (2048, Rows(1, 2048, 4)),
    (4096, Rows(1, 4096, 8)),
    (8192, Rows(1, 8192, 8)),
)
_WAYS = {
    ("sm_90", 2): (
        (64, Rows(64, 64, 4)),
        (127, Rows(8, 128, 1)),
        (128, Rows(32, 64, 2)),
        (255, Rows(4, 128, 1)),
        (256, Rows(8, 128, 4)),
        (383, Rows(2, 128, 1)),
        (511, Rows(4, 64, 1)),
        (512, Rows(2, 256, 1)),
        (1023, Rows(1, 512, 2)),
        (1024, Rows(2, 256, 1)),
        (2048, Rows(1, 1024, 4)),
        (4095, Rows(1, 512, 2)),
        (4096, Rows(2, 1024, 4)),
        (8191, Rows(1, 1024, 4)),
        (8192, Rows(1, 4096, 8)),
        (16384, Rows(1, 2048, 8)),
        (28672, Rows(1, 4096, 16)),
        (32767, Rows(1, 16384, 8, registers=128)),
        (32768, Rows(1, 4096, 16)),
        (57337, Ring(4096, 0, 14, 8, 2)),
        (65535, Ring(8192, 4, 14, 16, 1)),
        (65536, Rows(1, 8192, 32)),
        (131072, Ring(16384, 2, 7, 16, 1)),
        (155641, Ring(8192, 5, 14, 16, 1)),
        (_ANY, Online(16384, 32, 4, 1)),
    ),
    ("sm_90", 4): (
        *_NARROW[:7],
        (1024, Rows(1, 512, 4)),
        (4096, Rows(1, 1024, 8)),
        (16384, Rows(1, 2048, 16)),
        (32768, Rows(1, 4096, 32)),
        (65536, Ring(8192, 2, 7, 16, 1)),
        (_ANY, Online(8192, 32, 4, 1)),
    ),
    ("sm_80", 2): (
        *_NARROW,
        (16384, Rows(1, 4096, 16)),
        (32768, Ring(8192, 0, 9, 16, 1)),
        (65536, Ring(8192, 2, 9, 16, 1)),
        (_ANY, Online(8192, 16, 3, 2)),
    ),
    ("sm_80", 4): (
        *_NARROW,
        (16384, Ring(4096, 0, 9, 16, 1)),
        (32768, Ring(4096, 2, 9, 16, 1)),
        (_ANY, Online(4096, 16, 3, 2)),
    ),
    ("any", 2): (*_NARROW, (16384, Rows(1, 4096, 16)), (_ANY, Online(8192, 8, 1, 2))),
    ("any", 4): (*_NARROW, (16384, Rows(1, 4096, 16)), (_ANY, Online(8192, 8, 1, 2))),
}
_INTERPRETED = triton.knobs.runtime.interpret  # TRITON_INTERPRET=1
_LOG2E = tl.constexpr(1.4426950408889634)
_LOWEST = tl.constexpr(-3.4028234663852886e38)
_PTX = tl.constexpr(not _INTERPRETED and torch.version.hip is None)


@triton.jit
def _exp2(x):
    if _PTX:  # without the steps that keep numbers below 2^-126, which vanish beside the largest term, 1
        return tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        return tl.exp2(x)


@triton.jit(do_not_specialize=["rows", "columns", "x_row"])
def _rows_kernel(
    x_ptr, y_ptr, rows, columns, x_row,
    GRAIN: tl.constexpr, ROWS: tl.constexpr, PARTS: tl.constexpr, SPAN: tl.constexpr, EVEN: tl.constexpr,
    LAST: tl.constexpr,
):  # fmt: skip
    # Given in multiples of GRAIN elements, so that the compiler knows how far rows are aligned.
    columns = columns * GRAIN
    x_row = x_row.to(tl.int64) * GRAIN
    row = tl.arange(0, ROWS)[:, None] + tl.program_id(0) * tl.full([], ROWS, tl.int64)
    column = tl.arange(0, SPAN)[None, :]
    inside = row < rows
    x_ptr += row * x_row
    y_ptr += row * columns
    other: tl.constexpr = None if EVEN else -float("inf")
    # Nothing here needs again what is written: to let the caches drop that first gains up to 4 % (NOTES.md).
    policy: tl.constexpr = "evict_last" if LAST else ""
    # A thread gets the same columns of every part, so what is done to whole parts needs no other thread.
    parts = ()
    for i in tl.static_range(PARTS):
        mask = None if EVEN else inside & (column < columns - i * SPAN)
        parts += (tl.load(x_ptr + i * SPAN + column, mask=mask, other=other, eviction_policy=policy),)
    top = parts[0].to(tl.float32)
    for i in tl.static_range(1, PARTS):
        top = tl.maximum(top, parts[i].to(tl.float32))
    # No guard against inf - inf: a row of -inf, or one with +inf or NaN, is NaN in torch too.
    top = tl.max(top, axis=1)[:, None]
    # Powers are computed twice: to keep them in 32 bits would take the registers of a row more.
    total = tl.zeros([ROWS, SPAN], tl.float32)
    again = ()
    for i in tl.static_range(PARTS):
        again += (rowwise.anew(parts[i]),)
        total += _exp2((again[i].to(tl.float32) - top) * _LOG2E)
    scale = (1.0 / tl.sum(total, axis=1))[:, None]
    for i in tl.static_range(PARTS):
        y = _exp2((rowwise.anew(again[i]).to(tl.float32) - top) * _LOG2E) * scale
        mask = None if EVEN else inside & (column < columns - i * SPAN)
        tl.store(y_ptr + i * SPAN + column, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _online(x_ptr, y_ptr, columns, SPAN: tl.constexpr, GRAIN: tl.constexpr, STAGES: tl.constexpr):
    lane = tl.arange(0, SPAN // GRAIN)[:, None].to(tl.int64) * GRAIN + tl.arange(0, GRAIN)[None, :]
    # The maximum starts at the lowest finite number: a leading chunk of -inf then adds 0 to the
    # sum, not NaN. A row of nothing but -inf ends as 0 times 1/0, which is NaN as in torch.
    top = tl.full([SPAN // GRAIN], _LOWEST, tl.float32)
    total = tl.zeros([SPAN // GRAIN], tl.float32)
    for start in tl.range(0, columns, SPAN, num_stages=STAGES):
        column = start + lane
        x = tl.load(x_ptr + column, mask=column < columns, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(x, axis=1))
        total = total * _exp2((top - higher) * _LOG2E) + tl.sum(_exp2((x - higher[:, None]) * _LOG2E), axis=1)
        top = higher
    highest = tl.max(top, axis=0)
    scale = 1.0 / tl.sum(total * _exp2((top - highest) * _LOG2E), axis=0)
    last = (columns - 1) // SPAN * SPAN
    for back in tl.range(0, columns, SPAN, num_stages=STAGES):
        column = last - back + lane
        mask = column < columns
        x = tl.load(x_ptr + column, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
        y = _exp2((x - highest) * _LOG2E) * scale
        tl.store(y_ptr + column, y.to(y_ptr.dtype.element_ty), mask=mask, eviction_policy="evict_first")


@triton.jit(do_not_specialize=["rows", "columns", "x_row"])
def _online_kernel(
    x_ptr, y_ptr, rows, columns, x_row, GRAIN: tl.constexpr, SPAN: tl.constexpr, STAGES: tl.constexpr
):  # fmt: skip
    columns = columns.to(tl.int64) * GRAIN
    x_row = x_row.to(tl.int64) * GRAIN
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        row = row * tl.full([], 1, tl.int64)
        _online(x_ptr + row * x_row, y_ptr + row * columns, columns, SPAN, GRAIN, STAGES)


_KEPT = OrderedDict()


def _start(flat, x_row, y, way=None):
    """Start a kernel for the rows of `flat`, in this way or as the tables say. Returns what launch.start does."""
    capability, processors, shared = launch.limits(flat.device)
    if way is None:
        ways = _WAYS[rowwise.gpu(capability, shared), flat.element_size()]
        way = rowwise.choose(ways, flat.shape[1], rowwise.can_ring(flat, x_row))
    if isinstance(way, Rows):
        kernel = _rows_kernel
        grid, numbers, constants = rowwise.rows_arguments(flat, x_row, way)
    elif isinstance(way, Ring):
        kernel = ring.softmax_kernel
        grid, numbers, constants = rowwise.ring_arguments(flat, x_row, way, processors)
    else:
        kernel = _online_kernel
        grid, numbers, constants = rowwise.online_arguments(flat, x_row, way, processors)
    return launch.start(kernel, grid, (flat, y), numbers + constants, **rowwise.options(way))


def _check(x, real=True):
    launch.check({"x": x}, _INTERPRETED, real)
    if x.dim() == 0:
        raise ValueError("x has no dimension; it needs at least one")


def _key(x):
    """What a kept launch depends on, or None where none is kept."""
    if type(x) not in launch.PLAIN or not x.is_contiguous() or (x.requires_grad and torch.is_grad_enabled()):
        return None
    return x.shape, x.dtype, x.device


def _kept(x):
    """softmax() by a kept launch, or None."""
    try:
        again = _KEPT.get(_key(x))
        if again is None:
            return None
        x_at = x.data_ptr()
    except RuntimeError:
        return None
    y = torch.empty_like(x)
    return y if again(x_at, y.data_ptr()) else None


def _anew(x):
    """softmax() of what was checked, without a look at what was done before."""
    y = _empty(x)
    if x.numel():
        launch.keep(_KEPT, _key(x), _start(*rowwise.matrix(x), y))
    return y


def _empty(x):
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


_otherwise = launch.operator("softmax(Tensor x) -> Tensor", _check, _kept, _anew, _empty)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax of `x` over its last dimension, computed in float32.

    x: (..., columns), float16, bfloat16 or float32, on a CUDA device, any strides: it is copied
    first if its columns are not adjacent or its other dimensions do not fold into one.

    Returns a new contiguous tensor of the shape and dtype of `x`. Infinities and NaN come out as
    from `torch.softmax`: a row of -inf, or one that holds +inf or NaN, is NaN.

    Under torch.compile, in transforms such as vmap and for subclasses of tensors it is an operator
    of PyTorch, `launch.OPERATORS["softmax"]`.

    Raises TypeError if `x` is no tensor, not a dense one (but sparse, nested, quantized) or of
    another dtype; ValueError if it has no dimension, is not on a CUDA device, or needs a gradient:
    requires grad while grad mode is on, or has a tangent.
    """
    y = None if launch.watched(x) else _kept(x)
    return _otherwise(x) if y is None else y
