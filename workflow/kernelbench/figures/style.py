"""How all figures look: sizes, fonts, colours, markers and lines. No other file names any of these."""

from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib
from matplotlib import font_manager

# Inches: the width of a page and of one of its two columns, and how tall a figure may be.
WIDE, NARROW, TALLEST = 7.0, 3.35, 9.0
# Inches: the heights of the article's figures, and of a row of panels in the figures of a single study.
LAW, HOST, BOTH_GPUS, BY_SIZE, PARTS, BLANK = 3.55, 2.95, 2.2, 2.05, 1.75, 1.0
CURVES, TRACE, ROW_FRAME = 1.65, 1.1, 0.45
# Inches from one line of a list to the next, of tiles and of points, and for what stands around the list.
TILE, LINE, TILE_FRAME, LINE_FRAME = 0.103, 0.155, 0.8, 0.75
# Points: names of misses and modes, and numbers on tiles.
SMALL, TINY = 6.5, 6
BOLD = {"fontweight": "bold"}
TITLE = {"fontsize": 7.5, **BOLD}

# What matplotlib shall do without being told.
STYLE = {
    **{"font.family": "STIXGeneral", "mathtext.fontset": "stix"},
    **dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize"), 8),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize", "legend.title_fontsize"), 7),
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width"), 0.5),
    **dict.fromkeys(("xtick.minor.width", "ytick.minor.width"), 0.3),
    **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 2.5),
    **dict.fromkeys(("xtick.minor.size", "ytick.minor.size"), 1.5),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    **{"lines.linewidth": 0.9, "lines.markersize": 3.2},
    **{"legend.handlelength": 1.6, "legend.handletextpad": 0.4, "legend.columnspacing": 1.2},
    **dict.fromkeys(("figure.constrained_layout.h_pad", "figure.constrained_layout.w_pad"), 0.03),
    **{"svg.fonttype": "path", "svg.hashsalt": "kernelbench"},
}

INK, PAPER, GREY, SHADE, BAND = "black", "white", "0.45", "0.95", "0.8"
# Okabe and Ito's colours without their yellow, which is too pale for a thin line on white. Seven
# markers to six colours: the pairs repeat only after 42 modes. The diamond is for means over sizes.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
MARKERS = ["s", "^", "v", "P", "X", "<", ">"]
MEAN, REPEAT = "D", {"marker": ".", "markersize": 1.5, "linestyle": "none"}
# Modes that many studies share look the same in all figures.
SHARED = ("compile", "compile-reduce-overhead", "compile-max-autotune", "triton", "cuda-graph")
BASELINE = {"color": INK, "marker": "o"}
CONTROL_LOOK = {"color": "0.55", "marker": "o", "markersize": 2.2}
# Libraries of hand-written kernels, beside which no other mode of the article has these looks.
LIBRARIES = {
    "liger": {"color": COLOURS[5], "marker": "<"},
    "quack": {"color": COLOURS[2], "marker": ">"},
    "sdpa-flash": {"color": "0.5", "marker": "D"},
    "sdpa-cudnn": {"color": "#5D3A9B", "marker": "*"},
}
# The map's colours: how pale they are next to 1.
SLOWER, FASTER, PALEST = COLOURS[1], COLOURS[0], 0.12

# Marks. Those of a curve have no edge; a hollow mark and one of a legend that stands for any mode are grey.
POINT = {"linestyle": "none", "mew": 0.6}
CURVE = {"linestyle": "-", "mew": 0}
TRACED = {"linestyle": "-", "marker": ""}
DOT = {"color": GREY, "marker": "o", "mew": 0.6}
HOLLOW = {**DOT, "markerfacecolor": PAPER}
RING = {"marker": "o", "markersize": 7, "mew": 0.6, "color": INK, "markerfacecolor": "none", "linestyle": "none"}
RING_KEY = {**HOLLOW, "color": INK, "markersize": 7}
PREDICTION = {"markersize": 2.8, "mew": 0.5, "linestyle": "none", "alpha": 0.8}
MODEL = {**POINT, "markersize": 3}
LIMIT_POINT = {"markersize": 3}
MARGIN_KEY = {"color": BAND, "marker": "s", "markersize": 6}
ARROW_KEY = {"color": GREY, "marker": r"$\rightarrow$", "markersize": 8, "mew": 0.3}
# A call of inference or training over its launches; an edge in white keeps points apart that lie on each other.
INFERENCE = {"markersize": 3.1, "mew": 0.25, "mec": PAPER, "linestyle": "none"}
TRAINING = {"markersize": 3.6, "mew": 0.6, "mfc": PAPER, "linestyle": "none"}
# The device's bar beside the host's, and a tick where a call ends.
DEVICE = {"edgecolor": PAPER, "linewidth": 0, "hatch": "/////", "alpha": 0.5}
END = {"color": INK, "linewidth": 1.2, "solid_capstyle": "butt"}
END_INTERVAL = {"color": INK, "elinewidth": 0.6}
END_KEY = {"color": INK, "marker": "|", "markersize": 8, "mew": 1.2}
EQUAL_KEY = {"facecolor": PAPER, "edgecolor": GREY, "linewidth": 0.4}
TILE_EDGE = {"edgecolor": PAPER, "linewidth": 0.7}
# The timers of compiled code share its marker; shade, dashes and filling tell them apart.
TIMER = {"marker": MARKERS[0], "markersize": 2.5, "mew": 0.6}
TIMERS = {
    "device": {**TIMER, "color": "#66AAD2", "markerfacecolor": PAPER, "linestyle": "-"},
    "throughput": {**TIMER, "color": COLOURS[0], "markerfacecolor": COLOURS[0], "linestyle": (0, (3, 1))},
    "latency": {**TIMER, "color": "#003A5C", "markerfacecolor": "#003A5C", "linestyle": "-"},
}

# Lines beside the data: an interval, where a speedup is 1, behind the ticks, between the lines of a list, to a name.
INTERVAL = {"elinewidth": 0.8}
ONE, FOREST_ONE = {"color": INK, "linewidth": 0.5}, {"color": INK, "linewidth": 0.4}
RULE = {"color": "0.9", "linewidth": 0.4}
BETWEEN, BEFORE_MEAN = {"color": "0.85", "linewidth": 0.4}, {"color": "0.3", "linewidth": 0.4}
DIAGONAL = {"color": GREY, "linewidth": 0.5}
LIMIT = {"color": GREY, "linewidth": 0.6, "linestyle": (0, (4, 2))}
LAWS = {"compile": {"linestyle": "-"}, "compile-reduce-overhead": {"linestyle": (0, (4, 1.5))}}
POINTER = {"arrowstyle": "-", "linewidth": 0.5, "color": GREY, "patchA": None, "shrinkA": 2, "shrinkB": 3.5}
ARROW = {"arrowstyle": "->", "shrinkA": 0, "shrinkB": 0, "linewidth": 0.8, "mutation_scale": 5}


@contextmanager
def in_style() -> Iterator[None]:
    """Draw in this style, over matplotlib's defaults and with its own fonts: not the user's of either."""
    fonts = font_manager.fontManager
    fonts.ttflist = [font for font in fonts.ttflist if font.fname.startswith(matplotlib.get_data_path())]
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def pick_look(place: int) -> dict:
    """Return the colour and the marker at a place of the lists, which begin again at their ends."""
    return {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}


def look(mode: str, own=()) -> dict:
    """Return the colour and the marker of a mode: one of `own`, or one that many figures share."""
    if mode == "eager" and mode not in own:
        return BASELINE
    return LIBRARIES.get(mode) or pick_look([*SHARED, *own].index(mode))


def forest_height(pairs: int, lines: int, modes: int) -> float | None:
    """Return the inches of a forest plot, None where a page has no room for half of them.

    A larger study is drawn denser, never taller than a page.
    """
    room = lines * modes
    height = room * min(0.08, max(0.045, 4.5 / room)) + 0.05 * lines + 0.24 * pairs + 0.9
    return min(TALLEST, height) if height < 2 * TALLEST else None
