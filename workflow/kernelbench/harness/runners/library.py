"""The kernel of another library, which the workload knows."""

from kernelbench.harness.runner import Package, Runner

# The libraries besides PyTorch itself.
PACKAGES = {"liger": Package("liger-kernel", "liger_kernel"), "quack": Package("quack-kernels", "quack")}


class Library(Runner):
    options = needed = ("library",)
    imports = ("torch", "triton.compiler", "torch.nn.attention.flex_attention")

    def packages(self, options, device):
        name = options["library"]
        return (PACKAGES[name],) if name in PACKAGES else ()

    def build(self, program, options, inputs):
        return program.workload.library(options["library"])


RUNNER = Library()
