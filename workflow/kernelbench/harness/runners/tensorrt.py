"""TensorRT, by Torch-TensorRT's backend of torch.compile."""

from kernelbench.harness.package import Package
from kernelbench.harness.runner import OTHER_SUMS, Runner
from kernelbench.harness.runners.compile import Compile


class TensorRt(Runner):
    inference_only = True
    imports = Compile.imports

    def packages(self, options, device):
        return (Package("torch-tensorrt", "torch_tensorrt"),)

    def compiles(self, options):
        return True

    def slack(self, options):
        return OTHER_SUMS

    def build(self, program, options, inputs):
        import torch

        settings = {
            # Else parts of fewer operations, and those that TensorRT fails to build, run in PyTorch without a word.
            "min_block_size": 1,
            "pass_through_build_failures": True,
            "disable_tf32": torch.get_float32_matmul_precision() != "high",
        }
        return torch.compile(program.function, backend="torch_tensorrt", dynamic=False, options=settings)


RUNNER = TensorRt()
