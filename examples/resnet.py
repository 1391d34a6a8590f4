"""ResNet-50 in inference: on a GPU in float16 one image and 64, on a CPU one in float32.

snakemake model --resources gpu=1 --config model=examples/resnet.py
"""

import torch
from transformers import ResNetConfig, ResNetForImageClassification

ON_GPU = torch.cuda.is_available()


def model():
    network = ResNetForImageClassification(ResNetConfig(num_labels=1000))
    return network.half().to(memory_format=torch.channels_last) if ON_GPU else network


def inputs():
    return {f"batch {batch}": images(batch) for batch in ((1, 64) if ON_GPU else (1,))}


def images(batch):
    pixels = torch.randn(batch, 3, 224, 224)
    return pixels.half().to(memory_format=torch.channels_last) if ON_GPU else pixels
