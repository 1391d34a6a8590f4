"""PyTorch as it is."""

from kernelbench.harness.runner import Runner


class Eager(Runner):
    def build(self, workload, options):
        return workload.call


RUNNER = Eager()
