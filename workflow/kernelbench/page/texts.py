"""What the page and the terminal say of a recommendation: numbers with units, headlines, code to paste."""

from kernelbench.analysis.reasons import STATUSES
from kernelbench.harness.runners.compile import PASSED
from kernelbench.numbers import with_unit

# Of a model that is called with gradients, this would capture the backward pass as well.
CAPTURED_CALL = """with torch.no_grad():  # inference, with inputs of this shape
    model = torch.cuda.make_graphed_callables(model, (example_input,))"""
CAPTURED_STEP = """graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):  # after a few steps on another stream
    step()  # forward pass, backward pass and optimizer, which has to be capturable
graph.replay()  # a step on what the input tensors hold now"""


def measured(found: dict | None, *names: str) -> str:
    """Return the estimate of a quantity, or these other fields of it, with a unit that fits; nothing if missing."""
    values = [found[name] for name in names or ("estimate",)] if found else [None]
    if None in values:
        return ""
    unit = found["unit"]
    if unit == "s" and max(values) < 1:
        values, unit = [value * 1e6 for value in values], "µs"
    return with_unit(values, unit)


def remark(mode: dict) -> str:
    """Return what is to say of a mode beside its numbers: why it has none, and its note."""
    status = "" if mode["status"] == "ok" else STATUSES.get(mode["status"], mode["status"])
    return ": ".join(filter(None, [status, mode["note"]]))


def warn_uncompared(case: dict) -> str:
    """Return what to say of the modes of a case whose outputs were not compared, first of those that are faster."""
    faster, others = case["uncompared"], [mode["mode"] for mode in case["modes"] if mode["compared"] is False]
    if faster:
        return f"Faster, but nothing shows that the output is right: {', '.join(faster)}"
    return f"Nothing shows that the output is right: {', '.join(others)}" if others else ""


def has_undecided(recommendation: dict) -> bool:
    """Say whether the comparison of any mode with the baseline is undecided."""
    speedups = [mode["speedup"] for case in recommendation["cases"] for mode in case["modes"] if mode["speedup"]]
    return any(speedup["verdict"] == "inconclusive" for speedup in speedups)


def code(options: dict, trains: bool) -> str:
    """Return the Python that brings a model into a mode, nothing for one that needs none.

    options: the mode's entry; trains: whether a call is a training step.
    """
    if options["runner"] == "compile":
        return _write_compile(options)
    if options["runner"] == "cuda_graph":
        return CAPTURED_STEP if trains else CAPTURED_CALL
    return ""


def _write_compile(options: dict) -> str:
    passed = [f"{name}={options[name]!r}".replace("'", '"') for name in PASSED if name in options]
    if options.get("regional"):
        return f"for block in model.layers:  # your model's repeated blocks\n    block.compile({', '.join(passed)})"
    return f"model = torch.compile({', '.join(['model', *passed])})"
