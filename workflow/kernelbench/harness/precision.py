"""Precision: a dtype with more digits of the same kind, and the coarsest dtype that a call computes in."""

from collections.abc import Callable


def widen(tensor, dtype):
    """Return a floating-point tensor in `dtype`, a complex one in the complex dtype of that; any other as it is."""
    if tensor.is_complex():
        return tensor.to(dtype.to_complex())
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def epsilon_of(dtype) -> float:
    """Return the ε of a dtype, 0 of one without rounding."""
    import torch

    return torch.finfo(dtype).eps if dtype.is_floating_point or dtype.is_complex else 0.0


def watch(call: Callable) -> tuple:
    """Return (what `call` returns, the largest ε of the dtypes of all that is computed on the way).

    A model may round to another dtype inside, which neither its inputs nor its outputs show.
    """
    watching = _make_watching()
    try:
        with watching:
            return call(), watching.epsilon
    except Exception:  # Some operators refuse to be watched; an error of the call's own comes up once more.
        return call(), 0.0


def _make_watching():
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Watching(TorchDispatchMode):
        epsilon = 0.0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            found = function(*args, **(kwargs or {}))
            dtypes = {leaf.dtype for leaf in tree_leaves(found) if hasattr(leaf, "dtype")}
            self.epsilon = max([self.epsilon, *map(epsilon_of, dtypes)])
            return found

    return Watching()
