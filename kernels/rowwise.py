"""How softmax and layer normalisation share a matrix out to programs, row by row.

Three ways, by the width of a row; each operation has a kernel for each and a table of which to take.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton import knobs

from . import launch

_GRAIN = 16  # bytes that a thread should load at a time
_SMALL = 64 << 20  # bytes of an input that the L2 cache holds, or most of it: hints to the caches gain nothing there
_PTX = tl.constexpr(not knobs.runtime.interpret and torch.version.hip is None)


@triton.jit
def anew(x):
    """The same numbers, of which the compiler does not know that they are.

    Else what it has converted to 32 bits for one pass over a row it keeps for the next, in twice the registers.
    """
    if _PTX and x.dtype.primitive_bitwidth == 16:
        return tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=x.dtype, is_pure=False, pack=2)
    else:
        return x


class Rows(NamedTuple):
    """Rows in registers, a program for each `rows` of them, cut into parts of `span` columns.

    If `last`, the caches are told to keep what is read of a large input longer than what is written. Up to
    `registers` per thread are used, as many as the compiler likes if that is 0: fewer let more programs be on a
    multiprocessor.
    """

    rows: int
    span: int
    warps: int
    last: bool = True
    registers: int = 0


class Ring(NamedTuple):
    """Rows in shared memory, in `slots` buffers of `span` columns and `held` in registers: see ring.py."""

    span: int
    held: int
    slots: int
    warps: int
    programs: int  # per multiprocessor


class Online(NamedTuple):
    """Rows read twice, in chunks of `span` columns, `stages` - 1 of which are copied to shared memory ahead.

    `programs` per multiprocessor take row after row: few, so that the rows in work stay in the L2 cache.
    """

    span: int
    warps: int
    stages: int
    programs: int


def gpu(capability: int, shared: int) -> str:
    """The name under which tables list a GPU: a wide row needs its shared memory, not its name."""
    if capability >= 9 and shared >= 232448:
        return "sm_90"
    return "sm_80" if capability >= 8 and shared >= 166912 else "any"


@lru_cache(launch.SIZE)
def choose(table, columns: int, ringable: bool):
    """The first of a table's entries, (widest row, way), that is wide enough; Ring only if `ringable`."""
    for widest, way in table:
        if columns <= widest and (ringable or not isinstance(way, Ring)):
            return way
    raise ValueError(f"no way is listed for {columns} columns")


def grain(itemsize: int, *lengths: int) -> int:
    """The largest power of two that divides all lengths, at most the elements that a thread loads at a time."""
    size = _GRAIN // itemsize
    while any(length % size for length in lengths):
        size //= 2
    return size


def matrix(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    """`x` as a matrix of adjacent columns, copied if there is no other way, and the elements from row to row."""
    flat = x.reshape(-1, x.shape[-1])
    if flat.stride(1) != 1:
        flat = flat.contiguous()  # a copy costs less than reading a sector for every element
    return flat, flat.stride(0) if flat.shape[0] > 1 else flat.shape[1]


def can_ring(flat: torch.Tensor, x_row: int) -> bool:
    """Whether ring.py can copy these rows: they start 16 bytes apart or follow each other without gaps.

    And whether Triton compiles: its interpreter knows no asynchronous copies.
    """
    whole = grain(flat.element_size(), flat.shape[1], x_row) * flat.element_size() == _GRAIN
    follow = whole or x_row == flat.shape[1]
    return follow and flat.data_ptr() % 16 == 0 and not knobs.runtime.interpret


def options(way) -> dict:
    """The options with which a way's kernel is compiled."""
    most = way.registers if isinstance(way, Rows) else 0
    return {"num_warps": way.warps} | ({"maxnreg": most} if most else {})


def is_small(flat: torch.Tensor) -> bool:
    """Whether the L2 cache holds the input, so that latency counts for more than what comes from memory."""
    return flat.numel() * flat.element_size() <= _SMALL


def rows_arguments(flat, x_row: int, way: Rows) -> tuple[tuple, tuple, tuple]:
    """Grid and arguments of a kernel for Rows: the numbers, and the constants."""
    rows, columns = flat.shape
    unit = grain(flat.element_size(), columns, x_row)
    even = rows % way.rows == 0 and columns % way.span == 0
    last = way.last and unit * flat.element_size() == _GRAIN and not is_small(flat)
    constants = (unit, way.rows, -(-columns // way.span), way.span, even, last)
    return (-(-rows // way.rows),), (rows, columns // unit, x_row // unit), constants


def online_arguments(flat, x_row: int, way: Online, processors: int) -> tuple[tuple, tuple, tuple]:
    """Grid and arguments of a kernel for Online: the numbers, and the constants."""
    rows, columns = flat.shape
    unit = grain(flat.element_size(), columns, x_row)
    return (min(rows, processors * way.programs),), (rows, columns // unit, x_row // unit), (unit, way.span, way.stages)


def ring_arguments(flat, x_row: int, way: Ring, processors: int) -> tuple[tuple, tuple, tuple]:
    """Grid and arguments of a kernel for Ring: the numbers, and the constants. ValueError if a row does not fit."""
    rows, columns = flat.shape
    size = _GRAIN // flat.element_size()
    aligned = grain(flat.element_size(), columns, x_row) == size
    parts = -(-(columns if aligned else columns + size - 1) // way.span)
    held = min(way.held, parts)
    if held + way.slots < parts:
        raise ValueError(f"{columns} columns do not fit: {parts} parts for {held} + {way.slots} buffers")
    unit = size if aligned else 1
    even = aligned and columns % way.span == 0
    constants = (parts, held, way.slots, depth(parts, held, way.slots), way.span, size, aligned, even)
    return (min(rows, processors * way.programs),), (rows, columns // unit, x_row // unit), constants


def depth(parts: int, held: int, slots: int) -> int:
    """Groups of copies that may be under way while ring.py awaits a part, if every step starts exactly one.

    A row takes `parts` steps to be read and `parts - held` to be written. A part is copied when the buffer's former
    one is done with: as that is read if it is held, as it is written if not.
    """
    steps = 2 * parts - held

    def copied(part):
        row, i = divmod(part, parts)
        return row * steps + (i if i < held else parts + i - held)

    def used(part):
        row, i = divmod(part, parts)
        return row * steps + i

    return min(used(part) - copied(part - slots) for part in range(slots, slots + 2 * parts)) - 1
