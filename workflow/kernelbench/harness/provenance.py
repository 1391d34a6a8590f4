"""Where a measurement was made: hardware, software, and the state of the GPU before and after it."""

import hashlib
import os
import platform
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

from kernelbench.harness import cuda
from kernelbench.notes import (
    HardwareSlowdown,
    HardwareThermalSlowdown,
    Heat,
    Note,
    NotMonitored,
    OtherProcesses,
    PowerBrake,
    PowerCap,
    SoftwareThermalSlowdown,
    Throttled,
)
from kernelbench.paths import ROOT

LOCK = ROOT / "envs" / "requirements.txt"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# NVML's bits for clocks that were held back; its counters of the time that they were (ns) say so of the whole job.
THROTTLING = {
    0x8: HardwareSlowdown,
    0x20: SoftwareThermalSlowdown,
    0x40: HardwareThermalSlowdown,
    0x80: PowerBrake,
}
VIOLATIONS = {"POWER": PowerCap, "THERMAL": Heat}


@cache
def nvml():
    """Return the pynvml module with NVML started, or None where there is no NVML or no driver.

    It stays started: each start costs some 0.1 s on a host of several GPUs, and ends with the process.
    """
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # A missing package, library or driver: each means that there is no NVML.
        return None
    return pynvml


def visible_gpu(library) -> object:
    """Return NVML's handle of the GPU that this process will compute on: CUDA's first one."""
    return library.nvmlDeviceGetHandleByUUID(cuda.named()[0])


def answers(library, uuid: str) -> bool:
    """Say whether NVML knows the GPU of this UUID, and reaches it."""
    try:
        return ask(library, "DeviceGetUUID", library.nvmlDeviceGetHandleByUUID(uuid)) is not None
    except library.NVMLError:
        return False


def ask(library, question: str, *arguments):
    """Return what NVML's function nvml<question> returns, None where this GPU, driver or version has no answer.

    library: what `nvml` returns.
    """
    try:
        answer = getattr(library, f"nvml{question}")(*arguments)
    except Exception:
        return None
    return answer.decode() if isinstance(answer, bytes) else answer


def gpu_state() -> dict | None:
    """Return clocks (MHz), temperature (°C), power (W), throttle reasons (NVML's bit mask) and processes of the GPU.

    `violations`: nanoseconds, since the driver was loaded, that clocks were held back for power or heat.
    """
    library = nvml()
    if library is None:
        return None
    gpu = visible_gpu(library)
    processes = ask(library, "DeviceGetComputeRunningProcesses", gpu)
    return {
        **gpu_load(),
        "memory_clock": ask(library, "DeviceGetClockInfo", gpu, library.NVML_CLOCK_MEM),
        "throttle_reasons": ask(library, "DeviceGetCurrentClocksThrottleReasons", gpu),
        "violations": _violations(library, gpu),
        "processes": None if processes is None else len(processes),
    }


def gpu_load() -> dict:
    """Return SM clock (MHz), power (W) and temperature (°C) of the GPU; empty without NVML."""
    library = nvml()
    if library is None:
        return {}
    gpu = visible_gpu(library)
    power = ask(library, "DeviceGetPowerUsage", gpu)
    return {
        "sm_clock": ask(library, "DeviceGetClockInfo", gpu, library.NVML_CLOCK_SM),
        "power": None if power is None else power / 1000,
        "temperature": ask(library, "DeviceGetTemperature", gpu, library.NVML_TEMPERATURE_GPU),
    }


def _violations(library, gpu) -> dict[str, int | None]:
    """Return ns, since the driver was loaded, that the GPU's clocks were held back for power and for heat."""
    policies = {name: getattr(library, f"NVML_PERF_POLICY_{name}") for name in VIOLATIONS}
    answers = {name: ask(library, "DeviceGetViolationStatus", gpu, policy) for name, policy in policies.items()}
    return {name: answer and answer.violationTime for name, answer in answers.items()}


def _held_back(before: dict, after: dict) -> list[Throttled]:
    """Return for what, and for how long, clocks were held back between two answers of `_violations`."""
    spans = {name: ((after[name] or 0) - (before[name] or 0)) / 1e6 for name in before}
    return [VIOLATIONS[name](span) for name, span in spans.items() if span > 0]


def suspect(before: dict | None, after: dict | None) -> list[Note]:
    """Return what `gpu_state` before the job and after its timers says against its times; empty where nothing does.

    Before the job no process computes on the GPU, after the timers one does: the job itself.
    """
    if before is None or after is None:
        return [NotMonitored()]
    found = []
    others = max((before["processes"] or 0), (after["processes"] or 0) - 1)
    if others > 0:
        found.append(OtherProcesses(others))
    reasons = after["throttle_reasons"] or 0
    found += [kind(None) for bit, kind in THROTTLING.items() if reasons & bit]
    return found + _held_back(before["violations"], after["violations"])


def gpu() -> dict | None:
    """Return name, UUID, memory (bytes), driver and maximal clocks (MHz) of the GPU, None without one."""
    library = nvml()
    if library is None or not cuda.named():
        return None
    handle = visible_gpu(library)
    memory = ask(library, "DeviceGetMemoryInfo", handle)
    return {
        "name": ask(library, "DeviceGetName", handle),
        "uuid": ask(library, "DeviceGetUUID", handle),
        "memory": memory and memory.total,
        "driver": ask(library, "SystemGetDriverVersion"),
        "max_sm_clock": ask(library, "DeviceGetMaxClockInfo", handle, library.NVML_CLOCK_SM),
        "max_memory_clock": ask(library, "DeviceGetMaxClockInfo", handle, library.NVML_CLOCK_MEM),
    }


def cpu_model() -> str:
    """Return the CPU's name as the kernel gives it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def boot() -> str | None:
    """Return what tells this boot of the host from others, and nothing else of it: None where the system has no name.

    The first 12 hexadecimal digits of the SHA-256 of the boot id, which the kernel draws at random.
    """
    try:
        return hashlib.sha256(BOOT_ID.read_bytes().strip()).hexdigest()[:12]
    except OSError:
        return None


def host() -> dict:
    """Return CPU model, boot, the cores this process may use, load (1 min) and kernel."""
    return {
        "cpu": cpu_model(),
        "boot": boot(),
        "cores": os.cpu_count(),
        "affinity": sorted(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "kernel": platform.release(),
    }


def software() -> dict:
    """Return the versions of Python and of what measures, and a digest of the lock."""
    found = {}
    for name in ("torch", "triton", "numpy"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    found["python"] = platform.python_version()
    found["cuda"] = found["cudnn"] = None
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        found["torch"], found["cuda"] = torch.__version__, torch.version.cuda
        found["cudnn"] = _cudnn(torch) if torch.version.cuda else None
    # A checkout may have other line ends than git stores.
    found["lock"] = hashlib.sha256(LOCK.read_bytes().replace(b"\r\n", b"\n")).hexdigest()[:16]
    return found


def _cudnn(torch) -> str:
    """Return the version of the cuDNN that torch uses, by its package where pip installed it.

    To be asked itself, the library has to be loaded, which takes each job some 0.2 s.
    """
    try:
        return metadata.version(f"nvidia-cudnn-cu{torch.version.cuda.partition('.')[0]}")
    except metadata.PackageNotFoundError:
        return str(torch.backends.cudnn.version())
