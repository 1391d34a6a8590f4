"""ONNX Runtime: the model that torch.onnx exports, on the provider of the job's device and on no other."""

from kernelbench.harness.package import Package
from kernelbench.harness.runner import OTHER_SUMS, Runner
from kernelbench.harness.workload import Unsupported
from kernelbench.notes import DtypeNotSupported, NoProvider, RuntimeRefused

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
RUNTIMES = {"cpu": "onnxruntime", "cuda": "onnxruntime-gpu"}


class Onnx(Runner):
    """Inputs and output are bound where they are: no call copies them, and each writes the same output."""

    converts = True
    on_stream = False
    inference_only = True
    imports = ("torch", "torch.onnx")

    def packages(self, options, device):
        return Package(RUNTIMES[device], "onnxruntime"), Package("onnxscript", "onnxscript")

    def slack(self, options):
        return OTHER_SUMS

    def build(self, program, options, inputs):
        import torch

        if inputs[0].dtype not in (torch.float16, torch.float32):
            raise Unsupported(DtypeNotSupported(str(inputs[0].dtype)))
        import onnxruntime

        session = _session(_exported(program.function, inputs), inputs[0].device.type)
        bound, how = {}, onnxruntime.RunOptions()
        if inputs[0].is_cuda:
            # A call returns while the GPU works, as PyTorch's do; the timers wait for the device.
            how.add_run_config_entry("disable_synchronize_execution_providers", "1")

        def call(*tensors):
            key = tuple(map(id, tensors))
            if key not in bound:
                bound[key] = tensors, *_bind(session, tensors)
            _, binding, output = bound[key]
            session.run_with_iobinding(binding, how)
            return output

        return call

    def tensor(self, output):
        if output.is_cuda:
            self.synchronizer("cuda")()  # A stream of the runtime's own writes it, for which PyTorch's does not wait.
        return output


def _exported(function, inputs: tuple) -> bytes:
    """Return the model of `function` for inputs of these shapes."""
    import torch

    class Forward(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.function = function  # A module becomes a part of this one.

        def forward(self, *given):
            return self.function(*given)

    return torch.onnx.export(Forward().eval(), inputs, dynamo=True, verbose=False).model_proto.SerializeToString()


def _session(model: bytes, device: str):
    """Return the session of a model; raise Unsupported where the runtime has no provider for the device."""
    import onnxruntime
    import torch

    provider, settings = PROVIDERS[device], onnxruntime.SessionOptions()
    settings.intra_op_num_threads = torch.get_num_threads()
    own = {}
    if device == "cuda":
        # Without this, what the GPU's provider lacks would run on the CPU without a word.
        settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        own = {"use_tf32": int(torch.get_float32_matmul_precision() == "high")}
    if provider in onnxruntime.get_available_providers():
        try:
            session = onnxruntime.InferenceSession(model, settings, providers=[(provider, own)])
        except Exception as error:  # Of no particular type: a library is missing, a node cannot run on the GPU.
            raise Unsupported(RuntimeRefused("onnxruntime", " ".join(str(error).split())[:200])) from None
        if session.get_providers()[0] == provider:
            return session
    raise Unsupported(NoProvider(provider, f"pip install {RUNTIMES[device]}"))


def _bind(session, tensors: tuple):
    """Return (a binding of the session to the tensors, the tensor that its output goes to)."""
    import torch

    binding, given = session.io_binding(), tensors[0]
    output = torch.empty(session.get_outputs()[0].shape, dtype=given.dtype, device=given.device)
    element = torch.empty(0, dtype=given.dtype).numpy().dtype.type
    names = [(binding.bind_input, node.name) for node in session.get_inputs()]
    names.append((binding.bind_output, session.get_outputs()[0].name))
    for (bind, name), tensor in zip(names, (*tensors, output), strict=True):
        where = tensor.device.type, tensor.device.index or 0
        bind(name, *where, element, tuple(tensor.shape), tensor.data_ptr())
    return binding, output


RUNNER = Onnx()
