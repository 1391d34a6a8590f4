"""A model of torchvision by its name, with random weights, a size being the batch of images."""

from dataclasses import dataclass, field

from kernelbench.harness.architecture import Architecture
from kernelbench.harness.package import Package
from kernelbench.harness.workload import length

CLASSES = 1000


@dataclass(frozen=True)
class Torchvision(Architecture):
    """images: (size, 3, image, image), labels in training: (size,); the output: (size, 1000), or losses: (size,).

    config: what the model's builder takes; channels_last: the memory format of weights and images, as people have it in
    half precision.
    """

    config: dict = field(default_factory=dict)
    image: int = 224
    channels_last: bool = False

    packages = (Package("torchvision", "torchvision", requirements="envs/models-cuda.txt"),)

    def load(self):
        import torchvision.models  # noqa: F401

    def shapes(self, size, itemsize):
        images = {"images": (length(size), 3, self.image, self.image)}
        return {**images, "labels": (length(size),)} if self.trains else images

    def bounds(self):
        return {"labels": CLASSES} if self.trains else {}

    def output_shape(self, size, itemsize):
        return (length(size),) if self.trains else (length(size), CLASSES)

    def lay_out(self, inputs):
        return {**inputs, "images": self._laid_out(inputs["images"])}

    def made(self, size):
        from torchvision.models import get_model

        return self._laid_out(get_model(self.model, weights=None, **self.config))

    def loss(self, model):
        from torch import nn
        from torch.nn.functional import cross_entropy

        class Loss(nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, images, labels):
                return cross_entropy(self.model(images), labels, reduction="none")

        return Loss()

    def _laid_out(self, what):
        import torch

        return what.to(memory_format=torch.channels_last) if self.channels_last else what


WORKLOAD = Torchvision
