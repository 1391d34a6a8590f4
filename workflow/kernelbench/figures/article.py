"""The figures of the article by name. Each function takes the studies, and says so where none has what it shows."""

from kernelbench.figures.calls import draw_host_times, draw_parts, draw_predictions
from kernelbench.figures.decisions import draw_map, draw_models
from kernelbench.figures.gpus import draw_gpus
from kernelbench.figures.sizes import draw_limits, draw_sizes
from kernelbench.figures.style import in_style

ARTICLE = {
    "map": draw_map,
    "law": draw_predictions,
    "host": draw_host_times,
    "gpus": draw_gpus,
    "sizes": draw_sizes,
    "parts": draw_parts,
    "models": draw_models,
    "limit": draw_limits,
}
ARTICLE = {name: in_style()(draw) for name, draw in ARTICLE.items()}
