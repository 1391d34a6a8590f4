"""The Triton kernels: as near to float64 as eager is. Interpreted on a CPU, compiled on a GPU.

On the GPU: `pytest -m gpu`, which takes the study's shapes as well.
"""

import importlib
import math
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

import gluon

CUDA = torch.cuda.is_available()

# The interpreter computes with numpy, which warns of the infinities and NaN that are put in here.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.runtime.interpreter")


def _import_kernels():
    """The modules of the kernels, made for the interpreter where there is no GPU."""
    if CUDA:
        return _modules()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        # A test module collected before this one may have made them for the compiler.
        for name in [n for n in sys.modules if "kernels" in n.split(".")[:2]]:
            del sys.modules[name]
        return _modules()


def _modules():
    names = ("softmax", "layer_norm", "rms_norm", "matmul", "attention")
    return {name: importlib.import_module(f"kernels.{name}") for name in names}


MODULES = _import_kernels()
KERNELS = MODULES | {"rms_norm": MODULES["layer_norm"]}  # the modules that hold the kernels and what is kept
softmax = MODULES["softmax"].softmax
layer_norm = MODULES["layer_norm"].layer_norm
rms_norm = MODULES["rms_norm"].rms_norm
matmul = MODULES["matmul"].matmul
attention = MODULES["attention"].attention

gpu = [pytest.mark.gpu, pytest.mark.skipif(not CUDA, reason="needs a CUDA GPU")]
cpu = pytest.mark.skipif(CUDA, reason="with a GPU here the kernels are compiled, not interpreted")
DEVICES = [pytest.param("cpu", marks=cpu), pytest.param("cuda", marks=gpu)]
DTYPES = [torch.float16, torch.bfloat16, torch.float32]
HALF = torch.float16

# One rounding unit of the output. For float32 four of them: there the arithmetic is no wider than
# the output, so that each step rounds as much as the last one, and eager may round exactly (1 x 1).
UNIT = {torch.float16: 2**-11, torch.bfloat16: 2**-8, torch.float32: 4 * 2**-24}


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch):
    if not CUDA:
        monkeypatch.setenv("TRITON_INTERPRET", "1")


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture(params=DTYPES, ids=lambda d: str(d).removeprefix("torch."))
def dtype(request):
    return request.param


@pytest.fixture
def dot_dtype(device, dtype):
    if device == "cpu" and dtype == torch.bfloat16:
        pytest.skip("Triton's interpreter gives garbage for tl.dot in bfloat16")
    return dtype


def normal(*shape, dtype, device, seed=0):
    generator = torch.Generator(device).manual_seed(seed)
    return torch.randn(shape, generator=generator, device=device, dtype=torch.float32).to(dtype)


def distance(out, reference):
    size = reference.norm().item()
    error = (out.double() - reference).norm().item()
    return error / size if size else error


def check(out, eager, reference):
    """`out` is as near to the float64 `reference` as twice what `eager` is, plus a rounding."""
    assert out.shape == eager.shape and out.dtype == eager.dtype and out.device == eager.device
    assert torch.equal(out.isnan(), eager.isnan())
    assert torch.equal(out == math.inf, eager == math.inf)
    assert torch.equal(out == -math.inf, eager == -math.inf)
    unit = UNIT[out.dtype]
    finite = eager.isfinite()
    out, eager, reference = (t.double().where(finite, 0.0) for t in (out, eager, reference))
    assert distance(out, reference) <= 2 * distance(eager, reference) + unit


def check_softmax(x):
    check(softmax(x), torch.softmax(x, -1), torch.softmax(x.double(), -1))


def check_layer_norm(x, weight, bias, eps=1e-5):
    shape = x.shape[-1:]
    eager = F.layer_norm(x, shape, weight, bias, eps)
    reference = F.layer_norm(x.double(), shape, *(None if t is None else t.double() for t in (weight, bias)), eps)
    check(layer_norm(x, weight, bias, eps), eager, reference)


def check_rms_norm(x, weight=None, eps=None):
    shape = x.shape[-1:]
    eager = F.rms_norm(x, shape, weight, eps)
    # Without eps torch takes that of float32 for 16 bits, too, but for float64 a smaller one.
    wide = 2**-23 if eps is None else eps
    reference = x.double() / (x.double().square().mean(-1, keepdim=True) + wide).sqrt()
    reference = reference if weight is None else reference * weight.double()
    check(rms_norm(x, weight, eps), eager, reference)


def check_matmul(a, b):
    # Dense copies for eager: with a stride of 2^30 an illegal access was reported until it had them.
    check(matmul(a, b), a.contiguous() @ b.contiguous(), a.double() @ b.double())


def check_attention(q, k, v, causal=False, scale=None):
    out = attention(q, k, v, causal, scale)
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))  # each head for those that share it
    reference = formula(q.double(), k.double(), v.double(), causal, scale)
    finite = all(t.isfinite().all() for t in (q, k, v))
    if not finite or (scale is not None and scale <= 0):
        # Here torch's own kernels disagree with each other.
        eager = formula(q, k, v, causal, scale)
    else:
        eager = F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
    check(out, eager, reference)


def formula(q, k, v, causal, scale):
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        hidden = torch.ones_like(scores, dtype=torch.bool).triu_(1)
        scores.masked_fill_(hidden, -math.inf)
    return torch.softmax(scores, -1) @ v


def affine(columns, dtype, device):
    return [normal(columns, dtype=dtype, device=device, seed=s) for s in (1, 2)]


# Ways to see a matrix or more through strides: from a maker of normal tensors to a view.
VIEWS = {
    "transposed": lambda make: make(37, 5).t(),
    "every second column": lambda make: make(5, 74)[:, ::2],
    "every second row": lambda make: make(10, 48)[::2],
    "inner columns": lambda make: make(5, 48)[:, 1:34],
    "one row, repeated": lambda make: make(1, 33).expand(4, 33),
    "one column, repeated": lambda make: make(4, 1).expand(4, 33),
    "permuted": lambda make: make(3, 33, 4).permute(2, 0, 1),
    "permuted, last dimension strided": lambda make: make(3, 33, 4).transpose(1, 2).mT,
}


# softmax


@pytest.mark.parametrize(
    "shape",
    [
        (1, 1),
        (7, 1),
        (1, 3),
        (5, 3),
        (129, 16),
        (9, 257),
        (3, 1000),
        (2, 4096),
        (2, 33000),
        (2, 65536),
        (5,),
        (2, 3, 40),
        (2, 1, 3, 7),
    ],
)
def test_softmax(shape, dtype, device):
    check_softmax(normal(*shape, dtype=dtype, device=device))


@pytest.mark.parametrize("view", VIEWS)
def test_softmax_of_a_view(view, device):
    check_softmax(VIEWS[view](lambda *shape: normal(*shape, dtype=HALF, device=device)))


@pytest.mark.parametrize("columns", [8, 300, 33000])
def test_softmax_of_infinities_and_nan(columns, dtype, device):
    x = normal(8, columns, dtype=dtype, device=device)
    x[0] = -math.inf
    x[1, : columns - 3] = -math.inf  # at 33,000 columns whole chunks, and they come first
    x[2, 3:] = -math.inf
    x[3, columns // 2] = math.inf
    x[4, columns // 2] = math.nan
    x[5, columns - 1] = -math.inf
    x[6] = math.nan
    check_softmax(x)


@pytest.mark.parametrize("columns", [300, 33000])
def test_softmax_of_large_values(columns, device):
    x = normal(2, columns, dtype=torch.float32, device=device)
    x[0] *= 1e38
    x[1] = torch.finfo(torch.float32).min
    check_softmax(x)


# layer_norm


@pytest.mark.parametrize(
    "shape",
    [
        (1, 1),
        (7, 1),
        (1, 3),
        (5, 3),
        (129, 16),
        (9, 257),
        (3, 1000),
        (2, 4096),
        (2, 20000),
        (2, 33000),
        (5,),
        (2, 3, 40),
        (2, 1, 3, 7),
    ],
)
def test_layer_norm(shape, dtype, device):
    x = normal(*shape, dtype=dtype, device=device)
    check_layer_norm(x, *affine(shape[-1], dtype, device))


@pytest.mark.parametrize("view", VIEWS)
def test_layer_norm_of_a_view(view, device):
    x = VIEWS[view](lambda *shape: normal(*shape, dtype=HALF, device=device))
    check_layer_norm(x, *affine(x.shape[-1], HALF, device))


def test_layer_norm_with_strided_weight_and_bias(device):
    x = normal(4, 40, dtype=HALF, device=device)
    weight, bias = affine(80, HALF, device)
    check_layer_norm(x, weight[::2], bias[:1].expand(40))


@pytest.mark.parametrize("columns", [1000, 20000])
@pytest.mark.parametrize("given", [(), ("weight",), ("bias",)])
def test_layer_norm_without_weight_or_bias(columns, given, dtype, device):
    x = normal(3, columns, dtype=dtype, device=device)
    names = zip(("weight", "bias"), affine(columns, dtype, device), strict=True)
    check_layer_norm(x, *(t if name in given else None for name, t in names))


@pytest.mark.parametrize("columns", [64, 20000])
def test_layer_norm_does_not_cancel(columns, device):
    """Rows of a mean a thousand times their deviation, which E[x^2] - E[x]^2 would drown."""
    x = normal(4, columns, dtype=torch.float32, device=device) + 1000
    weight, bias = affine(columns, torch.float32, device)
    reference = F.layer_norm(x.double(), (columns,), weight.double(), bias.double())
    # The mean itself rounds to 2^-24 of 1000; what cancels would be off by a thousand times as much.
    assert distance(layer_norm(x, weight, bias).double(), reference) <= 1000 * 2**-24


@pytest.mark.parametrize("columns", [64, 20000])
def test_layer_norm_of_constant_rows(columns, device):
    x = torch.full((3, columns), 2.0, device=device)
    check_layer_norm(x, *affine(columns, torch.float32, device), eps=1e-3)


@pytest.mark.parametrize("columns", [64, 20000])
def test_layer_norm_of_infinities_and_nan(columns, dtype, device):
    x = normal(4, columns, dtype=dtype, device=device)
    x[0, 5], x[1, 6], x[2, columns - 1] = math.inf, -math.inf, math.nan
    check_layer_norm(x, *affine(columns, dtype, device))


# rms_norm


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (129, 16), (3, 1000), (2, 4096), (2, 33000), (5,), (2, 3, 40)])
@pytest.mark.parametrize("weighted", [True, False])
def test_rms_norm(shape, weighted, dtype, device):
    x = normal(*shape, dtype=dtype, device=device)
    check_rms_norm(x, affine(shape[-1], dtype, device)[0] if weighted else None)


@pytest.mark.parametrize("eps", [None, 0.0, 1e-3])
@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_rms_norm_with_eps(eps, scale, dtype, device):
    check_rms_norm(normal(4, 40, dtype=dtype, device=device) * scale, eps=eps)


@pytest.mark.parametrize("columns", [64, 20000])
def test_rms_norm_of_infinities_and_nan(columns, dtype, device):
    x = normal(4, columns, dtype=dtype, device=device)
    x[0, 5], x[1, 6], x[2, columns - 1] = math.inf, -math.inf, math.nan
    check_rms_norm(x, affine(columns, dtype, device)[0])


# matmul


@pytest.mark.parametrize(
    "m, k, n",
    [
        (1, 1, 1),
        (1, 257, 1),
        (3, 3, 3),
        (1, 64, 100),
        (100, 64, 1),
        (33, 1000, 17),
        (64, 128, 96),
        (257, 65, 130),
    ],
)
def test_matmul(m, k, n, dot_dtype, device):
    a = normal(m, k, dtype=dot_dtype, device=device)
    check_matmul(a, normal(k, n, dtype=dot_dtype, device=device, seed=1))


@pytest.mark.parametrize("view", [name for name in VIEWS if "permuted" not in name])
def test_matmul_of_views(view, device):
    a = VIEWS[view](lambda *shape: normal(*shape, dtype=HALF, device=device))
    b = VIEWS[view](lambda *shape: normal(*shape, dtype=HALF, device=device, seed=1))
    check_matmul(a, b.t())
    check_matmul(a.t(), b)


FEW_ROWS = [tiles for few in MODULES["matmul"]._TILES_OF_FEW_ROWS.values() for _, tiles in few]
TILES = sorted({tile for tiles in (*MODULES["matmul"]._TILES.values(), *FEW_ROWS) for tile in tiles})


@pytest.fixture
def matmul_module():
    """The module, which forgets before and after how it took a shape."""
    module = MODULES["matmul"]
    module._KEPT.clear()
    yield module
    module._KEPT.clear()


@pytest.mark.parametrize("tile", TILES)
def test_matmul_in_every_tile(tile, device, monkeypatch, matmul_module):
    if device == "cuda" and torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("the largest tiles need the shared memory of an H100 or H200")
    monkeypatch.setattr(matmul_module, "_tile", lambda *_: tile)
    a = normal(tile[0] + 3, 2 * tile[2] + 1, dtype=HALF, device=device)
    check_matmul(a, normal(2 * tile[2] + 1, tile[1] + 5, dtype=HALF, device=device, seed=1))


@pytest.mark.parametrize("capability, like", [(6, 7), (10, 8), (12, 8), (99, 8)])
def test_matmul_has_a_tile_for_any_gpu(capability, like):
    tile = MODULES["matmul"]._tile
    for itemsize in (2, 4):
        assert tile(999, 999, itemsize, capability, True, 40, 65536) == tile(999, 999, itemsize, like, True, 40, 65536)


def test_matmul_groups_cover_every_tile(device, monkeypatch, matmul_module):
    """More rows of tiles than a group, not a multiple of it."""
    monkeypatch.setattr(matmul_module, "_tile", lambda *_: (16, 16, 16, 4, 2))
    a = normal(11 * 16, 16, dtype=HALF, device=device)
    check_matmul(a, normal(16, 3 * 16 - 1, dtype=HALF, device=device, seed=1))


HOPPER = MODULES["matmul"].matmul_hopper
# How the kernel for Hopper may cut a product up, in small, and the number of programs.
HOW = HOPPER.Way
CUTS = {
    "halves of a tile": (HOW(8, 16, 16, 3), 3),
    "thirds of a tile": (HOW(8, 16, 16, 3, consumers=3), 3),
    "more stages than steps": (HOW(8, 32, 32, 9, group=2), 5),
    "more programs than tiles": (HOW(16, 32, 16, 2), 50),
    "tiles shared": (HOW(8, 16, 16, 3, shared=True), 7),
    "tiles shared by several programs each": (HOW(16, 32, 16, 2, shared=True), 17),
    "tiles shared in thirds": (HOW(8, 16, 16, 3, consumers=3, shared=True), 5),
    "a part of B kept": (HOW(16, 32, 16, 3, keep=1), 6),
    "a part of B kept, more stages than steps": (HOW(16, 32, 32, 9, keep=1), 4),
    "a part of B kept, one tile each": (HOW(16, 16, 16, 4, keep=1), 20),
}


def on_hopper(a, b, how, programs, seed=0):
    """The product by the kernel for Hopper, on a stand-in for Gluon."""
    module = gluon.load(HOPPER)
    c = a.new_full((a.shape[0], b.shape[1]), math.nan)
    gluon.current.seed = seed
    torch.use_deterministic_algorithms(True)  # Memory that is not written reads as NaN.
    try:
        module.start_as(a, b, c, how, programs)
    finally:
        torch.use_deterministic_algorithms(False)
    return c


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_matmul_for_hopper(cut, layout):
    a, b = normal(72, 120, dtype=HALF, device="cpu"), normal(120, 64, dtype=HALF, device="cpu", seed=1)
    seen = [t if x == "n" else t.t().contiguous().t() for x, t in zip(layout, (a, b), strict=True)]
    out = on_hopper(*seen, *CUTS[cut])
    assert distance(out, a.double() @ b.double()) <= UNIT[HALF]


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("m, k, n", [(1, 8, 8), (1, 200, 72), (70, 8, 24), (257, 40, 104), (33, 23, 77), (70, 46, 52)])
def test_matmul_for_hopper_of_odd_shapes(cut, m, k, n):
    how, programs = CUTS[cut]
    if how.keep:
        programs = -(-n // how.n)  # one to a column of tiles
    a, b = normal(m, k, dtype=HALF, device="cpu"), normal(k, n, dtype=HALF, device="cpu", seed=1)
    assert distance(on_hopper(a, b, how, programs), a.double() @ b.double()) <= UNIT[HALF]


def test_matmul_for_hopper_takes_what_the_tma_can_read():

    def readable(shape, stride):
        return HOPPER.readable(torch.empty_strided(shape, stride, dtype=HALF))

    assert readable((40, 24), (24, 1)) == (False, 24)
    assert readable((24, 40), (1, 24)) == (True, 24)
    assert readable((40, 20), (24, 1)) == (False, 24)
    assert readable((1, 20), (7, 1)) == (False, 24)
    assert readable((20, 1), (1, 5)) == (True, 24)
    for shape, stride in [
        ((40, 20), (20, 1)),  # rows that do not begin at 16 bytes
        ((40, 24), (48, 2)),
        ((40, 24), (0, 1)),
        ((40, 24), (8, 1)),  # rows that overlap
        ((40, 24), (1, 0)),
    ]:
        assert readable(shape, stride) is None


@pytest.mark.parametrize(
    "m, k, n, way",
    [
        (8192, 8192, 8192, ((64, 256, 64, 4, 2), 132)),
        (3072, 3072, 3072, ((64, 128, 64, 4, 3), 132)),  # rounds that are filled
        (1280, 1280, 1280, ((64, 128, 64, 6, 2), 100)),  # all in one round
        (5120, 5120, 5120, ((64, 256, 64, 4, 2, "shared"), 132)),  # a last round of few tiles
        (4096, 256, 4096, ((64, 256, 64, 8, 2, "kept"), 128)),
        (4096, 256, 17152, ((64, 128, 64, 6, 2), 132)),  # too few programs for one to a column of tiles
        (4095, 4095, 4095, ((64, 256, 64, 4, 2), 132)),
        (768, 768, 768, ((64, 64, 64, 8, 2), 72)),
        (777, 777, 777, ((64, 64, 64, 8, 2), 91)),
        (512, 512, 512, (64, 32, 64, 4, 8)),
        (64, 8192, 8192, (64, 64, 64, 4, 8)),
        (64, 8191, 8191, ((64, 64, 64, 8, 2), 128)),
        (16, 4096, 4096, (16, 32, 128, 4, 6)),
        (1, 8192, 8192, (16, 64, 128, 4, 5)),
        (1, 1, 1, ((64, 64, 64, 8, 2), 1)),
        (8, 4095, 4095, ((64, 64, 64, 8, 2), 64)),
    ],
)
def test_how_an_h200_takes_a_product(m, k, n, way, monkeypatch):
    """A tile of the plain kernel, or how the one for Hopper cuts a product, and the number of programs."""
    module = MODULES["matmul"]

    def start_as(a, b, c, how, programs):
        return (*how[:5], *["kept"] * how.keep, *["shared"] * how.shared), programs

    monkeypatch.setattr(module, "_plain", lambda a, b, c, tile: tile)
    monkeypatch.setattr(HOPPER, "start_as", start_as)
    assert module._start(*(torch.empty(s, dtype=HALF, device="meta") for s in ((m, k), (k, n), (m, n)))) == way


def test_matmul_passes_infinities_and_nan(device):
    a = normal(40, 70, dtype=HALF, device=device)
    b = normal(70, 50, dtype=HALF, device=device, seed=1).abs()
    a[0, 0], a[1, 1], a[39, 69] = math.inf, math.nan, -math.inf
    check_matmul(a, b)


def test_matmul_without_k_is_zero(device):
    out = matmul(torch.ones(3, 0, device=device), torch.ones(0, 4, device=device))
    assert torch.equal(out, torch.zeros(3, 4, device=device))


# attention


def qkv(batch, heads, queries, keys, dim, dtype, device):
    lengths = (queries, keys, keys)
    return [
        normal(batch, heads, length, dim, dtype=dtype, device=device, seed=seed) for seed, length in enumerate(lengths)
    ]


@pytest.mark.parametrize("dim", [1, 16, 24, 64, 80, 96, 128, 256])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_head_dims(dim, causal, dot_dtype, device):
    check_attention(*qkv(1, 2, 130, 130, dim, dot_dtype, device), causal)


@pytest.mark.parametrize("length", [1, 3, 63, 64, 65, 128, 257])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_lengths(length, causal, dot_dtype, device):
    check_attention(*qkv(2, 1, length, length, 16, dot_dtype, device), causal)


@pytest.mark.parametrize("queries, keys", [(1, 100), (100, 1), (5, 257), (200, 64)])
def test_attention_with_other_keys_than_queries(queries, keys, dot_dtype, device):
    check_attention(*qkv(1, 2, queries, keys, 32, dot_dtype, device))


@pytest.mark.parametrize("heads, shared", [(4, 4), (6, 2), (5, 1)])
@pytest.mark.parametrize("queries, keys", [(70, 70), (1, 600), (3, 1100), (5, 40)])
def test_attention_of_heads_that_share_keys(heads, shared, queries, keys, dot_dtype, device):
    """Many queries, and few, for which the keys may be cut into parts."""
    q = normal(2, heads, queries, 32, dtype=dot_dtype, device=device)
    k, v = (normal(2, shared, keys, 32, dtype=dot_dtype, device=device, seed=seed) for seed in (1, 2))
    check_attention(q, k, v, causal=queries == keys)


@pytest.mark.parametrize("keys, dim", [(1, 16), (1, 40), (511, 40), (513, 16), (1025, 40), (3000, 40)])
def test_attention_of_one_query(keys, dim, dot_dtype, device):
    q, k, v = qkv(3, 2, 1, keys, dim, dot_dtype, device)
    check_attention(q, k, v)
    wide = qkv(1, 2, 8, keys, 2 * dim, dot_dtype, device)
    check_attention(*(t[..., ::2] for t in wide))


@pytest.mark.parametrize("scale", [1, 0.3, 0.0, -0.5])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_scale(scale, causal, device):
    check_attention(*qkv(1, 2, 70, 70, 16, torch.float32, device), causal, scale)


def test_attention_of_views(device):
    q, k, v = (t.transpose(1, 2) for t in qkv(2, 40, 3, 3, 32, HALF, device))  # sequence first
    check_attention(q, k, v)
    wide = qkv(2, 3, 40, 40, 64, HALF, device)
    check_attention(*(t[..., ::2] for t in wide), causal=True)
    check_attention(wide[0][:, :, ::2, :32], *(t[:, :, 3:, 16:48] for t in wide[1:]))
    q, k, v = qkv(1, 1, 16, 16, 16, HALF, device)
    check_attention(q.mT, k.mT.expand(1, 1, 16, 16), v.mT)
    check_attention(*(t.expand(2, 3, 16, 16) for t in (q, k, v)))


def test_attention_keeps_a_nan_to_its_row(device):
    q, k, v = qkv(1, 1, 40, 40, 16, torch.float32, device)
    q[0, 0, 7, 3] = math.nan
    check_attention(q, k, v)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_gives_no_weight_to_scores_of_minus_infinity(causal, device):
    """A whole first tile of keys of weight 0, which must not poison the ones after it."""
    q, k, v = qkv(1, 1, 150, 150, 16, torch.float32, device)
    q = q.abs()
    k[0, 0, 1:100, 2] = -math.inf
    check_attention(q, k, v, causal)
    if not causal:
        k[0, 0, 0, 2] = -math.inf
        check_attention(q, k, v, causal)


# all


def test_the_package_offers_the_functions():
    package = importlib.import_module("kernels")
    for name in MODULES:
        assert getattr(package, name) is getattr(MODULES[name], name)


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0), (2, 0, 3)])
def test_empty_rows(shape, device):
    x = torch.empty(shape, device=device)
    weight = torch.ones(shape[-1], device=device)
    assert softmax(x).shape == layer_norm(x, weight, weight).shape == rms_norm(x).shape == shape


@pytest.mark.parametrize("m, k, n", [(0, 3, 4), (3, 4, 0), (0, 0, 0)])
def test_empty_matmul(m, k, n, device):
    assert matmul(torch.ones(m, k, device=device), torch.ones(k, n, device=device)).shape == (m, n)


@pytest.mark.parametrize("shape", [(0, 2, 5, 16), (2, 0, 5, 16), (2, 2, 0, 16)])
def test_empty_attention(shape, device):
    q = torch.ones(shape, device=device)
    assert attention(q, q, q).shape == attention(q, q, q, causal=True).shape == shape


def test_attention_without_keys_is_zero(device):
    q, k = torch.ones(1, 2, 3, 16, device=device), torch.ones(1, 2, 0, 16, device=device)
    assert torch.equal(attention(q, k, k), torch.zeros_like(q))


def test_offsets_pass_two_to_the_31(device):
    """Strides of 2^30 fit into 32 bits, twice that does not; nothing between rows is touched."""
    try:
        storage = torch.empty(2**31 + 16, dtype=HALF, device=device)
    except RuntimeError:
        pytest.skip("cannot reserve 4 GiB")
    x = storage.as_strided((3, 16), (2**30, 1))
    x.copy_(normal(3, 16, dtype=HALF, device=device))
    check_softmax(x)
    check_layer_norm(x, *affine(16, HALF, device))
    b = normal(16, 8, dtype=HALF, device=device)
    check_matmul(x, b)
    check_matmul(x.t(), b[:3])
    check_matmul(b.t(), x.t())
    check_attention(*(x[None, None],) * 3)
    check_attention(*(x[None, :, None],) * 3)


def test_no_grad_lets_tensors_that_require_grad_through(device):
    x = torch.randn(4, 16, device=device, requires_grad=True)
    with torch.no_grad():
        assert not softmax(x).requires_grad


# What is refused: (call, exception, part of the message), on tensors X (2, 3) and Q (1, 2, 3, 16).

X, W, Q = torch.ones(2, 3), torch.ones(3), torch.ones(1, 2, 3, 16)
META = {"device": "meta"}


def grad(t):
    return t.clone().requires_grad_()


REFUSED = {
    "softmax": [
        (lambda: softmax([1.0]), TypeError, "x is a list"),
        (lambda: softmax(X.double()), TypeError, "x has dtype torch.float64"),
        (lambda: softmax(X.int()), TypeError, "x has dtype torch.int32"),
        (lambda: softmax(torch.tensor(1.0)), ValueError, "x has no dimension"),
        (lambda: softmax(grad(X)), ValueError, "x requires grad"),
    ],
    "layer_norm": [
        (lambda: layer_norm(None, W, W), TypeError, "x is a NoneType"),
        (lambda: layer_norm(X, 1, None), TypeError, "weight is a int"),
        (lambda: layer_norm(X, None, 1.0), TypeError, "bias is a float"),
        (lambda: layer_norm(X.double(), W, W), TypeError, "x has dtype torch.float64"),
        (lambda: layer_norm(X, W.half(), W), TypeError, "weight has dtype torch.float16"),
        (lambda: layer_norm(X, W, W.half()), TypeError, "bias has dtype torch.float16"),
        (lambda: layer_norm(X[0, 0], W, W), ValueError, "x has no dimension"),
        (lambda: layer_norm(X, W[:2], W), ValueError, r"weight has shape \(2,\).*\(3,\)"),
        (lambda: layer_norm(X, W, X), ValueError, r"bias has shape \(2, 3\).*\(3,\)"),
        (lambda: layer_norm(X, W.to(**META), W), ValueError, "weight is on meta.*cpu"),
        (lambda: layer_norm(X, W, W, -1.0), ValueError, "eps is -1.0"),
        (lambda: layer_norm(X, W, W, math.nan), ValueError, "eps is nan"),
        (lambda: layer_norm(grad(X), W, W), ValueError, "x requires grad"),
        (lambda: layer_norm(X, grad(W), W), ValueError, "weight requires grad"),
        (lambda: layer_norm(X, W, grad(W)), ValueError, "bias requires grad"),
        (lambda: layer_norm(X, None, grad(W)), ValueError, "bias requires grad"),
    ],
    "rms_norm": [
        (lambda: rms_norm(None), TypeError, "x is a NoneType"),
        (lambda: rms_norm(X, 1.0), TypeError, "weight is a float"),
        (lambda: rms_norm(X, W.half()), TypeError, "weight has dtype torch.float16"),
        (lambda: rms_norm(X, W[:2]), ValueError, r"weight has shape \(2,\).*\(3,\)"),
        (lambda: rms_norm(X, W, -1.0), ValueError, "eps is -1.0"),
        (lambda: rms_norm(grad(X)), ValueError, "x requires grad"),
        (lambda: rms_norm(X, grad(W)), ValueError, "weight requires grad"),
    ],
    "matmul": [
        (lambda: matmul(1, X), TypeError, "a is a int"),
        (lambda: matmul(X, 1), TypeError, "b is a int"),
        (lambda: matmul(X.long(), X), TypeError, "a has dtype torch.int64"),
        (lambda: matmul(X, X.t().half()), TypeError, "b has dtype torch.float16.*float32"),
        (lambda: matmul(W, X), ValueError, r"a has shape \(3,\)"),
        (lambda: matmul(X, Q), ValueError, r"b has shape \(1, 2, 3, 16\)"),
        (lambda: matmul(X, X), ValueError, "b has 2 rows; a has 3"),
        (lambda: matmul(X, X.t().to(**META)), ValueError, "b is on meta.*cpu"),
        (lambda: matmul(grad(X), X.t()), ValueError, "a requires grad"),
        (lambda: matmul(X, grad(X.t())), ValueError, "b requires grad"),
    ],
    "attention": [
        (lambda: attention(0, Q, Q), TypeError, "q is a int"),
        (lambda: attention(Q, 0, Q), TypeError, "k is a int"),
        (lambda: attention(Q.double(), Q, Q), TypeError, "q has dtype torch.float64"),
        (lambda: attention(Q, Q.half(), Q), TypeError, "k has dtype torch.float16"),
        (lambda: attention(Q, Q, Q.half()), TypeError, "v has dtype torch.float16"),
        (lambda: attention(Q[0], Q, Q), ValueError, r"q has shape \(2, 3, 16\)"),
        (lambda: attention(Q, Q, Q[0]), ValueError, r"v has shape \(2, 3, 16\)"),
        (lambda: attention(*(Q.repeat(1, 1, 1, 17),) * 3), ValueError, "q has head_dim 272; allowed are 1 to 256"),
        (lambda: attention(Q.repeat(1, 3, 1, 1), *(Q.repeat(1, 2, 1, 1),) * 2), ValueError, "k has .* heads"),
        (lambda: attention(Q, Q[:, :1], Q), ValueError, "v has shape"),
        (lambda: attention(Q, Q, Q[:, :, :2]), ValueError, "v has shape"),
        (lambda: attention(Q, Q.repeat(1, 1, 1, 2), Q), ValueError, "k has shape"),
        (lambda: attention(Q, Q.to(**META), Q), ValueError, "k is on meta.*cpu"),
        (lambda: attention(Q[:, :, :2], Q, Q, causal=True), ValueError, "k has 3 keys.*2"),
        (lambda: attention(Q, Q, Q, scale=math.inf), ValueError, "scale is inf"),
        (lambda: attention(grad(Q), Q, Q), ValueError, "q requires grad"),
        (lambda: attention(Q, Q, grad(Q)), ValueError, "v requires grad"),
    ],
}


@pytest.mark.parametrize(
    "call, error, message",
    [pytest.param(*c, id=f"{name}: {c[2]}") for name, cases in REFUSED.items() for c in cases],
)
def test_refused(call, error, message, monkeypatch):
    for module in KERNELS.values():
        monkeypatch.setattr(module, "_INTERPRETED", True)  # else a CPU tensor is refused first
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", MODULES)
def test_a_cpu_tensor_is_refused_by_the_compiled_kernel(name, monkeypatch):
    monkeypatch.setattr(KERNELS[name], "_INTERPRETED", False)
    inputs = {"softmax": (X,), "layer_norm": (X,), "rms_norm": (X,), "matmul": (X, X.t()), "attention": (Q,) * 3}
    with pytest.raises(ValueError, match="is on cpu; it must be on a CUDA device"):
        getattr(MODULES[name], name)(*inputs[name])


# On a GPU only: the shapes of the study, and large odd ones.


def mark_gpu(test):
    for mark in gpu:
        test = mark(test)
    return test


@mark_gpu
@pytest.mark.parametrize(
    "shape",
    [
        (8192, 1024),
        (8192, 4096),
        (8192, 16384),
        (8192, 32768),
        (8192, 65536),
        (1100, 131072),
        (200, 262144),
        (1000, 50257),
        (1000, 40000),
        (300, 100003),
        (100003, 31),
    ],
)
def test_softmax_on_gpu(shape, dtype):
    check_softmax(normal(*shape, dtype=dtype, device="cuda"))


@mark_gpu
@pytest.mark.parametrize(
    "shape",
    [
        (16384, 256),
        (16384, 512),
        (16384, 1024),
        (16384, 2048),
        (16384, 4096),
        (16384, 8192),
        (1000, 16384),
        (1000, 32768),
        (1000, 65536),
        (300, 131072),
        (200, 262144),
        (1000, 50257),
        (300, 100003),
        (100003, 31),
    ],
)
def test_layer_norm_on_gpu(shape, dtype):
    x = normal(*shape, dtype=dtype, device="cuda")
    check_layer_norm(x, *affine(shape[1], dtype, "cuda"))


@mark_gpu
@pytest.mark.parametrize(
    "shape", [(16384, 1024), (1000, 32768), (300, 131072), (200, 262144), (300, 50257), (100003, 31)]
)
def test_rms_norm_and_layer_norm_without_weight_or_bias_on_gpu(shape, dtype):
    x = normal(*shape, dtype=dtype, device="cuda")
    weight, bias = affine(shape[1], dtype, "cuda")
    for _ in range(2):  # the second time by the kept launch
        check_rms_norm(x, weight)
        check_rms_norm(x)
        check_layer_norm(x, weight, None)
        check_layer_norm(x, None, bias)
        check_layer_norm(x, None, None)


@mark_gpu
@pytest.mark.parametrize("columns", [33000, 65536, 131072])
@pytest.mark.parametrize("gap", [16, 1])
def test_wide_rows_with_gaps_on_gpu(columns, gap, dtype):
    x = normal(300, columns + gap, dtype=dtype, device="cuda")[:, :columns]
    check_softmax(x)
    check_layer_norm(x, *affine(columns, dtype, "cuda"))
    check_rms_norm(x)


# op -> shapes that take the kernel for Hopper where there is one, and what eager calls.
USUAL = {
    "softmax": ([(64, 1024)], lambda x: torch.softmax(x, -1)),
    "layer_norm": ([(64, 1024), (1024,), (1024,)], lambda x, w, b: F.layer_norm(x, w.shape, w, b)),
    "rms_norm": ([(64, 1024), (1024,)], lambda x, w: F.rms_norm(x, w.shape, w)),
    "matmul": ([(2048, 2048)] * 2, torch.mm),
    "attention": ([(2, 8, 512, 64)] * 3, F.scaled_dot_product_attention),
}


@mark_gpu
@pytest.mark.parametrize("op", MODULES)
def test_kept_launches_follow_values_addresses_streams_and_devices(op):
    call, (shapes, eager) = getattr(MODULES[op], op), USUAL[op]

    def make(seed, device="cuda"):
        return [normal(*shape, dtype=HALF, device=device, seed=seed + i) for i, shape in enumerate(shapes)]

    def same(inputs, out=None):
        out = call(*inputs) if out is None else out
        # In float64: eager's attention of 16-bit tensors that are no multiple of 16 bytes is off by an element.
        assert distance(out, eager(*[t.double() for t in inputs])) <= 2 * UNIT[HALF]

    KERNELS[op]._KEPT.clear()
    for seed in range(3):
        same(make(seed))
    assert len(KERNELS[op]._KEPT) == 1
    same([torch.cat([t.new_zeros(1), t.flatten()])[1:].view(t.shape) for t in make(0)])  # 2 bytes off
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda seed: same(make(seed)), range(32)))
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        inputs = make(4)
        out = call(*inputs)  # on another stream it would not wait for its inputs
    side.synchronize()
    same(inputs, out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call(*inputs)
    for t, other in zip(inputs, make(5), strict=True):
        t.copy_(other)
    graph.replay()
    same(inputs, out)
    if torch.cuda.device_count() > 1:
        for current in (0, 1, 0):
            with torch.cuda.device(current):
                same(make(6, "cuda:0"))
                same(make(7, "cuda:1"))


@mark_gpu
@pytest.mark.parametrize(
    "m, k, n",
    [
        (512, 512, 512),
        (1024, 1024, 1024),
        (2048, 2048, 2048),
        (4096, 4096, 4096),
        (1000, 1000, 1000),
        (4096, 1000, 4096),
        (4096, 256, 4096),
        (16, 4096, 4096),
        (40, 1000, 8192),
        (2049, 1023, 4097),
        (1, 4096, 4096),
        (4096, 64, 16),
    ],
)
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_matmul_on_gpu(m, k, n, layout, dtype):
    a = normal(*((m, k) if layout[0] == "n" else (k, m)), dtype=dtype, device="cuda")
    b = normal(*((k, n) if layout[1] == "n" else (n, k)), dtype=dtype, device="cuda", seed=1)
    check_matmul(a if layout[0] == "n" else a.t(), b if layout[1] == "n" else b.t())


WAYS = [how._replace(shared=shared) for how, _ in HOPPER.WAYS for shared in (False, True)]
WAYS += [HOPPER.KEEPING]


@mark_gpu
@pytest.mark.parametrize(
    "shape", [(1500,) * 3, (777, 1023, 513), (300, 770, 50257), (2000, 5119, 1111), (20, 4095, 4099)]
)
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_matmul_on_gpu_of_rows_that_are_not_aligned(shape, layout, dtype):
    m, k, n = shape
    a, b = normal(m, k, dtype=dtype, device="cuda"), normal(k, n, dtype=dtype, device="cuda", seed=1)
    a, b = (t if x == "n" else t.t().contiguous().t() for x, t in zip(layout, (a, b), strict=True))
    for _ in range(3):  # anew, and twice by the kept launch
        check_matmul(a, b)
    check_matmul(a[1:, 1:], b[1:, :-1])


@mark_gpu
@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("k", [520, 256, 40])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_matmul_for_hopper_on_gpu(how, k, layout, monkeypatch, matmul_module):
    """Each program takes several tiles; and again, to the same bits."""
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("needs an H100 or H200")
    if how.keep and k > 256:
        pytest.skip("that much of B fits into no shared memory")
    monkeypatch.setattr(HOPPER, "choose", lambda *_: (how, 12 if how.keep else 13))
    a, b = normal(1000, k, dtype=HALF, device="cuda"), normal(k, 776, dtype=HALF, device="cuda", seed=1)
    a, b = (t if x == "n" else t.t().contiguous().t() for x, t in zip(layout, (a, b), strict=True))
    check_matmul(a, b)
    assert torch.equal(matmul(a, b), matmul(a, b))


@mark_gpu
@pytest.mark.parametrize("length", [128, 256, 512, 1000, 1024, 2048])
@pytest.mark.parametrize("dim", [16, 32, 64, 128])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_on_gpu(length, dim, causal, dtype):
    check_attention(*qkv(8, 16, length, length, dim, dtype, "cuda"), causal)


@mark_gpu
@pytest.mark.parametrize("queries, keys", [(77, 77), (197, 197), (777, 777), (2000, 2000), (1, 700), (4, 5000)])
@pytest.mark.parametrize("heads, shared", [(6, 6), (12, 3)])
@pytest.mark.parametrize("dim", [20, 64, 72, 80, 96, 128, 256])
def test_attention_on_gpu_of_heads_that_share_keys(queries, keys, heads, shared, dim, dtype):
    q = normal(3, heads, queries, dim, dtype=dtype, device="cuda")
    k, v = (normal(3, shared, keys, dim, dtype=dtype, device="cuda", seed=seed) for seed in (1, 2))
    check_attention(q, k, v)
    if queries == keys:
        check_attention(q, k, v, causal=True)


@mark_gpu
@pytest.mark.parametrize("queries, keys", [(1, 1), (65, 65), (1, 1000), (1000, 1), (513, 1025), (4000, 4000)])
@pytest.mark.parametrize("dim", [64, 128])
def test_attention_on_gpu_of_views_and_with_other_keys(queries, keys, dim, dtype):
    q, k, v = qkv(2, 3, queries, keys, dim, dtype, "cuda")
    check_attention(q, k, v)
    check_attention(*(t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v)), causal=queries == keys)
    q, k, v = qkv(2, 3, queries, keys, 2 * dim, dtype, "cuda")
    check_attention(*(t[..., 8 : dim + 8] for t in (q, k, v)), causal=queries == keys)
    check_attention(*(t[:, :1, :, :dim].expand(2, 3, -1, dim) for t in (q, k, v)))


@mark_gpu
def test_on_a_gpu_that_is_not_the_current_one():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    check_softmax(normal(40, 300, dtype=HALF, device="cuda:1"))
    check_matmul(*(normal(64, 64, dtype=HALF, device="cuda:1", seed=s) for s in (0, 1)))
