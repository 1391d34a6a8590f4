"""Which machine this is: the label under which its results are filed."""

import os
import re
from functools import cache
from importlib import metadata
from pathlib import Path

from kernelbench.errors import InputError
from kernelbench.harness import cuda, provenance

# Where the driver has a file for each GPU, nvidia0 and so on, whether NVML can be asked or not.
DEVICES = Path("/dev")
VENDOR_WORDS = {"nvidia", "tesla", "geforce", "quadro"}


def gpu_label(name: str) -> str:
    """Return the label of a GPU's full name: 'NVIDIA A100-SXM4-80GB' is a100, 'NVIDIA GeForce RTX 4090' rtx4090.

    A slice has one of its own: 'NVIDIA A100-SXM4-40GB MIG 1g.5gb' is a100mig1g5gb.
    """
    whole, mig, part = name.lower().partition(" mig ")
    words = [word for word in re.split(r"[^a-z0-9]+", whole) if word and word not in VENDOR_WORDS]
    model = words[0] + words[1] if words[0] in ("rtx", "gtx") and len(words) > 1 else words[0]
    return model + mig.strip() + re.sub(r"[^a-z0-9]", "", part)


def cpu_label(name: str) -> str:
    """Return the label of a CPU's full name: 'Intel(R) Xeon(R) Gold 6226 CPU @ 2.70GHz' is cpu-intel-xeon-gold-6226."""
    name = re.sub(r"\((r|tm)\)|\bcpu\b|\bprocessor\b|@.*", " ", name.lower())
    return "-".join(["cpu", *re.split(r"[^a-z0-9]+", name.strip(" -"))]).strip("-")


@cache
def present() -> tuple[str, str, str]:
    """Return (label, device, full name) of what is measured here: the GPU if torch can use one, else the CPU."""
    gpu = _usable_gpu()
    if gpu:
        return gpu_label(gpu), "cuda", gpu
    name = provenance.cpu_model()
    return cpu_label(name), "cpu", name


def _usable_gpu() -> str | None:
    """Return the name of the GPU that torch will compute on, None where torch's build, user or machine has none.

    Raises InputError where there is one that cannot be used, or that NVML does not know: it must not be measured as a
    CPU.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if metadata.version("torch").endswith("+cpu") or visible in ("", "-1"):
        return None
    library, otherwise = provenance.nvml(), 'or measure the CPU with CUDA_VISIBLE_DEVICES=""'
    found = cuda.devices()
    if found and (library is None or not provenance.answers(library, found[0].uuid)):
        raise InputError(
            f"GPU: CUDA finds {found[0].name}, and NVML does not answer for it; install nvidia-ml-py and the driver's "
            f"libnvidia-ml.so.1, {otherwise}"
        )
    if found:
        return found[0].name
    files = sorted(DEVICES.glob("nvidia[0-9]*"))
    if visible is not None and (library or files):
        raise InputError(f"CUDA_VISIBLE_DEVICES: {visible} names no GPU of this machine; allowed: nvidia-smi -L")
    if files:
        raise InputError(f"GPU: {files[0]} is there, and CUDA does not find it; install its driver, {otherwise}")
    return None


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
    return present()[:2]


def require(machine: str) -> None:
    """Raise InputError unless this machine is the one named `machine`; any machine can measure its CPU."""
    if machine.startswith("cpu"):
        return
    label, _, name = present()
    if machine != label and not machine.startswith(f"{label}-"):
        raise InputError(
            f"config: machine: {machine} is not what this machine has ({label}: {name}); "
            f"allowed here: auto, {label}, {label}-<study>, cpu"
        )
