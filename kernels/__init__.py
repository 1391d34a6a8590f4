"""Hand-written Triton kernels, one file per operation, forward only.

They need nothing but torch and triton, so they can be lifted into a model: an operation's file with those it imports
from here. launch.py starts the kernels of all; rowwise.py and ring.py serve softmax and layer_norm, attention_hopper.py
serves attention. The names below are the functions; the modules of the same name hold the kernels behind them.
"""

from kernels.attention import attention
from kernels.layer_norm import layer_norm
from kernels.matmul import matmul
from kernels.softmax import softmax

__all__ = ["attention", "layer_norm", "matmul", "softmax"]
