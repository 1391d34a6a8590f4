"""A user's model: a Python file, or an importable module, with `model()` and `inputs()`; a size being one of its cases.

Nothing is known of it but what `kernelbench.running.inspect_model` finds out by calling it.
"""

import ast
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import MethodType, ModuleType

from kernelbench.errors import InputError
from kernelbench.harness.model import Model
from kernelbench.harness.object_graph import find_modules
from kernelbench.harness.randomness import seed_all
from kernelbench.names import make_keys

# The case of inputs that have no name.
ONLY_CASE = "default"


@dataclass(frozen=True)
class ModelFile(Model):
    """Inputs and output: whatever the model takes and returns, as long as they are tensors.

    file: the path of a file, or the dotted name of a module; function: what makes the model, in place of `model`;
    trains: whether the file has `loss(output)`, which makes a call a training step; digest: of the files that the model
    is made of; cases: by key of a case the shape of each of its inputs; labels: by key its name as the file has it;
    has_cases: whether `inputs()` names cases; settings: by name each setting of PyTorch that the file changes.
    """

    file: str = ""
    function: str = "model"
    trains: bool = False
    digest: str = ""
    cases: dict = field(default_factory=dict)
    labels: dict = field(default_factory=dict)
    has_cases: bool = False
    settings: dict = field(default_factory=dict)

    split = ()
    only_dtype = "own"
    is_foreign = True

    def shapes(self, size, itemsize):
        if size not in self.cases:
            raise InputError(f"size {size} is no case of {self.file}; allowed: {', '.join(self.cases)}")
        return {name: tuple(shape) for name, shape in self.cases[size].items()}

    def check_size(self, size, itemsize):
        self.shapes(size, itemsize)

    def work(self, size, itemsize):
        return None

    def load(self):
        """Run the file's imports of other packages, and nothing else of it: that is for the job's own process."""
        path = Path(self.file)
        if path.suffix != ".py" or not path.is_file():
            return
        with suppress(SyntaxError):  # The job reports it.
            for node in ast.parse(path.read_bytes()).body:
                if isinstance(node, ast.Import | ast.ImportFrom):
                    with suppress(Exception, SystemExit):  # A neighbour of the file, or missing: the job will know.
                        exec(compile(ast.Module([node], []), self.file, "exec"), {})

    def folders(self):
        """Return the folder of the model's file, whose lines an error message names."""
        found = import_file(self.file)
        return [Path(found.__file__).parent] if found.__file__ else []

    def construct(self, size, dtype, device):
        import torch

        model, names = self.make(torch.initial_seed()), list(self.cases[size])
        module = model if is_module(model) and not _by_name(names) else _wrap(model, names)
        return module.to(device)

    def set_training(self, module):
        """Bring all modules inside into the mode of the step; for training, what model() left in training mode stays.

        Module.train does not reach those that hang in a list or a closure.
        """
        parts = find_modules(module)
        if not self.trains or not any(part.training for part in parts[1:]):
            for part in parts:
                part.train(self.trains)

    def draw(self, size, dtype, device, seed):
        return {name: tensor.to(device) for name, tensor in self.draw_cases(seed)[size].items()}

    def make(self, seed: int):
        """Return the model that the file makes after seeding: a torch.nn.Module, or a function of tensors."""
        seed_all(seed)
        model = _unbind(find(self.file, self.function)())
        if not callable(model):
            raise InputError(
                f"{self.file}: {self.function}() returns a value {_name(model)}; allowed: a torch.nn.Module, or a "
                "function of tensors"
            )
        if is_compiled(model):
            raise InputError(
                f"{self.file}: {self.function}() returns a model that is compiled; return it as it is before that"
            )
        return model

    def draw_cases(self, seed: int) -> dict[str, dict]:
        """Return by key of each case the tensors that `inputs()` makes after seeding, by name: `0`, `1`, … without.

        Raises InputError for inputs that are not tensors.
        """
        seed_all(seed)
        given = find(self.file, "inputs")()
        if not self.has_cases:
            return {ONLY_CASE: self._name_tensors(given, ONLY_CASE)}
        if not given:
            raise InputError(f"{self.file}: inputs() is empty; return the tensors that the model takes")
        return {key: self._name_tensors(given[name], str(name)) for key, name in make_keys(given, "case").items()}

    def _name_tensors(self, case, name: str) -> dict:
        import torch

        listed = case if isinstance(case, Mapping | list | tuple) else [case]
        named = (
            {str(n): one for n, one in listed.items()}
            if isinstance(listed, Mapping)
            else {str(place): one for place, one in enumerate(listed)}
        )
        for argument, tensor in named.items():
            if not isinstance(tensor, torch.Tensor):
                where = f"inputs() of case {name}" if name != ONLY_CASE else "inputs()"
                raise InputError(
                    f"{self.file}: {where}: input {argument} is {_name(tensor)}; allowed: tensors; let model() fix "
                    "what else the model takes"
                )
        if not named:
            raise InputError(f"{self.file}: inputs(): {name} is empty; return the tensors that the model takes")
        return named

    def step(self, function, module):
        if not self.trains:
            return function
        optimizer, loss = self.optimizer(module), find(self.file, "loss")

        def call(*inputs):
            optimizer.zero_grad()
            output = function(*inputs)
            loss(output).backward()
            optimizer.step()
            return output

        return call

    def judged(self, output, module):
        import torch

        found = tuple(tensor.detach().clone() for tensor in list_tensors(output, f"{self.file}: output"))
        if not self.trains:
            return found
        gradients = [weight.grad for weight in module.parameters() if weight.grad is not None]
        if not gradients:
            raise InputError(f"{self.file}: loss() has no gradient of any weight; let it depend on the model's output")
        parts = [part.flatten() for gradient in gradients for part in list_tensors(gradient)]
        saved = module.state_dict().keys()
        buffers = [buffer.clone() for name, buffer in module.named_buffers() if name in saved]
        return *found, *list_tensors(buffers), torch.cat(parts)

    def segments(self, module):
        weights = [weight for weight in module.parameters() if weight.grad is not None] if self.trains else []
        return [weight.numel() * (2 if weight.is_complex() else 1) for weight in weights]


@cache
def import_file(file: str) -> ModuleType:
    """Return the module of a model's file (a path that ends with .py) or name; raise InputError where there is none."""
    if not file.endswith(".py"):
        if Path(f"{file}.py").is_file():
            raise InputError(f"model: {file}: no such file; did you mean {file}.py?")
        try:
            return importlib.import_module(file)
        except ModuleNotFoundError as error:
            raise InputError(
                f"model: {file}: no module {error.name}; allowed: the path of a Python file, or a module's dotted name"
            ) from None
    path = Path(file).resolve()
    if not path.is_file():
        raise InputError(f"model: {file}: no such file; allowed: the path of a Python file, or a module's dotted name")
    # As Python does for a script: the file may import its neighbours, and has no arguments of KernelBench's to parse.
    sys.path.insert(0, str(path.parent))
    sys.argv = [file]
    spec = importlib.util.spec_from_file_location(f"model_file_{re.sub(r'[^A-Za-z0-9]', '_', path.stem)}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def find(file: str, name: str) -> Callable:
    """Return a function of a model's file; raise InputError where there is none of that name."""
    module = import_file(file)
    if not hasattr(module, name):
        raise InputError(f"{file}: has no function {name}(); a model's file needs model() and inputs()")
    found = getattr(module, name)
    if not callable(found) or is_module(found):
        raise InputError(f"{file}: {name} is {_name(found)}; make it a function that returns this: def {name}(): …")
    return found


def is_module(model) -> bool:
    """Say whether a model is a torch.nn.Module and not a function of tensors."""
    from torch import nn

    return isinstance(model, nn.Module)


def is_compiled(model) -> bool:
    """Say whether torch.compile or TorchScript has been at a model, or at a module inside it.

    A part that torch.compiler.disable fences off is none of that.
    """
    import torch

    def has_been_at(part) -> bool:
        scripted = isinstance(part, torch.jit.ScriptModule | torch.jit.ScriptFunction)
        in_place = getattr(part, "_compiled_call_impl", None) is not None
        return scripted or in_place or (hasattr(part, "_torchdynamo_orig_callable") and not _is_fenced(part))

    return any(has_been_at(part) for part in [model, *find_modules(model)])


def _is_fenced(part) -> bool:
    context = type(getattr(part, "dynamo_ctx", None)).__name__
    return getattr(part, "_torchdynamo_disable", False) or context == "DisableContext"


def list_weights(model) -> dict:
    """Return the parameters and buffers of a model by name, those of all modules inside it."""
    found: dict = {}
    for part in find_modules(model):
        own = {**dict(part.named_parameters()), **dict(part.named_buffers())}
        known = {id(tensor) for tensor in found.values()}
        found |= {name: tensor for name, tensor in own.items() if id(tensor) not in known}
    return found


def _unbind(model):
    """Return the module whose forward `model` is; anything else as it is."""
    owner = model.__self__ if isinstance(model, MethodType) else None
    hooked = is_module(owner) and (owner._forward_hooks or owner._forward_pre_hooks)  # Which forward does not call.
    return owner if is_module(owner) and model.__func__ is type(owner).forward and not hooked else model


def _by_name(names: list[str]) -> bool:
    return not names[0].isdigit()


def _wrap(model, names: list[str]):
    """Return a module that calls a function, or a module that takes its inputs by name, with inputs in their order.

    The modules inside a function are its own as well, so that they go to the device with it, and are trained.
    """
    from torch import nn

    class Called(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model
            for place, part in enumerate(find_modules(model)):
                if all(part is not own for own in self.modules()):
                    self.add_module(f"inside{place}", part)

        def forward(self, *inputs):
            if _by_name(names):
                return self.model(**dict(zip(names, inputs, strict=True)))
            return self.model(*inputs)

    return Called()


def list_tensors(output, name: str = "output") -> list:
    """Return the tensors of a model's output in their order; raise InputError where something else is in it.

    Mappings, sequences and dataclasses are looked into; None says nothing. Complex tensors are returned as real ones,
    sparse and quantized ones as dense ones, those of 8 bits, with which little can be computed, in float32, and each
    part of a nested one by itself.
    """
    import torch

    if isinstance(output, torch.Tensor):
        if output.is_nested:
            return [tensor for part in output.unbind() for tensor in list_tensors(part, name)]
        dense = output if output.layout == torch.strided else output.to_dense()
        dense = dense.dequantize() if dense.is_quantized else dense
        dense = dense.float() if dense.is_floating_point() and dense.itemsize == 1 else dense
        return [torch.view_as_real(dense.resolve_conj()) if dense.is_complex() else dense]
    if output is None:
        return []
    if isinstance(output, Mapping):
        inner = {f"{name}[{key!r}]": output[key] for key in sorted(output, key=str)}
    elif isinstance(output, list | tuple):
        inner = {f"{name}[{place}]": value for place, value in enumerate(output)}
    elif is_dataclass(output):
        inner = {f"{name}.{one.name}": getattr(output, one.name) for one in fields(output)}
    else:
        raise InputError(
            f"{name} is {_name(output)}; allowed: tensors, and dicts, tuples, lists or dataclasses of them; "
            "let the model leave it out"
        )
    return [tensor for place, value in inner.items() for tensor in list_tensors(value, place)]


def _name(value) -> str:
    return "None" if value is None else f"of type {type(value).__qualname__}"


WORKLOAD = ModelFile
