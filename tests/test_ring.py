"""The kernels of ring.py, which Triton's interpreter cannot run, on a stand-in for the part of Gluon that they use.

Copies arrive as late as the kernel's waits allow, and what a buffer holds is lost as soon as the next copy to it is
started. So an order of copies, waits and uses that only works by luck on a GPU fails here.
"""

import math
import types

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

with pytest.MonkeyPatch.context() as patch:  # as conftest.py imported Triton; Gluon asks again
    if not torch.cuda.is_available():
        patch.setenv("TRITON_INTERPRET", "1")
    from kernels import ring, rowwise
    from kernels.rowwise import Ring


class Int(int):
    """A scalar of the kernel."""

    def to(self, _):
        return self

    def _of(operation):
        return lambda self, other: wrap(operation(int(self), other))

    __add__ = __radd__ = _of(lambda a, b: a + b)
    __mul__ = __rmul__ = _of(lambda a, b: a * b)
    __sub__ = _of(lambda a, b: a - b)
    __mod__ = _of(lambda a, b: a % b)
    __floordiv__ = _of(lambda a, b: a // b)


def wrap(value):
    return Int(value) if type(value) is int else value


class Pointer:
    """Into a flat tensor; reading or writing beside it is an error, but for `spare` elements read past its end."""

    def __init__(self, memory, spare, offset=0):
        self.memory, self.spare, self.offset = memory, spare, offset
        self.dtype = types.SimpleNamespace(element_ty=memory.dtype)

    def __add__(self, other):
        return Pointer(self.memory, self.spare, self.offset + other)

    def read(self, mask):
        mask = torch.ones_like(self.offset, dtype=torch.bool) if mask is None else mask.expand_as(self.offset)
        offset = self.offset[mask]
        assert (offset >= 0).all() and (offset < len(self.memory) + self.spare).all()
        padded = torch.cat([self.memory, torch.full((self.spare,), math.nan, dtype=self.memory.dtype)])
        return padded[self.offset.where(mask, 0)].where(mask, 0.0)

    def write(self, value, mask):
        mask = torch.ones_like(self.offset, dtype=torch.bool) if mask is None else mask.expand_as(self.offset)
        offset = self.offset[mask]
        assert (offset >= 0).all() and (offset < len(self.memory)).all()
        assert self.memory[offset].isnan().all(), "written twice"
        self.memory[offset] = value[mask].to(self.memory.dtype)


class Copies:
    """Asynchronous copies, by group."""

    def __init__(self):
        self.open, self.groups = [], []

    def async_copy_global_to_shared(self, buffer, pointer, mask=None):
        buffer.fill_(math.nan)
        self.open.append((buffer, pointer.read(mask)))

    def commit_group(self):
        self.groups.append(self.open)
        self.open = []

    def wait_group(self, count):
        while len(self.groups) > count:
            for buffer, value in self.groups.pop(0):
                buffer.copy_(value)


class Buffers:
    def __init__(self, dtype, shape, _):
        self.memory = torch.full(shape, math.nan, dtype=dtype)

    def index(self, slot):
        buffer = self.memory[slot]
        buffer.load = lambda _: buffer.clone()
        return buffer


def reduce(values, axis, combine):
    assert axis == 0
    found = [value[0] for value in values]
    for i in range(1, len(values[0])):
        found = combine(*found, *(value[i] for value in values))
    return found


def language(program, programs, warps):
    """A namespace to stand in for triton.experimental.gluon.language in one program."""

    def maximum(a, b):
        return torch.where(a.isnan(), b, torch.where(b.isnan(), a, torch.maximum(a, b)))  # NaN is not passed on

    def where(condition, a, b):
        if isinstance(condition, bool):
            return wrap(a if condition else b)
        return torch.where(condition, a, b)

    return types.SimpleNamespace(
        static_range=lambda *bounds: map(Int, range(*bounds)),
        num_warps=lambda: warps,
        program_id=lambda _: Int(program),
        num_programs=lambda _: Int(programs),
        arange=lambda start, end, _: torch.arange(start, end),
        full=lambda shape, value, dtype, _: torch.full(shape, value, dtype=dtype),
        allocate_shared_memory=Buffers,
        BlockedLayout=lambda *_: None,
        SliceLayout=lambda *_: None,
        SwizzledSharedLayout=lambda *_: None,
        constexpr=None,
        float32=torch.float32,
        int64=None,
        where=where,
        maximum=maximum,
        max=lambda x, axis: x.nan_to_num(nan=-math.inf, posinf=math.inf, neginf=-math.inf).amax(axis),
        sum=lambda x, axis: x.sum(axis),
        reduce=reduce,
        rsqrt=torch.rsqrt,
        div_rn=lambda a, b: a / b,
        load=lambda pointer, mask=None, other=0.0: pointer.read(mask),
        store=lambda pointer, value, mask=None, cache_modifier="": pointer.write(value, mask),
    )


def run(kernel, grid, warps, *args):
    """Every program of the kernel, one after the other."""
    for program in range(grid[0]):
        names = vars(ring) | {
            "gl": language(program, grid[0], warps),
            "async_copy": Copies(),
            "range": lambda *bounds: map(Int, range(*bounds)),
            "_exp2": torch.exp2,
            "_LOG2E": math.log2(math.e),
            "_LOWEST": torch.finfo(torch.float32).min,
        }
        functions = [name for name, value in vars(ring).items() if hasattr(value, "fn") and name != "_exp2"]
        for name in functions:
            names[name] = types.FunctionType(getattr(ring, name).fn.__code__, names)
        names[kernel](*args)


def compute(kernel, x, way, programs, *others):
    """What the kernel makes of the matrix `x`, read through its strides; `others` are weight, bias and eps."""
    rows, columns = x.shape
    x_row = x.stride(0)
    grid, numbers, constants = rowwise.ring_arguments(x, x_row, way, programs)
    spare = 0 if constants[-3] else 16 // x.element_size() - 1  # what rows that are not aligned may read past the end
    storage = x.as_strided(((rows - 1) * x_row + columns,), (1,))
    y = Pointer(torch.full((rows * columns,), math.nan, dtype=x.dtype), 0)
    *affine, eps = [*others] or [None]
    pointers = [Pointer(storage, spare), *(Pointer(t, 0) for t in affine), y]
    run(kernel, grid, way.warps, *pointers, *map(Int, numbers), *([eps] if affine else []), *constants)
    return y.memory.view(rows, columns)


WAYS = [
    # columns, way with warps = 1: parts of 256 (16 bytes for each of 32 threads) or 512 columns of 16 bits
    (1024, Ring(256, 0, 4, 1, 1)),  # four parts, none to spare
    (1024, Ring(256, 0, 5, 1, 1)),
    (1024, Ring(256, 0, 14, 1, 1)),  # several rows at once
    (1024, Ring(256, 1, 3, 1, 1)),
    (1024, Ring(256, 3, 2, 1, 1)),
    (1024, Ring(256, 4, 3, 1, 1)),  # registers hold all
    (1024, Ring(512, 0, 7, 1, 1)),
    (1024, Ring(512, 1, 2, 1, 2)),
    (4096, Ring(256, 4, 14, 1, 1)),
    (4096, Ring(256, 5, 12, 1, 2)),
    (1000, Ring(256, 1, 4, 1, 1)),  # a last part that is not full
    (256, Ring(256, 0, 3, 1, 1)),
    (256, Ring(256, 1, 3, 1, 1)),
    (1001, Ring(256, 0, 4, 1, 1)),  # rows at odd places
    (1003, Ring(256, 1, 5, 1, 1)),
    (1023, Ring(512, 1, 2, 1, 1)),
    (1018, Ring(256, 0, 5, 1, 2)),  # some of its rows reach into one part more than others
    (1012, Ring(256, 2, 3, 1, 1)),
    (254, Ring(256, 0, 5, 1, 1)),
    (3, Ring(256, 0, 2, 1, 1)),
]


@pytest.fixture(params=WAYS, ids=lambda case: f"{case[0]}-{'-'.join(map(str, case[1]))}")
def case(request):
    return request.param


def normal(rows, columns, dtype, seed=0):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("programs, rows", [(1, 5), (2, 9), (3, 2)])
def test_softmax(case, programs, rows):
    columns, way = case
    x = normal(rows, columns, torch.bfloat16)
    torch.testing.assert_close(compute("softmax_kernel", x, way, programs), torch.softmax(x, -1))


@pytest.mark.parametrize("programs, rows", [(1, 5), (2, 9)])
def test_layer_norm(case, programs, rows):
    columns, way = case
    x = normal(rows, columns, torch.bfloat16)
    weight, bias = (normal(1, columns, torch.bfloat16, seed)[0] for seed in (1, 2))
    y = compute("layer_norm_kernel", x, way, programs, weight, bias, 1e-5)
    torch.testing.assert_close(y, F.layer_norm(x, (columns,), weight, bias))


def test_float32():
    x = normal(5, 600, torch.float32)
    way = Ring(128, 2, 4, 1, 1)
    torch.testing.assert_close(compute("softmax_kernel", x, way, 2), torch.softmax(x, -1))
    weight, bias = (normal(1, 600, torch.float32, seed)[0] for seed in (1, 2))
    y = compute("layer_norm_kernel", x, way, 2, weight, bias, 1e-5)
    torch.testing.assert_close(y, F.layer_norm(x, (600,), weight, bias))


def test_rows_with_gaps():
    x = normal(10, 1040, torch.bfloat16)[::2, :1000]
    y = compute("softmax_kernel", x, Ring(256, 1, 4, 1, 1), 2)
    torch.testing.assert_close(y, torch.softmax(x, -1))


@pytest.mark.parametrize("columns", [1024, 1001])
def test_softmax_of_infinities_and_nan(columns):
    x = normal(7, columns, torch.bfloat16)
    x[0] = -math.inf
    x[1, : columns - 3] = -math.inf
    x[2, 3:] = -math.inf
    x[3, 500] = math.inf
    x[4, 500] = math.nan
    x[5] = math.nan
    y = compute("softmax_kernel", x, Ring(256, 1, 4, 1, 1), 1)
    torch.testing.assert_close(y, torch.softmax(x, -1), equal_nan=True)


def test_a_row_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"1001 columns do not fit: 4 parts for 1 \+ 2 buffers"):
        rowwise.ring_arguments(normal(1, 1001, torch.bfloat16), 1001, Ring(256, 1, 2, 1, 1), 1)
