"""The study of a user's model: workflow/model.yaml, with the model as its one op and the model's cases as sizes."""

import re
from pathlib import Path

from kernelbench.errors import InputError, nearest
from kernelbench.names import RESERVED
from kernelbench.study.cells import CONTROL, TWIN
from kernelbench.study.yaml_files import overlay

# What a job needs of what inspection found.
PARAMETERS = ("file", "function", "trains", "digest", "cases", "labels", "has_cases", "settings")


def make(config: dict, given: dict, found: dict, device: str) -> tuple[dict, dict]:
    """Return the mapping of the study, and what of `given` is to be laid over it.

    config: that of a study without ops, as its file has it; given: values from the command line; found: what
    `running.user_model.inspect` returns; device: "cuda" or "cpu". Raises InputError for modes or a metric that cannot
    be.
    """
    if overlay(config, given).get("metric") == "device" and device == "cpu":
        raise InputError("config: metric: device is GPU time, and this study is of a CPU; allowed: latency, throughput")
    name = given.get("study") or _name(found["file"])
    op = {
        "workload": "model_file",
        "dtypes": ["own"],
        "sizes": list(found["cases"]),
        **{key: found[key] for key in PARAMETERS},
    }
    layers = {"config": config["modes"], found["file"]: found["modes"] or {}, "--config": given.get("modes", {})}
    modes = _choose_modes(layers, found["has_blocks"], device)
    baselines = [mode for mode, entry in modes.items() if mode not in (CONTROL, TWIN) and "diagnoses" not in entry]
    study = {
        **config,
        "start": found["start"],
        "study": name,
        "ops": {name: op},
        "modes": modes,
        "baselines": [TWIN, *baselines],
    }
    study.pop("model", None)
    return study, {key: value for key, value in given.items() if key not in ("model", "modes", "study")}


def describe(found: dict, modes: list[str], repeats: int) -> str:
    """Return a line on what is measured (model, cases with shapes, modes, repeats), and one for each remark on it."""
    shapes = {case: [list(shape) for shape in inputs.values()] for case, inputs in found["cases"].items()}
    cases = ", ".join(f"{found['labels'].get(case, case)} {' '.join(map(str, own))}" for case, own in shapes.items())
    kind = "training step" if found["trains"] else "inference"
    head = f"{found['file']}, {kind}; cases: {cases}; modes: {', '.join(modes)}; repeats: {repeats}"
    settings = ", ".join(f"{name} = {value}" for name, value in found["settings"].items())
    data = [path for path, digest in found["files"].items() if digest and not path.endswith(".py")]
    said = [
        *found["remarks"],
        *([f"the file sets {settings}"] if settings else []),
        *([f"measured again once one of these changes: {', '.join(data)}"] if data else []),
    ]
    return "\n".join([head, *(f"note: {line}" for line in said)])


def require_named(config: dict, path: str) -> str:
    """Return the path; raise InputError where the config names no model, of which there would be a recommendation."""
    if "model" not in config:
        raise InputError("config: model is missing; name yours: snakemake model --config model=path/to/mymodel.py")
    return path


def _choose_modes(layers: dict[str, dict], has_blocks: bool, device: str) -> dict:
    """Return the modes of all layers, each laid over those before, that the device and the model have.

    layers: by where they are given, modes by name with their entries; None instead of an entry leaves the mode out.
    """
    modes: dict = {}
    for origin, layer in layers.items():
        if not isinstance(layer, dict) or not all(entry is None or isinstance(entry, dict) for entry in layer.values()):
            raise InputError(
                f"{origin}: modes: {layer!r} is not allowed; allowed: modes by name as in config.yaml, "
                'such as {"compile-dynamic": {"runner": "compile", "dynamic": True}}; None, or null in --config, '
                "leaves one out"
            )
        for mode in [mode for mode, entry in layer.items() if entry is None and mode not in modes]:
            known = ", ".join(modes)
            raise InputError(f"{origin}: modes: {mode} is no mode{nearest(mode, modes)}; allowed to leave out: {known}")
        modes = overlay(modes, layer)
        if modes.get(TWIN) is None:
            raise InputError(f"{origin}: modes: {TWIN} cannot be left out; every speedup is over it")
    modes = {mode: entry for mode, entry in modes.items() if entry is not None}
    left_out = [mode for mode, entry in modes.items() if entry.get("regional") and not has_blocks]
    left_out += [mode for mode, entry in modes.items() if device not in entry.get("devices", [device])]
    return {mode: entry for mode, entry in modes.items() if mode not in left_out}


def _name(file: str) -> str:
    """Return the name of the study: the letters and digits of the file's name."""
    name = re.sub("[^a-z0-9]", "", Path(file).stem.lower() if file.endswith(".py") else file.rpartition(".")[2].lower())
    return name if name[:1].isalpha() and name not in RESERVED else f"model{name}"
