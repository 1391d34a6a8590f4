"""The dtype axis: what each label of it means."""

from dataclasses import dataclass

from kernelbench.harness.workload import Unsupported
from kernelbench.notes import NeedsCapability, NeedsDevice


@dataclass(frozen=True)
class Dtype:
    """What a label of the dtype axis means.

    storage: torch's name of the dtype of inputs and weights; itemsize: its bytes; autocast: the dtype of
    torch.autocast around the forward pass, empty without; tf32: whether a float32 matrix product or convolution may
    round its inputs to TF32, None to leave that as it is; capability: the least compute capability of a GPU; devices:
    where it exists.
    """

    storage: str
    itemsize: int
    autocast: str = ""
    tf32: bool | None = False
    capability: tuple[int, int] = (0, 0)
    devices: tuple[str, ...] = ("cuda", "cpu")

    def require(self, label: str, device: str) -> None:
        """Raise Unsupported where `device` has no such dtype; of a GPU, the current one is asked."""
        import torch

        if device not in self.devices:
            raise Unsupported(NeedsDevice(label, list(self.devices), device))
        if device == "cuda" and torch.cuda.get_device_capability() < self.capability:
            wanted, found = (".".join(map(str, of)) for of in (self.capability, torch.cuda.get_device_capability()))
            raise Unsupported(NeedsCapability(label, wanted, found))

    def apply(self) -> None:
        """Let this process round float32 to TF32, or not: torch's default differs between products and convolutions."""
        if self.tf32 is None:
            return
        import torch

        torch.set_float32_matmul_precision("high" if self.tf32 else "highest")
        torch.backends.cudnn.allow_tf32 = self.tf32


DTYPES = {
    "float16": Dtype("float16", 2),
    "bfloat16": Dtype("bfloat16", 2),
    "float32": Dtype("float32", 4),
    "tf32": Dtype("float32", 4, tf32=True, capability=(8, 0), devices=("cuda",)),
    "autocast-float16": Dtype("float32", 4, autocast="float16"),
    "autocast-bfloat16": Dtype("float32", 4, autocast="bfloat16"),
    # The output is bfloat16.
    "float8": Dtype("float8_e4m3fn", 1, capability=(8, 9)),
    # Whatever dtypes a user's model has; PyTorch's settings stay as the model's file leaves them.
    "own": Dtype("", 0, tf32=None),
}
