"""Kept launches, without a GPU: they call Triton's launcher as Triton does, or not at all. And the operators."""

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

from test_kernels import MODULES, layer_norm, softmax
from triton import knobs
from triton.backends.nvidia.driver import CudaLauncher

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.runtime.interpreter")

launch = MODULES["softmax"].launch
CUDA = torch.device("cuda", 1)
POINTERS, REST = (4096, 8192), (5, 7, 0.5, 64)


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch):
    if not torch.cuda.is_available():
        monkeypatch.setenv("TRITON_INTERPRET", "1")


class Compiled:
    """A compiled kernel whose launcher writes down what Triton's C code would be called with."""

    function, packed_metadata = "function", "packed"

    def __init__(self, **attributes):
        self.calls = []
        self.run = CudaLauncher.__new__(CudaLauncher)
        names = ("num_ctas", "launch_cooperative_grid", "launch_pdl", "arg_annotations", "kernel_signature")
        sizes = dict.fromkeys(("global_scratch_size", "profile_scratch_size"), 0)
        aligns = dict.fromkeys(("global_scratch_align", "profile_scratch_align"), 1)
        vars(self.run).update(dict(zip(names, names, strict=True)) | sizes | aligns | attributes)
        self.run.launch = lambda *args: self.calls.append(args)


@pytest.fixture
def gpu(monkeypatch):
    """As if there were two GPUs, the second of them current, with stream 99."""
    monkeypatch.setattr(launch, "_STREAM", {1: 99}.get)
    monkeypatch.setattr(launch, "_DEVICE", lambda: 1)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


def keep(compiled):
    kept = {}
    launch.keep(kept, "key", CUDA, compiled, (3, 2), REST)
    return kept.get("key")


def test_a_kept_launch_calls_the_launcher_as_triton_does(gpu):
    compiled = Compiled()
    start = keep(compiled)
    assert start(*POINTERS)
    # As CompiledKernel's runner does, with no hooks.
    compiled.run(3, 2, 1, 99, "function", "packed", None, None, None, *POINTERS, *REST)
    ours, tritons = compiled.calls
    assert ours == tritons


def test_it_refuses_what_the_usual_launch_must_do(gpu, monkeypatch):
    start = keep(compiled := Compiled())
    assert not start(4096, 8194)  # compiled for multiples of 16
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "_DEVICE", lambda: 0)
        assert not start(*POINTERS)
    for hook in (knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook):
        hook.add(print)
        assert not start(*POINTERS)
        hook.remove(print)
    assert compiled.calls == []
    assert start(*POINTERS)


@pytest.mark.parametrize("size", ["global_scratch_size", "profile_scratch_size"])
def test_a_kernel_with_scratch_memory_is_not_kept(gpu, size):
    assert keep(Compiled(**{size: 128})) is None


def test_nothing_is_kept_under_another_triton_or_interpreted(gpu, monkeypatch):
    assert keep(None) is None  # what an interpreted kernel returns
    monkeypatch.setattr(launch, "_VERSION", "3.99")
    assert keep(Compiled()) is None


def test_this_triton_is_known():
    assert launch._VERSION in launch._STARTERS


def test_not_too_much_is_kept(gpu, monkeypatch):
    monkeypatch.setattr(launch, "_SIZE", 2)
    kept = {}
    for i in range(5):
        launch.keep(kept, i, CUDA, Compiled(), (1,), ())
        assert len(kept) <= 2 and i in kept


def record(starts):
    def start(*pointers):
        starts.append(pointers)
        return False

    return start


def test_softmax_uses_what_is_kept(monkeypatch):
    """By shape, dtype and device, for contiguous tensors that need no gradient."""
    if torch.cuda.is_available():
        pytest.skip("for the interpreter")
    x, starts = torch.randn(4, 8), []
    monkeypatch.setattr(MODULES["softmax"], "_KEPT", {(x.shape, x.dtype, x.device): record(starts)})
    for other in (x.half(), x[:2], torch.randn(8, 4), torch.randn(8, 4).t(), torch.randn(4, 16)[:, ::2]):
        softmax(other)
    assert not starts
    y = softmax(x)
    assert [pointers[0] for pointers in starts] == [x.data_ptr()]
    torch.testing.assert_close(y, torch.softmax(x, -1))  # that launch was refused, so done anew
    with pytest.raises(ValueError, match="x requires grad"):
        softmax(x.requires_grad_())
    with torch.no_grad():
        softmax(x)
    assert len(starts) == 2


def test_layer_norm_uses_what_is_kept(monkeypatch):
    if torch.cuda.is_available():
        pytest.skip("for the interpreter")
    x, w, b, starts = torch.randn(4, 8), torch.randn(8), torch.randn(8), []
    module = MODULES["layer_norm"]
    monkeypatch.setattr(module, "_KEPT", {module._key(x, w, b, 1e-5): record(starts)})
    layer_norm(x, w, b, 1e-6)
    layer_norm(x, torch.randn(16)[::2], b)
    layer_norm(x[:2], w, b)
    with pytest.raises(ValueError, match="weight requires grad"):
        layer_norm(x, torch.nn.Parameter(w), b)
    with pytest.raises(TypeError, match="bias has dtype"):
        layer_norm(x, w, b.half())
    assert not starts
    layer_norm(x, w, b)
    with torch.no_grad():
        layer_norm(x, torch.nn.Parameter(w), b)
    assert [pointers[:3] for pointers in starts] == [(x.data_ptr(), w.data_ptr(), b.data_ptr())] * 2


# The operators


@pytest.fixture
def inputs():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return [torch.randn(*shape, device=device) for shape in ((3, 40), (40,), (40,))]


def both(x, w, b):
    return layer_norm(softmax(x) * 2, w, b) + 1


def test_opcheck(inputs):
    for name, args in (("softmax", inputs[:1]), ("layer_norm", (*inputs, 1e-5))):
        torch.library.opcheck(getattr(torch.ops.kernelbench, name).default, tuple(args))


def test_torch_compile_sees_operators(inputs):
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(both, fullgraph=True, backend=backend)
    torch.testing.assert_close(compiled(*inputs), both(*inputs))
    called = {str(node.target) for node in graphs[0].graph.nodes if node.op == "call_function"}
    assert {"kernelbench.softmax.default", "kernelbench.layer_norm.default"} <= called


@pytest.mark.parametrize("dynamic", [False, True])
def test_torch_compile_through_autograds_tracing(inputs, dynamic):
    x, w, b = inputs
    compiled = torch.compile(both, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, torch.nn.Parameter(w), b), both(x, w, b))
        torch.testing.assert_close(compiled(x[:2], w, b), both(x[:2], w, b))


def test_tracing_by_hand(inputs):
    from torch.fx.experimental.proxy_tensor import make_fx

    for mode in ("real", "fake", "symbolic"):
        graph = make_fx(both, tracing_mode=mode)(*inputs)
        assert "kernelbench.softmax" in graph.code
        torch.testing.assert_close(graph(*inputs), both(*inputs))


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

    torch.testing.assert_close(softmax(Watching(inputs[0])), softmax(inputs[0]))
    assert "kernelbench.softmax.default" in seen


def test_an_operator_defines_no_gradient(inputs):
    x, w, b = inputs
    with pytest.raises(ValueError, match="weight requires grad"):
        layer_norm(x, w.requires_grad_(), b)
    y = F.relu(torch.ops.kernelbench.softmax(x))
    assert not y.requires_grad
