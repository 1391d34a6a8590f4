"""Softmax and layer normalisation of rows too wide for registers, read once: they wait in shared memory.

A program takes one row after another, in parts of SPAN columns. Parts are copied asynchronously (cp.async, compute
capability 8.0 and above) into a ring of SLOTS buffers and are used in the order of their copies; where a part is no
longer needed, the next one that has none is asked for, of the next row if need be. So the memory is busy while a row
is computed. What a row needs twice stays: its first HELD parts in registers, so that their buffers go to later parts
at once, the others in their buffers until they are written out. A row fits if HELD + SLOTS buffers hold it, and what
of SLOTS is left over is how far ahead the next row is read meanwhile.

With some of its 256 KiB of registers and 224 KiB of shared memory a multiprocessor of Hopper keeps a row of 256 KiB
(131,072 columns of 16 bits) and reads ahead, where two passes over it would fetch it from the L2 cache again.

Softmax keeps a running maximum and sum per thread, as in softmax.py; one reduction over the threads ends the pass.

Rows need not start at a multiple of 16 bytes if they follow each other without gaps: a part then starts at the multiple
before, SKEW columns early. Those are read (16 aligned bytes with one byte of the tensor in them lie in one page of
memory) and left out. If x_ptr is not such a multiple, or rows have gaps that are none, these kernels cannot be used.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

_LOG2E = gl.constexpr(1.4426950408889634)
_LOWEST = gl.constexpr(-3.4028234663852886e38)


@gluon.jit
def _exp2(x):
    # Without the steps that keep numbers below 2^-126, which vanish beside the largest term, 1.
    return gl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=gl.float32, is_pure=True, pack=1)


@gluon.jit
def _join(top_1, total_1, top_2, total_2):
    """Maximum and sum of two sets of numbers, from those of each."""
    top = gl.maximum(top_1, top_2)
    return top, total_1 * _exp2((top_1 - top) * _LOG2E) + total_2 * _exp2((top_2 - top) * _LOG2E)


@gluon.jit
def _positions(SPAN: gl.constexpr, GRAIN: gl.constexpr):
    """Numbers of a part's elements, GRAIN (16 bytes) of them per thread and turn; and those of each grain's first."""
    layout: gl.constexpr = gl.BlockedLayout([1, GRAIN], [32, 1], [gl.num_warps(), 1], [1, 0])
    grain = gl.arange(0, SPAN // GRAIN, gl.SliceLayout(1, layout))[:, None] * GRAIN
    return grain + gl.arange(0, GRAIN, gl.SliceLayout(0, layout))[None, :], grain


@gluon.jit
def _bounds(row, columns, GRAIN: gl.constexpr, ALIGNED: gl.constexpr):
    """A row's first position and the one past its last, counted from the multiple of 16 bytes at or before it."""
    if ALIGNED:
        return 0, columns
    else:
        skew = (row % GRAIN) * (columns % GRAIN) % GRAIN
        return skew, skew + columns


@gluon.jit
def _offset(row, stride, GRAIN: gl.constexpr, ALIGNED: gl.constexpr):
    """How far from the first row's start that multiple of 16 bytes is."""
    if ALIGNED:
        return gl.cast(row, gl.int64) * stride
    else:
        return gl.cast(row, gl.int64) * stride // GRAIN * GRAIN


@gluon.jit
def _copy(
    x_ptr, buffer, row, part, rows, columns, x_row,
    SPAN: gl.constexpr, GRAIN: gl.constexpr, ALIGNED: gl.constexpr, EVEN: gl.constexpr,
):  # fmt: skip
    """Start to copy a part of a row, if there is such a row; at any rate one group of copies more is under way."""
    if row < rows:
        position, grain = _positions(SPAN, GRAIN)
        source = x_ptr + _offset(row, x_row, GRAIN, ALIGNED) + part * SPAN + position
        if EVEN:
            async_copy.async_copy_global_to_shared(buffer, source)
        else:
            end = _bounds(row, columns, GRAIN, ALIGNED)[1]
            async_copy.async_copy_global_to_shared(buffer, source, grain < end - part * SPAN)
    async_copy.commit_group()


@gluon.jit
def _fill(
    x_ptr, ring, rows, columns, x_row, PARTS: gl.constexpr, SLOTS: gl.constexpr, DEPTH: gl.constexpr,
    SPAN: gl.constexpr, GRAIN: gl.constexpr, ALIGNED: gl.constexpr, EVEN: gl.constexpr,
):  # fmt: skip
    """Start to copy the first SLOTS parts of this program's rows, as if steps had been taken before."""
    for g in gl.static_range(SLOTS):
        row = gl.program_id(0) + g // PARTS * gl.num_programs(0)
        _copy(x_ptr, ring.index(g), row, g % PARTS, rows, columns, x_row, SPAN, GRAIN, ALIGNED, EVEN)
    for _ in gl.static_range(DEPTH + 1 - SLOTS):
        async_copy.commit_group()


@gluon.jit
def _next(value, bound: gl.constexpr):
    return gl.where(value == bound - 1, 0, value + 1)


@gluon.jit
def _inside(
    x, row, part, columns, other, SPAN: gl.constexpr, GRAIN: gl.constexpr, ALIGNED: gl.constexpr, EVEN: gl.constexpr
):
    """A part in float32, with `other` where it is beside the row."""
    x = x.to(gl.float32)
    if not EVEN:
        position, _ = _positions(SPAN, GRAIN)
        first, end = _bounds(row, columns, GRAIN, ALIGNED)
        column = position + part * SPAN
        x = gl.where((column >= first) & (column < end), x, other)
    return x


@gluon.jit
def _write(
    y_ptr, y, row, part, columns, PARTS: gl.constexpr,
    SPAN: gl.constexpr, GRAIN: gl.constexpr, ALIGNED: gl.constexpr, EVEN: gl.constexpr,
):  # fmt: skip
    """Store a part of a row, 16 bytes at a time; where the row's ends lie within 16 bytes, singly."""
    position, grain = _positions(SPAN, GRAIN)
    y = y.to(y_ptr.dtype.element_ty)
    target = y_ptr + _offset(row, columns, GRAIN, ALIGNED) + part * SPAN + position
    if EVEN:
        gl.store(target, y)
    else:
        first, end = _bounds(row, columns, GRAIN, ALIGNED)
        grain += part * SPAN
        if ALIGNED:
            gl.store(target, y, mask=grain < end)
        else:
            whole = (grain >= first) & (grain + GRAIN <= end)
            gl.store(target, y, mask=whole)
            if (part == 0) | (part >= PARTS - 2):
                column = position + part * SPAN
                gl.store(target, y, mask=(column >= first) & (column < end) & (whole == 0))


@gluon.jit
def _gather(top, total, x):
    """Take a part into the maximum and sum that each thread keeps of its elements."""
    higher = gl.maximum(top, gl.max(x, axis=1))
    total = total * _exp2((top - higher) * _LOG2E) + gl.sum(_exp2((x - higher[:, None]) * _LOG2E), axis=1)
    return higher, total


@gluon.jit(do_not_specialize=["rows", "columns", "x_row"])
def softmax_kernel(
    x_ptr, y_ptr, rows, columns, x_row,
    PARTS: gl.constexpr, HELD: gl.constexpr, SLOTS: gl.constexpr, DEPTH: gl.constexpr,
    SPAN: gl.constexpr, GRAIN: gl.constexpr, ALIGNED: gl.constexpr, EVEN: gl.constexpr,
):  # fmt: skip
    """Softmax of rows of at most PARTS * SPAN columns. If ALIGNED, `columns` and `x_row` count grains."""
    if ALIGNED:
        columns = columns * GRAIN
        x_row = gl.cast(x_row, gl.int64) * GRAIN
    layout: gl.constexpr = gl.BlockedLayout([1, GRAIN], [32, 1], [gl.num_warps(), 1], [1, 0])
    shape: gl.constexpr = [SLOTS, SPAN // GRAIN, GRAIN]
    ring = gl.allocate_shared_memory(x_ptr.dtype.element_ty, shape, gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    _fill(x_ptr, ring, rows, columns, x_row, PARTS, SLOTS, DEPTH, SPAN, GRAIN, ALIGNED, EVEN)
    slot = 0
    ahead = gl.program_id(0) + SLOTS // PARTS * gl.num_programs(0)  # the row to copy from next
    part = SLOTS % PARTS  # and its part
    for row in range(gl.program_id(0), rows, gl.num_programs(0)):
        top = gl.full([SPAN // GRAIN], _LOWEST, gl.float32, gl.SliceLayout(1, layout))
        total = gl.full([SPAN // GRAIN], 0.0, gl.float32, gl.SliceLayout(1, layout))
        held = ()
        for i in gl.static_range(HELD):
            async_copy.wait_group(DEPTH)
            x = ring.index(slot).load(layout)
            held += (x,)
            _copy(x_ptr, ring.index(slot), ahead, part, rows, columns, x_row, SPAN, GRAIN, ALIGNED, EVEN)
            ahead += gl.where(part == PARTS - 1, gl.num_programs(0), 0)
            part = _next(part, PARTS)
            slot = _next(slot, SLOTS)
            wide = _inside(x, row, i, columns, -float("inf"), SPAN, GRAIN, ALIGNED, EVEN)
            top, total = _gather(top, total, wide)
        again = slot
        for i in range(HELD, PARTS):
            async_copy.wait_group(DEPTH)
            x = ring.index(slot).load(layout)
            async_copy.commit_group()
            slot = _next(slot, SLOTS)
            wide = _inside(x, row, i, columns, -float("inf"), SPAN, GRAIN, ALIGNED, EVEN)
            top, total = _gather(top, total, wide)
        top, total = gl.reduce((top, total), 0, _join)
        scale = 1.0 / total
        for i in range(HELD, PARTS):
            x = ring.index(again).load(layout)
            _copy(x_ptr, ring.index(again), ahead, part, rows, columns, x_row, SPAN, GRAIN, ALIGNED, EVEN)
            ahead += gl.where(part == PARTS - 1, gl.num_programs(0), 0)
            part = _next(part, PARTS)
            again = _next(again, SLOTS)
            y = _exp2((x.to(gl.float32) - top) * _LOG2E) * scale
            _write(y_ptr, y, row, i, columns, PARTS, SPAN, GRAIN, ALIGNED, EVEN)
        for i in gl.static_range(HELD):
            y = _exp2((held[i].to(gl.float32) - top) * _LOG2E) * scale
            _write(y_ptr, y, row, i, columns, PARTS, SPAN, GRAIN, ALIGNED, EVEN)


@gluon.jit
def _affine(
    w_ptr, b_ptr, row, part, columns, SPAN: gl.constexpr, GRAIN: gl.constexpr, ALIGNED: gl.constexpr, EVEN: gl.constexpr
):
    """A part of weight and bias."""
    position, grain = _positions(SPAN, GRAIN)
    first, end = _bounds(row, columns, GRAIN, ALIGNED)
    column = position + part * SPAN
    if EVEN:
        return _load(w_ptr, column, None, 1.0), _load(b_ptr, column, None, 0.0)
    elif ALIGNED:
        mask = grain + part * SPAN < end
        return _load(w_ptr, column, mask, 1.0), _load(b_ptr, column, mask, 0.0)
    else:
        mask = (column >= first) & (column < end)
        return _load(w_ptr, column - first, mask, 1.0), _load(b_ptr, column - first, mask, 0.0)


@gluon.jit
def _load(ptr, column, mask, absent: gl.constexpr):
    """Columns of weight or bias; where that is None, a number that changes nothing."""
    if ptr is None:
        return gl.full([], absent, gl.float32)
    elif mask is None:
        return gl.load(ptr + column)
    else:
        return gl.load(ptr + column, mask=mask, other=0.0)


@gluon.jit(do_not_specialize=["rows", "columns", "x_row"])
def layer_norm_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, rows, columns, x_row, eps,
    PARTS: gl.constexpr, HELD: gl.constexpr, SLOTS: gl.constexpr, DEPTH: gl.constexpr,
    SPAN: gl.constexpr, GRAIN: gl.constexpr, ALIGNED: gl.constexpr, EVEN: gl.constexpr, CENTRED: gl.constexpr,
):  # fmt: skip
    """Layer normalisation of rows as in softmax_kernel: the mean, if CENTRED, then the mean of the centred squares."""
    if ALIGNED:
        columns = columns * GRAIN
        x_row = gl.cast(x_row, gl.int64) * GRAIN
    layout: gl.constexpr = gl.BlockedLayout([1, GRAIN], [32, 1], [gl.num_warps(), 1], [1, 0])
    shape: gl.constexpr = [SLOTS, SPAN // GRAIN, GRAIN]
    ring = gl.allocate_shared_memory(x_ptr.dtype.element_ty, shape, gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    _fill(x_ptr, ring, rows, columns, x_row, PARTS, SLOTS, DEPTH, SPAN, GRAIN, ALIGNED, EVEN)
    slot = 0
    ahead = gl.program_id(0) + SLOTS // PARTS * gl.num_programs(0)  # the row to copy from next
    part = SLOTS % PARTS  # and its part
    for row in range(gl.program_id(0), rows, gl.num_programs(0)):
        total = gl.full([SPAN // GRAIN], 0.0, gl.float32, gl.SliceLayout(1, layout))
        held = ()
        for i in gl.static_range(HELD):
            async_copy.wait_group(DEPTH)
            x = ring.index(slot).load(layout)
            held += (x,)
            _copy(x_ptr, ring.index(slot), ahead, part, rows, columns, x_row, SPAN, GRAIN, ALIGNED, EVEN)
            ahead += gl.where(part == PARTS - 1, gl.num_programs(0), 0)
            part = _next(part, PARTS)
            slot = _next(slot, SLOTS)
            wide = _inside(x, row, i, columns, 0.0, SPAN, GRAIN, ALIGNED, EVEN)
            total += gl.sum(wide if CENTRED else wide * wide, axis=1)
        again = slot
        for i in range(HELD, PARTS):
            async_copy.wait_group(DEPTH)
            x = ring.index(slot).load(layout)
            async_copy.commit_group()
            slot = _next(slot, SLOTS)
            wide = _inside(x, row, i, columns, 0.0, SPAN, GRAIN, ALIGNED, EVEN)
            total += gl.sum(wide if CENTRED else wide * wide, axis=1)
        mean = 0.0
        if CENTRED:
            mean = gl.div_rn(gl.sum(total, axis=0), columns * 1.0)  # to nearest: see layer_norm.py
            total = gl.full([SPAN // GRAIN], 0.0, gl.float32, gl.SliceLayout(1, layout))
            for i in gl.static_range(HELD):
                total += _squares(held[i], mean, row, i, columns, SPAN, GRAIN, ALIGNED, EVEN)
            middle = again
            for i in range(HELD, PARTS):
                total += _squares(ring.index(middle).load(layout), mean, row, i, columns, SPAN, GRAIN, ALIGNED, EVEN)
                middle = _next(middle, SLOTS)
        scale = gl.rsqrt(gl.sum(total, axis=0) / columns + eps)
        w, b = _affine(w_ptr, b_ptr, row, HELD % PARTS, columns, SPAN, GRAIN, ALIGNED, EVEN)
        for i in range(HELD, PARTS):
            # Those of the next part are asked for before this one's are used, so that they arrive meanwhile.
            later_w, later_b = _affine(w_ptr, b_ptr, row, _next(i, PARTS), columns, SPAN, GRAIN, ALIGNED, EVEN)
            x = ring.index(again).load(layout)
            _copy(x_ptr, ring.index(again), ahead, part, rows, columns, x_row, SPAN, GRAIN, ALIGNED, EVEN)
            ahead += gl.where(part == PARTS - 1, gl.num_programs(0), 0)
            part = _next(part, PARTS)
            again = _next(again, SLOTS)
            y = (x.to(gl.float32) - mean) * scale * w.to(gl.float32) + b.to(gl.float32)
            _write(y_ptr, y, row, i, columns, PARTS, SPAN, GRAIN, ALIGNED, EVEN)
            w, b = later_w, later_b
        for i in gl.static_range(HELD):
            y = (held[i].to(gl.float32) - mean) * scale * w.to(gl.float32) + b.to(gl.float32)
            _write(y_ptr, y, row, i, columns, PARTS, SPAN, GRAIN, ALIGNED, EVEN)
            if i + 1 < HELD:
                w, b = _affine(w_ptr, b_ptr, row, i + 1, columns, SPAN, GRAIN, ALIGNED, EVEN)


@gluon.jit
def _squares(
    x, mean, row, part, columns, SPAN: gl.constexpr, GRAIN: gl.constexpr, ALIGNED: gl.constexpr, EVEN: gl.constexpr
):
    """Each thread's sum of a part's centred squares."""
    centred = x.to(gl.float32) - mean
    if not EVEN:
        position, _ = _positions(SPAN, GRAIN)
        first, end = _bounds(row, columns, GRAIN, ALIGNED)
        column = position + part * SPAN
        centred = gl.where((column >= first) & (column < end), centred, 0.0)
    return gl.sum(centred * centred, axis=1)
