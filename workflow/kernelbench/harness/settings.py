"""Settings of PyTorch that change what is measured: which of them a model's file set to something else."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress

from kernelbench.harness import environment

# Modules of switches that know their own defaults; one that was not imported was not changed.
CONFIGS = ("torch._dynamo.config", "torch._inductor.config", "torch._functorch.config", "torch.compiler.config")
# Attributes of torch, and functions of it without arguments.
SWITCHES = (
    *("backends.cuda.matmul.fp32_precision", "backends.cudnn.conv.fp32_precision"),
    *("backends.cuda.matmul.allow_fp16_reduced_precision_reduction",),
    *("backends.cuda.matmul.allow_bf16_reduced_precision_reduction",),
    *("backends.cudnn.enabled", "backends.cudnn.benchmark", "backends.cudnn.deterministic"),
    *("backends.cuda.flash_sdp_enabled", "backends.cuda.mem_efficient_sdp_enabled"),
    *("backends.cuda.math_sdp_enabled", "backends.cuda.cudnn_sdp_enabled", "backends.mha.get_fastpath_enabled"),
    *("backends.mkldnn.enabled", "backends.opt_einsum.enabled"),
    *("get_float32_matmul_precision", "get_default_dtype", "get_default_device", "get_num_threads"),
    *("are_deterministic_algorithms_enabled", "is_autocast_enabled", "is_anomaly_enabled"),
)


def read_settings() -> dict[str, str]:
    """Return by name the value of each switch, and of the variables that can change a measurement."""
    import torch

    found = {f"${name}": value for name, value in os.environ.items() if environment.is_notable(name)}
    for name in SWITCHES:
        # PyTorch versions differ in what they have, and refuse to answer where old and new switches were mixed.
        with suppress(AttributeError, RuntimeError):
            found[f"torch.{name}"] = str(_read(torch, name))
    found["torch.is_autocast_enabled('cpu')"] = str(torch.is_autocast_enabled("cpu"))
    return found


def find_changes(before: dict[str, str]) -> dict[str, str]:
    """Return by name the value of each setting that is no longer as `read_settings` found it, or not the default."""
    now = read_settings()
    changed = {name: value for name, value in now.items() if before.get(name) != value}
    for config in CONFIGS:
        module = sys.modules.get(config)
        for name, entry in getattr(module, "_config", {}).items():
            # torch.compile sets some for a while, and leaves behind that they were set.
            if not module._is_default(name) and getattr(module, name) != entry.default:
                changed[f"{config}.{name}"] = str(getattr(module, name))
    return changed


def _read(value, name: str):
    for part in name.split("."):
        value = getattr(value, part)
    return value() if isinstance(value, Callable) else value
