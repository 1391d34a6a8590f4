"""The environment of a job's process: what KernelBench sets, what it takes over from the user's, and nothing else.

PyTorch, Inductor, Triton, CUDA, glibc and Python each read dozens of variables, and many change what is measured
without a word: with TORCHDYNAMO_DISABLE=1, `torch.compile` returns its function uncompiled. So a job's process does not
inherit the user's environment. It is built when that process, or the parent that forks it, is executed: libraries read
most variables when they are loaded, and after a fork it is too late.
"""

import getpass
import os
from fnmatch import fnmatchcase

# Taken over, and part of what is measured: Inductor compiles its C++ with them.
TOOLS = ("CC", "CXX")
# Taken over, and no part of what is measured: where this machine has things, who runs the job and under what, and the
# switches of hosts whose GPUs cannot multicast, which must stay as they are found.
CARRIED = (
    *("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX"),
    *("LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "CUDA_HOME", "CUDA_PATH"),
    *("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "KERNELBENCH_*", "SLURM_*"),
    *("NCCL_NVLS_ENABLE", "TORCH_SYMM_MEM_DISABLE_MULTICAST", "NVSHMEM_DISABLE_NVLS"),
)
# Set while a job runs, to a directory of its own.
OWN = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "PYTORCH_KERNEL_CACHE_PATH")
# Names of variables that can change a measurement: where they are not taken over, run and record say so.
NOTABLE = (
    *("TORCH*", "PYTORCH*", "INDUCTOR*", "AOT*", "TRITON*", "MLIR*", "LLVM*", "PTXAS*", "DISABLE_LLVM*"),
    *("CUDA*", "CUBLAS*", "CUDNN*", "CUTLASS*", "NVIDIA_TF32*", "NVCC*", "NCCL*", "ROCM*", "HIP*", "XLA*", "JAX*"),
    *("OMP_*", "GOMP_*", "KMP*", "MKL*", "OPENBLAS*", "BLIS*", "ATEN*", "ONEDNN*", "DNNL*", "ORT*", "LD_*"),
    *("MALLOC*", "GLIBC*", "PYTHON*", "NPY*", "NUMBA*"),
)


def build(found: dict[str, str], decided: dict[str, str]) -> dict[str, str]:
    """Return the environment of a job's process: of the variables `found` those taken over, and those `decided`."""
    return {name: value for name, value in found.items() if _is_any(name, (*TOOLS, *CARRIED))} | user() | decided


def cleared(found: dict[str, str], decided: dict[str, str]) -> list[str]:
    """Return the names of the variables `found` that `build` leaves out although they could change a measurement."""
    left = found.keys() - build(found, decided).keys()
    return sorted(filter(is_notable, left))


def is_notable(name: str) -> bool:
    """Say whether the variable of this name can change a measurement; those that each job sets are none."""
    return _is_any(name, NOTABLE) and not _is_any(name, OWN)


def user() -> dict[str, str]:
    """Return the variable that names the user where the system does not, as in a container started for any user id.

    Snakemake and Inductor ask for the name, and end with a traceback where there is none.
    """
    try:
        getpass.getuser()
    except (KeyError, OSError):
        return {"LOGNAME": str(os.getuid())}
    return {}


def measured() -> dict[str, str]:
    """Return the variables of this process that are part of what it measures."""
    return {name: value for name, value in os.environ.items() if not _is_any(name, (*CARRIED, *OWN))}


def carried() -> dict[str, str]:
    """Return the variables of this process that are not part of what it measures."""
    return {name: value for name, value in os.environ.items() if _is_any(name, CARRIED)}


def _is_any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
