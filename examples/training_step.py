"""A training step of a small classifier: forward pass, loss, backward pass, optimizer."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

FEATURES, WIDTH, LAYERS, CLASSES, BATCH = 256, 512, 6, 10, 256


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.inner, self.outer = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.outer(nn.functional.gelu(self.inner(self.norm(x))))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))

    def forward(self, features, labels):
        logits = self.head(self.layers(self.first(features)))
        return {"loss": cross_entropy(logits, labels), "logits": logits}


def model():
    return Classifier()


# By the names of the model's arguments.
def inputs():
    return {"features": torch.randn(BATCH, FEATURES), "labels": torch.randint(CLASSES, (BATCH,))}


# With a loss a call is a training step.
def loss(output):
    return output["loss"]
