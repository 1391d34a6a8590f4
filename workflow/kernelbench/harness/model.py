"""What a workload with weights must say of itself: a torch module, and what a training step does around it."""

from contextlib import contextmanager

from kernelbench.harness.precision import widen
from kernelbench.harness.workload import Workload


class Model(Workload):
    """A workload whose forward pass is a torch module; the other names are those of Workload.

    Weights are torch's own initialization from a seed. The floating-point operations are those that torch's flop
    counter finds in matrix products, convolutions and attention; of the bytes each weight counts once, and each element
    of a buffer (statistics of a norm, a cache of keys and values).
    """

    bound = "compute"

    def module(self, size: str):
        """Return a new torch.nn.Module whose forward takes the inputs in the order of `shapes`."""
        raise NotImplementedError

    def construct(self, size: str, dtype: str, device: str):
        """Return the module on `device`, with its weights in torch's dtype of this name."""
        import torch

        with torch.device(device):
            return self.cast(self.module(size), dtype)

    def set_training(self, module) -> None:
        """Bring the module into the mode of what is timed: training, or inference."""
        module.train(self.trains)

    def optimizer(self, module):
        """Return the optimizer of a training step, which a CUDA graph can capture, in all modes alike."""
        import torch

        weights = [weight for weight in module.parameters() if weight.requires_grad]
        return torch.optim.AdamW(weights, lr=1e-4, capturable=weights[0].is_cuda)

    def cast(self, module, dtype: str):
        """Return `module`, changed in place, with what a checkpoint of it holds in `dtype`.

        What it computes itself when it is made, such as the frequencies of rotary embeddings, is kept as it is: so do
        libraries that load a checkpoint.
        """
        import torch

        saved = module.state_dict()
        computed = {name: buffer for name, buffer in module.named_buffers() if name not in saved}
        module._apply(lambda tensor: widen(tensor, getattr(torch, dtype)))  # Module.to would drop imaginary parts.
        for name, buffer in computed.items():
            owner, _, leaf = name.rpartition(".")
            setattr(module.get_submodule(owner), leaf, buffer)
        return module

    def flops(self, size, itemsize):
        from torch.utils.flop_counter import FlopCounterMode

        with self._without_memory(size, itemsize) as (module, inputs), FlopCounterMode(display=False) as counter:
            self.step(module, module)(*inputs)
        return counter.get_total_flops()

    def necessary_bytes(self, size, itemsize):
        with self._without_memory(size, itemsize) as (module, _):
            weights = sum(tensor.numel() for tensor in (*module.parameters(), *module.buffers()))
        return super().necessary_bytes(size, itemsize) + weights * itemsize

    @contextmanager
    def _without_memory(self, size: str, itemsize: int):
        """Yield module and inputs that have shapes and no data."""
        import torch
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        with torch.device("meta"):
            module = self.module(size).train(self.trains).requires_grad_(self.trains)
            dtypes = dict.fromkeys(self.bounds(), torch.int64)
            shapes = self.shapes(size, itemsize).items()
            inputs = [torch.empty(shape, dtype=dtypes.get(name)) for name, shape in shapes]
        with FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv()):
            yield module, inputs
