"""The study of a user's model: workflow/model.yaml, with the model as its one op and the model's cases as sizes."""

import re
from pathlib import Path

from kernelbench.errors import InputError
from kernelbench.study.cells import CONTROL, TWIN
from kernelbench.study.yaml_files import overlay


def make(config: dict, found: dict, device: str) -> dict:
    """Return the mapping of the study; raise InputError where the model's file asks for modes that cannot be.

    config: that of a study without ops; found: what `running.user_model.inspect` returns; device: "cuda" or "cpu".
    """
    if config.get("metric") == "device" and device == "cpu":
        raise InputError("config: metric: device is GPU time, and this study is of a CPU; allowed: latency, throughput")
    name = _name(found["file"])
    op = {
        "workload": "model_file",
        "dtypes": ["own"],
        "sizes": list(found["cases"]),
        **{key: found[key] for key in ("file", "function", "trains", "digest", "cases", "has_cases")},
    }
    modes = _choose_modes(config["modes"], found, device)
    baselines = [mode for mode, entry in modes.items() if mode not in (CONTROL, TWIN) and "diagnoses" not in entry]
    kept = {key: value for key, value in config.items() if key != "model"}
    return {"study": name, **kept, "ops": {name: op}, "modes": modes, "baselines": [TWIN, *baselines]}


def require_named(config: dict, path: str) -> str:
    """Return the path; raise InputError where the config names no model, of which there would be a recommendation."""
    if "model" not in config:
        raise InputError("config: model is missing; name yours: snakemake model --config model=path/to/mymodel.py")
    return path


def _choose_modes(modes: dict, found: dict, device: str) -> dict:
    """Return the modes that the device has, with those of the model's file laid over them; None leaves one out."""
    own = found["modes"] or {}
    if not isinstance(own, dict) or not all(entry is None or isinstance(entry, dict) for entry in own.values()):
        raise InputError(
            f"{found['file']}: modes: {own!r} is not allowed; allowed: modes by name as in config.yaml, "
            'such as {"compile-dynamic": {"runner": "compile", "dynamic": True}}; None leaves one out'
        )
    chosen = {mode: entry for mode, entry in overlay(modes, own).items() if entry is not None}
    left_out = [mode for mode, entry in chosen.items() if entry.get("regional") and not found["has_blocks"]]
    left_out += [mode for mode, entry in chosen.items() if device not in entry.get("devices", [device])]
    return {mode: entry for mode, entry in chosen.items() if mode not in left_out}


def _name(file: str) -> str:
    """Return the name of the study: the letters and digits of the file's name."""
    name = re.sub("[^a-z0-9]", "", Path(file).stem.lower() if file.endswith(".py") else file.rpartition(".")[2].lower())
    return name if name[:1].isalpha() else f"model{name}"
