"""The kernels in a model: transforms, derivatives, scalars of any type, odd tensors, names, and many shapes."""

import functools
import gc
import importlib
import math
import os
import shutil
import subprocess
import sys
import tracemalloc
from collections import OrderedDict
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

pytest.importorskip("triton")

from test_kernels import CUDA, DEVICES, KERNELS, MODULES, attention, layer_norm, matmul, rms_norm, softmax
from test_launch import NAMES as KERNEL_NAMES
from test_launch import Kernel, gpu  # noqa: F401, gpu is a fixture

pytestmark = pytest.mark.filterwarnings("ignore")  # of the interpreter, and of torch about what it deprecates

ROOT = Path(__file__).parents[1]
launch = MODULES["softmax"].launch


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch):
    if not CUDA:
        monkeypatch.setenv("TRITON_INTERPRET", "1")


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def normal(*shape, device="cpu", seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)


SHAPES = {
    "softmax": {"x": (4, 16)},
    "layer_norm": {"x": (4, 16), "weight": (16,), "bias": (16,)},
    "rms_norm": {"x": (4, 16), "weight": (16,)},
    "matmul": {"a": (16, 8), "b": (8, 24)},
    "attention": {"q": (1, 2, 20, 16), "k": (1, 2, 20, 16), "v": (1, 2, 20, 16)},
}
REST = {"layer_norm": (1e-5,), "rms_norm": (2**-23,), "attention": (False, None)}
EAGER = {
    "softmax": lambda x: torch.softmax(x, -1),
    "layer_norm": lambda x, w, b: F.layer_norm(x, w.shape[-1:], w, b),
    "rms_norm": lambda x, w: F.rms_norm(x, w.shape[-1:], w),
    "matmul": torch.matmul,
    "attention": lambda q, k, v: torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v,
}
NAMES = [(op, name) for op, shapes in SHAPES.items() for name in shapes]


def inputs(op, device="cpu", batch=()):
    """Tensors by name; those named in `batch` with another dimension, of size 3, before."""
    shapes = SHAPES[op].items()
    return {n: normal(*([3] if n in batch else []), *s, device=device, seed=i) for i, (n, s) in enumerate(shapes)}


def function(op):
    return getattr(MODULES[op], op)


def operator(op):
    """The operator as such, with what it takes besides tensors."""
    return lambda *tensors: launch.OPERATORS[op](*tensors, *REST.get(op, ()))


def refused(call, *words, error=(TypeError, ValueError)):
    """One line that holds all words."""
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text and len(text) < 240
    assert all(word in text for word in words), text


def close(found, expected):
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


# Derivatives


def dual(call, t):
    with forward_ad.dual_level():
        return call(forward_ad.make_dual(t, t))


DERIVATIVES = {
    "requires grad": lambda call, t: call(t.clone().requires_grad_()),
    "requires grad, vmap": lambda call, t: torch.vmap(call)(t.expand(2, *t.shape).clone().requires_grad_()),
    "grad": lambda call, t: torch.func.grad(lambda u: call(u).sum())(t),
    "vjp": lambda call, t: torch.func.vjp(call, t),
    "jacrev": lambda call, t: torch.func.jacrev(call)(t),
    "hessian": lambda call, t: torch.func.hessian(lambda u: call(u).sum())(t),
    "grad of vmap": lambda call, t: torch.func.grad(lambda u: torch.vmap(call)(u).sum())(t.expand(2, *t.shape)),
    "grad of functionalize": lambda call, t: torch.func.grad(lambda u: torch.func.functionalize(call)(u).sum())(t),
    "vmap of grad": lambda call, t: torch.vmap(torch.func.grad(lambda u: call(u).sum()))(t.expand(2, *t.shape)),
    "checkpoint": lambda call, t: checkpoint(call, t.clone().requires_grad_(), use_reentrant=False),
    "make_dual": dual,
    "make_dual, no_grad": torch.no_grad()(dual),
    "jvp": lambda call, t: torch.func.jvp(call, (t,), (t,)),
    "jacfwd": lambda call, t: torch.func.jacfwd(call)(t),
    "jvp of vmap": lambda call, t: torch.func.jvp(torch.vmap(call), (t.expand(2, *t.shape),), (t.expand(2, *t.shape),)),
    "vmap of jvp": lambda call, t: torch.vmap(lambda u: torch.func.jvp(call, (u,), (u,)))(t.expand(2, *t.shape)),
}


@pytest.mark.parametrize("way", DERIVATIVES)
@pytest.mark.parametrize("op, name", NAMES)
def test_a_derivative_is_refused(way, op, name, device):
    tensors = inputs(op, device)
    for call in (function(op), operator(op)):
        of_one = lambda t, call=call: call(*(tensors | {name: t}).values())  # noqa: E731
        refused(lambda of_one=of_one: DERIVATIVES[way](of_one, tensors[name]), name, error=ValueError)
        if way == "checkpoint":
            gc.collect()  # Its hooks stay on, for all tests to come, as long as the frames of the error do.


@pytest.mark.parametrize("way", ["requires grad", "make_dual", "jvp"])
def test_a_derivative_is_refused_under_compile(way, device):
    x = inputs("softmax", device)["x"]
    compiled = torch.compile(lambda t: DERIVATIVES[way](softmax, t), backend="eager")
    refused(lambda: compiled(x), "x ", error=ValueError)


@pytest.mark.parametrize("op", MODULES)
def test_what_needs_no_derivative_is_served_among_those_that_do(op, device):
    tensors = tuple(inputs(op, device).values())
    expected = EAGER[op](*tensors)
    for call in (function(op), operator(op)):
        with forward_ad.dual_level():
            close(call(*tensors), expected)
        factor = torch.ones_like(expected)
        close(torch.func.grad(lambda t, call=call: (call(*tensors) * t).sum())(factor), expected)
        with torch.no_grad():
            close(call(*(t.clone().requires_grad_() for t in tensors)), expected)
        with torch.inference_mode():
            close(call(*tensors), expected)
            close(call(*(t.clone() for t in tensors)), expected)
        for reentrant in (False, True):
            close(checkpoint(call, *tensors, use_reentrant=reentrant), expected)


# Transforms


@pytest.mark.parametrize("op", MODULES)
def test_vmap(op, device):
    names = list(SHAPES[op])
    for batch in (names, names[:1], names[-1:]):
        tensors = tuple(inputs(op, device, batch).values())
        dims = tuple(0 if name in batch else None for name in names)
        expected = torch.vmap(EAGER[op], in_dims=dims)(*tensors)
        for call in (function(op), operator(op)):
            close(torch.vmap(call, in_dims=dims)(*tensors), expected)
        last = tuple(t.movedim(0, -1) if name in batch else t for name, t in zip(names, tensors, strict=True))
        moved = torch.vmap(function(op), in_dims=tuple(None if d is None else -1 for d in dims), out_dims=1)
        close(moved(*last), expected.movedim(0, 1))


def test_vmap_without_weight_or_bias(device):
    x, t = normal(3, 4, 16, device=device), normal(3, 16, device=device)
    close(torch.vmap(layer_norm)(x), F.layer_norm(x, (16,)))
    close(torch.vmap(rms_norm)(x), F.rms_norm(x, (16,)))
    close(torch.vmap(lambda x, t: layer_norm(x, bias=t))(x, t), F.layer_norm(x, (16,)) + t[:, None])
    compiled = torch.compile(lambda x, t: layer_norm(x, t) + rms_norm(x), backend="aot_eager", fullgraph=True)
    close(compiled(x, t[0]), F.layer_norm(x, (16,), t[0]) + F.rms_norm(x, (16,)))


def test_nested_vmap(device):
    x = normal(3, 2, 4, 16, device=device)
    close(
        torch.vmap(torch.vmap(softmax, in_dims=1), out_dims=1)(x), torch.softmax(x.transpose(1, 2), -1).transpose(0, 1)
    )
    a, b = normal(2, 5, 8, device=device), normal(3, 8, 4, device=device)
    pairs = torch.vmap(torch.vmap(matmul, in_dims=(None, 0)), in_dims=(0, None))
    close(pairs(a, b), a[:, None] @ b[None])
    refused(lambda: torch.vmap(torch.vmap(softmax))(x[0, 0]), "x has no dimension")
    refused(lambda: torch.vmap(softmax)(x.double()), "x has dtype torch.float64")
    close(torch.compile(torch.vmap(softmax), backend="eager")(x), torch.softmax(x, -1))


@pytest.mark.parametrize("op", MODULES)
def test_functional_wrappers(op, device):
    tensors = tuple(inputs(op, device).values())
    expected = EAGER[op](*tensors)
    for call in (function(op), operator(op)):
        call(*tensors)  # from now on a launch is kept
        close(torch.func.functionalize(call)(*tensors), expected)
        wrapped = call(*(torch._to_functional_tensor(t) for t in tensors))
        torch._sync(wrapped)
        close(torch._from_functional_tensor(wrapped), expected)


@pytest.mark.parametrize("op", MODULES)
def test_what_has_no_memory_never_reaches_the_driver(gpu, op, monkeypatch):  # noqa: F811
    module, kernel, tensors = KERNELS[op], Kernel(), inputs(op)
    monkeypatch.setattr(module, KERNEL_NAMES[op], kernel)
    monkeypatch.setattr(module, "_KEPT", OrderedDict())
    for _ in range(2):
        function(op)(*tensors.values())
    assert len(kernel.launches) == 1 and kernel.compiled.calls
    function(op)(*(torch._to_functional_tensor(t) for t in tensors.values()))
    function(op)(*(torch._efficientzerotensor(t.shape) for t in tensors.values()))
    for which, t in tensors.items():
        freed = t.clone()
        freed.untyped_storage().resize_(0)
        for call in (function(op), operator(op)):
            refused(lambda call=call, change={which: freed}: call(*(tensors | change).values()), which, "memory")
    assert all(a.data_ptr() for _, args in kernel.launches for a in args if isinstance(a, torch.Tensor))


# Scalars

NUMBERS = {
    "int": 1,
    "bool": True,
    "float": 0.25,
    "numpy float": np.float32(0.25),
    "numpy double": np.float64(0.25),
    "numpy half": np.float16(0.25),
    "numpy int": np.int64(1),
    "numpy, no dimension": np.array(0.25),
    "Fraction": Fraction(1, 4),
    "Decimal": Decimal("0.25"),
    "tensor": torch.tensor(0.25),
    "double tensor": torch.tensor(0.25, dtype=torch.float64),
    "int tensor": torch.tensor(1),
    "parameter": torch.nn.Parameter(torch.tensor(0.25), requires_grad=False),
}
NO_NUMBERS = {  # and what the line shows of each
    "str": ("0.25", "'0.25'"),
    "bytes": (b"1", "b'1'"),
    "complex": (1 + 2j, "(1+2j)"),
    "numpy complex": (np.complex64(1 + 2j), "1+2j"),
    "list": ([1.0], "[1.0]"),
    "one dimension": (torch.tensor([0.25]), "tensor([0.2500])"),
    "many lines": (torch.ones(9, 9), "tensor("),
    "complex tensor": (torch.tensor(1j), "tensor("),
    "meta tensor": (torch.tensor(0.25, device="meta"), "meta"),
    "numpy, one dimension": (np.array([0.25]), "array([0.25])"),
    "requires grad": (torch.tensor(0.25, requires_grad=True), "requires grad"),
    "too large": (10**400, "1000"),
    "too large for Python to write": (-(10**5000), "finite"),
    "too large a Fraction": (Fraction(10**400), "Fraction(1000"),
    "signaling Decimal": (Decimal("sNaN"), "sNaN"),
    "inf": (float("inf"), "inf"),
    "nan": (np.float32("nan"), "nan"),
    "object": (object(), "object"),
}
COMPILED = ("int", "float", "numpy float", "Fraction", "Decimal", "tensor")
COMPILED_NOT = ("str", "complex", "one dimension", "requires grad", "too large", "inf")


def scaled(scale, q):
    return attention(q, q + 1, q, scale=scale)


def with_eps(eps, q):
    return layer_norm(q, q[0, 0, 0], q[0, 0, 1], eps)


SCALARS = {"scale": scaled, "eps": with_eps}


def with_float(name, value, q):
    if name == "scale":
        return F.scaled_dot_product_attention(q, q + 1, q, scale=float(value))
    return F.layer_norm(q, q.shape[-1:], q[0, 0, 0], q[0, 0, 1], float(value))


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("name", SCALARS)
def test_a_number_of_any_type(name, kind, device):
    q = normal(1, 2, 5, 16, device=device)
    for value in (NUMBERS[kind], 1.0, NUMBERS[kind]):  # equal ones of other types are kept by one key
        close(SCALARS[name](value, q), with_float(name, value, q))
    if kind in COMPILED:
        compiled = torch.compile(functools.partial(SCALARS[name], NUMBERS[kind]), backend="eager")
        close(compiled(q), with_float(name, NUMBERS[kind], q))


@pytest.mark.parametrize("kind", NO_NUMBERS)
@pytest.mark.parametrize("name", SCALARS)
def test_what_is_no_number_is_refused(name, kind, device):
    (value, shown), q = NO_NUMBERS[kind], normal(1, 2, 5, 16, device=device)
    refused(lambda: SCALARS[name](value, q), f"{name} ", shown)
    if kind in COMPILED_NOT:
        compiled = torch.compile(functools.partial(SCALARS[name], value), backend="eager")
        refused(lambda: compiled(q), f"{name} ", shown)


def test_a_number_that_a_transform_holds_is_refused(device):
    q, numbers = normal(1, 2, 5, 16, device=device), torch.tensor([0.25, 0.5], device=device)
    for name, call in SCALARS.items():
        of_one = functools.partial(lambda call, value: call(value, q).sum(), call)
        refused(lambda of_one=of_one: torch.vmap(of_one)(numbers), name)
        refused(lambda of_one=of_one: torch.func.grad(of_one)(numbers[0]), name)
        refused(lambda of_one=of_one: torch.func.jvp(of_one, (numbers[0],), (numbers[0],)), name)
    refused(lambda: layer_norm(q, q[0, 0, 0], q[0, 0, 0], None), "eps", "None")
    refused(lambda: torch.vmap(lambda value: rms_norm(q, None, value))(numbers), "eps")
    refused(lambda: rms_norm(q, None, "0.25"), "eps", "'0.25'")


@pytest.mark.parametrize("value", [1, 0, 1.0, np.bool_(True), torch.tensor(True), None, "yes"], ids=repr)
def test_causal_is_a_bool(value, device):
    q = normal(1, 2, 5, 16, device=device)
    close(attention(q, q, q, True), F.scaled_dot_product_attention(q, q, q, is_causal=True))
    refused(lambda: attention(q, q, q, value), "causal", "True or False", error=TypeError)
    compiled = torch.compile(lambda q: attention(q, q, q, value), backend="eager")
    refused(lambda: compiled(q), "causal", "True or False", error=TypeError)


# Tensors that are not dense ones


def matrix(t):
    return t if t.dim() == 2 else t.new_ones(4, 16)


ODD = {
    "sparse_coo": lambda t: t.to_sparse(),
    "sparse_csr": lambda t: matrix(t).to_sparse_csr(),
    "sparse_csc": lambda t: matrix(t).to_sparse_csc(),
    "sparse_bsr": lambda t: matrix(t).to_sparse_bsr((2, 2)),
    "sparse_bsc": lambda t: matrix(t).to_sparse_bsc((2, 2)),
    "nested": lambda t: torch.nested.nested_tensor([t, t]),
    "jagged": lambda t: torch.nested.nested_tensor([t, t[:2]], layout=torch.jagged),
    "mkldnn": lambda t: t.cpu().to_mkldnn(),
    "quantized": lambda t: torch.quantize_per_tensor(t, 0.1, 0, torch.qint8),
    "meta": lambda t: t.to("meta"),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("op, name", NAMES)
def test_a_tensor_that_is_no_dense_one_is_refused(op, name, kind, device):
    tensors, word = inputs(op, device), {"jagged": "nested"}.get(kind, kind)
    given = (tensors | {name: ODD[kind](tensors[name])}).values()
    refused(lambda: function(op)(*given), f"{name} ", word)
    for _ in range(2):
        function(op)(*tensors.values())  # on a GPU a launch is kept
    refused(lambda: function(op)(*given), f"{name} ", word)
    # As operators: those without data tell the shape, like PyTorch's; jagged ones take any rms_norm for PyTorch's.
    if kind != "meta" and (op, kind) != ("rms_norm", "jagged"):
        refused(lambda: operator(op)(*given), f"{name} ", word)


@pytest.mark.parametrize("kind", ["sparse_coo", "sparse_csr", "nested", "mkldnn", "quantized"])
def test_a_tensor_that_is_no_dense_one_is_refused_under_compile(kind, device):
    odd = ODD[kind](inputs("softmax", device)["x"])
    refused(lambda: torch.compile(lambda x: softmax(x), backend="eager")(odd), "x ", kind)


def test_tensors_without_data_are_exported(device):
    class Model(torch.nn.Module):
        def forward(self, x, w):
            return layer_norm(softmax(x), w) + rms_norm(x, w)

    x, w = normal(4, 16, device=device), normal(16, device=device)
    for where in (device, "meta"):
        exported = torch.export.export(Model(), (x.to(where), w.to(where))).module()
        assert exported(x.to(where), w.to(where)).shape == x.shape
    close(torch.export.export(Model(), (x, w)).module()(x, w), Model()(x, w))


# The package's name

THEIRS = """
def get_kernel(name):
    return f"theirs: {name}"
"""
BOTH = """
import sys
import kernels
from kernelbench.harness.workloads.softmax import WORKLOAD

function = WORKLOAD().kernel()
assert function.__module__ == "kernelbench.kernels.softmax", function.__module__
assert str(ROOT) in sys.modules[function.__module__].__file__
from kernelbench.kernels import attention, layer_norm, matmul, softmax
assert function is softmax and callable(matmul)
try:
    from kernels import get_kernel
    print(get_kernel("theirs"))
except ImportError as error:
    from kernels import softmax
    print(error)
"""


@pytest.mark.parametrize("ours_first", [True, False])
def test_both_packages_of_the_name(tmp_path, ours_first):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "__init__.py").write_text(THEIRS)
    folders = [str(ROOT), str(tmp_path)][:: 1 if ours_first else -1]
    path = os.pathsep.join([*folders, str(ROOT / "workflow")])
    script = BOTH.replace("ROOT", repr(str(ROOT)))
    command = [sys.executable, "-W", "error::UserWarning", "-c", script]
    environment = os.environ | {"PYTHONPATH": path, "TRITON_INTERPRET": "1"}
    done = subprocess.run(command, env=environment, cwd=tmp_path.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert ("KernelBench" in line and "get_kernel" in line) if ours_first else line == "theirs: theirs"


def test_names_that_the_package_lacks():
    import kernels

    with pytest.raises(ImportError, match="get_kernel") as caught:
        kernels.get_kernel  # noqa: B018
    assert "\n" not in str(caught.value)
    assert not hasattr(kernels, "__wrapped__") and not hasattr(kernels, "_private")
    from kernels import launch, ring

    assert launch.keep and ring.__name__ == "kernels.ring"


# Copies of the folder

WAYS = {
    "direct": lambda softmax, x: softmax(x),
    "vmap": lambda softmax, x: torch.vmap(softmax)(x),
    "nested vmap": lambda softmax, x: torch.vmap(torch.vmap(softmax))(x),
    "functionalize": lambda softmax, x: torch.func.functionalize(softmax)(x),
    "jacobian of what it is multiplied by": lambda softmax, x: torch.func.jacrev(lambda t: (softmax(x) * t).sum())(x),
    "among derivatives": forward_ad.dual_level()(lambda softmax, x: softmax(x)),
    "negative": lambda softmax, x: softmax(torch._neg_view(-x)),
    "make_fx": lambda softmax, x: make_fx(softmax)(x)(x),
    "compile": lambda softmax, x: torch.compile(softmax, backend="eager", fullgraph=True)(x),
    "compile, aot_eager": lambda softmax, x: torch.compile(softmax, backend="aot_eager", fullgraph=True)(x),
    "compile of vmap": lambda softmax, x: torch.compile(torch.vmap(softmax), backend="aot_eager", fullgraph=True)(x),
    "export": lambda softmax, x: exported(softmax, x).module()(x),
}
DOUBLED = ("softmax.py", "scale = (1.0 / tl.sum", "scale = (2.0 * 1.0 / tl.sum")


class Calling(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def exported(softmax, x):
    return torch.export.export(Calling(softmax), (x,))


@pytest.fixture
def copies(tmp_path, monkeypatch):
    """A folder for copies of `kernels`, from which they are imported until the test ends."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(tmp_path) in (getattr(module, "__file__", None) or ""):
            del sys.modules[name]


def copy_kernels(folder, *edits):
    """Copy the package; each edit is a file, what stands there and what shall."""
    shutil.copytree(ROOT / "kernels", folder, ignore=shutil.ignore_patterns("__pycache__"))
    for edit in edits:
        edit_source(folder, *edit)


def edit_source(folder, file, old, new):
    source = (folder / file).read_text()
    assert source.count(old) == 1
    (folder / file).write_text(source.replace(old, new))


def import_softmax(package, file="softmax"):
    return importlib.import_module(f"{package}.{file}").softmax


def serves(function, factor, device):
    """In all ways that lead through the operator, and so does the operator itself."""
    x = normal(3, 4, 16, device=device)
    expected, op = torch.softmax(x, -1) * factor, sys.modules[function.__module__].launch.OPERATORS["softmax"]
    torch._dynamo.reset()  # it compiles a function a few times only
    served = {(way, type(f).__name__): call(f, x) for way, call in WAYS.items() for f in (function, op)}
    assert [which for which, y in served.items() if not torch.allclose(y, expected, atol=1e-4)] == []


EDITS = {  # and what the result is multiplied by
    "a kernel": (DOUBLED, 2),
    "what a kernel calls twice": (("rowwise.py", "        return x\n", f"        return x - {math.log(2)}\n"), 0.5),
}


@pytest.mark.parametrize("order", [("plain", "edited"), ("edited", "plain")], ids="-".join)
@pytest.mark.parametrize("what", EDITS)
def test_copies_that_differ_run_their_own_kernels(copies, what, order, device):
    edit, factor = EDITS[what]
    copy_kernels(copies / "plain")
    copy_kernels(copies / "edited", edit)
    functions = {name: import_softmax(name) for name in order}
    for name, function in functions.items():
        serves(function, {"plain": 1, "edited": factor}[name], device)


def test_an_edited_file_that_is_imported_again_runs_what_it_says_now(copies, device):
    copy_kernels(copies / "edited")
    serves(import_softmax("edited"), 1, device)
    edit_source(copies / "edited", *DOUBLED)
    importlib.reload(sys.modules["edited.softmax"])
    serves(import_softmax("edited"), 2, device)


def test_a_second_file_may_define_an_operator_of_the_same_name(copies, device):
    copy_kernels(copies / "varied")
    shutil.copy(copies / "varied" / "softmax.py", copies / "varied" / "variant.py")
    edit_source(copies / "varied", "variant.py", *DOUBLED[1:])
    first, x = import_softmax("varied"), normal(4, 16, device=device)
    serves(import_softmax("varied", "variant"), 2, device)
    close(torch.vmap(first)(x), torch.softmax(x, -1))


@pytest.mark.parametrize("order", [("plain", "doubled"), ("doubled", "plain")], ids="-".join)
def test_copies_in_archives(copies, order, monkeypatch, device):
    """Nothing tells whether they differ, so they have operators of their own in any case."""
    copy_kernels(copies / "of plain" / "plain")
    copy_kernels(copies / "of doubled" / "doubled", DOUBLED)
    for name in order:
        monkeypatch.syspath_prepend(shutil.make_archive(copies / name, "zip", copies / f"of {name}"))
    functions = {name: import_softmax(name) for name in order}
    for name, function in functions.items():
        assert ".zip" in sys.modules[name].__file__
        serves(function, {"plain": 1, "doubled": 2}[name], device)


def test_the_folder_works_under_other_names(monkeypatch, device):
    """At a time, and with operators that serve both."""
    serves(softmax, 1, device)
    monkeypatch.syspath_prepend(ROOT / "workflow")
    from kernelbench.kernels import launch as other_launch
    from kernelbench.kernels import softmax as other

    assert other is not softmax and other_launch is not launch
    assert other_launch.OPERATORS == launch.OPERATORS
    serves(softmax, 1, device)
    serves(other, 1, device)
    refused(lambda: dual(other, normal(4, 16, device=device)), "x ")


def test_kernels_for_the_interpreter_are_others(copies, monkeypatch):
    """Which its environment says when the folder is imported."""
    monkeypatch.setenv("TRITON_INTERPRET", "1" if CUDA else "0")
    copy_kernels(copies / "compiled_or_not")
    import_softmax("compiled_or_not")
    there = sys.modules["compiled_or_not.launch"].OPERATORS
    assert there.keys() == launch.OPERATORS.keys() and not {*there.values()} & {*launch.OPERATORS.values()}


ELSEWHERE = """
import torch, plain

try:
    torch.export.load("model.pt2")
    raise SystemExit("loaded without what it calls")
except RuntimeError:
    import doubled_of_another_name
torch.save(torch.export.load("model.pt2").module()(torch.load("x.pt")), "y.pt")
"""


def test_what_is_exported_asks_for_a_copy_with_the_same_content(copies, device):
    x = normal(4, 16, device=device)
    copy_kernels(copies / "plain")
    for name in ("doubled", "doubled_of_another_name"):
        copy_kernels(copies / name, DOUBLED)
    torch.export.save(exported(import_softmax("doubled"), x), copies / "model.pt2")
    torch.save(x, copies / "x.pt")
    command, environment = [sys.executable, "-c", ELSEWHERE], os.environ | {"PYTHONPATH": str(copies)}
    done = subprocess.run(command, env=environment, cwd=copies, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    close(torch.load(copies / "y.pt"), torch.softmax(x, -1) * 2)


# What is kept


def caches():
    """How much is in all that grows with shapes: the dictionaries and the caches of functions, of every module."""
    package = launch.__name__.rpartition(".")[0]
    for module in [m for name, m in sys.modules.items() if name.startswith(f"{package}.")]:
        for name, value in vars(module).items():
            if isinstance(value, OrderedDict):
                yield f"{module.__name__}.{name}", len(value)
            elif hasattr(value, "cache_info") and value.__module__ == module.__name__:
                yield f"{module.__name__}.{name}", value.cache_info().currsize


def flat(*shape):
    """A tensor of one element's memory."""
    return torch.empty(1, dtype=torch.half).expand(shape)


OF_COLUMNS = {
    "softmax": lambda n: (torch.empty(1, n, dtype=torch.half),),
    "layer_norm": lambda n: (torch.empty(1, n, dtype=torch.half), *(torch.empty(n, dtype=torch.half),) * 2),
    "rms_norm": lambda n: (torch.empty(1, n, dtype=torch.half), torch.empty(n, dtype=torch.half)),
    "matmul": lambda n: (flat(16, n), flat(n, 16)),
    "attention": lambda n: (flat(1, 1, n, 16),) * 3,
}


@pytest.mark.parametrize("count", [1500, pytest.param(9000, marks=pytest.mark.nightly)])
def test_what_is_kept_for_many_shapes_stays_small(gpu, monkeypatch, count):  # noqa: F811
    kernel = Kernel()
    for op, module in KERNELS.items():
        monkeypatch.setattr(module, KERNEL_NAMES[op], kernel)
        monkeypatch.setattr(module, "_KEPT", OrderedDict())
    monkeypatch.setattr(launch, "_ARGUMENTS", OrderedDict())
    tracemalloc.start()
    try:
        for op, make in OF_COLUMNS.items():
            for n in range(1, count + 1):
                tensors = make(n)
                for _ in range(2):  # the second time by the kept launch, whose arguments are kept as well
                    function(op)(*tensors)
                kernel.launches.clear()
                kernel.compiled.calls.clear()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 16 << 20
    assert all(len(module._KEPT) == launch.SIZE for module in KERNELS.values())
    assert max(dict(caches()).values()) <= max(launch.SIZE, launch._ARGUMENTS_SIZE)
