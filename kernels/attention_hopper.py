"""The forward pass of attention for compute capability 9.0 (H100, H200), in Gluon: TMA, wgmma, specialized warps.

FlashAttention-3 (Shah et al., 2024, arXiv:2407.08608) in outline. A program has one warp that loads
and two or three warp groups that compute, each for 64 queries. The loading warp has TMA copy tiles of
queries, keys and values into rings of buffers, ahead of their use. While a group takes the softmax
of one block of scores, the tensor cores work on the products of the other groups, which may issue
theirs in turn, and if it overlaps them on its own product P V of the block before.

Keys are taken from the last block to the first. Only the block that is taken first is cut by the
diagonal or by the end of the sequence, so the loop over the others needs no mask.
"""

from typing import NamedTuple

import triton
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

ROWS = gl.constexpr(64)  # queries of a warp group, as many as the rows of a wgmma
LOWEST = gl.constexpr(-3.4028234663852886e38)


class Tile(NamedTuple):
    """How the work is cut and scheduled."""

    groups: int  # warp groups that compute, 2 or 3
    block: int  # keys per step; a multiple of ROWS
    stages: int  # blocks of keys, and as many of values, in shared memory
    in_turn: bool  # do the groups issue their products one after the other?
    persistent: bool  # does a program go on to another tile, whose queries are loaded meanwhile?
    overlap: bool  # does a group take the softmax of a block while P V of the one before runs?


# (head_dim as a power of two, causal) -> (most keys, Tile): the first that takes as many keys is used. None stands for
# the kernel of attention.py, 96 for every head that is cut in two (see _rest_of). NOTES.md says what was tried.
_ANY = float("inf")
TILES = {
    (64, False): (
        (128, None),
        (256, Tile(2, 64, 4, in_turn=False, persistent=True, overlap=True)),
        (384, Tile(3, 128, 3, in_turn=False, persistent=True, overlap=False)),
        (896, Tile(2, 128, 3, in_turn=False, persistent=True, overlap=False)),
        (1024, Tile(2, 256, 2, in_turn=False, persistent=True, overlap=False)),
        (_ANY, Tile(3, 128, 4, in_turn=True, persistent=True, overlap=True)),
    ),
    (64, True): (
        (128, None),
        (512, Tile(2, 64, 4, in_turn=False, persistent=True, overlap=True)),
        (1024, Tile(3, 64, 4, in_turn=False, persistent=True, overlap=True)),
        (_ANY, Tile(3, 128, 4, in_turn=True, persistent=True, overlap=True)),
    ),
    (128, False): (
        (128, None),
        (_ANY, Tile(2, 128, 2, in_turn=False, persistent=True, overlap=True)),
    ),
    (128, True): (
        (640, Tile(2, 64, 3, in_turn=False, persistent=True, overlap=True)),
        (_ANY, Tile(2, 128, 2, in_turn=False, persistent=True, overlap=True)),
    ),
    (96, False): (
        (128, None),
        (896, Tile(2, 128, 2, in_turn=False, persistent=True, overlap=False)),
        (_ANY, Tile(3, 128, 2, in_turn=False, persistent=True, overlap=False)),
    ),
    (96, True): (
        (640, Tile(2, 64, 3, in_turn=False, persistent=True, overlap=True)),
        (_ANY, Tile(3, 128, 2, in_turn=False, persistent=True, overlap=False)),
    ),
    (256, False): ((_ANY, Tile(2, 64, 2, in_turn=False, persistent=False, overlap=True)),),
    (256, True): ((_ANY, Tile(2, 64, 2, in_turn=False, persistent=False, overlap=True)),),
}
_CACHED = 32 << 20  # bytes of keys and values that programs at work together may take of the L2 cache


class Ring(NamedTuple):
    """Buffers in shared memory; for each, one barrier that is passed when it is full, one when it is empty."""

    data: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor


class Task(NamedTuple):
    """What is to be computed, over all programs."""

    sheets: gl.tensor  # batch * heads
    heads: gl.tensor
    shared: gl.tensor  # heads that have the same keys and values
    queries: gl.tensor
    keys: gl.tensor
    tiles: gl.tensor  # of queries, in a sheet
    together: gl.tensor  # sheets of a group, worked on at a time; divides sheets


@gluon.jit
def _bars(NUMBER: gl.constexpr, COUNT: gl.constexpr):
    """Barriers, each of which is passed after COUNT arrivals."""
    bars = gl.allocate_shared_memory(gl.int64, [NUMBER, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(NUMBER):
        mbarrier.init(bars.index(i), count=COUNT)
    return bars


@gluon.jit
def _ring(desc, STAGES: gl.constexpr, READERS: gl.constexpr):
    shape: gl.constexpr = [STAGES] + desc.block_shape  # noqa: RUF005, Gluon knows no star
    data = gl.allocate_shared_memory(desc.dtype, shape, desc.layout)
    return Ring(data, _bars(STAGES, 1), _bars(STAGES, READERS))


@gluon.jit
def _advance(stage, phase, STAGES: gl.constexpr):
    """The next buffer of a ring; once around is a phase of its barriers."""
    last = stage == STAGES - 1
    return gl.where(last, 0, stage + 1), gl.where(last, phase ^ 1, phase)


@gluon.jit
def _matrix(ring, stage):
    """A buffer without the two dimensions of size one that TMA has for batch and head."""
    return ring.data.index(stage).reshape([ring.data.shape[3], ring.data.shape[4]])


# Which program computes what


@gluon.jit
def _lane(lap):
    """A program's place in a lap, which gives every program a tile. Laps go to and fro, to even out the work."""
    lane = gl.program_id(0)
    return gl.where(lap % 2 == 0, lane, gl.num_programs(0) - 1 - lane)


@gluon.jit
def _laps(task):
    """How many tiles this program computes; in the last lap there may be none left for it."""
    work = task.sheets * task.tiles
    last = gl.cdiv(work, gl.num_programs(0)) - 1
    return gl.where(last * gl.num_programs(0) + _lane(last) < work, last + 1, last)


@gluon.jit
def _place(lap, task, CAUSAL: gl.constexpr):
    """Sheet and tile, both from the last on: the last tiles of causal sheets have most to do, short ones fill the end.

    In every other group of sheets it is the first tile first. Work thus changes slowly from lap to lap, as it must for
    laps to and fro to even it out.
    """
    work = task.sheets * task.tiles - 1 - lap * gl.num_programs(0) - _lane(lap)
    group = work // (task.together * task.tiles)
    first = group * task.together
    rest = work - first * task.tiles
    if CAUSAL:
        tile = rest // task.together
        return first + rest % task.together, gl.where(group % 2 == 0, tile, task.tiles - 1 - tile)
    else:
        return first + rest // task.tiles, rest % task.tiles


@gluon.jit
def _blocks(row, rows: gl.constexpr, keys, BLOCK: gl.constexpr, CAUSAL: gl.constexpr):
    """How many blocks of keys it takes for `rows` queries from `row` on."""
    blocks = gl.cdiv(keys, BLOCK)
    if CAUSAL:
        blocks = gl.minimum(blocks, (row + rows - 1) // BLOCK + 1)
    return blocks


# The warp that loads


@gluon.jit
def _copy(desc, at, ring, stage, phase):
    """Start to fill a buffer, once it is empty."""
    mbarrier.wait(ring.empty.index(stage), phase)
    mbarrier.expect(ring.full.index(stage), desc.block_type.nbytes)
    tma.async_copy_global_to_shared(desc, at, ring.full.index(stage), ring.data.index(stage))


@gluon.jit
def _load(q_desc, k_desc, v_desc, q, k, v, task, TILE: gl.constexpr, CAUSAL: gl.constexpr):
    GROUPS: gl.constexpr = TILE.groups
    stage, phase = 0, 1  # a buffer starts empty: the phase before the first one counts as passed
    q_stage, q_phase = 0, 1
    for lap in range(_laps(task)):
        sheet, tile = _place(lap, task, CAUSAL)
        batch, head = sheet // task.heads, sheet % task.heads
        source = head // task.shared
        row = tile * (GROUPS * ROWS)
        for i in gl.static_range(GROUPS):
            _copy(q_desc, [batch, head, row + i * ROWS, 0], q, q_stage * GROUPS + i, q_phase)
        q_stage, q_phase = _advance(q_stage, q_phase, 1 + TILE.persistent)
        key = (_blocks(row, GROUPS * ROWS, task.keys, TILE.block, CAUSAL) - 1) * TILE.block
        _copy(k_desc, [batch, source, key, 0], k, stage, phase)
        # In the order of their use: the keys of a block are needed before the values of the block before it.
        while key > 0:
            v_stage, v_phase = stage, phase
            stage, phase = _advance(stage, phase, TILE.stages)
            _copy(k_desc, [batch, source, key - TILE.block, 0], k, stage, phase)
            _copy(v_desc, [batch, source, key, 0], v, v_stage, v_phase)
            key -= TILE.block
        _copy(v_desc, [batch, source, key, 0], v, stage, phase)
        stage, phase = _advance(stage, phase, TILE.stages)


# The warp groups that compute


@gluon.jit
def _by_lane(x):
    """Rows cut as a warp holds them: of every 8 columns, 2 are in each of 4 lanes. Moves nothing."""
    return x.reshape([x.shape[0], x.shape[1] // 8, 4, 2])


@gluon.jit
def _row_max(s):
    largest = gl.max(gl.max(gl.max(_by_lane(s), axis=1), axis=2), axis=1)
    return gl.convert_layout(largest, gl.SliceLayout(1, s.type.layout), assert_trivial=True)


@gluon.jit
def _lane_sums(p):
    """Sums per row and lane, [rows, 4]. Lanes are added up after the last block only."""
    return gl.sum(gl.sum(_by_lane(p), axis=1), axis=2)


@gluon.jit
def _times(x, factor):
    """A factor for each row."""
    return x * gl.convert_layout(factor, gl.SliceLayout(1, x.type.layout), assert_trivial=True)[:, None]


@gluon.jit
def _mask(s, row, key, keys, CAUSAL: gl.constexpr, EVEN: gl.constexpr):
    """Scores of queries from `row` and keys from `key` on; -inf for keys after the query or after the last."""
    key += gl.arange(0, s.shape[1], gl.SliceLayout(0, s.type.layout))
    if CAUSAL:
        query = row + gl.arange(0, s.shape[0], gl.SliceLayout(1, s.type.layout))
        s = gl.where(key[None, :] <= query[:, None], s, -float("inf"))
    elif not EVEN:
        s = gl.where((key < keys)[None, :], s, -float("inf"))
    return s


@gluon.jit
def _scores(queries, k, stage, REST: gl.constexpr):
    """Start Q K^T."""
    BLOCK: gl.constexpr = k.data.shape[3]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK, 16])
    nothing = gl.zeros([ROWS, BLOCK], gl.float32, layout)
    keys = _matrix(k, stage).permute((1, 0))
    if REST:
        s = warpgroup_mma(_low(queries, 1), _low(keys, 0), nothing, use_acc=False, is_async=True)
        return warpgroup_mma(_rest(queries, 1, REST), _rest(keys, 0, REST), s, is_async=True)
    else:
        return warpgroup_mma(queries, keys, nothing, use_acc=False, is_async=True)


# A head that is no power of two: the first 64 of its elements, and REST others, which are one.


@gluon.jit
def _low(matrix, dim: gl.constexpr):
    return matrix.slice(0, 64, dim=dim)


@gluon.jit
def _rest(matrix, dim: gl.constexpr, REST: gl.constexpr):
    return matrix.slice(64, REST, dim=dim)


@gluon.jit
def _nothing(WIDTH: gl.constexpr):
    return gl.zeros([ROWS, WIDTH], gl.float32, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, WIDTH, 16]))


@gluon.jit
def _weigh(p, values, accs, REST: gl.constexpr):
    """Start P V, which is added to the output so far, a tensor or two."""
    if REST:
        low = warpgroup_mma(p, _low(values, 1), accs[0], is_async=True)
        layout: gl.constexpr = gl.DotOperandLayout(0, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, REST, 16]), 2)
        p = gl.convert_layout(p, layout, assert_trivial=True)
        return low, warpgroup_mma(p, _rest(values, 1, REST), accs[1], is_async=True)
    else:
        return (warpgroup_mma(p, values, accs[0], is_async=True),)


@gluon.jit
def _await(accs, p, weights, REST: gl.constexpr):
    """The output so far and `weights`, once no product reads P any more."""
    if REST:
        low, rest, _, p = warpgroup_mma_wait(0, deps=[accs[0], accs[1], p, weights])
        return (low, rest), p
    else:
        acc, _, p = warpgroup_mma_wait(0, deps=[accs[0], p, weights])
        return (acc,), p


@gluon.jit
def _all_times(accs, factor, REST: gl.constexpr):
    if REST:
        return _times(accs[0], factor), _times(accs[1], factor)
    else:
        return (_times(accs[0], factor),)


@gluon.jit
def _softmax(s, top, sums, scale):
    """Weights of scores, to base 2, with the maximum and the sums so far; what was before shrinks by the last."""
    higher = gl.maximum(top, _row_max(s) * scale)
    p = gl.exp2(s * scale - higher[:, None])
    shrink = gl.exp2(top - higher)
    return p, higher, _times(sums, shrink) + _lane_sums(p), shrink


@gluon.jit
def _pass_over(GROUP: gl.constexpr, k, v, turns, others, blocks, stage, phase, turn, TILE: gl.constexpr):
    """Hand back the blocks that only other groups need, and the turns for them; a tile's first block takes none."""
    for i in range(others):
        mbarrier.wait(k.full.index(stage), phase)
        mbarrier.arrive(k.empty.index(stage), count=1)
        mbarrier.wait(v.full.index(stage), phase)
        mbarrier.arrive(v.empty.index(stage), count=1)
        stage, phase = _advance(stage, phase, TILE.stages)
        if TILE.in_turn and i + blocks > 0:
            mbarrier.wait(turns.index(GROUP), turn)
            mbarrier.arrive(turns.index((GROUP + 1) % TILE.groups), count=1)
            turn ^= 1
    return stage, phase, turn


@gluon.jit
def _begin(
    queries, k, row, blocks, keys, scale, stage, phase,
    TILE: gl.constexpr, CAUSAL: gl.constexpr, EVEN: gl.constexpr, REST: gl.constexpr,
):  # fmt: skip
    """Weights of the block of keys that is taken first, the last one; with maximum and sums."""
    mbarrier.wait(k.full.index(stage), phase)
    s = warpgroup_mma_wait(0, deps=[_scores(queries, k, stage, REST)])
    mbarrier.arrive(k.empty.index(stage), count=1)
    s = _mask(s, row, (blocks - 1) * TILE.block, keys, CAUSAL, EVEN)
    # The maximum starts at the lowest finite number, so that scores of -inf weigh 0, not NaN.
    top = gl.maximum(_row_max(s) * scale, LOWEST)
    p = gl.exp2(s * scale - top[:, None])
    return p, top, _lane_sums(p)


@gluon.jit
def _attend(
    GROUP: gl.constexpr, queries, k, v, turns, p, top, sums, blocks, scale, stage, phase, turn,
    TILE: gl.constexpr, REST: gl.constexpr,
):  # fmt: skip
    """Values of the first block, weighted by p, and all of the blocks after it."""
    HEAD: gl.constexpr = 64 if REST else v.data.shape[4]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(0, layout, 2)
    shrink = gl.full([ROWS], 1.0, gl.float32, top.type.layout)
    accs = (_nothing(HEAD), _nothing(REST)) if REST else (_nothing(HEAD),)
    mbarrier.wait(v.full.index(stage), phase)
    p = gl.convert_layout(p.to(v.data.dtype), p_layout)
    for _ in range(blocks - 1):
        before = stage
        stage, phase = _advance(stage, phase, TILE.stages)
        if TILE.overlap:
            mbarrier.wait(k.full.index(stage), phase)
            if TILE.in_turn:
                mbarrier.wait(turns.index(GROUP), turn)
            s = _scores(queries, k, stage, REST)
            accs = _all_times(accs, shrink, REST)
            accs = _weigh(p, _matrix(v, before), accs, REST)
            if TILE.in_turn:
                mbarrier.arrive(turns.index((GROUP + 1) % TILE.groups), count=1)
                turn ^= 1
            s = warpgroup_mma_wait(2 if REST else 1, deps=[s])
            mbarrier.arrive(k.empty.index(stage), count=1)
            weights, top, sums, shrink = _softmax(s, top, sums, scale)
            # ptxas moves the wait for P V to before the exponentials unless a branch, as in this wait, is between.
            mbarrier.wait(v.full.index(stage), phase)
            weights = gl.convert_layout(weights.to(v.data.dtype), p_layout)
            accs, p = _await(accs, p, weights, REST)
            mbarrier.arrive(v.empty.index(before), count=1)
        else:
            if TILE.in_turn:
                mbarrier.wait(turns.index(GROUP), turn)
            accs = _weigh(p, _matrix(v, before), accs, REST)
            accs, p = _await(accs, p, p, REST)
            mbarrier.arrive(v.empty.index(before), count=1)
            mbarrier.wait(k.full.index(stage), phase)
            s = _scores(queries, k, stage, REST)
            if TILE.in_turn:
                mbarrier.arrive(turns.index((GROUP + 1) % TILE.groups), count=1)
                turn ^= 1
            s = warpgroup_mma_wait(0, deps=[s])
            mbarrier.arrive(k.empty.index(stage), count=1)
            weights, top, sums, shrink = _softmax(s, top, sums, scale)
            accs = _all_times(accs, shrink, REST)
            mbarrier.wait(v.full.index(stage), phase)
            p = gl.convert_layout(weights.to(v.data.dtype), p_layout)
    if TILE.overlap:
        accs = _all_times(accs, shrink, REST)
    accs = _weigh(p, _matrix(v, stage), accs, REST)
    accs, p = _await(accs, p, p, REST)
    mbarrier.arrive(v.empty.index(stage), count=1)
    stage, phase = _advance(stage, phase, TILE.stages)
    return _all_times(accs, 1.0 / gl.sum(sums, axis=1), REST), stage, phase, turn


@gluon.jit
def _release(q, q_stage, lap, GROUP: gl.constexpr, TILE: gl.constexpr):
    """Hand back the buffer of the tile before, once its output has left."""
    if TILE.persistent and lap > 0:
        tma.store_wait(0)
        mbarrier.arrive(q.empty.index((1 - q_stage) * TILE.groups + GROUP), count=1)


@gluon.jit
def _consume(
    GROUP: gl.constexpr, o_desc, q, k, v, turns, task, scale,
    TILE: gl.constexpr, CAUSAL: gl.constexpr, EVEN: gl.constexpr, REST: gl.constexpr,
):  # fmt: skip
    all_rows: gl.constexpr = TILE.groups * ROWS
    stage, phase, q_stage, q_phase = 0, 0, 0, 0
    turn = 1 if GROUP == 0 else 0
    for lap in range(_laps(task)):
        sheet, tile = _place(lap, task, CAUSAL)
        row = tile * all_rows + GROUP * ROWS
        blocks = gl.where(row < task.queries, _blocks(row, ROWS, task.keys, TILE.block, CAUSAL), 0)
        others = _blocks(tile * all_rows, all_rows, task.keys, TILE.block, CAUSAL) - blocks
        stage, phase, turn = _pass_over(GROUP, k, v, turns, others, blocks, stage, phase, turn, TILE)
        slot = q_stage * TILE.groups + GROUP
        mbarrier.wait(q.full.index(slot), q_phase)
        if blocks > 0:
            queries = _matrix(q, slot)
            p, top, sums = _begin(queries, k, row, blocks, task.keys, scale, stage, phase, TILE, CAUSAL, EVEN, REST)
            _release(q, q_stage, lap, GROUP, TILE)
            o, stage, phase, turn = _attend(
                GROUP, queries, k, v, turns, p, top, sums, blocks, scale, stage, phase, turn, TILE, REST
            )
            # The output leaves through the buffer of its queries.
            if REST:
                _low(queries, 1).store(o[0].to(o_desc.dtype))
                _rest(queries, 1, REST).store(o[1].to(o_desc.dtype))
            else:
                queries.store(o[0].to(o_desc.dtype))
            fence_async_shared()
            at = [sheet // task.heads, sheet % task.heads, row, 0]
            tma.async_copy_shared_to_global(o_desc, at, q.data.index(slot))
        else:
            _release(q, q_stage, lap, GROUP, TILE)
        q_stage, q_phase = _advance(q_stage, q_phase, 1 + TILE.persistent)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["sheets", "heads", "shared", "queries", "keys", "tiles", "together"])
def _attention_hopper(
    q_desc, k_desc, v_desc, o_desc, sheets, heads, shared, queries, keys, tiles, together, scale,
    TILE: gl.constexpr, CAUSAL: gl.constexpr, EVEN: gl.constexpr, REST: gl.constexpr,
):  # fmt: skip
    GROUPS: gl.constexpr = TILE.groups
    gl.static_assert(TILE.block % ROWS == 0, "the diagonal of a group's queries must cut one block of keys only")
    task = Task(sheets, heads, shared, queries, keys, tiles, together)
    q = _ring(q_desc, GROUPS * (1 + TILE.persistent), 1)
    k = _ring(k_desc, TILE.stages, GROUPS)
    v = _ring(v_desc, TILE.stages, GROUPS)
    turns = _bars(GROUPS, 1)
    fence_async_shared()
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (_consume, (gl.constexpr(0), o_desc, q, k, v, turns, task, scale, TILE, CAUSAL, EVEN, REST)),
                (_consume, (gl.constexpr(1), o_desc, q, k, v, turns, task, scale, TILE, CAUSAL, EVEN, REST)),
                (_load, (q_desc, k_desc, v_desc, q, k, v, task, TILE, CAUSAL)),
            ],
            [4, 1],
            [240, 24],
        )
    else:
        gl.warp_specialize(
            [
                (_consume, (gl.constexpr(0), o_desc, q, k, v, turns, task, scale, TILE, CAUSAL, EVEN, REST)),
                (_consume, (gl.constexpr(1), o_desc, q, k, v, turns, task, scale, TILE, CAUSAL, EVEN, REST)),
                (_consume, (gl.constexpr(2), o_desc, q, k, v, turns, task, scale, TILE, CAUSAL, EVEN, REST)),
                (_load, (q_desc, k_desc, v_desc, q, k, v, task, TILE, CAUSAL)),
            ],
            [4, 4, 1],
            [160, 160, 24],
        )


# The launch


def _strides(t):
    """Strides as TMA takes them, which is in steps of 16 bytes, also where a size of one needs none; or None."""
    used = [stride if size > 1 else t.shape[3] for size, stride in zip(t.shape[:3], t.stride()[:3], strict=True)]
    return [*used, 1] if t.stride(3) == 1 and all(0 < s < 2**39 and s % 8 == 0 for s in used) else None


def reads(q, k, v, causal):
    """Whether there is a tile for the head_dim and dtype, and the TMA can read q, k and v.

    It takes rows of adjacent elements, and addresses and strides that are multiples of 16 bytes.
    """
    if q.element_size() != 2 or _tile(q, k, causal) is None:
        return False
    return all(_strides(t) and t.data_ptr() % 16 == 0 for t in (q, k, v))


def _head(t):
    """The elements that a row takes in shared memory; the TMA fills up with zeros."""
    return triton.next_power_of_2(t.shape[3])


def _rest_of(t):
    """How many elements of a row lie past the first 64, as a power of two; 0 of a row that is one or is not cut."""
    rest = triton.next_power_of_2(max(t.shape[3] - 64, 16))
    return rest if t.shape[3] > 64 and 64 + rest < _head(t) else 0


def _tile(q, k, causal):
    """The tile that TILES lists for a head and a number of keys; None where the kernel for any GPU is to take them."""
    row = TILES.get((96 if _rest_of(q) else _head(q), causal), ())
    return next((tile for most, tile in row if k.shape[2] <= most), None)


def start(q, k, v, o, causal, scale):
    """Fill `o`, contiguous, with the attention of tensors that this kernel reads. Returns what launch.start does.

    scale: positive, and includes log2(e).
    """
    (batch, heads, queries, _), keys = q.shape, k.shape[2]
    tile = _tile(q, k, causal)
    tiles = triton.cdiv(queries, tile.groups * ROWS.value)
    sheets = batch * heads
    together = _together(sheets, _CACHED // (2 * keys * _head(q) * q.element_size()))
    programs = sheets * tiles
    if tile.persistent:
        programs = min(launch.limits(q.device)[1], programs)
    rows = (ROWS.value, tile.block, tile.block, ROWS.value)
    tensors = tuple(_described(t, r) for t, r in zip((q, k, v, o), rows, strict=True))
    shared = heads // k.shape[1]
    even = keys % tile.block == 0
    rest = (sheets, heads, shared, queries, keys, tiles, together, scale, tile, causal, even, _rest_of(q))
    return launch.start(_attention_hopper, (programs,), tensors, rest, num_warps=4)


def _together(sheets, most):
    """How many sheets a group has, about as many as the L2 cache holds; all, if they cannot be cut into such groups."""
    most = max(1, most)
    return sheets if sheets <= most else next((n for n in range(most, most // 2, -1) if sheets % n == 0), sheets)


def _described(t, rows):
    """A tensor as the TMA sees it: how it lies in memory, and how many rows of a head are copied at a time."""
    box = [1, 1, rows, _head(t)]
    layout = gl.NVMMASharedLayout.get_default_for(box, getattr(gl, str(t.dtype).removeprefix("torch.")))
    return TensorDescriptor(t, list(t.shape), _strides(t), box, layout)
