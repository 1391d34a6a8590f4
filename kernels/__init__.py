"""Hand-written Triton kernels, one file per operation, forward only.

They need nothing but torch and triton, so they can be lifted into a model: this folder, under any name, or an
operation's file with those it imports from here. launch.py starts the kernels of all; rowwise.py and ring.py serve
softmax and layer_norm, whose kernels are those of rms_norm; matmul_hopper.py and attention_hopper.py serve those two.
The names below are the functions; the modules of the same name hold the kernels behind them.

Hugging Face's package `kernels` has the same name. Which of the two `import kernels` finds depends on Python's path;
`kernelbench.kernels` is always this one.
"""

from importlib.util import find_spec

from .attention import attention
from .layer_norm import layer_norm
from .matmul import matmul
from .rms_norm import rms_norm
from .softmax import softmax

__all__ = ["attention", "layer_norm", "matmul", "rms_norm", "softmax"]


def __getattr__(name: str):
    """Say whose package this is, to what looks here for Hugging Face's."""
    if name.startswith("_") or find_spec(f"{__name__}.{name}"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise ImportError(
        f"KernelBench's package {__name__!r} has no {name!r}: for Hugging Face's package of that name put it first on "
        "Python's path; this one is importable as kernelbench.kernels, too",
        name=name,
    )
