"""A ResNet in inference: on a GPU ResNet-50 in float16, one image and 64; on a CPU ResNet-18 in float32, one image."""

import torch
from transformers import ResNetConfig, ResNetForImageClassification

ON_GPU = torch.cuda.is_available()
SMALL = {"layer_type": "basic", "depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512]}


def model():
    network = ResNetForImageClassification(ResNetConfig(num_labels=1000, **({} if ON_GPU else SMALL)))
    return network.half().to(memory_format=torch.channels_last) if ON_GPU else network


def inputs():
    return {f"batch {batch}": images(batch) for batch in ((1, 64) if ON_GPU else (1,))}


def images(batch):
    pixels = torch.randn(batch, 3, 224, 224)
    return pixels.half().to(memory_format=torch.channels_last) if ON_GPU else pixels
