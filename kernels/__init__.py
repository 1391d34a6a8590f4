"""Hand-written Triton kernels, one file per operation, forward only.

Each file stands alone and needs nothing but torch and triton, so it can be lifted into a model.
The names below are the functions; the modules of the same name hold the kernels behind them.
"""

from kernels.attention import attention
from kernels.layer_norm import layer_norm
from kernels.matmul import matmul
from kernels.softmax import softmax

__all__ = ["attention", "layer_norm", "matmul", "softmax"]
