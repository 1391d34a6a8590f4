"""A recommendation in the terminal: a table and an answer for each case."""

from rich.table import Table

from kernelbench.analysis.reasons import headline
from kernelbench.numbers import calls, signed
from kernelbench.page.texts import has_undecided, measured, remark, warn_uncompared

MORE = "? is undecided. More repeats decide more, and what is measured is kept: --config model=… repeats=5"


def format_recommendation(recommendation: dict) -> list:
    """Return what to print of a recommendation; its tables are less than 80 columns wide for most names of modes."""
    software = recommendation["software"]["torch"]
    pieces = [f"{recommendation['name']} on {recommendation['device']}, PyTorch {software}"]
    for case in recommendation["cases"]:
        pieces += ["", _format_answer(case, recommendation), _format_modes(case, recommendation)]
        pieces += [f"{mode['mode']}: {said}" for mode in case["modes"] if (said := remark(mode))]
    return [*pieces, "", MORE] if has_undecided(recommendation) else pieces


def _format_answer(case: dict, recommendation: dict) -> str:
    """Return a line with the answer and one with the reason."""
    mode = f"{case['mode']}, " if case["mode"] else ""
    ties = f"; not shown to be slower: {', '.join(case['ties'])}" if case["ties"] else ""
    answer = f"{case['case']}: {mode}{headline(case, recommendation)}\n{case['reason']}{ties}"
    return "\n".join(filter(None, [answer, warn_uncompared(case)]))


def _format_modes(case: dict, recommendation: dict) -> Table:
    """Return the table of the modes that ran."""
    table = Table(box=None, pad_edge=False)
    table.add_column("mode", overflow="fold")
    for head in (recommendation["metric"], "first call", f"× {recommendation['baseline']}", "paid at"):
        table.add_column(head, justify="right", no_wrap=True)
    for mode in case["modes"]:
        if mode["status"] == "ok":
            times = (measured(mode[name]) for name in (recommendation["metric"], "first_call"))
            style = "bold" if mode["mode"] == case["mode"] else ""
            table.add_row(mode["mode"], *times, signed(mode["speedup"]), calls(mode["paid"]), style=style)
    return table
