"""Where there is no GPU, Triton's own library is loaded for its interpreter.

Triton's functions choose between compiler and interpreter when they are first imported, so this
comes before any test module. The variable is taken back, since processes that tests start should
not inherit it; test_kernels.py sets it again for itself.
"""

import contextlib
import os
import sys

# Several tests run at once: threads of theirs, and of what they start, would only wait for each other.
os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")})
# Asks the driver without opening the GPU, so that a test may still fork.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")

import pytest
import torch
from user_files import file  # noqa: F401, a fixture

if not torch.cuda.is_available() and "TRITON_INTERPRET" not in os.environ:
    os.environ["TRITON_INTERPRET"] = "1"
    with contextlib.suppress(ImportError):
        import triton.language  # noqa: F401
    del os.environ["TRITON_INTERPRET"]


def pytest_collection_modifyitems(items):
    """Put the files whose tests mostly wait for other processes first, so that none is left to wait for at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(autouse=True)
def _state_of_torch():
    """Put back what a job leaves behind in its process: no gradients, the compiler's counters and its stance."""
    torch.set_grad_enabled(True)
    if utils := sys.modules.get("torch._dynamo.utils"):
        utils.counters.clear()
        torch.compiler.set_stance("default")


@pytest.fixture
def nvml(monkeypatch):
    """Return a function that puts another NVML in place, or none, beside a CUDA that has one GPU."""
    from kernelbench.harness import cuda, provenance

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(cuda, "devices", lambda: [cuda.Device("A GPU", "GPU-0")])

    def put(library):
        monkeypatch.setattr(provenance, "nvml", lambda: library)

    return put
