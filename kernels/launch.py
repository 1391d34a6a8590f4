"""Starting a Triton kernel at little cost to the host, and making an operation an operator of PyTorch.

`kernel[grid](...)` binds, specialises and hashes its arguments anew at every call: some 5 µs of Python in Triton 3.6
and 3.7, and a tensor map (what the TMA reads a tensor by) takes as long again. What comes of it depends on few things,
so an operation looks up what it did the last time:

    def _key(x):                                   # what all below depends on; None where nothing is kept
        if type(x) not in launch.PLAIN or (x.requires_grad and torch.is_grad_enabled()):
            return None
        return x.shape, x.stride(), x.dtype, x.device

    def _f(x):
        again = _KEPT.get(_key(x))
        if again is not None:
            y = torch.empty_like(x)
            if again(x.data_ptr(), y.data_ptr()):  # about 0.5 µs and what the driver takes
                return y
        return _anew(x)                            # checks, choices, launch.start() and launch.keep()

    _OPERATOR = launch.operator("f(Tensor x) -> Tensor", _f, _empty)

    def f(x):                                      # the operator costs 1.2 µs more than the function
        return _OPERATOR(x) if launch.watched(x) else _f(x)

The key holds all that the choices, the grid, the numbers and the specialisation depend on. A kept launch takes the
tensors as addresses and refuses those that are not multiples of 16, as the first launch's were (if not so, nothing is
kept). It also refuses, by returning False, when Triton has launch hooks (a profiler's) or another device is current:
the usual launch then does what is right. It goes to the stream that is current at the call.

The launcher inside a compiled kernel is no public interface. `start` knows the one of Triton 3.6 and the one of 3.7 and
keeps nothing under any other version, nor for a kernel that asks for scratch memory: then every launch is a usual one.
"""

import atexit
import inspect
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace

import torch
import triton
from triton import knobs

PLAIN = (torch.Tensor, torch.nn.Parameter)  # tensors that do nothing of their own when an operator is called
_SIZE = 4096  # kept launches of an operation, and arguments of all, after which they start afresh
_VERSION = "hip" if torch.version.hip else ".".join(triton.__version__.split(".")[:2])
_DEVICE = getattr(torch._C, "_cuda_getDevice", None)
_ENTER, _LEAVE = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
_MODES = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
_ARGUMENTS = {}  # (launch, addresses) -> the kernel's arguments
_LIBRARY = torch.library.Library("kernelbench", "FRAGMENT")
# A library takes its operators along when it is freed; this one may outlive the module, when that is imported anew.
atexit.register(lambda library: None, _LIBRARY)

stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # the current stream of the device of an index


@cache
def limits(device: torch.device) -> tuple[int, int, int]:
    """Major compute capability, multiprocessors, shared bytes per program; for the CPU an H200's."""
    if device.type != "cuda":
        return 9, 132, 232448
    found = torch.cuda.get_device_properties(device)
    return found.major, found.multi_processor_count, found.shared_memory_per_block_optin


def watched(*tensors) -> bool:
    """Whether an operator should be called rather than a launch.

    For torch.compile, a dispatch mode or a subclass of tensors, which are to see it; and for a tensor that stands for
    the negative of what lies in memory (the imaginary part of a conjugate): the operator is given one that does not.
    """
    if torch.compiler.is_compiling() or _MODES():
        return True
    for tensor in tensors:
        if type(tensor) in PLAIN:
            if tensor.is_neg():
                return True
        elif isinstance(tensor, torch.Tensor):
            return True
    return False


def start(kernel, grid: tuple[int, ...], tensors: tuple, rest: tuple, **options) -> Callable[..., bool] | None:
    """Start a kernel as usual, and return a function that starts it again, or None if there is no way to.

    grid: up to three numbers. tensors: the kernel's first arguments, of one device; a descriptor stands for its tensor
    where the kernel takes one. rest: its other arguments by position, constants included. options: num_warps and such.

    The function takes the addresses of such tensors and returns whether it started the kernel.
    """
    bases = [t if isinstance(t, torch.Tensor) else t.base for t in tensors]
    with torch.cuda.device_of(bases[0]):
        compiled = kernel[grid](*tensors, *rest, **options)
    launcher = getattr(compiled, "run", None)
    if _VERSION not in _MIDDLES or stream is None or launcher is None or any(t.data_ptr() % 16 for t in bases):
        return None
    if launcher.global_scratch_size or launcher.profile_scratch_size:
        return None
    described = [None if isinstance(t, torch.Tensor) else {**vars(t), "base": None} for t in tensors]
    if any(described) and not getattr(compiled.metadata, "tensordesc_meta", None):
        return None  # Triton passes these descriptors in another way than by tensor maps
    return _again(compiled, (*grid, 1, 1)[:3], bases[0].device.index, described, rest)


def keep(kept: dict, key: tuple | None, again: Callable[..., bool] | None) -> None:
    """Put what `start` returned into `kept`, unless there is nothing to keep or no key to keep it by."""
    if key is not None and again is not None:
        if len(kept) >= _SIZE:
            kept.clear()
        kept[key] = again


# What Triton's launcher takes between the stream and the kernel's arguments: the function, two flags, warps, clusters
# and shared bytes, three for hooks, two for scratch memory. In 3.7 the kernel's arguments are one tuple.
_MIDDLES = {
    "3.6": lambda compiled, run: (
        *(compiled.function, run.launch_cooperative_grid, run.launch_pdl, None, None),
        *(compiled.packed_metadata, None, None, None),
    ),
    "3.7": lambda compiled, run: (
        *(compiled.function, run.launch_cooperative_grid, run.launch_pdl, compiled.packed_metadata),
        *(None, None, None, None, None, run.arg_annotations, run.kernel_signature),
    ),
}


def _again(compiled, grid, device, described, rest):
    """The function that `start` returns."""
    launch, (x, y, z) = compiled.run.launch, grid
    middle = _MIDDLES[_VERSION](compiled, compiled.run)
    maps = iter(())
    if any(described):
        # This one makes a tensor map of every descriptor at every call, and then calls the other.
        launch = inspect.getclosurevars(launch).nonlocals["launcher"]
        maps = iter(compiled.metadata.tensordesc_meta)
    described = [d and (d, next(maps)) for d in described]
    enter, leave, several, this = _ENTER, _LEAVE, torch.cuda.device_count() > 1, object()

    def arguments(*addresses):
        """The kernel's arguments for tensors at these addresses; None if the kernel was not made for those."""
        if any(address % 16 for address in addresses):
            return None
        pairs = zip(addresses, described, strict=True)
        made = (*(part for address, how in pairs for part in (_mapped(address, *how) if how else [address])), *rest)
        if len(_ARGUMENTS) >= _SIZE:
            _ARGUMENTS.clear()
        found = _ARGUMENTS[this, addresses] = (made,) if _VERSION == "3.7" else made
        return found

    def again(*addresses):
        found = _ARGUMENTS.get((this, addresses)) or arguments(*addresses)
        if found is None or enter.calls or leave.calls or (several and _DEVICE() != device):
            return False
        launch(x, y, z, stream(device), *middle, *found)
        return True

    return again


def _mapped(address, descriptor, how):
    """What Triton makes of the descriptor of a tensor at that address: its map, shape and strides."""
    from triton.backends.nvidia.driver import make_tensordesc_arg

    base = SimpleNamespace(data_ptr=lambda: address)
    return make_tensordesc_arg(SimpleNamespace(**{**descriptor, "base": base}), how)


def operator(schema: str, run: Callable, fake: Callable):
    """Define `kernelbench::<schema>` for PyTorch and return it, to be called like a function.

    schema: such as "softmax(Tensor x) -> Tensor". run: does the work. fake: of the same arguments, returns an empty
    result of the right shape, dtype and device, for torch.compile. No gradient is defined.
    """
    name = schema.partition("(")[0]
    if not hasattr(torch.ops.kernelbench, name):
        _LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    _LIBRARY.impl(name, run, "CompositeExplicitAutograd", allow_override=True)
    torch.library.register_fake(f"kernelbench::{name}", fake, lib=_LIBRARY, allow_override=True)
    return getattr(torch.ops.kernelbench, name).default
