"""RMS normalisation over the last dimension, forward only: the kernels of layer_norm.py, without mean and bias.

The operation is that of Zhang and Sennrich, 2019, arXiv:1910.07467.
"""

import torch

from . import launch
from .layer_norm import _anew, _check, _empty, _kept


def _of(function):
    """The function of layer_norm.py that it is, for the arguments of rms_norm()."""
    return lambda x, weight, eps, **real: function(x, weight, None, eps, False, **real)


_SCHEMA = "rms_norm(Tensor x, Tensor? weight, float eps) -> Tensor"
_otherwise = launch.operator(_SCHEMA, *map(_of, (_check, _kept, _anew, _empty)))


def rms_norm(x: torch.Tensor, weight: torch.Tensor | None = None, eps: float | None = None) -> torch.Tensor:
    """RMS normalisation of `x` over its last dimension, computed in float32.

    `x / sqrt(mean of x^2 + eps) * weight`, as in `torch.nn.functional.rms_norm`. As there, without
    `eps` it is that of float32 for every dtype, 2^-23. The rest is as in `layer_norm`; the operator
    is `launch.OPERATORS["rms_norm"]`.
    """
    eps = 2.0**-23 if eps is None else eps
    if type(eps) is not float:
        eps = launch.number("eps", eps)
    y = None if launch.watched(x, weight) else _kept(x, weight, None, eps, False)
    return _otherwise(x, weight, eps) if y is None else y
