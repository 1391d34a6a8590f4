"""jax.jit, where a workload has a version in JAX. On a CPU, JAX takes as many threads as the job has cores."""

import os

from kernelbench.harness.package import Package
from kernelbench.harness.runner import OTHER_SUMS, Runner
from kernelbench.harness.workload import Unsupported
from kernelbench.notes import NoGpuSupport


class Jax(Runner):
    on_stream = False
    inference_only = True

    def __init__(self):
        self.last = None  # What the last call returned: JAX does not wait for it.

    def packages(self, options, device):
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # PyTorch has its tensors on the same GPU.
        return (Package("jax", "jax", extra="cuda13" if device == "cuda" else ""),)

    def slack(self, options):
        return OTHER_SUMS

    def build(self, program, options, inputs):
        import jax
        import torch

        if inputs[0].is_cuda and jax.default_backend() != "gpu":
            raise Unsupported(NoGpuSupport("jax", self.packages(options, "cuda")[0].install))
        precision = "tensorfloat32" if torch.get_float32_matmul_precision() == "high" else "highest"
        jax.config.update("jax_default_matmul_precision", precision)
        jitted, converted = jax.jit(program.workload.jax()), {}

        def call(*tensors):
            key = tuple(map(id, tensors))
            if key not in converted:
                converted[key] = tensors, [jax.dlpack.from_dlpack(tensor) for tensor in tensors]
            self.last = jitted(*converted[key][1])
            return self.last

        return call

    def synchronizer(self, device):
        return lambda: self.last is None or self.last.block_until_ready()

    def tensor(self, output):
        import torch

        return torch.from_dlpack(output)


RUNNER = Jax()
