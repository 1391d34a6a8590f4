"""The kernels of ring.py, which Triton's interpreter cannot run, on a stand-in for Gluon."""

import math

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

import gluon
from test_kernels import MODULES

ring, rowwise = MODULES["softmax"].ring, MODULES["softmax"].rowwise
Ring = rowwise.Ring
standin = gluon.load(ring)


def compute(kernel, x, way, programs, *others):
    """What the kernel makes of the matrix `x`, read through its strides.

    `others` are weight and bias, None or not, eps, and whether the mean is taken off.
    """
    rows, columns = x.shape
    x_row = x.stride(0)
    grid, numbers, constants = rowwise.ring_arguments(x, x_row, way, programs)
    spare = 0 if constants[-2] else 16 // x.element_size() - 1  # what rows that are not aligned may read past the end
    storage = x.as_strided(((rows - 1) * x_row + columns,), (1,))
    y = torch.full((rows, columns), math.nan, dtype=x.dtype)
    getattr(standin, kernel)[grid](
        gluon.Pointer(storage, spare), *others[:2], y, *numbers, *others[2:3], *constants, *others[3:]
    )
    return y


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
    y = compute("layer_norm_kernel", x, way, programs, weight, bias, 1e-5, True)
    torch.testing.assert_close(y, F.layer_norm(x, (columns,), weight, bias))


@pytest.mark.parametrize("given", [(), ("weight",), ("bias",)])
def test_layer_norm_without_weight_or_bias(case, given):
    columns, way = case
    x = normal(5, columns, torch.bfloat16)
    weight, bias = (normal(1, columns, torch.bfloat16)[0] if name in given else None for name in ("weight", "bias"))
    y = compute("layer_norm_kernel", x, way, 2, weight, bias, 1e-5, True)
    torch.testing.assert_close(y, F.layer_norm(x, (columns,), weight, bias))


@pytest.mark.parametrize("weighted", [True, False])
def test_rms_norm(case, weighted):
    columns, way = case
    x = normal(5, columns, torch.bfloat16)
    weight = normal(1, columns, torch.bfloat16, 1)[0] if weighted else None
    y = compute("layer_norm_kernel", x, way, 2, weight, None, 1e-5, False)
    torch.testing.assert_close(y, F.rms_norm(x, (columns,), weight, 1e-5))


def test_float32():
    x = normal(5, 600, torch.float32)
    way = Ring(128, 2, 4, 1, 1)
    torch.testing.assert_close(compute("softmax_kernel", x, way, 2), torch.softmax(x, -1))
    weight, bias = (normal(1, 600, torch.float32, seed)[0] for seed in (1, 2))
    y = compute("layer_norm_kernel", x, way, 2, weight, bias, 1e-5, True)
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


@pytest.mark.parametrize("op", ["softmax", "layer_norm"])
def test_every_width_that_a_table_gives_a_ring_fits_into_it(op):
    """Where rows are not aligned, a row has up to 16 bytes less an element more."""
    for (_, itemsize), table in MODULES[op]._WAYS.items():
        for widest, way in table:
            if isinstance(way, Ring):
                assert widest + 16 // itemsize - 1 <= (way.held + way.slots) * way.span, (widest, way)
