"""The hand-written Triton kernel."""

from kernelbench.harness.package import Package
from kernelbench.harness.runner import Runner


class Kernel(Runner):
    imports = ("torch", "triton", "triton.compiler")

    def build(self, program, options, inputs):
        Package("triton", "triton").require()
        return program.workload.kernel()


RUNNER = Kernel()
