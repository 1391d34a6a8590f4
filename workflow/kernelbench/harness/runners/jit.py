"""TorchScript, by tracing."""

from kernelbench.harness.runner import Runner


class Jit(Runner):
    converts = True

    def build(self, program, options, inputs):
        import torch

        return torch.jit.trace(program.function, inputs, check_trace=False)


RUNNER = Jit()
