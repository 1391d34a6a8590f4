"""The kernels of the checkout's folder `kernels`, whatever else is called `kernels` on Python's path.

Hugging Face's package on PyPI has that name, too.
"""

from pathlib import Path

__path__ = [str(Path(__file__).resolve().parents[3] / "kernels")]

from .attention import attention
from .layer_norm import layer_norm
from .matmul import matmul
from .rms_norm import rms_norm
from .softmax import softmax

__all__ = ["attention", "layer_norm", "matmul", "rms_norm", "softmax"]
