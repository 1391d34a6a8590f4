"""What CUDA itself says of the GPUs that this process may use.

NVML, the driver's library for watching GPUs, knows them all, whatever a process may use, and in an order of its own: by
the slot that they are in, where CUDA puts the fastest first. Nor does it say that CUDA computes on a slice (MIG) of a
GPU, or that there is a GPU where it is missing itself. So which GPU is measured is for CUDA to say. Asking makes no
context on any of them.
"""

import ctypes
import os
import uuid
from dataclasses import dataclass

from kernelbench.errors import InputError

LIBRARY = "libcuda.so.1"
# The variable that names the GPUs of a run or of a job by their UUIDs: CUDA is asked once for all of them.
NAMED = "KERNELBENCH_GPUS"
# The driver's answer where there is no GPU, or where CUDA_VISIBLE_DEVICES names none.
NO_DEVICE = 100


@dataclass(frozen=True)
class Device:
    """A GPU, or a slice of one, by its full name and its UUID, which is what nvidia-smi -L and NVML call it."""

    name: str
    uuid: str


def named() -> list[str]:
    """Return the UUIDs of the GPUs that this process may use, in CUDA's order; none without a driver."""
    names = os.environ.get(NAMED)
    return names.split(",") if names else [device.uuid for device in devices()]


def devices() -> list[Device]:
    """Return the GPUs that this process may use, in CUDA's order; none without a driver.

    CUDA reads CUDA_VISIBLE_DEVICES when it is first asked in a process. Raises InputError where it fails.
    """
    try:
        driver = ctypes.CDLL(LIBRARY)
    except OSError:
        return []
    if driver.cuInit(0) == NO_DEVICE:
        return []
    count = ctypes.c_int()
    _call(driver, "cuInit", 0)
    _call(driver, "cuDeviceGetCount", ctypes.byref(count))
    return [_device(driver, index) for index in range(count.value)]


def _device(driver, index: int) -> Device:
    handle, name, identity = ctypes.c_int(), ctypes.create_string_buffer(256), (ctypes.c_ubyte * 16)()
    _call(driver, "cuDeviceGet", ctypes.byref(handle), index)
    _call(driver, "cuDeviceGetName", name, len(name), handle)
    _call(driver, "cuDeviceGetUuid_v2", identity, handle)  # Of a slice its own; without _v2 that of the whole GPU.
    text = name.value.decode()
    return Device(text, f"{'MIG' if ' MIG ' in text else 'GPU'}-{uuid.UUID(bytes=bytes(identity))}")


def _call(driver, function: str, *arguments) -> None:
    code = getattr(driver, function)(*arguments)
    if code:
        raise InputError(
            f"GPU: CUDA's driver answers {function} with error {code}; repair it until nvidia-smi lists the GPU, or "
            'measure the CPU with CUDA_VISIBLE_DEVICES=""'
        )
