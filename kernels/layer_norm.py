"""Layer normalisation over the last dimension, affine, forward only.

A row of up to 16,384 columns is held in registers: its mean first, then the mean of the centred
squares, which does not cancel as E[x^2] - E[x]^2 does; narrow rows share a program. A wider row is
read in chunks. Each chunk gets its own mean and centred sum of squares in the same way, and the
pairs are merged with the update of Welford (1962) in the form for whole groups of Chan, Golub and
LeVeque (1983). A second pass over the row, backwards for what the L2 cache still holds, writes it.
The operation is that of Ba, Kiros and Hinton, 2016, arXiv:1607.06450.
"""

import torch
import triton
import triton.language as tl

# Padded width of a row -> (rows per program, warps). Narrow rows are put together until a program
# moves some 2,048 elements; wide ones get warps until a thread holds at most 32 elements.
_SHAPES = {width: (2048 // width, 4) for width in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)} | {
    1024: (1, 4),
    2048: (1, 4),
    4096: (1, 8),
    8192: (1, 8),
    16384: (1, 16),
}
_CHUNK, _CHUNK_WARPS = 8192, 8  # of a row that does not fit
_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def _rows_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, rows, columns, x_row, eps,
    ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    inside = column < columns
    mask = (row < rows) & inside
    x = tl.load(x_ptr + row * x_row + column, mask=mask, other=0.0).to(tl.float32)
    # Asked for before the reductions, so that they arrive while those run.
    w = tl.load(w_ptr + column, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + column, mask=inside, other=0.0).to(tl.float32)
    # Rounded to nearest: plain division is 2 units off, which counts where the mean is large.
    mean = tl.div_rn(tl.sum(x, axis=1), columns * 1.0)
    centred = tl.where(inside, x - mean[:, None], 0.0)
    variance = tl.sum(centred * centred, axis=1) / columns
    y = centred * tl.rsqrt(variance + eps)[:, None] * w + b
    tl.store(y_ptr + row * columns + column, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _chunks_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, columns, x_row, eps, CHUNK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_row
    y_ptr += row * columns
    lane = tl.arange(0, CHUNK).to(tl.int64)
    mean = 0.0
    squares = 0.0
    for start in range(0, columns, CHUNK):
        column = start + lane
        mask = column < columns
        x = tl.load(x_ptr + column, mask=mask, other=0.0).to(tl.float32)
        count = tl.minimum(columns - start, CHUNK)
        part_mean = tl.div_rn(tl.sum(x, axis=0), count * 1.0)
        centred = tl.where(mask, x - part_mean, 0.0)
        share = tl.div_rn(count * 1.0, (start + count) * 1.0)  # of this chunk in all columns so far
        shift = part_mean - mean
        squares += tl.sum(centred * centred, axis=0) + shift * shift * share * start
        mean += shift * share
    rstd = tl.rsqrt(squares / columns + eps)
    last = (columns - 1) // CHUNK * CHUNK
    for back in range(0, columns, CHUNK):
        column = last - back + lane
        mask = column < columns
        x = tl.load(x_ptr + column, mask=mask, other=0.0, eviction_policy="evict_first")
        w = tl.load(w_ptr + column, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + column, mask=mask, other=0.0).to(tl.float32)
        y = (x.to(tl.float32) - mean) * rstd * w + b
        tl.store(y_ptr + column, y.to(y_ptr.dtype.element_ty), mask=mask)


_INTERPRETED = not isinstance(_rows_kernel, triton.JITFunction)  # TRITON_INTERPRET=1


def _check(x, weight, bias):
    for name, t in (("x", x), ("weight", weight), ("bias", bias)):
        if not isinstance(t, torch.Tensor):
            raise TypeError(f"{name} is a {type(t).__name__}; it must be a torch.Tensor")
        if t.dtype not in _DTYPES:
            raise TypeError(f"{name} has dtype {t.dtype}; allowed are float16, bfloat16, float32")
        if t.dtype != x.dtype:
            raise TypeError(f"{name} has dtype {t.dtype}; it must be that of x, {x.dtype}")
        if not (t.is_cuda or _INTERPRETED):
            raise ValueError(f"{name} is on {t.device}; it must be on a CUDA device")
        if t.device != x.device:
            raise ValueError(f"{name} is on {t.device}; it must be on that of x, {x.device}")
        if t.dim() == 0:
            raise ValueError(f"{name} has no dimension; it needs at least one")
        if name != "x" and t.shape != x.shape[-1:]:
            want = tuple(x.shape[-1:])
            raise ValueError(f"{name} has shape {tuple(t.shape)}; for this x it must be {want}")
        if t.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} requires grad; this kernel is forward only: detach it or use no_grad()")


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """Layer normalisation of `x` over its last dimension, computed in float32.

    `(x - mean) / sqrt(variance + eps) * weight + bias`, with the biased variance, as in
    `torch.nn.functional.layer_norm`.

    x: (..., columns), float16, bfloat16 or float32, on a CUDA device, any strides: it is copied
    first if its columns are not adjacent or its other dimensions do not fold into one. weight,
    bias: (columns,), of the dtype and device of `x`. eps: a number, not negative.

    Returns a new contiguous tensor of the shape and dtype of `x`.

    Raises TypeError if an argument is no tensor or of another dtype; ValueError if a shape or
    device does not fit, `eps` is negative or not finite, or a tensor requires grad while grad mode
    is on.
    """
    _check(x, weight, bias)
    if not 0.0 <= eps < float("inf"):
        raise ValueError(f"eps is {eps}; it must be finite and not negative")
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel() == 0:
        return y
    columns = x.shape[-1]
    flat = x.reshape(-1, columns)
    if flat.stride(1) != 1:
        flat = flat.contiguous()  # a copy costs less than reading a sector for every element
    weight, bias = weight.contiguous(), bias.contiguous()
    rows = flat.shape[0]
    width = triton.next_power_of_2(columns)
    with torch.cuda.device_of(flat):
        if width in _SHAPES:
            per_program, warps = _SHAPES[width]
            grid = (triton.cdiv(rows, per_program),)
            _rows_kernel[grid](
                flat, weight, bias, y, rows, columns, flat.stride(0), eps, per_program, width,
                num_warps=warps,
            )  # fmt: skip
        else:
            _chunks_kernel[(rows,)](flat, weight, bias, y, columns, flat.stride(0), eps, _CHUNK, num_warps=_CHUNK_WARPS)
    return y
