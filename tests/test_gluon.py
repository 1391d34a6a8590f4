"""The stand-in for Gluon notices what is wrong."""

import pytest
import torch

pytest.importorskip("triton")

import gluon
from gluon import gl, mbarrier, tma


def fill(desc, data, full, empty, waits):
    for i in range(4):
        if waits:
            mbarrier.wait(empty, i % 2 ^ 1)
        mbarrier.expect(full, desc.block_type.nbytes)
        tma.async_copy_global_to_shared(desc, [i, 0], full, data)


def use(out, data, full, empty, phases):
    for i in range(4):
        mbarrier.wait(full, i % 2 if phases else 0)
        out.append(data.load(None).data)
        mbarrier.arrive(empty, count=1)


def copy_rows(waits=True, phases=True, seed=0):
    """The rows of a matrix, one after the other through one buffer."""
    x, out = torch.arange(32.0).view(4, 8), []
    desc = gluon.Descriptor(x, [4, 8], [8, 1], [1, 8], None)

    def kernel():
        data = gl.allocate_shared_memory(torch.float32, [1, 8], None)
        bars = gl.allocate_shared_memory(gl.int64, [2, 1], None)
        for i in range(2):
            mbarrier.init(bars.index(i), 1)
        full, empty = bars.index(0), bars.index(1)
        gl.warp_specialize(
            [(use, (out, data, full, empty, phases)), (fill, (desc, data, full, empty, waits))], [1], [24]
        )

    gluon.current.seed = seed
    gluon.Kernel(kernel)[(1,)]()
    return torch.equal(torch.cat(out), x)


def test_the_standin_notices_missing_waits():
    assert all(copy_rows(seed=seed) for seed in range(20))
    for mistake in ({"waits": False}, {"phases": False}):
        noticed = 0
        for seed in range(20):
            try:
                noticed += not copy_rows(**mistake, seed=seed)
            except AssertionError:
                noticed += 1
        assert noticed > 10


def test_the_standin_notices_that_all_wait():
    def kernel():
        bars = gl.allocate_shared_memory(gl.int64, [2, 1], None)
        for i in range(2):
            mbarrier.init(bars.index(i), 1)
        gl.warp_specialize([(mbarrier.wait, (bars.index(i), 0)) for i in range(2)], [1], [24])

    with pytest.raises(AssertionError, match="every partition waits"):
        gluon.Kernel(kernel)[(1,)]()
