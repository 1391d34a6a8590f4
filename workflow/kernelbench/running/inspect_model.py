"""Find out what a user's model is, before anything of it is measured: its cases, its files, and whether it works.

As a program, in the environment of a job's process, it writes what `inspect` returns as JSON:
    python -m kernelbench.running.inspect_model FILE FUNCTION DEVICE OUTPUT
"""

import hashlib
import json
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import replace
from inspect import Parameter, signature
from pathlib import Path

from kernelbench.errors import InputError, run
from kernelbench.harness.dtypes import DTYPES
from kernelbench.harness.measure import find_place
from kernelbench.harness.program import prepare
from kernelbench.harness.provenance import ROOT, blob_hash
from kernelbench.harness.runners.compile import find_blocks
from kernelbench.harness.workloads import model_file
from kernelbench.harness.workloads.model_file import ModelFile
from kernelbench.running.fork_server import list_threads

# Any seed will do: what is compared was made with the same one.
SEED = 1
# Folders whose files are not the user's own.
INSTALLED = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}


def inspect(file: str, function: str, device: str) -> dict:
    """Return {cases, has_cases, trains, has_blocks, modes, start, files}; raise InputError for whatever is wrong.

    cases: by name the shape of each input; has_blocks: whether blocks repeat in the model; modes: what the file says of
    them, None if nothing; start: how its jobs can start, "fresh" if what it imports starts threads or opens the GPU;
    files: by path the hash of each file of the user's that was imported.
    device: where the model is called once, "cuda" or "cpu"; empty: nowhere, as this machine does not measure.
    """
    import torch

    ModelFile(file).load()
    start = "fresh" if len(list_threads()) > 1 or torch.cuda.is_initialized() else "warm"
    module = model_file.import_file(file)
    trains = hasattr(module, "loss")
    found = ModelFile(file, function, trains)
    model = found.make(SEED)
    given = model_file.find(file, "inputs")()
    found = replace(found, has_cases=isinstance(given, Mapping) and not _are_arguments(given, model))
    cases = found.draw_cases(SEED)
    found = replace(found, cases={name: {k: list(t.shape) for k, t in own.items()} for name, own in cases.items()})
    _require_same(found, model, cases)
    if device:
        _call(found, device)
    return {
        "cases": found.cases,
        "has_cases": found.has_cases,
        "trains": trains,
        "has_blocks": model_file.is_module(model) and bool(find_blocks(model)),
        "modes": getattr(module, "modes", None),
        "start": start,
        "files": _list_files(module),
    }


def _are_arguments(given: Mapping, model) -> bool:
    """Say whether a mapping has the arguments of the model by name, and not its cases."""
    import torch

    if not all(isinstance(value, torch.Tensor) for value in given.values()):
        return False
    parameters = signature(model.forward if model_file.is_module(model) else model).parameters
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return all(str(name).isidentifier() for name in given)
    return given.keys() <= parameters.keys()


def _require_same(found: ModelFile, model, cases: dict) -> None:
    """Refuse a model whose weights or inputs differ when they are made again after seeding."""
    before = _digest(model, cases)
    after = _digest(found.make(SEED), found.draw_cases(SEED))
    differ = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    if differ:
        raise InputError(
            f"{found.file}: {min(differ)} differs when made again after seeding; draw it by torch, numpy or random"
        )
    shapes = {name: {k: list(t.shape) for k, t in own.items()} for name, own in found.draw_cases(SEED + 1).items()}
    if shapes != found.cases:
        raise InputError(f"{found.file}: inputs() has other shapes for another seed; return the same shapes each time")


def _digest(model, cases: dict) -> dict[str, str]:
    """Return a digest of each weight, buffer and input by name."""
    state = model.state_dict() if model_file.is_module(model) else {}
    tensors = {f"weight {name}": tensor for name, tensor in state.items() if hasattr(tensor, "numel")}
    tensors |= {f"input {name} of case {case}": t for case, own in cases.items() for name, t in own.items()}
    return {name: _hash(tensor) for name, tensor in tensors.items()}


def _hash(tensor) -> str:
    import torch

    plain = tensor.detach().cpu().contiguous()
    return hashlib.sha256(plain.flatten().view(torch.uint8).numpy()).hexdigest() if plain.numel() else ""


def _call(found: ModelFile, device: str) -> None:
    """Call the model once at its first case, as its jobs will, and check what it returns."""
    import torch

    torch.set_grad_enabled(found.trains)
    case = next(iter(found.cases))
    program = prepare(found, case, DTYPES["own"], device, SEED)
    if found.trains and not any(weight.requires_grad for weight in program.module.parameters()):
        raise InputError(f"{found.file}: loss() needs a model with weights to train; model() returns one without any")
    inputs = found.draw(case, DTYPES["own"], device, SEED)
    if found.trains:
        loss = model_file.find(found.file, "loss")(program.function(*inputs.values()))
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            shown = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else type(loss).__name__
            raise InputError(f"{found.file}: loss() returns {shown}; allowed: a tensor with one element")
    if not program.results(program.function, inputs):
        raise InputError(f"{found.file}: the model returns no tensor; there is nothing to compare")


def _list_files(module) -> dict[str, str]:
    """Return by path the hash of the module's file, and of what was imported from its folder or its package."""
    file = Path(module.__file__).resolve()
    depth = max(module.__name__.count(".") - 1, 0)
    top = file.parents[depth]
    loaded = [Path(each.__file__).resolve() for each in [*sys.modules.values()] if getattr(each, "__file__", None)]
    own = {path for path in loaded if top in path.parents and path.is_file() and not _is_installed(path)}
    return {str(path): blob_hash(path.read_bytes()) for path in sorted({*own, file})}


def _is_installed(path: Path) -> bool:
    folders = (*INSTALLED, str(ROOT / "workflow"))
    return any(Path(folder) in path.parents for folder in folders) or "site-packages" in path.parts


def main() -> None:
    file, function, device, output = sys.argv[1:]
    try:
        found = inspect(file, function, device)
    except Exception as error:
        module = sys.modules.get(file) or Path(file)
        folder = Path(getattr(module, "__file__", None) or module).resolve().parent
        place = find_place(error, [folder])
        said = " ".join(str(error).split())[:300]
        raise InputError(f"{file}: {type(error).__name__}: {said}{f' ({place})' if place else ''}") from error
    Path(output).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    run(main)
