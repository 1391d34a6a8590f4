"""A model of a library, by the name that it has there, with random weights; and its training step."""

from dataclasses import dataclass

from kernelbench.errors import InputError
from kernelbench.harness.model import Model

# The spread of what a library initialises to zero, as of most of what it draws.
SPREAD = 0.02


@dataclass(frozen=True)
class Architecture(Model):
    """model: its name in the library; trains: what is timed is a training step (forward pass and loss, backward pass,
    optimizer), else a forward pass.

    A subclass makes the model in `made`, and in `loss` a module around it that returns the losses, one per example:
    (examples,). A mode transforms forward pass and loss, as a user does. A training step is judged by the losses and by
    all gradients as one vector. The mean loss alone would be one number, whose error may be small by chance.
    """

    model: str = ""
    trains: bool = False

    split = ()

    def __post_init__(self):
        if not self.model:
            raise InputError(f"model is missing; allowed: the name of a model of {self._name}")

    def made(self, size: str):
        """Return the model as a torch.nn.Module, with weights as the library draws them."""
        raise NotImplementedError

    def loss(self, model):
        """Return a torch.nn.Module that takes all inputs and returns the losses of `model`, one per example."""
        raise NotImplementedError

    def module(self, size):
        model = self.made(size)
        _draw_zeros(model)
        return self.loss(model) if self.trains else model

    def step(self, function, module):
        if not self.trains:
            return function
        optimizer = self.optimizer(module)

        def call(*inputs):
            optimizer.zero_grad()
            losses = function(*inputs)
            losses.mean().backward()
            optimizer.step()
            return losses

        return call

    def judged(self, output, module):
        import torch

        if not self.trains:
            return super().judged(output, module)
        return output.detach().clone(), torch.cat([weight.grad.flatten() for weight in module.parameters()])


def _draw_zeros(model) -> None:
    """Draw the weights that are zero: a mode that left such a layer or bias out would pass the check."""
    import torch

    with torch.no_grad():
        for weight in model.parameters():
            if not weight.is_meta and not weight.any():
                weight.normal_(0, SPREAD)
