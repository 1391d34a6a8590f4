"""PyTorch as it is."""

from kernelbench.harness.runner import Runner


class Eager(Runner):
    def build(self, program, options, inputs):
        return program.function


RUNNER = Eager()
