"""Softmax over the last dimension, forward only.

A row of up to 32,768 columns is held in registers, so it is read once and written once; narrow rows
share a program. A wider row is read twice: the first pass keeps a running maximum and rescales the
running sum whenever the maximum grows (the online softmax of Milakov and Gimelshein, 2018,
arXiv:1805.02867), the second pass writes. The second pass walks backwards, since what the first
pass read last is what the L2 cache still holds.
"""

import torch
import triton
import triton.language as tl

# Padded width of a row -> (rows per program, warps). Narrow rows are put together until a program
# moves some 2,048 elements; wide ones get warps until a thread holds at most 64 elements.
_SHAPES = {width: (2048 // width, 4) for width in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)} | {
    1024: (1, 4),
    2048: (1, 4),
    4096: (1, 8),
    8192: (1, 8),
    16384: (1, 16),
    32768: (1, 16),
}
_CHUNK, _CHUNK_WARPS = 8192, 8  # of a row that does not fit
_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def _rows_kernel(x_ptr, y_ptr, rows, columns, x_row, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    mask = (row < rows) & (column < columns)
    x = tl.load(x_ptr + row * x_row + column, mask=mask, other=-float("inf")).to(tl.float32)
    # No guard against inf - inf: a row of -inf, or one with +inf or NaN, is NaN in torch too.
    power = tl.exp(x - tl.max(x, axis=1)[:, None])
    y = power * (1.0 / tl.sum(power, axis=1))[:, None]
    tl.store(y_ptr + row * columns + column, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _online_kernel(x_ptr, y_ptr, columns, x_row, CHUNK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_row
    y_ptr += row * columns
    lane = tl.arange(0, CHUNK).to(tl.int64)
    # The maximum starts at the lowest finite number: a leading chunk of -inf then adds 0 to the
    # sum, not NaN. A row of nothing but -inf ends as 0 times 1/0, which is NaN as in torch.
    top = -3.4028234663852886e38
    total = tl.zeros([CHUNK], dtype=tl.float32)
    for start in range(0, columns, CHUNK):
        column = start + lane
        x = tl.load(x_ptr + column, mask=column < columns, other=-float("inf"))
        x = x.to(tl.float32)
        higher = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - higher) + tl.exp(x - higher)
        top = higher
    scale = 1.0 / tl.sum(total, axis=0)
    last = (columns - 1) // CHUNK * CHUNK
    for back in range(0, columns, CHUNK):
        column = last - back + lane
        mask = column < columns
        x = tl.load(x_ptr + column, mask=mask, other=0.0, eviction_policy="evict_first")
        y = tl.exp(x.to(tl.float32) - top) * scale
        tl.store(y_ptr + column, y.to(y_ptr.dtype.element_ty), mask=mask)


_INTERPRETED = not isinstance(_rows_kernel, triton.JITFunction)  # TRITON_INTERPRET=1


def _check(x):
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"x is a {type(x).__name__}; it must be a torch.Tensor")
    if x.dtype not in _DTYPES:
        raise TypeError(f"x has dtype {x.dtype}; allowed are float16, bfloat16 and float32")
    if x.dim() == 0:
        raise ValueError("x has no dimension; it needs at least one")
    if not (x.is_cuda or _INTERPRETED):
        raise ValueError(f"x is on {x.device}; it must be on a CUDA device")
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError("x requires grad; this kernel is forward only: detach it or use no_grad()")


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax of `x` over its last dimension, computed in float32.

    x: (..., columns), float16, bfloat16 or float32, on a CUDA device, any strides: it is copied
    first if its columns are not adjacent or its other dimensions do not fold into one.

    Returns a new contiguous tensor of the shape and dtype of `x`. Infinities and NaN come out as
    from `torch.softmax`: a row of -inf, or one that holds +inf or NaN, is NaN.

    Raises TypeError if `x` is no tensor or of another dtype; ValueError if it has no dimension, is
    not on a CUDA device, or requires grad while grad mode is on.
    """
    _check(x)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel() == 0:
        return y
    columns = x.shape[-1]
    flat = x.reshape(-1, columns)
    if flat.stride(1) != 1:
        flat = flat.contiguous()  # a copy costs less than reading a sector for every element
    rows = flat.shape[0]
    width = triton.next_power_of_2(columns)
    with torch.cuda.device_of(flat):
        if width in _SHAPES:
            per_program, warps = _SHAPES[width]
            grid = (triton.cdiv(rows, per_program),)
            _rows_kernel[grid](flat, y, rows, columns, flat.stride(0), per_program, width, num_warps=warps)
        else:
            _online_kernel[(rows,)](flat, y, columns, flat.stride(0), _CHUNK, num_warps=_CHUNK_WARPS)
    return y
