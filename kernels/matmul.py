"""Matrix product of two matrices, forward only.

One program makes one tile of the result: it walks along K through tiles of both operands, which
Triton's pipeliner copies to shared memory some steps ahead, and adds up in float32. Programs are
numbered so that neighbours share operand tiles in the L2 cache. This is the blocked scheme of
Tillet, Kung and Cox, "Triton: an intermediate language and compiler for tiled neural network
computations" (MAPL 2019); for blocking as such, Goto and van de Geijn (2008).

On Hopper (compute capability 9) `matmul_hopper.py` takes 16-bit products that are large enough, whatever
their rows are aligned to. What was tried, and
how fast it was, is in NOTES.md.
"""

import functools
from collections import OrderedDict

import torch
import triton
import triton.language as tl

from . import launch, matmul_hopper

# (compute capability, bytes per element) -> tiles (M, N, K, warps, stages), the largest first. The first
# that fits into the GPU's shared memory and cuts the result into enough tiles to occupy the GPU is taken, else the
# last. Older and newer GPUs than these take the rows of 7 and 8. Without tensor cores, that is in float32 (IEEE) and
# before capability 8, registers bound the tile.
_FLOAT32 = (
    (128, 128, 16, 8, 3),
    (64, 64, 16, 4, 4),
    (32, 32, 32, 4, 3),
)
_TILES = {
    (9, 2): (
        (128, 256, 64, 8, 3),
        (128, 128, 64, 8, 4),
        (64, 128, 128, 4, 4),
        (64, 64, 64, 4, 6),
        (64, 32, 64, 4, 8),
    ),
    (8, 2): (
        (128, 256, 64, 8, 3),
        (128, 128, 64, 8, 4),
        (64, 128, 64, 4, 4),
        (64, 64, 64, 4, 4),
        (64, 32, 64, 4, 4),
    ),
    (7, 2): (
        (64, 64, 16, 4, 3),
        (32, 32, 32, 4, 3),
    ),
    (9, 4): _FLOAT32,
    (8, 4): _FLOAT32,
    (7, 4): _FLOAT32,
}
# The same for an A of few rows, for GPUs that have tiles of their own then: reading B bounds such a product, so that
# more of it must be on its way. (Most rows, tiles), of which the first that suits is taken.
_TILES_OF_FEW_ROWS = {
    (9, 2): (
        (16, ((16, 64, 128, 4, 5), (16, 32, 128, 4, 6))),
        (64, ((64, 64, 64, 4, 8), (64, 32, 128, 4, 6))),
    ),
}
_OCCUPIED = 0.9  # tiles, or programs, per multiprocessor from which a GPU counts as occupied
_GROUP = 8  # rows of tiles that are walked together
# Bytes per element -> terms added up in order before they join the rest. A float32 sum of thousands in order would
# lose more than cuBLAS does; what 16-bit inputs lose by rounding hides it, so there (0) all are added in order.
_SPANS = {2: 0, 4: 256}
# What is small on Hopper: an A of few rows, a result of fewer tiles of 128 x 64 than this share of the multiprocessors.
_FEW_ROWS = 64
_FEW_TILES = 0.4


@triton.jit(do_not_specialize=["M", "N", "K"])
def _matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, a_m, a_k, b_k, b_n, UNITS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr, EVEN_K: tl.constexpr, SPAN: tl.constexpr,
):  # fmt: skip
    # Given in multiples of their units, so that the compiler knows how many elements it can copy at a time.
    M, N, K = M * UNITS[0], N * UNITS[1], K * UNITS[2]
    # Down a column of GROUP tiles before the next column: GROUP rows of A stay in the L2 cache.
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    per_group = GROUP * tl.cdiv(N, BLOCK_N)
    first_m = pid // per_group * GROUP
    rows = tl.minimum(tiles_m - first_m, GROUP)
    tile_m = first_m + pid % per_group % rows
    tile_n = pid % per_group // rows

    m = tile_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = tile_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    k = tl.arange(0, BLOCK_K)
    wide_k = k.to(tl.int64)
    a_ptrs = a_ptr + m * UNITS[3] * a_m + wide_k[None, :] * UNITS[4] * a_k
    b_ptrs = b_ptr + n * UNITS[6] * b_n + wide_k[:, None] * UNITS[5] * b_k
    step = tl.full([], BLOCK_K, tl.int64)
    accumulator = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    whole = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        if EVEN_K:
            a = tl.load(a_ptrs, mask=m < M, other=0.0)
            b = tl.load(b_ptrs, mask=n < N, other=0.0)
        else:
            a = tl.load(a_ptrs, mask=(m < M) & (k < K - start)[None, :], other=0.0)
            b = tl.load(b_ptrs, mask=(n < N) & (k < K - start)[:, None], other=0.0)
        # Only float32 heeds the precision, whose default would be TF32.
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
        if SPAN and (start + BLOCK_K) % SPAN == 0:
            whole += accumulator
            accumulator = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
        a_ptrs += step * UNITS[4] * a_k
        b_ptrs += step * UNITS[5] * b_k
    if SPAN:
        accumulator += whole
    c = accumulator.to(c_ptr.dtype.element_ty)
    tl.store(c_ptr + m * N + n, c, mask=(m < M) & (n < N))


_INTERPRETED = not isinstance(_matmul_kernel, triton.JITFunction)  # TRITON_INTERPRET=1


# Which kernel, and how


@functools.lru_cache(launch.SIZE)
def _tile(M, N, itemsize, capability, even, processors, shared):
    """The entry of the table for a product of M x N, as (M, N, K, warps, stages)."""
    known = 9 if capability == 9 and even else 8 if capability >= 8 else 7
    few = _TILES_OF_FEW_ROWS.get((known, itemsize), ())
    tiles = next((tiles for most, tiles in few if most >= M), _TILES[known, itemsize])
    for tile in tiles:
        block_m, block_n, block_k, _, stages = tile
        fits = stages * block_k * (block_m + block_n) * itemsize <= shared
        if fits and triton.cdiv(M, block_m) * triton.cdiv(N, block_n) >= _OCCUPIED * processors:
            break
    return tile


def _check(a, b, real=True):
    launch.check({"a": a, "b": b}, _INTERPRETED, real)
    for name, t in (("a", a), ("b", b)):
        if t.dim() != 2:
            raise ValueError(f"{name} has shape {tuple(t.shape)}; it must have two dimensions")
    if b.shape[0] != a.shape[1]:
        raise ValueError(f"b has {b.shape[0]} rows; a has {a.shape[1]} columns: they must agree")


# Launches

_KEPT = OrderedDict()


def _start(a, b, c):
    """Start the kernel that suits the product. Returns what launch.start does."""
    M, N = c.shape
    capability, processors, shared = launch.limits(a.device)
    even = _is_even(a, b)
    if capability == 9 and a.device.type != "cpu" and matmul_hopper.takes(a) and not _is_small(M, N, even, processors):
        return matmul_hopper.start(a, b, c)
    return _plain(a, b, c, _tile(M, N, a.element_size(), capability, even, processors, shared))


def _is_small(M, N, even, processors):
    """Whether the kernel below is ahead of the one for Hopper."""
    few = M <= _FEW_ROWS or triton.cdiv(M, 128) * triton.cdiv(N, 64) < _FEW_TILES * processors
    return few and even


def _is_even(a, b):
    """Whether two neighbours in every row or column can be copied at a time: single ones take a way by registers."""
    pairs = [(t.shape[order], t.stride(1 - order)) for t in (a, b) for order in (0, 1) if t.stride(order) == 1]
    return len(pairs) >= 2 and all(n % 2 == 0 for pair in pairs for n in pair)


def _plain(a, b, c, tile):
    """Start the kernel for any GPU."""
    (M, K), N = a.shape, b.shape[1]
    block_m, block_n, block_k, warps, stages = tile
    grid = (triton.cdiv(M, block_m) * triton.cdiv(N, block_n),)
    numbers = (M, N, K, *a.stride(), *b.stride())
    units = tuple(map(matmul_hopper.unit, numbers))
    numbers = tuple(n // unit for n, unit in zip(numbers, units, strict=True))
    constants = (units, block_m, block_n, block_k, _GROUP, K % block_k == 0, _SPANS[a.element_size()])
    return launch.start(_matmul_kernel, grid, (a, b, c), numbers + constants, num_warps=warps, num_stages=stages)


def _key(a, b):
    """What a kept launch depends on, or None where none is kept."""
    if type(a) not in launch.PLAIN or type(b) not in launch.PLAIN:
        return None
    if (a.requires_grad or b.requires_grad) and torch.is_grad_enabled():
        return None
    return a.shape, b.shape, a.stride(), b.stride(), a.dtype, b.dtype, a.device, b.device


def _kept(a, b):
    """matmul() by a kept launch, or None."""
    try:
        again = _KEPT.get(_key(a, b))
        if again is None:
            return None
        a_at, b_at = a.data_ptr(), b.data_ptr()
    except RuntimeError:
        return None
    c = a.new_empty((a.shape[0], b.shape[1]))
    return c if again(a_at, b_at, c.data_ptr()) else None


def _anew(a, b):
    """matmul() of what was checked, without a look at what was done before."""
    c = _empty(a, b)
    if c.numel():
        launch.keep(_KEPT, _key(a, b), _start(a, b, c))
    return c


def _empty(a, b):
    return a.new_empty((a.shape[0], b.shape[1]))


_otherwise = launch.operator("matmul(Tensor a, Tensor b) -> Tensor", _check, _kept, _anew, _empty)


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of `a` and `b`, accumulated in float32.

    a: (M, K), b: (K, N), both float16, bfloat16 or float32, on one CUDA device, any strides: a
    transposed view is read in place. On an H100 or H200 a large 16-bit operand whose rows do not
    start 16 bytes apart is copied first. float32 is IEEE single precision, never TF32. Equal inputs
    give equal bits.

    Returns a new contiguous (M, N) tensor of their dtype; zeros if K is 0.

    Under torch.compile, in transforms such as vmap and for subclasses of tensors it is an operator
    of PyTorch, `launch.OPERATORS["matmul"]`.

    Raises TypeError if an argument is no tensor, not a dense one (but sparse, nested, quantized), or
    the dtypes differ or are others; ValueError if a shape or device does not fit, or a gradient is
    needed: a tensor requires grad while grad mode is on, or has a tangent.
    """
    c = None if launch.watched(a, b) else _kept(a, b)
    return _otherwise(a, b) if c is None else c
