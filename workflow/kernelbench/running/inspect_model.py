"""Find out what a user's model is, before anything of it is measured: its cases, its files, and whether it works.

As a program, in the environment of a job's process, it writes what `inspect` returns as JSON, or {error} in one line:
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

from kernelbench import code_digest
from kernelbench.errors import InputError, nearest, run
from kernelbench.harness.dtypes import DTYPES
from kernelbench.harness.measure import classify, find_place
from kernelbench.harness.program import prepare
from kernelbench.harness.runners.compile import find_blocks
from kernelbench.harness.workloads import model_file
from kernelbench.harness.workloads.model_file import ModelFile
from kernelbench.paths import WORKFLOW
from kernelbench.running.fork_server import list_threads

# Any seed will do: what is compared was made with the same one.
SEED = 1
# Folders whose files are not the user's own.
INSTALLED = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}


def inspect(file: str, function: str, device: str) -> dict:
    """Return {cases, has_cases, trains, has_blocks, modes, start, files}; raise InputError for whatever is wrong.

    cases: by name the shape of each input; has_blocks: whether blocks repeat in the model; modes: what the file says of
    them, None if nothing; start: how its jobs can start, "fresh" if what it imports starts threads or opens the GPU;
    files: by path the digest of each file of the user's that was imported (`code_digest.of_user_file`).
    device: where the model is called once a case, "cuda" or "cpu"; empty: nowhere, as this machine does not measure.
    """
    import torch

    ModelFile(file).load()
    start = "fresh" if len(list_threads()) > 1 or torch.cuda.is_initialized() else "warm"
    module = model_file.import_file(file)
    trains = getattr(module, "loss", None) is not None
    found = ModelFile(file, function, trains)
    model = found.make(SEED)
    given = model_file.find(file, "inputs")()
    found = replace(found, has_cases=isinstance(given, Mapping) and not _are_arguments(file, given, model))
    cases = found.draw_cases(SEED)
    found = replace(found, cases={name: {k: list(t.shape) for k, t in own.items()} for name, own in cases.items()})
    _require_same(found, model, cases)
    for case in found.cases if device else []:
        try:
            _call(found, case, device)
        except Exception as error:
            if classify(error, [])[0] != "oom":  # What has no room says so in its row; a smaller case may have some.
                error.add_note(f"in case {case}" if found.has_cases else "in eager mode")
                raise
    return {
        "cases": found.cases,
        "has_cases": found.has_cases,
        "trains": trains,
        "has_blocks": model_file.is_module(model) and bool(find_blocks(model)),
        "modes": _find_modes(file, module),
        "start": start,
        "files": _list_files(module),
    }


def _are_arguments(file: str, given: Mapping, model) -> bool:
    """Say whether a mapping has the arguments of the model by name, and not its cases; refuse one that has both."""
    if any(isinstance(value, Mapping | list | tuple) for value in given.values()):
        return False
    try:
        parameters = signature(model.forward if model_file.is_module(model) else model).parameters.values()
    except ValueError:  # What is written in C may have none.
        return False
    by_name = [
        each.name for each in parameters if each.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    ]
    others = [name for name in given if name not in by_name]
    if any(each.kind is Parameter.VAR_KEYWORD for each in parameters):
        return all(str(name).isidentifier() for name in given) and (not by_name or len(others) < len(given))
    if others and len(others) < len(given):
        raise InputError(
            f"{file}: inputs(): {others[0]} is no argument of the model{nearest(others[0], by_name)}; "
            f"allowed: {', '.join(by_name)}, or cases under names that no argument has"
        )
    return not others


def _find_modes(file: str, module) -> dict | None:
    """Return the file's modes; refuse what cannot be written as JSON, as a record must be."""
    modes = getattr(module, "modes", None)
    try:
        return json.loads(json.dumps(modes))
    except (TypeError, ValueError) as error:
        raise InputError(f"{file}: modes: {error}; allowed: text, numbers, lists and dicts") from None


def _require_same(found: ModelFile, model, cases: dict) -> None:
    """Refuse a model whose weights or inputs differ when they are made again after seeding."""
    _require_dense(found, model, cases)
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


def _require_dense(found: ModelFile, model, cases: dict) -> None:
    """Refuse weights and inputs without values of their own, or not in a dense layout."""
    import torch

    weights = [*model.named_parameters(), *model.named_buffers()] if model_file.is_module(model) else []
    for what, tensor in [(f"weight {name}", tensor) for name, tensor in weights] + [
        (f"input {name} of case {case}", tensor) for case, own in cases.items() for name, tensor in own.items()
    ]:
        if torch.nn.parameter.is_lazy(tensor):
            raise InputError(f"{found.file}: {what} has no shape yet; let model() call the module once")
        if tensor.is_meta:
            raise InputError(f"{found.file}: {what} is on the meta device, without values; let model() make them")
        if tensor.layout != torch.strided:
            raise InputError(f"{found.file}: {what} has the layout {tensor.layout}; allowed: dense tensors")


def _digest(model, cases: dict) -> dict[str, str]:
    """Return a digest of each weight, buffer and input by name."""
    state = model.state_dict() if model_file.is_module(model) else {}
    tensors = {f"weight {name}": tensor for name, tensor in state.items() if hasattr(tensor, "layout")}
    tensors |= {f"input {name} of case {case}": t for case, own in cases.items() for name, t in own.items()}
    return {name: _hash(tensor) for name, tensor in tensors.items()}


def _hash(tensor) -> str:
    import torch

    plain = tensor.detach().cpu().contiguous()
    return hashlib.sha256(plain.flatten().view(torch.uint8).numpy()).hexdigest() if plain.numel() else ""


def _call(found: ModelFile, case: str, device: str) -> None:
    """Call the model once at a case, as its jobs will, and check what it returns."""
    import torch

    torch.set_grad_enabled(found.trains)
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
    """Return by path the digest of the module's file, and of what was imported from its folder or its package."""
    file = Path(module.__file__).resolve()
    depth = max(module.__name__.count(".") - 1, 0)
    top = file.parents[depth]
    loaded = [Path(each.__file__).resolve() for each in [*sys.modules.values()] if getattr(each, "__file__", None)]
    own = {path for path in loaded if top in path.parents and path.is_file() and not _is_installed(path)}
    return {str(path): code_digest.of_user_file(path) for path in sorted({*own, file})}


def _is_installed(path: Path) -> bool:
    folders = (*INSTALLED, str(WORKFLOW))
    return any(Path(folder) in path.parents for folder in folders) or "site-packages" in path.parts


def main() -> None:
    file, function, device, output = sys.argv[1:]
    try:
        found = inspect(file, function, device)
    except InputError as error:
        found = {"error": str(error)}
    except (Exception, SystemExit) as error:
        found = {"error": _describe(error, file)}
    Path(output).write_text(json.dumps(found), encoding="utf-8")


def _describe(error: BaseException, file: str) -> str:
    """Return an error of the user's own code in one line, with the case that it is of and its place in the file."""
    module = sys.modules.get(file) or Path(file)
    folder = Path(getattr(module, "__file__", None) or module).resolve().parent
    said = " ".join(str(error).split())[:300]
    where = ", ".join(filter(None, [*getattr(error, "__notes__", []), find_place(error, [folder])]))
    return f"{file}: {type(error).__name__}: {said}{f' ({where})' if where else ''}"


if __name__ == "__main__":
    run(main)
