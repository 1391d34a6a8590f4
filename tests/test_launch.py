"""Kept launches, without a GPU: they call Triton's launcher as Triton does, or not at all. And the operators."""

from collections import OrderedDict
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

import triton
from test_kernels import KERNELS, MODULES, attention, layer_norm, matmul, rms_norm, softmax
from triton import knobs
from triton.backends.nvidia import driver

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.runtime.interpreter")

launch = MODULES["softmax"].launch
hopper, matmul_hopper = MODULES["attention"].attention_hopper, MODULES["matmul"].matmul_hopper
REST = (5, 7, 0.5, 64)


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch):
    if not torch.cuda.is_available():
        monkeypatch.setenv("TRITON_INTERPRET", "1")


class Compiled:
    """A compiled kernel whose launcher writes down what Triton's C code would be called with."""

    function, packed_metadata = "function", "packed"

    def __init__(self, descriptors=0, **attributes):
        self.calls = []
        self.run = driver.CudaLauncher.__new__(driver.CudaLauncher)
        names = ("num_ctas", "launch_cooperative_grid", "launch_pdl", "arg_annotations", "kernel_signature")
        sizes = dict.fromkeys(("global_scratch_size", "profile_scratch_size"), 0)
        aligns = dict.fromkeys(("global_scratch_align", "profile_scratch_align"), 1)
        vars(self.run).update(dict(zip(names, names, strict=True)) | sizes | aligns | attributes)
        what = ("swizzle", "elem_size", "block_size", "fp4_padded")
        meta = [{**dict.fromkeys(what, 0), "elem_type": i} for i in range(descriptors)]
        self.metadata = SimpleNamespace(tensordesc_meta=meta)
        signature = {i: "tensordesc<>" for i in range(descriptors)}
        self.run.launch = driver.wrap_handle_tensordesc(lambda *args: self.calls.append(args), signature, meta)


class Kernel:
    """In place of a kernel: its launches, and one compiled kernel for all of them."""

    def __init__(self, descriptors=0, **attributes):
        self.compiled, self.launches = Compiled(descriptors, **attributes), []

    def __getitem__(self, grid):
        def run(*args, **options):
            self.launches.append((grid, args))
            return self.compiled

        return run

    def as_triton_calls(self, i=-1):
        """What the launcher is called with in the usual way to launch, with numbers for tensors."""
        grid, args = self.launches[i]
        args = [arg.data_ptr() if isinstance(arg, torch.Tensor) else arg for arg in args]
        self.compiled.run(*(*grid, 1, 1)[:3], 99, "function", "packed", None, None, None, *args)
        return plain(self.compiled.calls.pop())


def plain(call):
    """Without the difference between a list of arguments and a tuple."""
    return [tuple(part) if isinstance(part, list) else part for part in call]


@pytest.fixture
def gpu(monkeypatch):
    """As if tensors were on the second of two GPUs, the current one, with stream 99. Tensor maps are tuples."""
    if torch.cuda.is_available():
        pytest.skip("on a CPU, as if there were a GPU")
    monkeypatch.setattr(launch, "stream", lambda device: 99)
    monkeypatch.setattr(launch, "_DEVICE", lambda: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    fill = dict.fromkeys(("fill_tma_descriptor", "fill_tma_descriptor_tiled"), lambda *args: args)
    monkeypatch.setattr(triton.runtime.driver, "_active", SimpleNamespace(utils=SimpleNamespace(**fill)))


def tensors(number=2):
    """Tensors whose addresses are multiples of 16."""
    found = [torch.zeros(64) for _ in range(number)]
    assert not any(t.data_ptr() % 16 for t in found)
    return tuple(found)


def test_a_kept_launch_calls_the_launcher_as_triton_does(gpu):
    kernel = Kernel()
    again = launch.start(kernel, (3, 2), tensors(), REST, num_warps=4)
    kernel[3, 2](*tensors(), *REST)
    _, others = kernel.launches[-1]
    for _ in range(2):
        assert again(others[0].data_ptr(), others[1].data_ptr())
        assert plain(kernel.compiled.calls.pop()) == kernel.as_triton_calls()


def test_it_refuses_what_the_usual_launch_must_do(gpu, monkeypatch):
    kernel = Kernel()
    again = launch.start(kernel, (3, 2), tensors(), REST)
    addresses = 4096, 8192
    assert not again(4096, 8194)  # compiled for multiples of 16
    assert not again(4096, 0)  # of what has no memory of its own
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "_DEVICE", lambda: 0)
        assert not again(*addresses)
    for hook in (knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook):
        hook.add(print)
        assert not again(*addresses)
        hook.remove(print)
    assert kernel.compiled.calls == []
    assert again(*addresses)


@pytest.mark.parametrize("size", ["global_scratch_size", "profile_scratch_size"])
def test_a_kernel_with_scratch_memory_is_not_kept(gpu, size):
    assert launch.start(Kernel(**{size: 128}), (3,), tensors(), REST) is None


def test_tensors_at_odd_addresses_make_no_kept_launch(gpu):
    assert launch.start(Kernel(), (3,), (*tensors(1), torch.zeros(64)[1:]), REST) is None


def test_descriptors_that_are_no_tensor_maps_make_no_kept_launch(gpu):
    kernel = Kernel()
    described = SimpleNamespace(base=torch.zeros(64), shape=[8, 8], strides=[8, 1])
    assert launch.start(kernel, (3,), (described,), REST) is None


def test_nothing_is_kept_under_another_triton_or_interpreted(gpu, monkeypatch):
    kernel = Kernel()
    kernel.compiled = None  # what an interpreted kernel returns
    assert launch.start(kernel, (3,), tensors(), REST) is None
    monkeypatch.setattr(launch, "_VERSION", "3.99")
    assert launch.start(Kernel(), (3,), tensors(), REST) is None


def test_this_triton_is_known():
    assert launch._VERSION in launch._MIDDLES


def test_not_too_much_is_kept(gpu, monkeypatch):
    monkeypatch.setattr(launch, "SIZE", 2)
    monkeypatch.setattr(launch, "_ARGUMENTS_SIZE", 2)
    again, kept = launch.start(Kernel(), (3,), tensors(), REST), OrderedDict()
    for i in range(1, 6):
        launch.keep(kept, i, again)
        assert list(kept) == list(range(1, 6))[max(0, i - 2) : i]  # the oldest goes
        assert again(16 * i, 16) and len(launch._ARGUMENTS) <= 2
    launch.keep(kept, None, again)
    launch.keep(kept, "key", None)
    assert not {None, "key"} & set(kept)


# The operations


def normal(*shape, dtype=torch.float16):
    return torch.randn(shape, dtype=dtype)


INPUTS = {
    "softmax": lambda: (normal(4, 8),),
    "layer_norm": lambda: (normal(4, 8), normal(8), normal(8)),
    "rms_norm": lambda: (normal(4, 8), normal(8)),
    "matmul": lambda: (normal(16, 8), normal(24, 8).t()),
    "attention": lambda: tuple(normal(1, 20, 2, 16).transpose(1, 2) for _ in range(3)),
}
OTHERS = {
    "softmax": lambda x: [(x.float(),), (x[:2],), (x.reshape(8, 4),), (normal(4, 16)[:, ::2],)],
    "layer_norm": lambda x, w, b: [
        *((x, w, b, 1e-6), (x, normal(16)[::2], b), (x[:2], w, b)),
        *((x, None, b), (x, w, None), (x, None, None)),
    ],
    "rms_norm": lambda x, w: [(x, w, 1e-6), (x, None), (x[:2], w)],
    "matmul": lambda a, b: [(a.float(), b.float()), (a[:2], b), (a, b.contiguous()), (a[:, :4], b[:4])],
    "attention": lambda q, k, v: [(q, k, v, True), (q, k, v, False, 0.5), (q, k[:, :, :2], v[:, :, :2])],
}


# The kernel that an operation starts for those.
NAMES = {op: "_rows_kernel" if op in ("softmax", "layer_norm", "rms_norm") else f"_{op}_kernel" for op in MODULES}


@pytest.mark.parametrize("op", MODULES)
def test_an_operation_starts_again_what_it_started_for_such_tensors(gpu, op, monkeypatch):
    module, call, name = KERNELS[op], getattr(MODULES[op], op), NAMES[op]
    kernel = Kernel()
    monkeypatch.setattr(module, name, kernel)
    monkeypatch.setattr(module, "_KEPT", {})
    call(*INPUTS[op]())
    inputs = INPUTS[op]()
    out = call(*inputs)
    assert len(kernel.launches) == 1
    (grid, args), others = kernel.launches[0], iter((*inputs, out))
    kernel.launches.append((grid, [next(others) if isinstance(arg, torch.Tensor) else arg for arg in args]))
    (called,) = kernel.compiled.calls
    kernel.compiled.calls.clear()
    assert plain(called) == kernel.as_triton_calls()
    for number, others in enumerate(OTHERS[op](*inputs), 3):
        call(*others)
        assert len(kernel.launches) == number
    with pytest.raises(ValueError, match="requires grad"):
        call(inputs[0].clone().requires_grad_(), *inputs[1:])
    with torch.no_grad():
        call(torch.nn.Parameter(inputs[0]), *inputs[1:])
    assert len(kernel.launches) == number


@pytest.mark.parametrize("op", MODULES)
def test_what_a_kept_launch_refuses_is_done_anew(op, monkeypatch):
    if torch.cuda.is_available():
        pytest.skip("for the interpreter")
    module, inputs = KERNELS[op], INPUTS[op]()
    call, refused = getattr(MODULES[op], op), []
    rest = {"layer_norm": (1e-5,), "rms_norm": (None, 2**-23, False), "attention": (False, None)}.get(op, ())
    monkeypatch.setattr(module, "_KEPT", {module._key(*inputs, *rest): lambda *addresses: refused.append(addresses)})
    found = call(*inputs)
    assert [a for a in refused[0][:-1] if a is not None] == [t.data_ptr() for t in inputs]
    module._KEPT.clear()
    assert torch.equal(call(*inputs), found)


@pytest.mark.parametrize("given", [(), ("weight",), ("bias",)])
def test_a_launch_without_weight_or_bias_is_kept(gpu, given, monkeypatch):
    kernel = Kernel()
    monkeypatch.setattr(MODULES["layer_norm"], "_rows_kernel", kernel)
    monkeypatch.setattr(MODULES["layer_norm"], "_KEPT", {})
    for count in (0, 1, 2):
        layer_norm(normal(4, 8), **{name: normal(8) for name in given})
        assert len(kernel.launches) == 1 and len(kernel.compiled.calls) == count
    assert plain(kernel.compiled.calls[0]) != plain(kernel.compiled.calls[1])  # of other tensors
    _, args = kernel.launches[0]
    assert [t is not None for t in args[:4]] == [True, "weight" in given, "bias" in given, True]


def start_on_hopper(op, *tensors):
    """Start the kernel for Hopper."""
    if op == "attention":
        return hopper.start(*tensors, False, 0.5)
    return matmul_hopper.start_as(*tensors, matmul_hopper.Way(64, 128, 64, 4), 3)


def hopper_tensors(op):
    if op == "attention":
        return *(normal(2, 200, 3, 64).transpose(1, 2) for _ in range(3)), normal(2, 3, 200, 64)
    return normal(72, 120), normal(64, 120).t(), normal(72, 64)


@pytest.mark.parametrize("op", ["matmul", "attention"])
def test_a_kept_launch_makes_the_tensor_maps_that_triton_makes(gpu, op, monkeypatch):
    kernel, started = Kernel(descriptors=3 if op == "matmul" else 4), []
    monkeypatch.setattr(matmul_hopper, "_matmul_hopper", kernel)
    monkeypatch.setattr(hopper, "_attention_hopper", kernel)
    again = start_on_hopper(op, *hopper_tensors(op))
    others = hopper_tensors(op)
    start_on_hopper(op, *others)
    for _ in range(2):
        assert again(*(t.data_ptr() for t in others))
        started.append(plain(kernel.compiled.calls.pop()))
    assert started[0] == started[1] == kernel.as_triton_calls()
    assert started[0] != kernel.as_triton_calls(0)


def test_a_chain_hands_on_memory_that_is_new_at_each_call(gpu):
    seen = []

    def step(name):
        return lambda *addresses: seen.append((name, addresses)) is None

    rooms = {"parts": normal(3, 5)}
    again = launch.chain(("x", "y"), rooms, [(step("first"), ("x", "parts")), (step("second"), ("parts", "y"))])
    assert again(16, 32)
    (_, (x, parts)), (_, (same, y)) = seen
    assert (x, y) == (16, 32) and parts == same != rooms["parts"].data_ptr()


def test_a_chain_stops_where_a_launch_is_refused(gpu):
    seen = []
    again = launch.chain(("x",), {"y": normal(2)}, [(lambda *_: False, ("x",)), (seen.append, ("y",))])
    assert not again(16) and not seen


def test_a_chain_of_what_cannot_be_kept_is_not_kept(gpu):
    assert launch.chain(("x",), {}, [(lambda *_: True, ("x",)), (None, ("x",))]) is None


# The operators


@pytest.fixture
def inputs():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return [torch.randn(*shape, device=device) for shape in ((3, 32), (32,), (32,))]


def all_of_them(x, w, b):
    y = layer_norm(softmax(x) * 2, w, b) + rms_norm(x, w) + layer_norm(rms_norm(x), bias=b)
    heads = matmul(matmul(y, y.mT), x).view(1, 1, -1, 16)
    return attention(heads, heads * 2, heads, True), attention(heads, heads, heads + 1, scale=0.3)


def arguments(x, w, b):
    heads = x.view(1, 2, 3, 16)
    return {
        "softmax": (x,),
        "layer_norm": (x, w, b, 1e-5),
        "rms_norm": (x, w, 1e-5),
        "matmul": (x, x.t()),
        "attention": (heads, heads, heads, True, None),
    }


@pytest.mark.parametrize("op", MODULES)
def test_opcheck(inputs, op):
    torch.library.opcheck(launch.OPERATORS[op], arguments(*inputs)[op])


@pytest.mark.parametrize("at", [(1,), (2,), (1, 2)])
def test_opcheck_without_weight_or_bias(inputs, at):
    args = [None if i in at else t for i, t in enumerate(inputs)]
    torch.library.opcheck(launch.OPERATORS["layer_norm"], (*args, 1e-5))
    if args[1] is None:
        torch.library.opcheck(launch.OPERATORS["rms_norm"], (args[0], None, 1e-5))


def test_torch_compile_sees_operators(inputs):
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(all_of_them, fullgraph=True, backend=backend)
    torch.testing.assert_close(compiled(*inputs), all_of_them(*inputs))
    called = {str(node.target) for node in graphs[0].graph.nodes if node.op == "call_function"}
    assert {str(launch.OPERATORS[op]) for op in MODULES} <= called


@pytest.mark.parametrize("dynamic", [False, True])
def test_torch_compile_through_autograds_tracing(inputs, dynamic):
    x, w, b = inputs
    compiled = torch.compile(all_of_them, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, torch.nn.Parameter(w), b), all_of_them(x, w, b))
        torch.testing.assert_close(compiled(x[:2], w, b), all_of_them(x[:2], w, b))


def test_tracing_by_hand(inputs):
    from torch.fx.experimental.proxy_tensor import make_fx

    for mode in ("real", "fake", "symbolic"):
        graph = make_fx(all_of_them, tracing_mode=mode)(*inputs)
        assert all(str(launch.OPERATORS[op]) in graph.code for op in MODULES)
        torch.testing.assert_close(graph(*inputs), all_of_them(*inputs))


def test_subclasses_see_operators(inputs):
    seen = []

    class Watching(torch.Tensor):
        @staticmethod
        def __new__(cls, held):
            return torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype, device=held.device)

        def __init__(self, held):
            self.held = held

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*(a.held if isinstance(a, cls) else a for a in args), **(kwargs or {}))

    for op, args in arguments(*inputs).items():
        call = getattr(MODULES[op], op)
        watched = (Watching(a) if isinstance(a, torch.Tensor) else a for a in args)
        torch.testing.assert_close(call(*watched), call(*args))
        assert str(launch.OPERATORS[op]) in seen


@pytest.mark.parametrize("op", MODULES)
def test_a_tensor_that_stands_for_the_negative_of_what_lies_in_memory(inputs, op):
    call, args = getattr(MODULES[op], op), arguments(*inputs)[op]
    for at, tensor in enumerate(args):
        if isinstance(tensor, torch.Tensor):
            negative, view = ((*args[:at], other, *args[at + 1 :]) for other in (-tensor, torch._neg_view(tensor)))
            assert not torch.equal(call(*negative), call(*args))
            torch.testing.assert_close(call(*view), call(*negative))


def test_an_operator_defines_no_gradient(inputs):
    x, w, b = inputs
    for call in (layer_norm, launch.OPERATORS["layer_norm"]):
        with pytest.raises(ValueError, match="weight requires grad"):
            call(x, w.requires_grad_(), b, 1e-5)
    y = F.relu(launch.OPERATORS["softmax"](x))
    assert not y.requires_grad
