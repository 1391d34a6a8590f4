"""Parts that several figures share: grids, axes, legends, curves."""

from math import ceil, floor, log2, log10, nan

from kernelbench.figures.data import Data
from kernelbench.figures.style import GREY, WIDE

# Panels side by side, and the least distance of two labels below one, as a share of its width.
COLUMNS, LABEL_GAP = 4, 0.17


def blank(width: float, text: str):
    """Return a figure that only says why there is nothing to draw."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, 1.0))
    figure.text(0.5, 0.5, text, ha="center", va="center", color=GREY)
    return figure


def grid(width: float, height: float, rows: int, columns: int, **options):
    """Return (figure, rows × columns array of axes)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def key(label: str, **style):
    """Return an entry of a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **{"linestyle": "none", "label": label, **style})


def mode_keys(data: Data, modes, **style) -> list:
    names = {mode: f"{mode} (A/A)" if data.is_control(mode) else mode for mode in modes}
    return [key(names[mode], **data.style(mode), **style) for mode in modes]


def legend(figure, keys: list, columns: int) -> None:
    figure.legend(handles=keys, loc="outside upper center", ncols=min(columns, len(keys)))


def bars(axis, x: list, y: list, numbers: list, along: str, **style) -> None:
    """Draw points with their intervals along `along` ("x" or "y"); None in `numbers` is a gap."""
    values = [number or (nan, nan, nan) for number in numbers]
    # Rounded to six digits, a bound of a narrow interval may lie on the wrong side of the estimate.
    error = [[max(0, v[0] - v[1]) for v in values], [max(0, v[2] - v[0]) for v in values]]
    axis.errorbar(x, y, **{f"{along}err": error}, **{"elinewidth": 0.8, **style})


def values(numbers: list) -> list[float]:
    return [nan if number is None else number[0] for number in numbers]


def ends(drawn, reach: float = 3) -> list[float]:
    """Return what an axis must hold of the numbers in mappings of lists of them.

    That is every value, and its interval up to `reach` times the value or a `reach`-th of it: the
    rest of a very wide one runs off the panel, else it would squeeze all others.
    """
    lists = [numbers for modes in drawn for numbers in modes.values()]
    found = [number for numbers in lists for number in numbers if number]
    return [e for v, low, high, *_ in found for e in (v, max(low, v / reach), min(high, v * reach))]


def log_axis(axes, which: str, values, least: float = 1.0) -> None:
    """Make `which` ("x" or "y") of all `axes` logarithmic over `values`, the ticks plain numbers.

    `least`: the smallest ratio between the ends of the axis.
    """
    stretch = max(1.15, (least * min(values) / max(values)) ** 0.5)
    low, high = min(values) / stretch, max(values) * stretch
    span = log10(high / low)
    # The narrower, the denser the labels: every decade, three in it, or most of its digits.
    steps = (1,) if span > 2.2 else (1, 2, 5) if span > 0.6 else (1, 1.2, 1.5, 2, 3, 4, 5, 6, 8)
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    ticks = [t for e in decades for t in (s * 10**e for s in steps) if low <= t <= high]
    minor = [t for e in decades for t in (s * 10**e for s in range(1, 10)) if low <= t <= high]
    for axis in axes:
        axis.set(**{f"{which}scale": "log", f"{which}lim": (low, high)})
        getattr(axis, f"set_{which}ticks")(ticks, labels=[f"{tick:,.10g}" for tick in ticks])
        getattr(axis, f"set_{which}ticks")(minor, labels=[], minor=True)


def ratio_axis(axes, which: str, values) -> None:
    """Make `which` of all `axes` logarithmic over ratios: a line marks 1, and from there the ticks double."""
    axes = list(axes)
    log_axis(axes, which, [*values, 1])
    for axis in axes:
        low, high = getattr(axis, f"get_{which}lim")()
        ticks = [2.0**power for power in range(ceil(log2(low)), floor(log2(high)) + 1)]
        getattr(axis, f"set_{which}ticks")(ticks, labels=[f"{tick:g}" for tick in ticks])
        draw = axis.axhline if which == "y" else axis.axvline
        draw(1, color="black", linewidth=0.5, zorder=0.9)


def rule(axis, which: str) -> None:
    """Draw thin lines at the ticks of the axis `which`, behind all else."""
    axis.grid(axis=which, color="0.9", linewidth=0.4)
    axis.set_axisbelow(True)


def _short(size: str) -> str:
    """Return a size for a narrow axis: 16384 is 16K, in the sense of 1,024."""
    return f"{int(size) // 1024}K" if size.isdigit() and int(size) % 1024 == 0 else size


def long(size: str) -> str:
    return f"{int(size):,}" if size.isdigit() else size


def size_axis(axis, sizes: list[str]) -> list[float]:
    """Label the x axis with `sizes`; return their places: logarithmic if numbers, else even."""
    if all(size.isdigit() for size in sizes):
        axis.set_xscale("log", base=2)
        places = [float(size) for size in sizes]
        marks = [log2(place) for place in places]
    else:
        places = marks = [float(place) for place in range(len(sizes))]
    labels = [_short(size) for size in sizes]
    last = None
    for place, mark in enumerate(marks):
        # Each size has its tick, and its label where there is room.
        if last is not None and mark - last < LABEL_GAP * (max(marks) - min(marks)):
            labels[place] = ""
        else:
            last = mark
    turned = {"rotation": 30, "ha": "right"} if max(map(len, labels)) > 5 else {}
    axis.set_xticks(places, labels=labels, **turned)
    axis.minorticks_off()
    axis.margins(x=0.08)
    if len(places) == 1:
        axis.set_xlim(places[0] / 2, places[0] * 2)
    return places


def curves(axis, data: Data, group, metric: str) -> dict[str, list]:
    """Draw `metric` against the size, a line per mode with its intervals; return what was drawn."""
    drawn = data.curves(group, metric)
    places = size_axis(axis, data.sizes(group))
    for mode, numbers in drawn.items():
        bars(axis, places, values(numbers), numbers, "y", mew=0, **data.style(mode))
    rule(axis, "y")
    return drawn


def curve_grid(data: Data, groups: list, bands: int, height: float):
    """Return (figure, {(group, band): axis}): a column of `bands` panels per group, wrapped."""
    columns = min(COLUMNS, len(groups))
    rows = ceil(len(groups) / columns) * bands
    figure, axes = grid(WIDE, 0.45 + height * rows, rows, columns)
    places = {
        (group, band): axes[place // columns * bands + band, place % columns]
        for place, group in enumerate(groups)
        for band in range(bands)
    }
    for axis in set(axes.flat) - set(places.values()):
        axis.set_axis_off()
    for (group, band), axis in places.items():
        if band == 0:
            axis.set_title(data.label(group), fontweight="bold")
        if band == bands - 1:
            axis.set_xlabel("size")
    return figure, places


def strip(axis, labels: list[str], title: str) -> None:
    """Make the y axis a list of `labels` from the top down, under a `title`."""
    axis.set_yticks(range(len(labels)), labels=labels)
    axis.set_ylim(len(labels) - 0.5, -0.5)
    axis.set_title(title, loc="left", pad=3, fontweight="bold")
    axis.tick_params(axis="y", length=0)
    rule(axis, "x")


def drawn_keys(data: Data, drawn) -> list:
    shown = set().union(*drawn)
    return mode_keys(data, [m for m in data.modes if m in shown], linestyle="-", mew=0)
