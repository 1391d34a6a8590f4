"""Eager PyTorch, captured once by hand into a CUDA graph and replayed."""

from kernelbench.harness.runner import Runner
from kernelbench.harness.workload import Unsupported
from kernelbench.notes import NeedsDevice, NotCaptured

# Calls before the capture: libraries set themselves up, an optimizer makes its state.
WARM_UP = 3


class CudaGraph(Runner):
    """Captures all that is timed, of a training step the backward pass and the optimizer as well.

    As a user must, a call copies its inputs into the tensors that the graph reads, and returns the one that it writes,
    which the next call overwrites.
    """

    converts = True

    def step(self, program, options, inputs):
        import torch

        if not inputs[0].is_cuda:
            raise Unsupported(NeedsDevice("a CUDA graph", ["cuda"], inputs[0].device.type))
        whole, own = program.around(program.function), [tensor.clone() for tensor in inputs]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                whole(*own)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        try:
            # The outer context goes back to the stream even where the end of a capture fails.
            with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(graph):
                output = whole(*own)
        except torch.OutOfMemoryError:
            raise  # A result of its own.
        except RuntimeError as error:
            raise Unsupported(NotCaptured(" ".join(str(error).split())[:200])) from None
        return _replayed(graph, own, output, _Gradients(program.module) if program.workload.trains else None)


def _replayed(graph, own: list, output, gradients):
    """Return what copies its inputs into `own`, replays the graph, and returns `output`."""

    def call(*inputs):
        for buffer, tensor in zip(own, inputs, strict=True):
            buffer.copy_(tensor)
        graph.replay()
        if gradients:
            gradients.attach()
        return output

    return call


class _Gradients:
    """The gradients that a graph writes: another step in between leaves ones of its own with the weights."""

    def __init__(self, module):
        self.weights = [weight for weight in module.parameters() if weight.grad is not None]
        self.gradients = [weight.grad for weight in self.weights]

    def attach(self) -> None:
        if self.weights[0].grad is not self.gradients[0]:
            for weight, gradient in zip(self.weights, self.gradients, strict=True):
                weight.grad = gradient


RUNNER = CudaGraph()
