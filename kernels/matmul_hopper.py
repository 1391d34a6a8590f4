"""The matrix product of 16 bits for compute capability 9.0 (H100, H200), in Gluon: TMA, wgmma, specialized warps.

In the manner of CUTLASS 3: one warp copies tiles into a ring of stages by the tensor memory accelerator (TMA); two or
three groups of four warps, the consumers, multiply straight out of the ring with one step always in flight, and hand
their results to the TMA while the next tile begins. A program stays and takes tile after tile.

Operands that the TMA cannot read, for their rows do not start 16 bytes apart, are copied first; a result that it cannot
write is written from shared memory. Which tiles a product is cut into, a model of what they cost decides. If the last
round of tiles would leave programs idle, those tiles are shared: each program takes as many steps of them, and hands
parts on (Stream-K: Osama et al., 2023, arXiv:2301.03598), always in the same order.
"""

import functools
import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from . import launch

_ELEMENTS = {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16}


class Way(NamedTuple):
    """How a product is cut up."""

    rows: int  # of the result that a consumer takes at a time,
    n: int  # columns
    k: int  # and terms that are added up at a step
    stages: int
    consumers: int = 2  # at work on a tile, one below the other; up to 3
    # A program stays in one column of tiles and reads that part of B once, in so many steps (in the table below, 1
    # stands for those of K); two consumers take tiles by turns.
    keep: int = 0
    group: int = 8  # rows of tiles that are walked together
    a_t: bool = False  # what is read is the transpose of A
    b_t: bool = False  # and of B
    # Of tiles that do not fill the last round, programs take equal shares of the steps, and hand parts on.
    shared: bool = False
    grain: int = 0  # elements of C that lie together at every row's start and end; 0 if the TMA can write it


class _Costs(NamedTuple):
    """What a way costs on an H200, in µs, beside what all ways cost."""

    start: float
    step: float
    finish: float  # a tile
    share: float  # tiles


# For a short K and at least two tiles to a program that keeps its part of B.
_SHORT_K = 256
KEEPING = Way(64, 256, 64, 8, keep=1)
# Else the way that costs least, with its tiles shared or not. The costs were fitted to 50 products, see NOTES.md.
WAYS = (
    (Way(64, 256, 64, 4), _Costs(0.6, 0.68, 1.6, 7.4)),
    (Way(64, 128, 64, 6), _Costs(1.5, 0.36, 0.6, 3.9)),
    (Way(64, 128, 64, 4, consumers=3), _Costs(1.1, 0.53, 0.9, 5.6)),
    (Way(64, 64, 64, 8), _Costs(1.2, 0.285, 0.0, float("inf"))),
)
_DOUBT = 1.05  # what sharing must be ahead by, for what it costs varies more
_OCCUPIED = 0.9  # programs per multiprocessor from which a GPU counts as occupied
_COPIED = 8, 512  # rows and columns of a matrix that a program copies
_THREADS = 128  # of a consumer
_REGISTERS = 168  # per thread, before most move from the copying warp to the others


@triton.jit(do_not_specialize=["rows", "columns"])
def _copy_kernel(
    x_ptr, y_ptr, rows, columns, x_row, x_column, pitch, UNIT: tl.constexpr, ROW_UNIT: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Copy a matrix into rows of pitch * 8 elements."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    mask = (row < rows) & (column < columns * UNIT)
    x = tl.load(x_ptr + row * ROW_UNIT * x_row + column * x_column, mask=mask, other=0.0)
    tl.store(y_ptr + row * 8 * pitch + column, x, mask=(row < rows) & (column < pitch * 8))


# The kernel

# Of a thread that leaves a part of a tile to its like in another program: to say so, and to wait for it. What says so
# is a number that unwritten memory does not hold by chance, so that no flag needs to be cleared before.
_READY = "0x9b1f5a6e3d70c842"
_SIGNAL = gl.constexpr(f"mov.b64 $0, {_READY}; st.release.gpu.global.b64 [$1], $0;")
_AWAIT = gl.constexpr(
    f"{{ .reg .pred p; wait: ld.acquire.gpu.global.b64 $0, [$1]; setp.ne.b64 p, $0, {_READY}; @p bra wait; }}"
)


@gluon.jit
def _place(tile, tiles_m, tiles_n, HOW: gl.constexpr):
    """Row and column of a tile."""
    if HOW.keep:
        return tile // tiles_n, tile % tiles_n
    per_group = HOW.group * tiles_n
    first = tile // per_group * HOW.group
    rows = gl.minimum(tiles_m - first, HOW.group)
    within = tile % per_group
    return first + within % rows, within // rows


@gluon.jit
def _share(cut, steps):
    """Steps that each program takes of the `cut` tiles that are shared, and how many programs take one more."""
    programs = gl.num_programs(0)
    return cut * steps // programs, cut * steps % programs


@gluon.jit
def _first_step(program, cut, steps):
    """The first step, counted through all shared tiles, of a program."""
    each, more = _share(cut, steps)
    return program * each + gl.minimum(program, more)


@gluon.jit
def _count(sizes, SHARED: gl.constexpr):
    """How many tiles, or parts of them, this program works on."""
    tiles_m, tiles_n, steps, cut = sizes
    program = gl.program_id(0)
    whole = gl.cdiv(gl.maximum(tiles_m * tiles_n - cut - program, 0), gl.num_programs(0))
    if SHARED:
        whole += gl.cdiv(_first_step(program + 1, cut, steps), steps) - _first_step(program, cut, steps) // steps
    return whole


@gluon.jit
def _work(i, sizes, SHARED: gl.constexpr):
    """The tile that a program takes as its i-th, and its steps, from the first to the one past the last.

    Shared ones come first, from the last on: a part that another program awaits is done before one that awaits others.
    """
    _, _, steps, cut = sizes
    program = gl.program_id(0)
    if SHARED:
        low = _first_step(program, cut, steps)
        high = _first_step(program + 1, cut, steps)
        parts = gl.cdiv(high, steps) - low // steps
        tile = gl.cdiv(high, steps) - 1 - i
        first = gl.maximum(low - tile * steps, 0)
        last = gl.minimum(high - tile * steps, steps)
        whole = cut + (i - parts) * gl.num_programs(0) + program
        return gl.where(i < parts, tile, whole), gl.where(i < parts, first, 0), gl.where(i < parts, last, steps)
    else:
        return program + i * gl.num_programs(0), 0, steps


@gluon.jit
def _others(tile, first, last, sizes):
    """How many programs before this one took steps of a tile, if this one takes the last, from `first` on."""
    _, _, steps, cut = sizes
    each, more = _share(cut, steps)
    start = tile * steps
    longer = more * (each + 1)
    owner = gl.where(start < longer, start // (each + 1), more + (start - longer) // gl.maximum(each, 1))
    return gl.where((first > 0) & (last == steps), gl.program_id(0) - owner, 0)


@gluon.jit
def _copy(desc, row, column, arrived, smem, TRANSPOSED: gl.constexpr):
    if TRANSPOSED:
        tma.async_copy_global_to_shared(desc, [column, row], arrived, smem)
    else:
        tma.async_copy_global_to_shared(desc, [row, column], arrived, smem)


@gluon.jit
def _produce(a_desc, b_desc, rings, barriers, sizes, HOW: gl.constexpr):
    """Copy the operands of every tile into the stages of the ring, as consumers leave them."""
    a_ring, b_ring = rings
    full, empty, kept, _ = barriers
    tiles_m, tiles_n, _, _ = sizes
    a_bytes: gl.constexpr = a_desc.block_type.nbytes
    b_bytes: gl.constexpr = b_desc.block_type.nbytes
    PIECES: gl.constexpr = 1 if HOW.keep else HOW.consumers
    done = 0
    for i in range(_count(sizes, HOW.shared)):
        tile, first, last = _work(i, sizes, HOW.shared)
        tile_m, tile_n = _place(tile, tiles_m, tiles_n, HOW)
        m = tile_m * (PIECES * HOW.rows)
        n = tile_n * HOW.n
        for step in range(first, last):
            stage = done % HOW.stages
            # The phase before a barrier's first counts as complete: the first round does not wait.
            mbarrier.wait(empty.index(stage), done // HOW.stages % 2 ^ 1)
            arrived = full.index(stage)
            k = step * HOW.k
            if HOW.keep:
                mbarrier.expect(arrived, PIECES * a_bytes)
                if i == 0:
                    mbarrier.expect(kept.index(step), b_bytes)
                    _copy(b_desc, k, n, kept.index(step), b_ring.index(step), HOW.b_t)
            else:
                mbarrier.expect(arrived, PIECES * a_bytes + b_bytes)
                _copy(b_desc, k, n, arrived, b_ring.index(stage), HOW.b_t)
            for piece in gl.static_range(PIECES):
                _copy(a_desc, m + piece * HOW.rows, k, arrived, a_ring.index(stage * PIECES + piece), HOW.a_t)
            done += 1


@gluon.jit
def _consume(WHICH: gl.constexpr, c, c_smem, parts, rings, barriers, sizes, HOW: gl.constexpr):
    """Multiply what arrives: consumer WHICH's rows of every tile or, by turns, all rows of every other one."""
    a_ring, b_ring = rings
    full, empty, kept, turn = barriers
    tiles_m, tiles_n, steps, _ = sizes
    ROWS: gl.constexpr = HOW.rows
    COLUMNS: gl.constexpr = HOW.n
    PIECES: gl.constexpr = 1 if HOW.keep else HOW.consumers
    PIECE: gl.constexpr = 0 if HOW.keep else WHICH
    SKIP: gl.constexpr = WHICH if HOW.keep else 0
    STRIDE: gl.constexpr = 2 if HOW.keep else 1
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, COLUMNS, 16])
    acc = gl.zeros([ROWS, COLUMNS], gl.float32, layout)
    done = steps * SKIP
    turns = 0
    for i in range(SKIP, _count(sizes, HOW.shared), STRIDE):
        tile, first, last = _work(i, sizes, HOW.shared)
        if HOW.keep:
            # A wait cannot tell a stage's next round from the one after: the other consumer's must be behind.
            mbarrier.wait(turn.index(WHICH), (turns + WHICH + 1) % 2)
            turns += 1
        for step in range(first, last):
            stage = done % HOW.stages
            a = a_ring.index(stage * PIECES + PIECE)
            if HOW.a_t:
                a = a.permute([1, 0])
            b = b_ring.index(step if HOW.keep else stage)
            if HOW.b_t:
                b = b.permute([1, 0])
            mbarrier.wait(full.index(stage), done // HOW.stages % 2)
            if HOW.keep:
                mbarrier.wait(kept.index(step), 0)
            acc = warpgroup_mma(a, b, acc, use_acc=step > first, is_async=True)
            # The step before this one is through, and its stage free.
            acc = warpgroup_mma_wait(1, [acc])
            mbarrier.arrive(empty.index((done + HOW.stages - 1) % HOW.stages), pred=step > first)
            done += 1
        if HOW.keep:
            mbarrier.arrive(turn.index(1 - WHICH))
        tile_m, tile_n = _place(tile, tiles_m, tiles_n, HOW)
        acc = warpgroup_mma_wait(0, [acc])
        mbarrier.arrive(empty.index((done + HOW.stages - 1) % HOW.stages))
        if HOW.shared:
            for other in range(gl.program_id(0) - _others(tile, first, last, sizes), gl.program_id(0)):
                acc += _take_part(parts, other, WHICH, layout, HOW)
            if last < steps:
                _hand_on(acc, parts, WHICH, layout, HOW)
            else:
                _store(acc, c, c_smem, (tile_m * PIECES + PIECE) * ROWS, tile_n * HOW.n, HOW)
        else:
            _store(acc, c, c_smem, (tile_m * PIECES + PIECE) * ROWS, tile_n * HOW.n, HOW)
        done += steps * (STRIDE - 1)
    if not HOW.grain:
        tma.store_wait(0)


@gluon.jit
def _part(parts, program, WHICH: gl.constexpr, layout: gl.constexpr, HOW: gl.constexpr):
    """Where a part of a tile lies, by squares of 8 x 8, which a warp holds; and a flag for each thread."""
    part_ptr, flag_ptr = parts
    at = program * HOW.consumers + WHICH
    m = gl.arange(0, HOW.rows, gl.SliceLayout(1, layout))[:, None]
    n = gl.arange(0, HOW.n, gl.SliceLayout(0, layout))[None, :]
    within = (n // 8 * (HOW.rows // 8) + m // 8) * 64 + m % 8 * 8 + n % 8
    THREADS: gl.constexpr = gl.num_warps() * 32
    thread = gl.arange(0, THREADS, gl.BlockedLayout([1], [32], [gl.num_warps()], [0]))
    return part_ptr + at * (HOW.rows * HOW.n) + within, flag_ptr + at * THREADS + thread


@gluon.jit
def _hand_on(acc, parts, WHICH: gl.constexpr, layout: gl.constexpr, HOW: gl.constexpr):
    """Leave a part of a tile to the program that takes the tile's last step."""
    part, flags = _part(parts, gl.program_id(0), WHICH, layout, HOW)
    gl.store(part, acc)
    gl.inline_asm_elementwise(_SIGNAL, "=l,l", [flags], dtype=gl.int64, is_pure=False, pack=1)


@gluon.jit
def _take_part(parts, program, WHICH: gl.constexpr, layout: gl.constexpr, HOW: gl.constexpr):
    """A part of a tile from a program before this one, which has started before: no two can await each other."""
    part, flags = _part(parts, program, WHICH, layout, HOW)
    gl.inline_asm_elementwise(_AWAIT, "=l,l", [flags], dtype=gl.int64, is_pure=False, pack=1)
    gl.store(flags, 0)
    return gl.load(part)


@gluon.jit
def _store(acc, c, c_smem, m, n, HOW: gl.constexpr):
    """Round and hand over to the TMA, which writes only what lies within the result, or write it where it cannot.

    In two pieces, one after the other through half the shared memory, which leaves more to the ring.
    """
    N: gl.constexpr = HOW.n // 2
    pieces = acc.reshape([HOW.rows, 2, N]).permute([0, 2, 1]).split()
    for i in gl.static_range(2):
        piece = pieces[i].to(c_smem.dtype)
        if HOW.grain:
            c_smem.store(piece)
            _write(c, c_smem, m, n + i * N, HOW.grain)
        else:
            tma.store_wait(0)  # the TMA has read what was there before
            c_smem.store(piece)
            fence_async_shared()
            tma.async_copy_shared_to_global(c, [m, n + i * N], c_smem)


@gluon.jit
def _write(c, c_smem, m, n, GRAIN: gl.constexpr):
    """Write a piece of the result whose rows the TMA cannot, GRAIN elements at a time."""
    c_ptr, M, N = c
    LANES: gl.constexpr = min(32, c_smem.shape[1] // GRAIN)  # to a row
    layout: gl.constexpr = gl.BlockedLayout([1, GRAIN], [32 // LANES, LANES], [gl.num_warps(), 1], [1, 0])
    m += gl.arange(0, c_smem.shape[0], gl.SliceLayout(1, layout))[:, None]
    n += gl.arange(0, c_smem.shape[1], gl.SliceLayout(0, layout))[None, :]
    N *= GRAIN
    gl.store(c_ptr + m.to(gl.int64) * N + n, c_smem.load(layout), mask=(m < M) & (n < N))


@gluon.jit
def _matmul_hopper(a_desc, b_desc, c, part_ptr, flag_ptr, M, N, cut, HOW: gl.constexpr):
    """The product, whose N is given in units of HOW.grain where the TMA cannot write it; `cut` tiles are shared."""
    STAGES: gl.constexpr = HOW.stages
    KEEP: gl.constexpr = HOW.keep
    PIECES: gl.constexpr = 1 if KEEP else HOW.consumers
    A_STAGES: gl.constexpr = STAGES * PIECES
    B_STAGES: gl.constexpr = KEEP if KEEP else STAGES
    c_layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([HOW.rows, HOW.n // 2], a_desc.dtype)
    # A star in a list is not of Triton's language.
    a_ring = gl.allocate_shared_memory(a_desc.dtype, [A_STAGES] + a_desc.block_shape, a_desc.layout)  # noqa: RUF005
    b_ring = gl.allocate_shared_memory(b_desc.dtype, [B_STAGES] + b_desc.block_shape, b_desc.layout)  # noqa: RUF005
    c_smem = gl.allocate_shared_memory(a_desc.dtype, [HOW.consumers, HOW.rows, HOW.n // 2], c_layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    kept = gl.allocate_shared_memory(gl.int64, [KEEP + 1, 1], mbarrier.MBarrierLayout())
    turn = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=PIECES)
    for i in gl.static_range(KEEP):
        mbarrier.init(kept.index(i), count=1)
    for i in gl.static_range(2):
        mbarrier.init(turn.index(i), count=1)
    fence_async_shared()
    steps = gl.cdiv(a_desc.shape[0 if HOW.a_t else 1], HOW.k)
    columns = N * HOW.grain if HOW.grain else N
    sizes = (gl.cdiv(M, PIECES * HOW.rows), gl.cdiv(columns, HOW.n), steps, cut)
    rings = (a_ring, b_ring)
    barriers = (full, empty, kept, turn)
    parts = (part_ptr, flag_ptr)
    if HOW.grain:
        c = (c, M, N)
    if HOW.consumers == 2:
        gl.warp_specialize(
            [
                (_consume, (gl.constexpr(0), c, c_smem.index(0), parts, rings, barriers, sizes, HOW)),
                (_consume, (gl.constexpr(1), c, c_smem.index(1), parts, rings, barriers, sizes, HOW)),
                (_produce, (a_desc, b_desc, rings, barriers, sizes, HOW)),
            ],
            [4, 1],
            [232, 24],
        )
    else:
        gl.warp_specialize(
            [
                (_consume, (gl.constexpr(0), c, c_smem.index(0), parts, rings, barriers, sizes, HOW)),
                (_consume, (gl.constexpr(1), c, c_smem.index(1), parts, rings, barriers, sizes, HOW)),
                (_consume, (gl.constexpr(2), c, c_smem.index(2), parts, rings, barriers, sizes, HOW)),
                (_produce, (a_desc, b_desc, rings, barriers, sizes, HOW)),
            ],
            [4, 4, 1],
            [160, 160, 24],
        )


# How, for a product


def _tiles(how, M, N):
    """How many tiles a product is cut into."""
    rows = how.rows * (1 if how.keep else how.consumers)
    return triton.cdiv(M, rows) * triton.cdiv(N, how.n)


@functools.lru_cache(launch.SIZE)
def choose(M, N, K, processors):
    """How to take a product, and with how many programs."""
    if K <= _SHORT_K:
        programs = _keepers(M, N, processors)
        if programs >= _OCCUPIED * processors and _tiles(KEEPING, M, N) >= 2 * programs:
            return KEEPING, programs
    how, _ = min(_ways(M, N, processors), key=lambda way: _cost(way, M, N, K, processors))
    return how, processors if how.shared else min(_tiles(how, M, N), processors)


def _keepers(M, N, processors):
    """How many programs there are if each stays in a column of tiles, as many to every column."""
    columns = triton.cdiv(N, KEEPING.n)
    return min(_tiles(KEEPING, M, N), processors) // columns * columns


def _ways(M, N, processors):
    """The ways of the table; tiles are also shared where they leave the last of several rounds unfilled."""
    for how, costs in WAYS:
        yield how, costs
        tiles = _tiles(how, M, N)
        if tiles % processors and tiles > processors:
            yield how._replace(shared=True), costs


def _cost(way, M, N, K, processors):
    how, costs = way
    tiles, steps = _tiles(how, M, N), triton.cdiv(K, how.k)
    rounds = triton.cdiv(tiles, processors)
    if how.shared:
        work = tiles * steps / processors * costs.step + rounds * costs.finish
        return _DOUBT * (costs.start + costs.share + work)
    return costs.start + rounds * (steps * costs.step + costs.finish)


def readable(t):
    """How the TMA can read 16-bit elements: whether as a transpose, and how many from row to row; None if it cannot."""
    for transposed in (False, True) if t.data_ptr() % 16 == 0 else ():
        order = -1 if transposed else 1
        (rows, columns), (pitch, step) = t.shape[::order], t.stride()[::order]
        if rows == 1:
            pitch = triton.cdiv(columns, 8) * 8  # any will do
        if (step == 1 or columns == 1) and pitch >= columns and pitch % 8 == 0:
            return transposed, pitch
    return None


def unit(number):
    """The largest power of two that divides a number, up to the elements that a thread copies at a time."""
    return math.gcd(number, 8)


# The launch


def takes(a):
    """Whether there is a way for the dtype, and something to add up."""
    return a.dtype in _ELEMENTS and a.shape[1] > 0


def start(a, b, c):
    """Fill `c`, contiguous, with the product of `a` and `b`, of any strides. Returns what launch.start does."""
    return start_as(a, b, c, *choose(c.shape[0], c.shape[1], a.shape[1], launch.limits(a.device)[1]))


def start_as(a, b, c, how, programs):
    """The same in one of the ways, with so many programs."""
    (M, K), N = a.shape, b.shape[1]
    read, rooms, steps = {}, {}, []
    for name, t in (("a", a), ("b", b)):
        if readable(t):
            read[name] = t
        else:
            copied = f"{name} copied"
            read[copied], rooms[copied], copy = _copy_rows(t)
            steps.append((copy, (name, copied)))
    a_read, b_read = read.values()
    a_view, b_view = readable(a_read), readable(b_read)
    keep = triton.cdiv(K, how.k) if how.keep else 0
    how = how._replace(keep=keep, a_t=a_view[0], b_t=b_view[0], grain=0 if N % 8 == 0 else unit(N))
    parts = _parts(a, how, programs) if how.shared else {}
    tensors = (
        _described(a_read, (how.rows, how.k), *a_view),
        _described(b_read, (how.k, how.n), *b_view),
        c if how.grain else _described(c, (how.rows, how.n // 2), False, N),
        *parts.values(),
    )
    rest = (*(() if parts else (None, None)), M, N // (how.grain or 1), _cut(how, M, N, programs), how)
    options = {"maxnreg": _REGISTERS} if how.consumers == 2 else {}
    product = launch.start(_matmul_hopper, (programs,), tensors, rest, num_warps=4, **options)
    return launch.chain(("a", "b", "c"), rooms | parts, [*steps, (product, (*read, "c", *parts))])


def _parts(a, how, programs):
    """Memory for the parts of tiles that are shared, and for the flags of the threads that leave them."""
    room = (programs, how.consumers)
    return {
        "parts": a.new_empty((*room, how.rows, how.n), dtype=torch.float32),
        "flags": a.new_empty((*room, _THREADS), dtype=torch.int64),
    }


def _cut(how, M, N, programs):
    """How many tiles are shared: those of the last round and, if there is one, of the round before."""
    tiles = _tiles(how, M, N)
    return min(tiles, programs + tiles % programs) if how.shared else 0


def _copy_rows(t):
    """A copy of a matrix whose rows, or columns, start 16 bytes apart, its memory, and what launch.start returns."""
    order = -1 if t.stride(0) == 1 else 1
    (rows, columns), strides = t.shape[::order], t.stride()[::order]
    room = t.new_empty((rows, triton.cdiv(columns, 8) * 8))
    units = unit(columns), unit(strides[0])
    grid = (triton.cdiv(rows, _COPIED[0]), triton.cdiv(room.shape[1], _COPIED[1]))
    numbers = (rows, columns // units[0], strides[0] // units[1], strides[1], room.shape[1] // 8)
    start = launch.start(_copy_kernel, grid, (t, room), (*numbers, *units, *_COPIED), num_warps=4)
    made = room[:, :columns]
    return made if order == 1 else made.mT, room, start


def _described(t, box, transposed, pitch):
    """A matrix as the TMA sees it: how it lies in memory, and the box of it that is copied at a time."""
    order = -1 if transposed else 1
    shape, box = list(t.shape[::order]), list(box[::order])
    return TensorDescriptor(t, shape, [pitch, 1], box, gl.NVMMASharedLayout.get_default_for(box, _ELEMENTS[t.dtype]))
