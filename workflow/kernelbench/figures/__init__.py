"""Figures, from summary.json to vector graphics: those of a single study here, those of the article in article.py.

Each function reads nothing but what it is given. It returns a matplotlib Figure at its final size, or None where there
is nothing to draw. Ops, sizes, dtypes and modes are those of the data: a new one appears by itself.
"""

import os
from pathlib import Path

os.environ["MPLBACKEND"] = "svg"  # A name that matplotlib does not know would end its import.

from kernelbench.figures.forest import draw_speedups
from kernelbench.figures.style import in_style
from kernelbench.figures.timings import draw_timers, draw_times, draw_trace

FIGURES = {"speedups": draw_speedups, "times": draw_times, "timers": draw_timers, "trace": draw_trace}
FIGURES = {name: in_style()(draw) for name, draw in FIGURES.items()}


@in_style()
def save(figure, path: Path) -> None:
    """Write a figure as SVG: text as outlines, no date, fixed ids, so that equal figures are equal bytes."""
    # Ticks are made and ids are salted only now, so the style must hold here too.
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
