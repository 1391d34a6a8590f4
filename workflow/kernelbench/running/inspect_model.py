"""Find out what a user's model is, before anything of it is measured: its cases, its files, and whether it works.

As a program, in the environment of a job's process, it writes what `inspect` returns as JSON, or {error} in one line:
    python -m kernelbench.running.inspect_model FILE FUNCTION DEVICE OUTPUT
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from inspect import Parameter, signature
from pathlib import Path

from kernelbench import code_digest
from kernelbench.errors import InputError, nearest, run
from kernelbench.harness import accuracy, compiler, object_graph, settings
from kernelbench.harness.dtypes import DTYPES
from kernelbench.harness.measure import classify, find_place
from kernelbench.harness.precision import watch
from kernelbench.harness.program import prepare
from kernelbench.harness.runners.compile import find_blocks
from kernelbench.harness.workloads import model_file
from kernelbench.harness.workloads.model_file import ModelFile, list_weights
from kernelbench.names import make_keys
from kernelbench.running import read_files
from kernelbench.running.fork_server import list_threads

# Any seed will do: what is compared was made with the same one.
SEED = 1
# That calls leave as it is.
JOB_THREADS = 1


def inspect(file: str, function: str, device: str) -> dict:
    """Return {cases, labels, has_cases, trains, has_blocks, settings, modes, start, files, remarks} of a model.

    cases: by key the shape of each input; labels: by key the case's name; has_blocks: whether blocks repeat in the
    model; settings: by name each setting of PyTorch that the file changes; modes: what the file says of them, None if
    nothing; start: how its jobs can start, "fresh" if what it imports starts threads or opens the GPU; files: by path
    the digest of each file of the user's that was imported or read (`code_digest.of_user_file`); remarks: what to know
    before it is measured, a line each. device: where the model is called twice a case, "cuda" or "cpu"; empty: nowhere,
    as this machine does not measure. Raises InputError for whatever is wrong.
    """
    import torch

    read_files.start()
    known = set(sys.modules)
    before = settings.read_settings()
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
    changed = settings.find_changes(before)
    labels = {key: str(name) for key, name in make_keys(given, "case").items()} if found.has_cases else {}
    remarks = [f"{place} is TorchScript in all modes" for place in object_graph.find_scripted(model)]
    remarks += _call_each(found, labels, device) if device else []
    return {
        "cases": found.cases,
        "labels": labels,
        "has_cases": found.has_cases,
        "trains": trains,
        "has_blocks": model_file.is_module(model) and bool(find_blocks(model)),
        "settings": changed | settings.find_changes(before),
        "modes": _find_modes(file, module),
        "start": start,
        "files": _list_files(module, known),
        "remarks": remarks,
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

    for what, tensor in [(f"weight {name}", tensor) for name, tensor in list_weights(model).items()] + [
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
    tensors = {f"weight {name}": tensor for name, tensor in list_weights(model).items()}
    tensors |= {f"input {name} of case {case}": t for case, own in cases.items() for name, t in own.items()}
    return {name: object_graph.digest(tensor) for name, tensor in tensors.items()}


def _call_each(found: ModelFile, labels: dict, device: str) -> list[str]:
    """Call the model at each case, as its jobs will, and return what is worth a remark; refuse what is wrong."""
    remarks = []
    for case in found.cases:
        try:
            remarks += _call(found, case, device)
        except Exception as error:
            if classify(error, [])[0] != "oom":  # What has no room says so in its row; a smaller case may have some.
                error.add_note(f"in case {labels[case]}" if labels else "in eager mode")
                raise
    if compiled := compiler.find_compiled():
        remarks.append(f"a part of the model is compiled in eager mode, too: {', '.join(compiled)}")
    return list(dict.fromkeys(remarks))


def _call(found: ModelFile, case: str, device: str) -> list[str]:
    """Call the model twice on the same inputs, and check what it returns, and what it leaves behind."""
    import torch

    torch.set_grad_enabled(found.trains)
    program = prepare(found, case, DTYPES["own"], device, SEED)
    if found.trains and not any(weight.requires_grad for weight in program.module.parameters()):
        raise InputError(f"{found.file}: loss() needs a model with weights to train; model() returns one without any")
    inputs = found.draw(case, DTYPES["own"], device, SEED)
    given = {name: object_graph.digest(tensor) for name, tensor in inputs.items()}
    if found.trains:
        _require_loss(found, program, inputs)
    torch.set_num_threads(JOB_THREADS)
    ran: list = []
    hook = torch.nn.modules.module.register_module_forward_pre_hook(lambda module, given: ran.append(module))
    try:
        first, unused, used = accuracy.call_eager(program, inputs)
    finally:
        hook.remove()
    _require_outputs(found, first)
    before = _read_state(found, program)
    # What is compiled in the first call that is watched would never be compiled.
    (again, _, _), epsilon = watch(lambda: accuracy.call_eager(program, inputs))
    if torch.get_num_threads() != JOB_THREADS:
        raise InputError(
            f"{found.file}: a call of the model sets the number of threads; leave that to --config threads=…"
        )
    after = _read_state(found, program)
    for name, tensor in inputs.items():
        if object_graph.digest(tensor) != given[name]:
            raise InputError(f"{found.file}: the model writes to its input {name}; let it work on a copy of that")
    noise, tolerance = accuracy.compare_calls(program, first, again, epsilon)
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    training = {type(module).__name__ for module in ran if module.training and not found.trains}
    remarks = [f"{name} runs in training mode; call eval() on it" for name in sorted(training)]
    return remarks + _judge_calls(found.file, changed, noise, noise > tolerance, unused != used)


def _judge_calls(file: str, changed: list[str], noise: float, is_noisy: bool, drew: bool) -> list[str]:
    """Return what is to say of a model whose two calls left this changed; refuse one that is no longer the same."""
    grown = [name for name in changed if name.startswith(object_graph.LENGTH)]
    if changed and is_noisy:
        raise InputError(
            f"{file}: {changed[0]} changes from call to call, and the output by {noise:.2g} of its size with it; "
            "let each call begin with the same state"
        )
    if grown:
        raise InputError(f"{file}: {grown[0]} grows from call to call; let each call begin with the same state")
    remarks = [f"{name} changes from call to call, the output does not" for name in changed[:1]]
    if is_noisy:
        remarks.append(f"two eager calls differ by {noise:.2g} of the output: no mode's output can be compared")
    if drew:
        remarks.append("the model draws random numbers: a compiled mode is compiled once more to compare its output")
    return remarks


def _read_state(found: ModelFile, program) -> dict:
    """Return what may change from call to call: of the model and the file's globals, without what training resets."""
    module = model_file.import_file(found.file)
    names = {name: value for name, value in vars(module).items() if not name.startswith("__")}
    state = object_graph.read_state(**{"": program.module, Path(found.file).name: names})
    reset = program.module.state_dict() if found.trains else {}
    return {name: value for name, value in state.items() if name not in reset}


def _require_loss(found: ModelFile, program, inputs: dict) -> None:
    """Refuse a loss that is not one number."""
    import torch

    loss = model_file.find(found.file, "loss")(program.function(*inputs.values()))
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        shown = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else type(loss).__name__
        raise InputError(f"{found.file}: loss() returns {shown}; allowed: a tensor with one element")


def _require_outputs(found: ModelFile, outputs: tuple) -> None:
    """Refuse outputs of which a wrong one could not be told from a right one."""
    if not any(output.numel() for output in outputs):
        raise InputError(f"{found.file}: the model returns no tensor; there is nothing to compare")
    if not any(output.any() for output in outputs):
        raise InputError(
            f"{found.file}: the output is zero everywhere, and so would be that of many a wrong model; "
            "let model() draw the weights of the last layer"
        )
    if not any(output.isfinite().any() for output in outputs):
        raise InputError(f"{found.file}: the output is NaN or infinite everywhere; there is nothing to compare")


def _list_files(module, known: set[str]) -> dict[str, str]:
    """Return by path the digest of the module's file, of what was imported for it or lies beside it, and of its data.

    known: the names of the modules that were imported before it.
    """
    file = Path(module.__file__).resolve()
    depth = max(module.__name__.count(".") - 1, 0)
    top = file.parents[depth]
    own = set()
    for name, each in [*sys.modules.items()]:
        path = Path(getattr(each, "__file__", None) or "/").resolve()
        if path.is_file() and (name not in known or top in path.parents) and not object_graph.is_installed(path):
            own.add(path)
    return {str(path): code_digest.of_user_file(path) for path in sorted({*own, file, *read_files.list_data()})}


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
