"""TensorRT, by Torch-TensorRT's backend of torch.compile."""

from kernelbench.harness.runner import Package, Runner
from kernelbench.harness.runners.compile import Compile


class TensorRt(Runner):
    inference_only = dynamo = True
    imports = Compile.imports

    def packages(self, options, device):
        return (Package("torch-tensorrt", "torch_tensorrt"),)

    def build(self, program, options, inputs):
        import torch

        return torch.compile(program.function, backend="torch_tensorrt", dynamic=False)


RUNNER = TensorRt()
