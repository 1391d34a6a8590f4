"""Matrix product of two matrices, forward only.

One program makes one tile of the result: it walks along K through tiles of both operands, which
Triton's pipeliner copies to shared memory some steps ahead, and adds up in float32. Programs are
numbered so that neighbours share operand tiles in the L2 cache. This is the blocked scheme of
Tillet, Kung and Cox, "Triton: an intermediate language and compiler for tiled neural network
computations" (MAPL 2019); for blocking as such, Goto and van de Geijn (2008).
"""

from functools import cache, lru_cache

import torch
import triton
import triton.language as tl

# (are tensor cores used?, bytes per element) -> tiles (M, N, K, warps, stages), the largest first.
# The first that fits into the GPU's shared memory and cuts the result into enough tiles to occupy
# the GPU is taken, else the last. Without tensor cores registers bound the tile.
_TILES = {
    (True, 2): (
        (128, 256, 64, 8, 4),
        (128, 256, 64, 8, 3),
        (128, 128, 64, 8, 4),
        (64, 128, 64, 4, 4),
        (64, 64, 64, 4, 4),
        (64, 32, 64, 4, 4),
    ),
    (False, 4): (
        (128, 128, 16, 8, 3),
        (64, 64, 16, 4, 4),
        (32, 32, 32, 4, 3),
    ),
    (False, 2): (
        (64, 64, 16, 4, 3),
        (32, 32, 32, 4, 3),
    ),
}
_OCCUPIED = 0.9  # tiles per multiprocessor from which a GPU counts as occupied
_GROUP = 8  # rows of tiles that are walked together
# Bytes per element -> terms added up in order before they join the rest. A float32 sum of thousands in order would
# lose more than cuBLAS does; what 16-bit inputs lose by rounding hides it, so there (0) all are added in order.
_SPANS = {2: 0, 4: 256}
_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def _matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, a_m, a_k, b_k, b_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr, EVEN_K: tl.constexpr, SPAN: tl.constexpr,
):  # fmt: skip
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
    a_ptrs = a_ptr + m * a_m + wide_k[None, :] * a_k
    b_ptrs = b_ptr + n * b_n + wide_k[:, None] * b_k
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
        a_ptrs += step * a_k
        b_ptrs += step * b_k
    if SPAN:
        accumulator += whole
    c = accumulator.to(c_ptr.dtype.element_ty)
    tl.store(c_ptr + m * N + n, c, mask=(m < M) & (n < N))


_INTERPRETED = not isinstance(_matmul_kernel, triton.JITFunction)  # TRITON_INTERPRET=1


@cache
def _limits(device):
    """Compute capability, multiprocessors, shared bytes per program; for the CPU an H200's."""
    if device.type != "cuda":
        return 9, 132, 232448
    properties = torch.cuda.get_device_properties(device)
    shared = properties.shared_memory_per_block_optin
    return properties.major, properties.multi_processor_count, shared


@lru_cache(maxsize=4096)
def _tile(M, N, itemsize, capability, processors, shared):
    """The entry of the table for a product of M x N, as (M, N, K, warps, stages)."""
    # No tensor core is IEEE float32, and Triton uses none before compute capability 8.
    tensor_cores = itemsize == 2 and capability >= 8
    for tile in _TILES[tensor_cores, itemsize]:
        block_m, block_n, block_k, _, stages = tile
        fits = stages * block_k * (block_m + block_n) * itemsize <= shared
        count = triton.cdiv(M, block_m) * triton.cdiv(N, block_n)
        if fits and count >= _OCCUPIED * processors:
            break
    return tile


def _check(a, b):
    for name, t in (("a", a), ("b", b)):
        if not isinstance(t, torch.Tensor):
            raise TypeError(f"{name} is a {type(t).__name__}; it must be a torch.Tensor")
        if t.dtype not in _DTYPES:
            raise TypeError(f"{name} has dtype {t.dtype}; allowed are float16, bfloat16, float32")
        if t.dim() != 2:
            raise ValueError(f"{name} has shape {tuple(t.shape)}; it must have two dimensions")
        if not (t.is_cuda or _INTERPRETED):
            raise ValueError(f"{name} is on {t.device}; it must be on a CUDA device")
        if t.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} requires grad; this kernel is forward only: detach it or use no_grad()")
    if b.dtype != a.dtype:
        raise TypeError(f"b has dtype {b.dtype}; it must be that of a, {a.dtype}")
    if b.device != a.device:
        raise ValueError(f"b is on {b.device}; it must be on that of a, {a.device}")
    if b.shape[0] != a.shape[1]:
        raise ValueError(f"b has {b.shape[0]} rows; a has {a.shape[1]} columns: they must agree")


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of `a` and `b`, accumulated in float32.

    a: (M, K), b: (K, N), both float16, bfloat16 or float32, on one CUDA device, any strides: a
    transposed view is read in place. float32 is IEEE single precision, never TF32.

    Returns a new contiguous (M, N) tensor of their dtype; zeros if K is 0.

    Raises TypeError if an argument is no tensor, or the dtypes differ or are others; ValueError if
    a shape or device does not fit, or a tensor requires grad while grad mode is on.
    """
    _check(a, b)
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    if c.numel() == 0:
        return c
    tile = _tile(M, N, a.element_size(), *_limits(a.device))
    block_m, block_n, block_k, warps, stages = tile
    grid = (triton.cdiv(M, block_m) * triton.cdiv(N, block_n),)
    with torch.cuda.device_of(a):
        _matmul_kernel[grid](
            a, b, c, M, N, K, *a.stride(), *b.stride(),
            block_m, block_n, block_k, _GROUP, K % block_k == 0, _SPANS[a.element_size()],
            num_warps=warps, num_stages=stages,
        )  # fmt: skip
    return c
