"""The kernel of another library, which the workload knows."""

from kernelbench.harness.package import Package
from kernelbench.harness.runner import Runner
from kernelbench.harness.workload import Unsupported
from kernelbench.notes import RowsTooWide

# The libraries besides PyTorch itself.
PACKAGES = {
    "liger": Package("liger-kernel", "liger_kernel.ops"),
    "quack": Package("quack-kernels", "quack"),
    # There are pre-releases only, which pip takes where the version names one. The extra is for CUDA 13, as torch's is.
    "fa4": Package("flash-attn-4", "flash_attn.cute", extra="cu13", version=">=4.0.0b1"),
    "helion": Package("helion", "helion"),
}
# Those that are a program for torch.compile.
COMPILED = ("flex",)
# The widest rows that a library takes; wider ones it refuses with an exception of no particular type.
WIDEST = {"liger": 65536}


class Library(Runner):
    options = {"library": str}  # noqa: RUF012
    needed = ("library",)
    imports = ("torch", "triton.compiler", "torch.nn.attention.flex_attention")

    def compiles(self, options):
        return options["library"] in COMPILED

    def packages(self, options, device):
        name = options["library"]
        return (PACKAGES[name],) if name in PACKAGES else ()

    def build(self, program, options, inputs):
        name, columns = options["library"], inputs[0].shape[-1]
        if columns > WIDEST.get(name, columns):
            raise Unsupported(RowsTooWide(name, WIDEST[name]))
        return program.workload.library(name)


RUNNER = Library()
