"""Which machine this is: the label under which its results are filed."""

import os
import re
from functools import cache
from importlib import metadata

from kernelbench.errors import InputError
from kernelbench.harness import provenance

VENDOR_WORDS = {"nvidia", "tesla", "geforce", "quadro"}


def gpu_label(name: str) -> str:
    """Return the label of a GPU's full name: 'NVIDIA A100-SXM4-80GB' is a100, 'NVIDIA GeForce RTX 4090' rtx4090."""
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word and word not in VENDOR_WORDS]
    return words[0] + words[1] if words[0] in ("rtx", "gtx") and len(words) > 1 else words[0]


def cpu_label(name: str) -> str:
    """Return the label of a CPU's full name: 'Intel(R) Xeon(R) Gold 6226 CPU @ 2.70GHz' is cpu-intel-xeon-gold-6226."""
    name = re.sub(r"\((r|tm)\)|\bcpu\b|\bprocessor\b|@.*", " ", name.lower())
    return "-".join(["cpu", *re.split(r"[^a-z0-9]+", name.strip(" -"))]).strip("-")


@cache
def present() -> tuple[str, str, str]:
    """Return (label, device, full name) of what is measured here: the GPU if torch can use one, else the CPU."""
    gpu = _usable_gpu()
    if gpu:
        return gpu_label(gpu["name"]), "cuda", gpu["name"]
    name = provenance.cpu_model()
    return cpu_label(name), "cpu", name


def _usable_gpu() -> dict | None:
    """Return the GPU that torch will compute on, None where the build of torch, the user or the machine has none."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if metadata.version("torch").endswith("+cpu") or visible in ("", "-1"):
        return None
    try:
        return provenance.gpu()
    except Exception as error:  # NVML is there and knows no such GPU.
        if visible is None:
            return None
        raise InputError(f"CUDA_VISIBLE_DEVICES: {visible} names no GPU of this machine ({error})") from None


def resolve(named: str, here: bool) -> tuple[str, str]:
    """Return (label, device) for the config's `machine`: a label, which may go on with -<study>, or `auto` if `here`.

    here: whether this machine measures. Raises InputError for `auto` where another does.
    """
    if named != "auto":
        return named, "cpu" if named.startswith("cpu") else "cuda"
    if not here:
        raise InputError(
            "config: machine: auto is this machine, but a cluster measures on others; allowed: their GPU, such as h200"
        )
    label, device, _ = present()
    return label, device


def require(machine: str) -> None:
    """Raise InputError unless this machine is the one named `machine`; any machine can measure its CPU."""
    label, _, name = present()
    if machine != label and not machine.startswith((f"{label}-", "cpu")):
        raise InputError(
            f"config: machine: {machine} is not what this machine has ({label}: {name}); "
            f"allowed here: auto, {label}, {label}-<study>, cpu"
        )
