"""A workload made ready for one job: what a mode transforms, what stays around it, and what is compared of it."""

from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace

from kernelbench.harness import randomness
from kernelbench.harness.dtypes import Dtype
from kernelbench.harness.model import Model
from kernelbench.harness.workload import Workload

# Of the GPU's free memory, what the weights of a reference may take: its activations are in float64 as well.
REFERENCE_SHARE = 0.5


@dataclass(frozen=True)
class Program:
    """A workload, the module with its weights if it has any, and the state that they begin with if they change.

    autocast: the dtype of torch.autocast around the forward pass on `device`, empty without; reference: the dtype of
    the run that results are judged by; seed: that of the random numbers in a call that is judged.
    """

    workload: Workload
    module: object = None
    begin: dict | None = None
    autocast: str = ""
    device: str = "cpu"
    reference: str = "float64"
    seed: int = 0

    @property
    def function(self) -> Callable:
        """What a mode transforms: the module of a model, the call of any other workload."""
        return self.workload.call if self.module is None else self.module

    def casting(self):
        """Return the context of the forward pass."""
        import torch

        return torch.autocast(self.device, getattr(torch, self.autocast)) if self.autocast else nullcontext()

    def around(self, function: Callable) -> Callable:
        """Return what is timed where a mode made `function` of `self.function`: that, within what is around it."""
        return self.workload.step(self._cast(function) if self.autocast else function, self.module)

    def _cast(self, function: Callable) -> Callable:
        def forward(*inputs):
            with self.casting():
                return function(*inputs)

        return forward

    def results(self, function: Callable, inputs: dict) -> tuple:
        """Return the tensors that `function`, in the place of `self.function`, is judged by."""
        return self.outcome(self.around(function), inputs)

    def outcome(self, step: Callable, inputs: dict) -> tuple:
        """Return the tensors that `step` is judged by, of a call that begins with the same weights and generators."""
        if self.begin is not None:
            self.module.load_state_dict(self.begin)
        self.seed_generators()
        return self.workload.judged(step(*inputs.values()), self.module)

    def seed_generators(self) -> None:
        """Bring all random number generators into the state that each compared call begins with."""
        randomness.seed_all(self.seed)

    def takes_fast_path(self) -> bool:
        """Say whether eager runs a part of the module in PyTorch's fast path for transformer encoders."""
        from torch import nn
        from torch.backends import mha

        kinds = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)
        parts = [] if self.module is None else self.module.modules()
        return mha.get_fastpath_enabled() and any(isinstance(part, kinds) and not part.training for part in parts)

    def exact(self) -> "Program":
        """Return the same in the dtype of the reference, with the same weights."""
        if self.module is None:
            return replace(self, autocast="")
        copied = deepcopy(self.module)
        shared = {tensor.data_ptr() for tensor in self.module.parameters()} - {0}
        if shared & {tensor.data_ptr() for tensor in copied.parameters()}:
            raise ValueError("the module cannot be copied")
        module = self.workload.cast(copied, self.reference)
        return replace(self, module=module, autocast="")


def prepare(workload: Workload, size: str, dtype: Dtype, device: str, seed: int) -> Program:
    """Return the program of a cell; the weights of a model follow from `seed` alone, on a kind of device."""
    import torch

    if not isinstance(workload, Model):
        return Program(workload, autocast=dtype.autocast, device=device, seed=seed)
    devices = [torch.cuda.current_device()] if device == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        module = workload.construct(size, dtype.storage, device)
    workload.set_training(module)
    if not workload.trains:
        module.requires_grad_(False)
    begin = deepcopy(module.state_dict()) if workload.trains else None
    reference = _reference(module, dtype, workload.trains)
    return Program(workload, module, begin, dtype.autocast, device, reference, seed)


def _reference(module, dtype: Dtype, trains: bool) -> str:
    """Return the dtype of the reference: float64, or float32 (IEEE) where the GPU has no room for weights in float64.

    In training each weight has a gradient, two moments and the value that it began with. What is float32 itself is
    judged in float64 whatever that takes.
    """
    import torch

    tensors = [*module.parameters(), *module.buffers()]
    if not any(tensor.is_cuda for tensor in tensors) or (dtype.storage == "float32" and not dtype.autocast):
        return "float64"
    needed = sum(tensor.numel() for tensor in tensors) * 8 * (5 if trains else 1)
    return "float64" if needed < REFERENCE_SHARE * torch.cuda.mem_get_info()[0] else "float32"
