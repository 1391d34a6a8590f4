"""The Gluon kernel of attention on a CPU, on a stand-in for Gluon: what it computes, and that its warps wait."""

import math

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

import gluon
from test_kernels import MODULES

hopper = gluon.load(MODULES["attention"].attention_hopper)

TILES = {
    **{str(tuple(map(int, tile))): tile for row in hopper.TILES.values() for _, tile in row if tile},
    "a tile each, in turn": hopper.Tile(3, 64, 3, in_turn=True, persistent=False, overlap=True),
    "in turn, no overlap": hopper.Tile(3, 128, 2, in_turn=True, persistent=True, overlap=False),
}


@pytest.fixture(autouse=True)
def _few_multiprocessors(monkeypatch):
    """Five programs, so that a persistent one computes several tiles; and keys of two heads in the L2 cache."""
    monkeypatch.setattr(hopper.launch, "limits", lambda device: (9, 5, 232448))
    monkeypatch.setattr(hopper, "_CACHED", 2 * 2 * 300 * 64 * 2)


@pytest.fixture(params=TILES)
def tile(request, monkeypatch):
    for key in hopper.TILES:
        monkeypatch.setitem(hopper.TILES, key, ((math.inf, TILES[request.param]),))


def normal(*shape, seed, dtype=torch.float16):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def qkv(batch, heads, queries, keys, dim, dtype=torch.float16, shared=1):
    """shared: how many heads have the same keys and values."""
    shapes = [(heads, queries), (heads // shared, keys), (heads // shared, keys)]
    return [normal(batch, h, n, dim, seed=i, dtype=dtype) for i, (h, n) in enumerate(shapes)]


def run(q, k, v, causal, scale=None, seed=0):
    """The output; NaN where nothing was written."""
    o = torch.full(q.shape, math.nan, dtype=q.dtype)
    gluon.current.seed = seed
    scale = q.shape[3] ** -0.5 if scale is None else scale
    assert hopper.reads(q, k, v, causal)
    hopper.start(q, k, v, o, causal, scale * math.log2(math.e))
    return o


def check(q, k, v, causal, **options):
    unit = {torch.float16: 2**-11, torch.bfloat16: 2**-8}[q.dtype]
    out = run(q, k, v, causal, **options).double()
    q, k, v = (t.double() for t in (q, k, v))
    reference = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    assert (out - reference).norm() <= 2 * unit * reference.norm()


@pytest.mark.parametrize("length", [1, 64, 65, 128, 200, 513])
@pytest.mark.parametrize("causal", [False, True])
def test_lengths(length, causal, tile):
    check(*qkv(1, 3, length, length, 64), causal, seed=length)


@pytest.mark.parametrize("queries, keys", [(1, 300), (300, 1), (70, 257), (257, 64)])
def test_other_keys_than_queries(queries, keys, tile):
    check(*qkv(2, 2, queries, keys, 64), False)


@pytest.mark.parametrize("dtype", [torch.float16, pytest.param(torch.bfloat16, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("dim, causal", hopper.TILES)
def test_tiles_in_use(dim, causal, dtype):
    for most, tile in hopper.TILES[dim, causal]:
        keys = min(most, 4200 if dim < 256 else 1100)
        if tile is None:
            assert not hopper.reads(*qkv(1, 1, keys, keys, dim, dtype), causal)
            continue
        check(*qkv(1, 1, keys if causal else 300, keys, dim, dtype), causal)


@pytest.mark.parametrize("dim", [40, 80, 96])
@pytest.mark.parametrize("causal", [False, True])
def test_rows_that_are_no_power_of_two(dim, causal, tile):
    check(*qkv(1, 2, 150, 150, dim), causal)


@pytest.mark.parametrize("causal", [False, True])
def test_heads_that_share_keys(causal, tile):
    check(*qkv(2, 6, 200, 200, 64, shared=3), causal)


def test_the_table_takes_any_number_of_keys():
    for row in hopper.TILES.values():
        most = [most for most, _ in row]
        assert most == sorted(set(most)) and most[-1] == math.inf


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(2, 6))])
def test_in_any_order(seed, tile):
    """Chance decides which warps go ahead; a buffer read too early or written too early reads as NaN."""
    check(*qkv(1, 4, 400, 400, 64), causal=seed % 2 == 0, seed=100 * seed)


def test_views():
    q, k, v = (t.transpose(1, 2) for t in qkv(2, 130, 3, 3, 64))
    check(q, k, v, True)
    wide = qkv(2, 3, 300, 300, 128)
    check(*(t[:, :, 3:, 32:96] for t in wide), False)
    check(*(t[:, :, ::2, :64] for t in wide), True)


def test_refuses_what_tma_cannot_read():
    q, k, v = qkv(2, 3, 64, 64, 64)
    other = {
        "rows that are not adjacent elements": normal(2, 3, 64, 128, seed=0)[..., ::2],
        "a row of 136 bytes": normal(2, 3, 64, 68, seed=0)[..., :64],
        "an address off by 2 bytes": normal(2, 3, 64, 72, seed=0)[..., 1:65],
        "one head, repeated": normal(2, 1, 64, 64, seed=0).expand(2, 3, 64, 64),
    }
    for name, t in other.items():
        for args in ((t, k, v), (q, t, v), (q, k, t)):
            assert not hopper.reads(*args, False), name
    for t in (q.float(), q[..., :32]):
        assert not hopper.reads(t, t, t, False)


def test_stays_on_its_row_and_gives_no_weight_to_minus_infinity():
    q, k, v = qkv(1, 1, 300, 300, 64)
    q = q.abs()
    q[0, 0, 7, 3] = math.nan
    k[0, 0, 130:, 2] = -math.inf  # of whole blocks, and they come first
    out = run(q, k, v, False)
    assert out[0, 0, 7].isnan().all() and out[0, 0, :7].isfinite().all() and out[0, 0, 8:].isfinite().all()
    want = run(q[:, :, 8:], k[:, :, :130], v[:, :, :130], False)
    assert torch.allclose(out[:, :, 8:], want, atol=2e-3)


def places(programs, sheets, tiles, together, causal):
    """What each program computes."""
    task = hopper.Task(sheets, 1, 1, 64 * tiles, 64 * tiles, tiles, together)
    for program in range(programs):
        gluon.current.id, gluon.current.number = program, programs
        yield [hopper._place(lap, task, causal) for lap in range(hopper._laps(task))]


@pytest.mark.parametrize("programs", [1, 2, 5, 7, 64])
@pytest.mark.parametrize("sheets, tiles, together", [(1, 1, 1), (3, 5, 1), (6, 4, 2), (4, 7, 4), (6, 9, 3)])
@pytest.mark.parametrize("causal", [False, True])
def test_every_tile_is_computed_once(programs, sheets, tiles, together, causal):
    found = [place for each in places(programs, sheets, tiles, together, causal) for place in each]
    assert sorted(found) == [(sheet, tile) for sheet in range(sheets) for tile in range(tiles)]


@pytest.mark.parametrize(
    "sheets, tiles, together", [(64, 32, 16), (64, 22, 16), (32, 64, 8), (16, 128, 4), (16, 86, 4)]
)
def test_programs_have_about_as_much_to_do(sheets, tiles, together):
    loads = [sum(tile + 1 for _, tile in found) for found in places(132, sheets, tiles, together, True)]
    assert max(loads) <= 1.05 * sum(loads) / len(loads)


@pytest.mark.parametrize("sheets, most, together", [(5, 8, 5), (64, 16, 16), (48, 15, 12), (34, 16, 34), (3, 0, 1)])
def test_sheets_worked_on_together(sheets, most, together):
    assert hopper._together(sheets, most) == together
