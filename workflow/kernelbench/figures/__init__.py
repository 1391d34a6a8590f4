"""Figures: from the summary.json of one machine to vector graphics.

Each function takes the content of summary.json (`published` also that of paper/published.yaml),
reads nothing else and returns a matplotlib Figure at its final size; `save` writes it so that the
same input gives the same bytes. Ops, sizes, dtypes and modes are those of the data: a new one
appears by itself.

matplotlib is imported where it is used, since Snakemake reads the names in FIGURES in every job.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path

from kernelbench.figures.comparisons import published, speedups
from kernelbench.figures.rooflines import rates, roofline
from kernelbench.figures.style import STYLE
from kernelbench.figures.timings import first_call, split, timers, times, trace
from kernelbench.study.study import kind


@contextmanager
def _style() -> Iterator[None]:
    """Draw in the paper's style, over matplotlib's defaults and with its own fonts: not the user's of either."""
    os.environ["MPLBACKEND"] = "svg"  # A name that matplotlib does not know would end its import.
    import matplotlib
    from matplotlib import font_manager

    fonts = font_manager.fontManager
    fonts.ttflist = [font for font in fonts.ttflist if font.fname.startswith(matplotlib.get_data_path())]
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def styled(function: Callable) -> Callable:
    """Return the function of a figure that draws it in the paper's style."""

    @wraps(function)
    def drawn(*documents):
        with _style():
            return function(*documents)

    return drawn


# The figures by name.
FIGURES = {
    function.__name__: styled(function)
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
    # Ticks are made and ids are salted only now, so the style must hold here too.
    with _style():
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
