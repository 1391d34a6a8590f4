"""What a workload with weights must say of itself: a torch module, and what a training step does around it."""

from contextlib import contextmanager

from kernelbench.harness.workload import Workload


class Model(Workload):
    """A workload whose forward pass is a torch module; the other names are those of Workload.

    Weights are torch's own initialization from a seed. The floating-point operations are those that torch's flop
    counter finds in matrix products, convolutions and attention; of the bytes each weight counts once.
    """

    bound = "compute"

    def module(self, size: str):
        """Return a new torch.nn.Module whose forward takes the inputs in the order of `shapes`."""
        raise NotImplementedError

    def flops(self, size, itemsize):
        from torch.utils.flop_counter import FlopCounterMode

        with self._without_memory(size, itemsize) as (module, inputs), FlopCounterMode(display=False) as counter:
            self.step(module, module)(*inputs)
        return counter.get_total_flops()

    def necessary_bytes(self, size, itemsize):
        with self._without_memory(size, itemsize) as (module, _):
            weights = sum(weight.numel() for weight in module.parameters())
        return super().necessary_bytes(size, itemsize) + weights * itemsize

    @contextmanager
    def _without_memory(self, size: str, itemsize: int):
        """Yield module and inputs that have shapes and no data."""
        import torch

        with torch.device("meta"):
            module = self.module(size).train(self.trains).requires_grad_(self.trains)
            inputs = [torch.empty(shape) for shape in self.shapes(size, itemsize).values()]
        # Outside, since torch 2.11's optimizers count their steps in a tensor of the default device, and read it.
        yield module, inputs
