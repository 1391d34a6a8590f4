"""The figures of the article, which are about several studies at once: each name with the function that draws it.

Each function takes the studies and returns a matplotlib Figure at its final size. Where a study is missing a figure
shows what there is, and says so where that is nothing.
"""

from kernelbench.figures.bysize import draw_limits, draw_sizes
from kernelbench.figures.calls import draw_host_times, draw_parts, draw_predictions
from kernelbench.figures.decisions import draw_map, draw_models

ARTICLE = {
    "map": draw_map,
    "law": draw_predictions,
    "host": draw_host_times,
    "sizes": draw_sizes,
    "parts": draw_parts,
    "models": draw_models,
    "limit": draw_limits,
}
