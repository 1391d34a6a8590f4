"""Starting a Triton kernel at little cost to the host, and making an operation an operator of PyTorch.

`kernel[grid](...)` binds, specialises and hashes its arguments anew at every call: some 5 µs of Python in Triton 3.6
and 3.7, and a tensor map (what the TMA reads a tensor by) takes as long again. What comes of it depends on few things,
so an operation looks up what it did the last time:

    def _key(x):                                   # what all below depends on; None where nothing is kept
        if type(x) not in launch.PLAIN or (x.requires_grad and torch.is_grad_enabled()):
            return None
        return x.shape, x.stride(), x.dtype, x.device

    def _kept(x):                                  # None where no launch is kept, or it cannot be used
        try:
            again = _KEPT.get(_key(x))
            if again is None:
                return None
            address = x.data_ptr()
        except RuntimeError:
            return None                            # a sparse tensor, say: _check says so
        y = torch.empty_like(x)                    # what follows takes about 0.5 µs, and the driver's time
        return y if again(address, y.data_ptr()) else None

    _otherwise = launch.operator("f(Tensor x) -> Tensor", _check, _kept, _anew, _empty)

    def f(x):
        y = None if launch.watched(x) else _kept(x)
        return _otherwise(x) if y is None else y   # checks; then the operator, or choices, start() and keep()

The key holds all that the choices, the grid, the numbers and the specialisation depend on. A kept launch takes the
tensors as addresses and refuses those that are not multiples of 16, as the first launch's were (if not so, nothing is
kept). It refuses 0, the address of what has no memory of its own. It also refuses, by returning False, when Triton has
launch hooks (a profiler's) or another device is current: the usual launch then does what is right. It goes to the
stream that is current at the call.

The operator serves whatever acts on operators: torch.compile, modes, subclasses, vmap and the other transforms. It
costs some 2 µs more than a kept launch. It has no gradient in reverse or forward mode, and refuses where one is needed.
It is OPERATORS["f"], in a namespace made of the sources, so that copies of this folder that differ never share one.

What is kept is bounded, the oldest out first, to some 16 MiB of host memory for all operations together.

The launcher inside a compiled kernel is no public interface. `start` knows the one of Triton 3.6 and the one of 3.7 and
keeps nothing under any other version, nor for a kernel that asks for scratch memory: then every launch is a usual one.
"""

import atexit
import hashlib
import inspect
import numbers
import os
import sys
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import RLock
from types import SimpleNamespace

import torch
import triton
from torch.autograd import forward_ad
from triton import knobs

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
PLAIN = (torch.Tensor, torch.nn.Parameter)  # tensors that do nothing of their own when an operator is called
OPERATORS: dict[str, torch._ops.OpOverload] = {}  # by name, those that this copy of the folder calls
SIZE = 1024  # kept launches of an operation, of 1.5 to 4.5 KiB (tensor maps), and what else is kept by shape
_ARGUMENTS_SIZE = 2048  # kernels' arguments, of all operations, of 0.5 to 2 KiB
_LOCK = RLock()  # held while what is kept changes
_COMPILING, _TRANSFORMS = torch.compiler.is_compiling, torch._C._are_functorch_transforms_active
_NEGATIVE = torch._C.DispatchKey.Negative
_VERSION = "hip" if torch.version.hip else ".".join(triton.__version__.split(".")[:2])
_DEVICE = getattr(torch._C, "_cuda_getDevice", None)
_ENTER, _LEAVE = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
_MODES = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
_ARGUMENTS = OrderedDict()  # (launch, addresses) -> the kernel's arguments

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

    For torch.compile, a dispatch mode, a transform (vmap, grad), forward-mode derivatives or a subclass of tensors,
    which are to see it; and for a tensor that stands for the negative of what lies in memory (the imaginary part of a
    conjugate): the operator is given one that does not. Also True for what is neither a tensor nor None, to be refused.
    """
    if _COMPILING() or _MODES() or _TRANSFORMS() or forward_ad._current_level >= 0:
        return True
    for tensor in tensors:
        if type(tensor) in PLAIN:
            if tensor.is_neg():
                return True
        elif tensor is not None:
            return True
    return False


def check(tensors: dict[str, torch.Tensor], interpreted: bool, real: bool) -> None:
    """Refuse, in a line that names it, what no kernel takes, or not together with the first of these tensors.

    interpreted: whether the CPU will do. real: whether there are data, and so a device that has them.
    """
    first, lead = next(iter(tensors.items()))
    for name, t in tensors.items():
        _refuse(name, t)
        if t.dtype != lead.dtype:
            raise TypeError(f"{name} has dtype {t.dtype}; it must be that of {first}, {lead.dtype}")
        if t.device != lead.device:
            raise ValueError(f"{name} is on {t.device}; it must be on that of {first}, {lead.device}")
        kind = t.device.type
        if real and not (t.is_cuda or (interpreted and kind == "cpu") or (kind == "meta" and _COMPILING())):
            raise ValueError(f"{name} is on {t.device}; it must be on a CUDA device")


def _refuse(name, t):
    """Refuse what is no dense tensor of a known dtype."""
    if not isinstance(t, torch.Tensor):
        raise TypeError(f"{name} is a {type(t).__name__}; it must be a torch.Tensor")
    if t.is_nested:
        raise TypeError(f"{name} is a nested tensor; it must be a dense one")
    if t.layout is not torch.strided:
        raise TypeError(f"{name} has layout {t.layout}; it must be dense: call to_dense()")
    if t.is_quantized:
        raise TypeError(f"{name} is quantized, of dtype {t.dtype}; call dequantize()")
    if t.dtype not in DTYPES:
        raise TypeError(f"{name} has dtype {t.dtype}; allowed are float16, bfloat16 and float32")


def _refuse_gradient(name, t):
    """Refuse what needs a gradient, of either mode."""
    if t.requires_grad and torch.is_grad_enabled():
        raise ValueError(f"{name} requires grad; this kernel is forward only: detach it or use no_grad()")
    # Within vmap it cannot be asked for; the operator is called without it and asks again.
    inside = torch._C._functorch.is_batchedtensor
    if forward_ad._current_level >= 0 and not inside(t) and forward_ad.unpack_dual(t).tangent is not None:
        raise ValueError(f"{name} has a tangent; this kernel has no forward-mode derivative: take the primal")


def number(name: str, value) -> float:
    """What is given for a number, as a float. Refuse in a line what is none, or would need a gradient."""
    if type(value) is int and abs(value) <= 2**53:
        return float(value)
    # It imports torch._dynamo, which takes seconds: only where that is used anyway.
    return (_number_untraced if _COMPILING() or "torch._dynamo" in sys.modules else _number)(name, value)


def _number(name, value):
    if isinstance(value, torch.Tensor):
        _refuse_gradient(name, value)
    try:
        found = value.item() if getattr(value, "shape", None) == () else value
        if isinstance(found, (torch.SymInt, torch.SymFloat)):
            return torch.sym_float(found)
        whole = isinstance(found, numbers.Real) or not isinstance(found, numbers.Complex)
        if whole and not hasattr(found, "shape") and (hasattr(found, "__float__") or hasattr(found, "__index__")):
            return float(found)
    except (OverflowError, ValueError):
        raise ValueError(f"{name} is {_shown(value)}; it must be finite, as a float") from None
    except (TypeError, RuntimeError):  # RuntimeError: a tensor without a value, as under vmap
        pass
    raise TypeError(f"{name} is {_shown(value)}, a {type(value).__name__}; it must be a number")


# Of numbers of some types torch.compile makes errors of its own (2.13: Decimal, an int that is too large).
_number_untraced = torch._disable_dynamo(_number)


def flag(name: str, value) -> bool:
    """What is given for True or False. Refuse in a line what only counts as either."""
    if type(value) is not bool:
        raise TypeError(f"{name} is {_shown(value)}, a {type(value).__name__}; it must be True or False")
    return value


def _shown(value):
    """A value in part of a line."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an int of more digits than Python writes out
        text = "a value that cannot be shown"
    return text if len(text) <= 80 else f"{text[:77]}..."


def start(kernel, grid: tuple[int, ...], tensors: tuple, rest: tuple, **options) -> Callable[..., bool] | None:
    """Start a kernel as usual, and return a function that starts it again, or None if there is no way to.

    grid: up to three numbers. tensors: the kernel's first arguments, of one device; a descriptor stands for its tensor
    where the kernel takes one, and None for one that is left out. rest: its other arguments by position, constants
    included. options: num_warps and such.

    The function takes the addresses of such tensors, None again for None, and returns whether it started the kernel.
    """
    bases = [t if isinstance(t, torch.Tensor) else t.base for t in tensors if t is not None]
    with torch.cuda.device_of(bases[0]):
        compiled = kernel[grid](*tensors, *rest, **options)
    launcher = getattr(compiled, "run", None)
    if _VERSION not in _MIDDLES or stream is None or launcher is None or any(t.data_ptr() % 16 for t in bases):
        return None
    if launcher.global_scratch_size or launcher.profile_scratch_size:
        return None
    described = [None if t is None or isinstance(t, torch.Tensor) else {**vars(t), "base": None} for t in tensors]
    if any(described) and not getattr(compiled.metadata, "tensordesc_meta", None):
        return None  # Triton passes these descriptors in another way than by tensor maps
    return _again(compiled, (*grid, 1, 1)[:3], bases[0].device.index, described, rest)


def chain(names: tuple[str, ...], rooms: dict[str, torch.Tensor], steps: list[tuple]) -> Callable[..., bool] | None:
    """A function as `start` returns, for several kernels in a row, or None where one of them has none.

    names: of the tensors whose addresses it takes. rooms: tensors, by name, through which the kernels hand on what they
    make; each call makes such anew. steps: what `start` returned for each kernel, and the names of its tensors.
    """
    if any(again is None for again, _ in steps):
        return None
    if not rooms and len(steps) == 1:
        return steps[0][0]
    places = {name: i for i, name in enumerate((*names, *rooms))}
    likes = [(room.shape, room.dtype, room.device) for room in rooms.values()]
    steps = [(again, tuple(places[name] for name in taken)) for again, taken in steps]

    def again(*addresses):
        # Memory of the current stream: it can be given away again once what is started here has run.
        made = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype, device in likes]
        addresses += tuple(room.data_ptr() for room in made)
        return all(step(*(addresses[i] for i in taken)) for step, taken in steps)

    return again


def keep(kept: OrderedDict, key: tuple | None, again: Callable[..., bool] | None) -> None:
    """Put what `start` returned into `kept`, unless there is nothing to keep or no key to keep it by."""
    if key is not None and again is not None:
        _put(kept, key, again, SIZE)


def _put(kept: OrderedDict, key, value, size: int) -> None:
    """Keep a value, and of all no more than `size`: the oldest goes."""
    with _LOCK:
        kept[key] = value
        while len(kept) > size:
            kept.popitem(last=False)


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


class _Arguments:
    """How to make a kernel's arguments from addresses."""

    __slots__ = ("described", "rest")

    def __init__(self, described, rest):
        self.described, self.rest = described, rest

    def at(self, addresses):
        """The arguments for tensors at these addresses; None if the kernel was not made for those."""
        if any(address == 0 or address % 16 for address in addresses if address is not None):
            return None
        made = []
        for address, how in zip(addresses, self.described or [None] * len(addresses), strict=True):
            made += _mapped(address, *how) if how else [address]
        made = (*made, *self.rest)
        found = (made,) if _VERSION == "3.7" else made
        _put(_ARGUMENTS, (self, addresses), found, _ARGUMENTS_SIZE)
        return found


def _again(compiled, grid, device, described, rest):
    """The function that `start` returns."""
    launch, middle = compiled.run.launch, _MIDDLES[_VERSION](compiled, compiled.run)
    if any(described):
        # This one makes a tensor map of every descriptor at every call, and then calls the other.
        launch = inspect.getclosurevars(launch).nonlocals["launcher"]
        maps = iter(compiled.metadata.tensordesc_meta)
        described = tuple(d and (d, next(maps)) for d in described)
    else:
        described = None
    several, this = torch.cuda.device_count() > 1, _Arguments(described, rest)

    def again(*addresses):
        found = _ARGUMENTS.get((this, addresses)) or this.at(addresses)
        if found is None or _ENTER.calls or _LEAVE.calls or (several and _DEVICE() != device):
            return False
        launch(*grid, stream(device), *middle, *found)
        return True

    return again


def _mapped(address, descriptor, how):
    """What Triton makes of the descriptor of a tensor at that address: its map, shape and strides."""
    from triton.backends.nvidia.driver import make_tensordesc_arg

    base = SimpleNamespace(data_ptr=lambda: address)
    return make_tensordesc_arg(SimpleNamespace(**{**descriptor, "base": base}), how)


def operator(schema: str, check: Callable, kept: Callable, anew: Callable, empty: Callable) -> Callable:
    """Define an operator for PyTorch, OPERATORS[name], and return what serves all calls that no kept launch does.

    schema: such as "softmax(Tensor x) -> Tensor", tensors first, `Tensor?` for one that may be None; a file may define
    a name once. The functions take its arguments. check: refuses what is wrong with them, and takes `real`, see `check`
    here; it stands in that file. kept: the result by a kept launch, or None. anew: the result. empty: an empty result
    of the right shape, dtype and device, for torch.compile.
    """
    name = schema.partition("(")[0]
    op, library = _define(schema, name, _name_namespace(check))
    OPERATORS[name] = op
    names = tuple(a.name for a in op._schema.arguments if "Tensor" in str(a.type))
    count = len(names)

    def given(args):
        """The tensors by name, without those that are left out."""
        return [(which, t) for which, t in zip(names, args, strict=False) if t is not None]

    def run(*args):
        """The operator, of tensors with memory."""
        y = kept(*args)
        if y is None:
            check(*args)
            y = start_anew(*args)
        return y

    def start_anew(*args):
        for which, t in given(args):
            if t.data_ptr() == 0 and t.numel():
                raise ValueError(f"{which} has no memory behind it; give a tensor whose storage was not freed")
        return anew(*args)

    def above(keyset, *args):
        """In the place of autograd, which has nothing to record: else a gradient would be lost without a word."""
        if not (_MODES() or _TRANSFORMS() or forward_ad._current_level >= 0 or keyset.has(_NEGATIVE)):
            y = kept(*args)  # None for subclasses; else this is watched() in less time
            if y is not None:
                return y
        for which, t in given(args):
            _refuse(which, t)
            _refuse_gradient(which, t)
        with torch._C._AutoDispatchBelowAutograd():
            return op.redispatch(keyset & torch._C._after_autograd_keyset, *args)

    def batched(info, dims, *args):
        """Under vmap: one after the other."""
        parts = [
            op(*(arg if dim is None else arg.select(dim, i) for arg, dim in zip(args, dims, strict=True)))
            for i in range(info.batch_size)
        ]
        return torch.stack(parts), 0

    def fake(*args):
        check(*args, real=False)
        return empty(*args)

    def otherwise(*args):
        check(*args)
        for which, t in given(args):
            _refuse_gradient(which, t)
        if watched(*args[:count]) or any(_is_hollow(t) for _, t in given(args)):
            return op(*args)
        return start_anew(*args)

    if library:
        library.impl(name, run, "CompositeExplicitAutograd")
        library.impl(name, above, "Autograd", with_keyset=True)
        torch.library.register_vmap(op, batched, lib=library)
        torch.library.register_fake(op, fake, lib=library)
    return otherwise


def _is_hollow(t):
    """Whether a tensor stands for another one or for zeros: it has no memory, the operator is given one that has."""
    return torch._is_functional_tensor(t) or t._is_zerotensor()


def _define(schema, name, namespace):
    """The operator and its library, or None for that if the same sources have defined it before."""
    there, library = getattr(torch.ops, namespace), None
    if not hasattr(there, name):
        library = torch.library.Library(namespace, "FRAGMENT")
        library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
        # When it is freed its operators go. An equal copy of this folder may need them for as long as Python runs.
        atexit.register(lambda library: None, library)
    return getattr(there, name).default, library


def _name_namespace(function):
    """A namespace for the operators of this function's file. Only equal sources have the same one.

    The sources are those beside that file and beside this one, as they are now: after an edit, what is imported anew
    has another namespace. Where the folder lies and what it is called does not matter, as for a file of torch.export.
    """
    try:
        files = [Path(__file__), Path(inspect.getfile(function))]
        # Two files in a folder may define the same name. For Triton's interpreter the same source makes other kernels.
        digest = hashlib.sha256(f"{files[1].name} {knobs.runtime.interpret}".encode())
        beside = (path for file in files for path in file.parent.glob("[!.]*.py"))
        for path in sorted({*files, *beside}):
            digest.update(b"\0".join((os.fsencode(path.name), path.read_bytes(), b"")))
        return f"kernelbench_{digest.hexdigest()[:8]}"
    except (OSError, TypeError):  # In an archive, or typed in: nothing tells what is equal, so nothing is shared.
        return f"kernelbench_{os.urandom(4).hex()}"
