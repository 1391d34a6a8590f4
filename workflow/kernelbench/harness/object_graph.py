"""What a model reaches: the modules inside whatever `model()` returned, and all state that its calls may change.

We look into attributes, containers, partials, bound methods, and the closures, defaults and globals of functions.
"""

import hashlib
import sys
import sysconfig
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType

from kernelbench.paths import WORKFLOW

# We look at no more objects than this: a vocabulary among the attributes, say, has no state.
MOST = 50_000
# Bytes of a tensor that take too long to read at each call.
LARGE = 2**28
PLAIN = (int, float, complex, str, bytes, bool, type(None))
LENGTH = "the length of "
CLOSED = (type, BuiltinFunctionType, *PLAIN)
LISTED = (list, tuple, set, deque)


def find_modules(value) -> list:
    """Return the torch modules in `value`, outer ones first."""
    from torch import nn

    return [inner for _, inner in _walk(value) if isinstance(inner, nn.Module)]


def find_scripted(value) -> list[str]:
    """Return where in `value` TorchScript functions are."""
    import torch

    return [path for path, inner in _walk(value) if isinstance(inner, torch.jit.ScriptFunction)]


def read_state(**roots) -> dict[str, object]:
    """Return by path what calls may change: numbers and text, the lengths of containers, tensors by their contents.

    Of a LARGE tensor, the count of how often it was written stands for its contents.
    """
    import torch

    found: dict[str, object] = {}
    for name, root in roots.items():
        for path, value in _walk(root, name):
            if isinstance(value, torch.Tensor):
                is_large = value.nbytes > LARGE and not value.is_inference()
                found[path] = value._version if is_large else digest(value)
            elif isinstance(value, PLAIN):
                found[path] = value
            elif isinstance(value, (Mapping, *LISTED)):
                found[f"{LENGTH}{path}"] = len(value)
    return found


def digest(tensor) -> str:
    """Return a digest of the shape and the values of a dense tensor."""
    import torch

    if tensor.is_meta or tensor.layout != torch.strided:
        return str(tensor.shape)
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    content = plain.flatten().view(torch.uint8).numpy() if plain.numel() else b""
    return f"{tuple(plain.shape)} {hashlib.sha256(content).hexdigest()}"


def is_installed(path: Path) -> bool:
    """Say whether a file is part of Python, of an installed package or of KernelBench, and not the user's own."""
    return any(folder in path.parents for folder in _installed()) or "site-packages" in path.parts


@cache
def _installed() -> tuple[Path, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return WORKFLOW, *(Path(sysconfig.get_path(name)).resolve() for name in names)


def _walk(root, name: str = "") -> Iterator[tuple[str, object]]:
    """Yield (path, value) of all that is reachable from `root`, each object once, the nearest first."""
    left, seen = [(name, root)], set()
    for path, value in left:  # It grows.
        if not isinstance(value, PLAIN):
            if id(value) in seen:
                continue
            seen.add(id(value))
        yield path, value
        if len(left) < MOST:
            left += [(f"{path}{step}".lstrip("."), inner) for step, inner in _list_parts(value)]


def _list_parts(value) -> list[tuple[str, object]]:
    """Return what a value holds, each with what leads there from it."""
    import torch

    if isinstance(value, torch.nn.Module):
        held = {**value._parameters, **value._buffers, **value._modules, **_list_members(type(value))}
        own = {name: part for name, part in vars(value).items() if name not in _internals()}
        return [(f".{name}", part) for name, part in {**own, **held}.items()]
    if isinstance(value, partial):
        return [("", value.func), ("", value.args), ("", value.keywords)]
    if isinstance(value, MethodType):
        return [("", value.__self__), ("", value.__func__)]
    if isinstance(value, FunctionType):
        given = {"__defaults__": value.__defaults__, "__kwdefaults__": value.__kwdefaults__}
        # A decorator of a library holds what it was given; its globals are none of the model's.
        outer = {} if _is_of_library(value.__code__.co_filename) else _list_globals(value)
        return [(f".{name}", part) for name, part in {**_list_nonlocals(value), **given, **outer}.items()]
    if isinstance(value, ModuleType):
        own = {} if _is_of_library(getattr(value, "__file__", None)) else vars(value)
        return [(f".{name}", part) for name, part in own.items() if not name.startswith("__")]
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", part) for key, part in value.items()]
    if isinstance(value, LISTED):
        return [(f"[{place}]", part) for place, part in enumerate(value)]
    if isinstance(value, (torch.Tensor, *CLOSED)):
        return []
    slots = {name: getattr(value, name, None) for name in getattr(type(value), "__slots__", ()) if name[:2] != "__"}
    held = {**getattr(value, "__dict__", {}), **slots, **_list_members(type(value))}
    return [(f".{name}", part) for name, part in held.items()]


def _is_of_library(file: str | None) -> bool:
    return file is None or is_installed(Path(file).resolve())


def _list_nonlocals(function: FunctionType) -> dict:
    """Return what a function holds of the functions around it."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # Nothing is in it yet.
            found[name] = cell.cell_contents
    return found


def _list_globals(function: FunctionType) -> dict:
    """Return the globals that a function names, also in comprehensions and functions inside it."""
    codes, names = [function.__code__], set()
    for code in codes:  # It grows.
        names |= {*code.co_names}
        codes += [part for part in code.co_consts if isinstance(part, CodeType)]
    return {name: function.__globals__[name] for name in sorted(names & function.__globals__.keys())}


def _list_members(kind: type) -> dict:
    """Return the methods of a user's class, and the attributes of it that hold something."""
    if _is_of_library(getattr(sys.modules.get(kind.__module__), "__file__", None)):
        return {}
    kept = (FunctionType, Mapping, *LISTED, *PLAIN)
    own = {name: part for name, part in vars(kind).items() if not name.startswith("__") or name == "__call__"}
    return {name: part for name, part in own.items() if isinstance(part, kept)}


@cache
def _internals() -> frozenset[str]:
    from torch import nn

    return frozenset(vars(nn.Module()))
