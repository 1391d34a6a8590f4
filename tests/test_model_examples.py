"""The examples of a user's model, from the command to the page."""

import json
import os
from importlib.util import find_spec

import pytest
from checkout import TINY, Checkout

BREAKS = "language_model.py:38"


def recommended(checkout: Checkout) -> dict:
    (path,) = checkout.path.glob("results/*/recommendation.json")
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_model_is_planned_and_refused_without_being_measured(tmp_path):
    checkout = Checkout(tmp_path, TINY)
    model = ("--config", "model=examples/training_step.py")
    assert "12 jobs" in checkout.run("plan", *model)
    assert "measure" in checkout.run("model", "-n", *model)
    assert not list(tmp_path.glob("results/*/records"))
    for given, said in {
        ("model",): "config: model is missing",
        ("model", "--config", "model=none.py"): "model: none.py: no such file",
        ("model", "--config", "model=Snakefile"): "model: Snakefile: no module Snakefile",
        ("model", *model, "metric=device"): "config: metric: device is GPU time",
        ("model", *model, "modes={compile-regionl: null}"): "--config: modes: compile-regionl is no mode",
    }.items():
        assert checkout.refuse(*given).startswith(said)


@pytest.mark.nightly
@pytest.mark.parametrize("example", ["resnet", "language_model", "training_step"])
def test_an_example_is_measured_and_recommended_a_mode(example, tmp_path):
    if example == "resnet" and not (os.environ.get("NEEDS_MODELS") or find_spec("transformers")):
        pytest.skip("needs transformers: make models")
    checkout = Checkout(tmp_path)
    asked = ("model", "--config", f"model=examples/{example}.py", "repeats=1", "modes={compile-regional: null}")
    assert "report.html" in checkout.run(*asked)
    (case,) = recommended(checkout)["cases"]
    assert {mode["mode"]: mode["status"] for mode in case["modes"]} == {"eager": "ok", "compile": "ok"}
    assert case["mode"] == "eager", "a single repeat shows nothing"
    assert (BREAKS in case["reason"]) == (example == "language_model")
    records = {path: path.stat().st_mtime_ns for path in tmp_path.glob("results/*/records/**/*.json")}
    checkout.run(*asked)
    assert records == {path: path.stat().st_mtime_ns for path in records}
