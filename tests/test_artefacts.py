"""The artefacts of a compilation, by the workflow: fusion can be read in them."""

import pytest
from checkout import TINY, Checkout

OPS = {"elementwise_chain": {"sizes": [3000]}}
MODES = {
    "eager": {"runner": "eager"},
    "compile": {"runner": "compile"},
    "compile-aot-eager": {"runner": "compile", "backend": "aot_eager"},
    "compile-reduce-overhead": {"runner": "compile", "mode": "reduce-overhead", "devices": ["cuda"]},
}


@pytest.mark.nightly
@pytest.mark.slow
def test_artefacts_are_saved_of_what_inductor_compiles_here(tmp_path):
    checkout = Checkout(tmp_path, {**TINY, "ops": OPS, "modes": MODES})
    checkout.run("artefacts")
    root = tmp_path / "results" / "cpu-test" / "artefacts" / "elementwise_chain" / "float32" / "3000"
    assert [path.name for path in root.iterdir()] == ["compile"]
    texts = {path.name: path.read_text() for path in (root / "compile").iterdir()}
    assert set(texts) == {"graph.py", "before_fusion.txt", "after_fusion.txt", "code.py"}
    assert all(f"aten.{name}" in texts["graph.py"] for name in ("sin", "cos", "mul", "add", "relu"))
    assert "ComputedBuffer" in texts["before_fusion.txt"] and "ComputedBuffer" in texts["after_fusion.txt"]
    assert "cpp_fused" in texts["code.py"]
    assert not list((tmp_path / "results" / "cpu-test").glob("records")), "nothing was measured"
