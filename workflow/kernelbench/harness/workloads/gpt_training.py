"""A training step of a stack of GPT-style decoder blocks: forward, backward, optimizer; a size being its layers."""

from dataclasses import dataclass

from kernelbench.harness.workloads.gpt import Gpt


@dataclass(frozen=True)
class GptTraining(Gpt):
    """x, target: (batch, sequence, width). A mode transforms the forward pass, as a user does; the rest is eager's.

    What is compared is the prediction, and all gradients as one vector: the key's bias has none but rounding. The loss
    is a single number, whose error is small by chance.
    """

    trains = True
    split = ()

    def shapes(self, size, itemsize):
        shapes = super().shapes(size, itemsize)
        return {**shapes, "target": shapes["x"]}

    def forwarded(self, inputs):
        return inputs[:1]

    def step(self, function, module):
        import torch

        optimizer = self.optimizer(module)

        def call(x, target):
            optimizer.zero_grad()
            prediction = function(x)
            torch.nn.functional.mse_loss(prediction, target).backward()
            optimizer.step()
            return prediction

        return call

    def judged(self, output, module):
        import torch

        return output.detach().clone(), torch.cat([weight.grad.flatten() for weight in module.parameters()])


WORKLOAD = GptTraining
