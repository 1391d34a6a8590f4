"""Starting a Triton kernel at little cost to the host, and making it an operator of PyTorch.

`kernel[grid](...)` binds, specialises and hashes its arguments anew at every call: some 5 µs of Python in Triton 3.6
and 3.7. What comes of it depends on few things, so a function of this package looks up what it did the last time:

    def run(x):                                    # for x of type torch.Tensor
        key = (x.shape, x.dtype, x.device)         # if x is contiguous and needs no gradient
        start = _KEPT.get(key)
        if start is not None:
            y = torch.empty_like(x)
            if start(x.data_ptr(), y.data_ptr()):  # about 0.7 µs and what the driver takes
                return y
        ...                                        # checks, choices, and then the launch as usual
        compiled = kernel[grid](x, y, *rest)
        launch.keep(_KEPT, key, x.device, compiled, grid, rest)
        return y

    _OPERATOR = launch.operator("f(Tensor x) -> Tensor", run, fake)

    def f(x):                                      # the operator costs 1.2 µs more than the function
        return _OPERATOR(x) if launch.traced() or launch.special(x) else run(x)

The key holds all that the choices, the grid, the numbers and the specialisation depend on: shapes, strides if they are
not those of a contiguous tensor, dtypes, the device, options. Pointers must come first among the kernel's parameters;
a kept launch takes them as integers and refuses those that are not multiples of 16, as the first launch's were (if not
so, nothing is kept). It also refuses, by returning False, when Triton has launch hooks (a profiler's) or another device
is current: the usual launch then does what is right. It goes to the stream that is current at the call.

The launcher inside a compiled kernel is no public interface. `keep` knows the one of Triton 3.6 and the one of 3.7 and
keeps nothing under any other version, nor for a kernel that asks for scratch memory: then every launch is a usual one.
"""

import atexit
from collections.abc import Callable
from functools import cache

import torch
import triton
from triton import knobs

PLAIN = (torch.Tensor, torch.nn.Parameter)  # tensors that do nothing of their own when an operator is called
_SIZE = 4096  # kept launches of an operation, after which it starts afresh
_VERSION = ".".join(triton.__version__.split(".")[:2])
_STREAM = getattr(torch._C, "_cuda_getCurrentRawStream", None)
_DEVICE = getattr(torch._C, "_cuda_getDevice", None)
_ENTER, _LEAVE = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
_MODES = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
_LIBRARY = torch.library.Library("kernelbench", "FRAGMENT")
# A library takes its operators along when it is freed; this one may outlive the module, when that is imported anew.
atexit.register(lambda library: None, _LIBRARY)


@cache
def limits(device: torch.device) -> tuple[int, int, int]:
    """Major compute capability, multiprocessors, shared bytes per program; for the CPU an H200's."""
    if device.type != "cuda":
        return 9, 132, 232448
    found = torch.cuda.get_device_properties(device)
    return found.major, found.multi_processor_count, found.shared_memory_per_block_optin


def traced() -> bool:
    """Whether torch.compile or a dispatch mode should see an operator rather than a launch."""
    return torch.compiler.is_compiling() or _MODES() > 0


def special(*tensors) -> bool:
    """Whether one is a tensor of a subclass, which may want to see an operator."""
    return any(isinstance(tensor, torch.Tensor) and type(tensor) not in PLAIN for tensor in tensors)


def keep(kept: dict, key: tuple, device: torch.device, compiled, grid: tuple[int, ...], rest: tuple) -> None:
    """Put a function of the kernel's pointers into `kept` that starts `compiled` again, if there is a way to.

    compiled: what `kernel[grid](*pointers, *rest)` returned, with all pointers multiples of 16 bytes. grid: up to
    three numbers. rest: the other arguments by position, constants included.

    The function takes the pointers as integers and returns whether it started the kernel.
    """
    launcher = getattr(compiled, "run", None)
    make = _STARTERS.get(_VERSION)
    if make is None or _STREAM is None or launcher is None or device.type != "cuda":
        return
    if launcher.global_scratch_size or launcher.profile_scratch_size:
        return
    if len(kept) >= _SIZE:
        kept.clear()
    kept[key] = make(launcher, compiled, device.index, (*grid, 1, 1)[:3], tuple(rest))


# Functions that start a kept launch, one for each way that Triton's launcher is called. All take the grid, the stream,
# the function, two flags, warps, clusters and shared bytes, three for hooks, two for scratch memory, and the arguments.
# Written out twice, since a function between would cost a tenth of the whole.


def _starter_36(launcher, compiled, device, grid, rest):
    launch, (x, y, z) = launcher.launch, grid
    middle = (compiled.function, launcher.launch_cooperative_grid, launcher.launch_pdl, None, None)
    middle += (compiled.packed_metadata, None, None, None)
    enter, leave, several = _ENTER, _LEAVE, torch.cuda.device_count() > 1

    def start(*pointers):
        for pointer in pointers:
            if pointer & 15:
                return False
        if enter.calls or leave.calls or (several and _DEVICE() != device):
            return False
        launch(x, y, z, _STREAM(device), *middle, *pointers, *rest)
        return True

    return start


def _starter_37(launcher, compiled, device, grid, rest):
    launch, (x, y, z) = launcher.launch, grid
    middle = (compiled.function, launcher.launch_cooperative_grid, launcher.launch_pdl, compiled.packed_metadata)
    middle += (None, None, None, None, None, launcher.arg_annotations, launcher.kernel_signature)
    enter, leave, several = _ENTER, _LEAVE, torch.cuda.device_count() > 1

    def start(*pointers):
        for pointer in pointers:
            if pointer & 15:
                return False
        if enter.calls or leave.calls or (several and _DEVICE() != device):
            return False
        launch(x, y, z, _STREAM(device), *middle, pointers + rest)
        return True

    return start


_STARTERS = {} if torch.version.hip else {"3.6": _starter_36, "3.7": _starter_37}


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
