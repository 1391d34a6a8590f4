"""Layer normalisation over the last dimension, forward only; and the kernels of rms_norm.py, which leave the mean out.

Up to some 32,768 columns a row is held in registers, of 16 bits in 16 bits, which leaves room for more rows at a time:
its mean first, then the mean of the centred squares, which does not cancel as E[x^2] - E[x]^2 does. Narrow rows share a
program, with as few threads to a row as leave each thread several loads of 16 bytes. Wider rows wait in shared memory
(ring.py), where the GPU has enough.

Else a row is read in chunks. Each chunk gets its own mean and centred sum of squares in the same way, and the pairs
are merged with the update of Welford (1962) in the form for whole groups of Chan, Golub and LeVeque (1983). A second
pass over the row, backwards for what the L2 cache still holds, writes it. The operation is that of Ba, Kiros and
Hinton, 2016, arXiv:1607.06450.
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
        (128, Rows(32, 64, 4)),
        (256, Rows(8, 128, 4)),
        (511, Rows(4, 128, 2)),
        (512, Rows(4, 256, 4)),
        (768, Rows(4, 256, 2)),
        (1024, Rows(1, 1024, 1)),
        (1280, Rows(4, 256, 4)),
        (1536, Rows(1, 512, 4)),
        (2048, Rows(1, 1024, 2)),
        (2560, Rows(1, 512, 2)),
        (8191, Rows(1, 1024, 4)),
        (8192, Rows(1, 4096, 4)),
        (16383, Rows(1, 2048, 4)),
        (16384, Rows(1, 4096, 8)),
        (28672, Rows(1, 4096, 16, last=False, registers=64)),
        (32767, Rows(1, 16384, 8, last=False, registers=128)),
        (32768, Rows(1, 8192, 8, last=False)),
        (57337, Ring(4096, 0, 14, 8, 2)),
        (65535, Ring(4096, 5, 28, 16, 1)),
        (65536, Rows(1, 16384, 32, last=False)),
        (131071, Ring(4096, 5, 28, 16, 1)),
        (131072, Ring(8192, 3, 14, 32, 1)),
        (_ANY, Online(8192, 16, 4, 1)),
    ),
    ("sm_90", 4): (
        *_NARROW[:7],
        (1024, Rows(1, 512, 4)),
        (4096, Rows(1, 1024, 8)),
        (8192, Rows(1, 2048, 16)),
        (16383, Rows(1, 2048, 16, last=False)),
        (16384, Rows(1, 4096, 16)),
        (32768, Rows(1, 16384, 32)),
        (65536, Ring(4096, 4, 14, 16, 1)),
        (_ANY, Online(4096, 16, 4, 1)),
    ),
    ("sm_80", 2): (
        *_NARROW,
        (16384, Rows(1, 16384, 16)),
        (32768, Ring(8192, 0, 9, 16, 1)),
        (65536, Ring(8192, 2, 9, 16, 1)),
        (_ANY, Online(4096, 8, 3, 2)),
    ),
    ("sm_80", 4): (
        *_NARROW,
        (16384, Ring(4096, 0, 9, 16, 1)),
        (32768, Ring(4096, 2, 9, 16, 1)),
        (_ANY, Online(2048, 8, 3, 2)),
    ),
    ("any", 2): (*_NARROW, (16384, Rows(1, 16384, 16)), (_ANY, Online(8192, 8, 1, 2))),
    ("any", 4): (*_NARROW, (16384, Rows(1, 16384, 16)), (_ANY, Online(8192, 8, 1, 2))),
}
_EARLY = 64  # elements of rows that a thread may hold if it is to load weight and bias early
_INTERPRETED = triton.knobs.runtime.interpret  # TRITON_INTERPRET=1


@triton.jit
def _load(ptr, start, column, mask, other, policy: tl.constexpr, absent: tl.constexpr):
    """Columns of weight or bias; where that is None, a number that changes nothing, which the compiler leaves out."""
    if ptr is None:
        return tl.full([], absent, tl.float32)
    else:
        return tl.load(ptr + start + column, mask=mask, other=other, eviction_policy=policy)


@triton.jit(do_not_specialize=["rows", "columns", "x_row"])
def _rows_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, rows, columns, x_row, eps,
    GRAIN: tl.constexpr, ROWS: tl.constexpr, PARTS: tl.constexpr, SPAN: tl.constexpr, EVEN: tl.constexpr,
    LAST: tl.constexpr, CENTRED: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    # Given in multiples of GRAIN elements, so that the compiler knows how far rows are aligned.
    columns = columns * GRAIN
    x_row = x_row.to(tl.int64) * GRAIN
    row = tl.arange(0, ROWS)[:, None] + tl.program_id(0) * tl.full([], ROWS, tl.int64)
    column = tl.arange(0, SPAN)[None, :]
    inside = row < rows
    x_ptr += row * x_row
    y_ptr += row * columns
    other: tl.constexpr = None if EVEN else 0.0
    # Nothing here needs again what is written: to let the caches drop that first gains up to 4 % (NOTES.md).
    policy: tl.constexpr = "evict_last" if LAST else ""
    # A thread gets the same columns of every part, so what is done to whole parts needs no other thread.
    parts = ()
    for i in tl.static_range(PARTS):
        mask = None if EVEN else inside & (column < columns - i * SPAN)
        parts += (tl.load(x_ptr + i * SPAN + column, mask=mask, other=other, eviction_policy=policy),)
    # As if each row had its own weight and bias, so that every thread loads just those that it needs.
    affine_column = column + tl.zeros([ROWS, SPAN], tl.int32)
    ws = ()
    bs = ()
    if EARLY:
        for i in tl.static_range(PARTS):
            mask = None if EVEN else affine_column < columns - i * SPAN
            ws += (_load(w_ptr, i * SPAN, affine_column, mask, other, policy, 1.0),)
            bs += (_load(b_ptr, i * SPAN, affine_column, mask, other, policy, 0.0),)
    mean = 0.0
    if CENTRED:
        total = parts[0].to(tl.float32)
        for i in tl.static_range(1, PARTS):
            total += parts[i].to(tl.float32)
        # Rounded to nearest: plain division is 2 units off, which counts where the mean is large.
        mean = tl.div_rn(tl.sum(total, axis=1), columns * 1.0)[:, None]
    squares = tl.zeros([ROWS, SPAN], tl.float32)
    again = ()
    for i in tl.static_range(PARTS):
        again += (rowwise.anew(parts[i]),)
        centred = again[i].to(tl.float32) - mean
        if CENTRED and not EVEN:
            centred = tl.where(column < columns - i * SPAN, centred, 0.0)
        squares += centred * centred
    scale = tl.rsqrt(tl.sum(squares, axis=1) / columns + eps)[:, None]
    for i in tl.static_range(PARTS):
        mask = None if EVEN else affine_column < columns - i * SPAN
        if EARLY:
            w = ws[i]
            b = bs[i]
        else:
            # Only now, so that they take no registers before; other programs have left them in the first cache.
            w = _load(w_ptr, i * SPAN, affine_column, mask, other, policy, 1.0)
            b = _load(b_ptr, i * SPAN, affine_column, mask, other, policy, 0.0)
        y = (rowwise.anew(again[i]).to(tl.float32) - mean) * scale * w.to(tl.float32) + b.to(tl.float32)
        mask = None if EVEN else inside & mask
        tl.store(y_ptr + i * SPAN + column, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _online(
    x_ptr, w_ptr, b_ptr, y_ptr, columns, eps, SPAN: tl.constexpr, STAGES: tl.constexpr, CENTRED: tl.constexpr
):  # fmt: skip
    lane = tl.arange(0, SPAN).to(tl.int64)
    mean = 0.0
    squares = 0.0
    for start in tl.range(0, columns, SPAN, num_stages=STAGES):
        column = start + lane
        mask = column < columns
        x = tl.load(x_ptr + column, mask=mask, other=0.0).to(tl.float32)
        if CENTRED:
            count = tl.minimum(columns - start, SPAN)
            part_mean = tl.div_rn(tl.sum(x, axis=0), count * 1.0)
            centred = tl.where(mask, x - part_mean, 0.0)
            share = tl.div_rn(count * 1.0, (start + count) * 1.0)  # of this chunk in all columns so far
            shift = part_mean - mean
            squares += tl.sum(centred * centred, axis=0) + shift * shift * share * start
            mean += shift * share
        else:
            squares += tl.sum(x * x, axis=0)
    scale = tl.rsqrt(squares / columns + eps)
    last = (columns - 1) // SPAN * SPAN
    for back in tl.range(0, columns, SPAN, num_stages=STAGES):
        column = last - back + lane
        mask = column < columns
        x = tl.load(x_ptr + column, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
        w = _load(w_ptr, 0, column, mask, 0.0, "", 1.0).to(tl.float32)
        b = _load(b_ptr, 0, column, mask, 0.0, "", 0.0).to(tl.float32)
        y = (x - mean) * scale * w + b
        tl.store(y_ptr + column, y.to(y_ptr.dtype.element_ty), mask=mask, eviction_policy="evict_first")


@triton.jit(do_not_specialize=["rows", "columns", "x_row"])
def _online_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, rows, columns, x_row, eps,
    GRAIN: tl.constexpr, SPAN: tl.constexpr, STAGES: tl.constexpr, CENTRED: tl.constexpr,
):  # fmt: skip
    columns = columns.to(tl.int64) * GRAIN
    x_row = x_row.to(tl.int64) * GRAIN
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        row = row * tl.full([], 1, tl.int64)
        _online(x_ptr + row * x_row, w_ptr, b_ptr, y_ptr + row * columns, columns, eps, SPAN, STAGES, CENTRED)


_KEPT = OrderedDict()


def _start(flat, x_row, weight, bias, y, eps, centred=True, way=None):
    """Start a kernel for the rows of `flat`, in this way or as the tables say. Returns what launch.start does."""
    capability, processors, shared = launch.limits(flat.device)
    if way is None:
        ways = _WAYS[rowwise.gpu(capability, shared), flat.element_size()]
        way = rowwise.choose(ways, flat.shape[1], rowwise.can_ring(flat, x_row))
    if isinstance(way, Rows):
        kernel = _rows_kernel
        grid, numbers, constants = rowwise.rows_arguments(flat, x_row, way)
    elif isinstance(way, Ring):
        kernel = ring.layer_norm_kernel
        grid, numbers, constants = rowwise.ring_arguments(flat, x_row, way, processors)
    else:
        kernel = _online_kernel
        grid, numbers, constants = rowwise.online_arguments(flat, x_row, way, processors)
    rest = (*numbers, eps, *constants, centred)
    if isinstance(way, Rows):
        rest = (*rest, _loads_early(flat, way))
    return launch.start(kernel, grid, (flat, weight, bias, y), rest, **rowwise.options(way))


def _loads_early(flat, way):
    """Whether weight and bias are loaded with the rows: where the wait for them counts, and registers are free."""
    columns = -(-flat.shape[1] // way.span) * way.span
    return rowwise.is_small(flat) and way.rows * columns <= _EARLY * 32 * way.warps


def _check(x, weight, bias, eps, centred=True, real=True):
    affine = {name: t for name, t in (("weight", weight), ("bias", bias)) if t is not None}
    launch.check({"x": x} | affine, _INTERPRETED, real)
    if x.dim() == 0:
        raise ValueError("x has no dimension; it needs at least one")
    want = tuple(x.shape[-1:])
    for name, t in affine.items():
        if t.shape != want:
            raise ValueError(f"{name} has shape {tuple(t.shape)}; for this x it must be {want}")
    if not 0.0 <= eps < float("inf"):
        raise ValueError(f"eps is {eps}; it must be finite and not negative")


def _key(x, weight, bias, eps, centred=True):
    """What a kept launch depends on, or None where none is kept."""
    plain = launch.PLAIN
    # In the place of what is left out x is looked at once more: that takes less time than to tell the cases apart.
    w, b = x if weight is None else weight, x if bias is None else bias
    if type(x) not in plain or type(w) not in plain or type(b) not in plain:
        return None
    if not (x.is_contiguous() and w.is_contiguous() and b.is_contiguous()):
        return None
    if (x.requires_grad or w.requires_grad or b.requires_grad) and torch.is_grad_enabled():
        return None
    device = x.device
    if w.device != device or b.device != device:
        return None
    return x.shape, weight is None or w.shape, bias is None or b.shape, x.dtype, w.dtype, b.dtype, device, eps, centred


def _kept(x, weight, bias, eps, centred=True):
    """layer_norm() by a kept launch, or None."""
    try:
        again = _KEPT.get(_key(x, weight, bias, eps, centred))
        if again is None:
            return None
        x_at = x.data_ptr()
        weight_at = None if weight is None else weight.data_ptr()
        bias_at = None if bias is None else bias.data_ptr()
    except RuntimeError:
        return None
    y = torch.empty_like(x)
    return y if again(x_at, weight_at, bias_at, y.data_ptr()) else None


def _anew(x, weight, bias, eps, centred=True):
    """layer_norm() of what was checked, without a look at what was done before."""
    y = _empty(x)
    if x.numel():
        affine = (None if t is None else t.contiguous() for t in (weight, bias))
        again = _start(*rowwise.matrix(x), *affine, y, eps, centred)
        launch.keep(_KEPT, _key(x, weight, bias, eps, centred), again)
    return y


def _empty(x, *_):
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


_SCHEMA = "layer_norm(Tensor x, Tensor? weight, Tensor? bias, float eps) -> Tensor"
_otherwise = launch.operator(_SCHEMA, _check, _kept, _anew, _empty)


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor | None = None, bias: torch.Tensor | None = None, eps: float = 1e-5
) -> torch.Tensor:
    """Layer normalisation of `x` over its last dimension, computed in float32.

    `(x - mean) / sqrt(variance + eps) * weight + bias`, with the biased variance, as in
    `torch.nn.functional.layer_norm`.

    x: (..., columns), float16, bfloat16 or float32, on a CUDA device, any strides: it is copied
    first if its columns are not adjacent or its other dimensions do not fold into one. weight,
    bias: (columns,), of the dtype and device of `x`, or None to leave it out. eps: a finite number,
    not negative: a float or int, or of another type, such as NumPy's or a tensor of no dimension.
    Those break the graph of torch.compile, and such a tensor is read on the host.

    Returns a new contiguous tensor of the shape and dtype of `x`.

    Under torch.compile, in transforms such as vmap and for subclasses of tensors it is an operator
    of PyTorch, `launch.OPERATORS["layer_norm"]`.

    Raises TypeError if an argument is no tensor, not a dense one (but sparse, nested, quantized) or
    of another dtype, or `eps` no number; ValueError if a shape or device does not fit, `eps` is
    negative or not finite, or a gradient is needed: a tensor requires grad while grad mode is on, or
    has a tangent.
    """
    if type(eps) is not float:
        eps = launch.number("eps", eps)
    y = None if launch.watched(x, weight, bias) else _kept(x, weight, bias, eps)
    return _otherwise(x, weight, bias, eps) if y is None else y
