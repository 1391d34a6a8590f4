"""Figures: from the summary.json of one machine to vector graphics.

Each function takes the content of summary.json (`published` also that of paper/published.yaml),
reads nothing else and returns a matplotlib Figure at its final size; `save` writes it so that the
same input gives the same bytes. Ops, sizes, dtypes and modes are those of the data: a new one
appears by itself.

matplotlib is imported where it is used, since Snakemake reads the names in FIGURES in every job.
"""

from collections.abc import Callable
from functools import wraps
from pathlib import Path

from kernelbench.figures.comparisons import published, speedups
from kernelbench.figures.rooflines import rates, roofline
from kernelbench.figures.style import STYLE
from kernelbench.figures.timings import first_call, split, timers, times, trace
from kernelbench.study import kind


def _styled(function: Callable) -> Callable:
    """Return the function of a figure that draws it in the paper's style."""

    @wraps(function)
    def styled(*documents):
        from matplotlib import rc_context

        with rc_context(STYLE):
            return function(*documents)

    return styled


# The figures by name.
FIGURES = {
    function.__name__: _styled(function)
    for function in (speedups, times, timers, split, trace, rates, roofline, first_call, published)
}


def shown(studies: list[dict]) -> list[list[str]]:
    """Return for each study's mapping the figures that a paper of these studies shows of it.

    Of a study of the protocol that is the trace, of one of kernels the roofline, of one of a topic the speedups, of one
    of starts or of a part measured again none, of a machine the others; all where there is no study of a machine.
    """
    kinds = [kind(study) for study in studies]
    of_kind = {"start": [], "again": [], "protocol": ["trace"], "kernels": ["roofline"], "topic": ["speedups"]}
    of_kind["machine"] = [name for name in FIGURES if name not in ("trace", "roofline")]
    return [of_kind[word] if "machine" in kinds else list(FIGURES) for word in kinds]


def draw(name: str, document: dict, published_numbers: dict):
    """Return the figure called `name`; only `published` looks at the published numbers."""
    documents = (document, published_numbers) if name == "published" else (document,)
    return FIGURES[name](*documents)


def save(figure, path: Path) -> None:
    """Write `figure` as SVG: text as outlines, no date, fixed ids; equal figures are equal bytes."""
    from matplotlib import rc_context

    # Ticks are made and ids are salted only now, so the style must hold here too.
    with rc_context(STYLE):
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
