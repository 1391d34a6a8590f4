"""Softmax and layer normalization over the last of two dimensions, written in Helion, PyTorch's language for kernels.

Whatever the inputs are, they are added up in float32. Importing this imports Helion.
"""

from collections.abc import Callable
from functools import cache

import helion
import helion.language as hl
import torch

# The most elements that a program holds in its registers; rows that are wider it takes part by part.
WHOLE = 32768
PARTS = (2048, 4096, 8192)
# The elements of a thread that Helion chooses among.
PER_THREAD = (8, 16, 32)
# In the process of the job itself: another one would stay on the GPU that is measured.
QUIET = {"autotune_benchmark_subprocess": False, "autotune_log_level": 0, "autotune_progress_bar": False}


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Return the softmax of each row of `x`; the first call of a width chooses among configs, which takes seconds."""
    return _softmax_of(x.shape[1])(x)


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    """Return each row of `x` normalized, times `weight` (columns,), plus `bias` (columns,); else as `softmax`."""
    return _layer_norm_of(x.shape[1])(x, weight, bias, eps)


@cache
def _softmax_of(columns: int) -> Callable:
    if columns > WHOLE:
        shapes = [([1, part, part], warps) for part in PARTS for warps in _warps(part)[:2]]
        return _tuned(_softmax_in_parts, [{"block_sizes": sizes, "num_warps": warps} for sizes, warps in shapes])
    return _tuned(_softmax_of_rows, _configs(columns))


@cache
def _layer_norm_of(columns: int) -> Callable:
    return _tuned(_layer_norm_of_rows, _configs(columns))


def _configs(columns: int) -> list[dict]:
    """Return configs in which a program takes whole rows, and such in which it takes one row part by part."""
    width = helion.next_power_of_2(columns)
    tiles = dict.fromkeys(tile for tile in (max(width, 1024), max(2 * width, 4096)) if tile <= WHOLE)
    shapes = [(tile // width, None, warps) for tile in tiles for warps in _warps(tile)]
    shapes += [(1, part, _warps(part)[0]) for part in PARTS if 2 * part <= columns]
    configs = [{"block_sizes": [rows], "reduction_loops": [part], "num_warps": warps} for rows, part, warps in shapes]
    if columns == 1:  # Helion sees no loop in that, and refuses what is said of it.
        return [{key: value for key, value in config.items() if key != "reduction_loops"} for config in configs]
    return configs


def _warps(tile: int) -> list[int]:
    """Return the numbers of warps that share so many elements."""
    return list(dict.fromkeys(min(max(tile // 32 // each, 1), 32) for each in PER_THREAD))


def _tuned(kernel: Callable, configs: list[dict]) -> Callable:
    return helion.kernel(kernel, configs=[helion.Config(**each) for each in configs], static_shapes=True, **QUIET)


def _softmax_of_rows(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for row in hl.tile(x.size(0)):
        out[row, :] = torch.softmax(x[row, :].to(torch.float32), dim=1).to(x.dtype)
    return out


def _softmax_in_parts(x: torch.Tensor) -> torch.Tensor:
    """Read each row twice: for its maximum and its sum at once, and for its output."""
    rows, columns = x.shape
    out = torch.empty_like(x)
    for row in hl.tile(rows):
        highest = hl.full([row], float("-inf"), dtype=torch.float32)
        total = hl.zeros([row], dtype=torch.float32)
        for part in hl.tile(columns):
            values = x[row, part].to(torch.float32)
            higher = torch.maximum(highest, torch.amax(values, dim=1))
            total = total * torch.exp(highest - higher) + torch.exp(values - higher[:, None]).sum(dim=1)
            highest = higher
        for part in hl.tile(columns):
            values = x[row, part].to(torch.float32)
            out[row, part] = (torch.exp(values - highest[:, None]) / total[:, None]).to(x.dtype)
    return out


def _layer_norm_of_rows(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    out = torch.empty_like(x)
    for row in hl.tile(x.size(0)):
        values = x[row, :].to(torch.float32)
        variance, mean = torch.var_mean(values, dim=1, keepdim=True, correction=0)
        normal = (values - mean) * torch.rsqrt(variance + eps)
        out[row, :] = (normal * weight[:].to(torch.float32) + bias[:].to(torch.float32)).to(x.dtype)
    return out
