"""Files of users' models, as tests write, inspect and measure them."""

from textwrap import dedent

import pytest
import torch
import yaml
from checkout import ROOT, TINY

from kernelbench.harness import compiler, record
from kernelbench.harness.measure import measure
from kernelbench.running.inspect_model import inspect
from kernelbench.study import model_study
from kernelbench.study.study import Study

BASE = yaml.safe_load((ROOT / "workflow" / "model.yaml").read_text(encoding="utf-8"))
PLAIN = """
    import torch
    from torch import nn

    def model():
        return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))

    def inputs():
        return torch.randn(4, 8)
    """
# torch.compile without a compiler: what it runs is what eager runs, and a model can ask whether it is compiled.
TRACED = {"compile": {"backend": "eager", "workers": 1}}


@pytest.fixture
def file(tmp_path):
    """Return what writes a model's file: PLAIN, with what is given replaced or added."""

    def write(added="", name="mine.py", **replaced) -> str:
        text = dedent(PLAIN)
        for function, body in replaced.items():
            head, _, rest = text.partition(f"def {function}():\n")
            text = f"{head}def {function}():\n    {body}\n\n" + "\n".join(rest.splitlines()[2:])
        (tmp_path / name).write_text(f"{text}\n{dedent(added)}", encoding="utf-8")
        return str(tmp_path / name)

    return write


def study_of(path: str, **given) -> Study:
    """Return the study of a model on a CPU that it was called on."""
    found = {**inspect(path, "model", "cpu"), "file": path, "function": "model", "digest": "x"}
    config = {**BASE, "machine": "cpu", "sampling": TINY["sampling"], "presets": {}, "model": path}
    return Study(*model_study.make(config, given, found, "cpu"))


def measured(study: Study, mode="eager", case=None) -> dict:
    (op,) = study.config["ops"]
    compiler.forget()  # What another test compiled.
    entry = measure(study.settings(study.job(op, "own", case or study.config["ops"][op]["sizes"][0], mode, 0)))
    assert record.problem(entry) is None
    torch.set_grad_enabled(True)
    return entry
