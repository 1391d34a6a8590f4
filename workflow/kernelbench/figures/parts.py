"""Parts that several figures share: panels, legends, intervals, axes."""

from math import ceil, floor, log2, log10, nan

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kernelbench.figures.style import BLANK, GREY, INTERVAL, NARROW, ONE, RULE


def make_blank() -> Figure:
    """Return a figure of the article for which no study has any data; it says so."""
    figure = Figure(figsize=(NARROW, BLANK))
    figure.text(0.5, 0.5, "no recorded study has what this figure shows", ha="center", va="center", color=GREY)
    return figure


def make_grid(width: float, height: float, rows: int, columns: int, **options):
    """Return a figure and its panels as an array of rows and columns."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def make_key(label: str, **looks) -> Line2D:
    """Return an entry of a legend."""
    return Line2D([], [], **{"linestyle": "none", "label": label, **looks})


def add_legend(figure, keys: list, columns: int) -> None:
    """Put a legend above the panels."""
    figure.legend(handles=keys, loc="outside upper center", ncols=min(columns, len(keys)))


def read_interval(row: dict, value: str, scale: float = 1) -> tuple[float, float, float]:
    """Return a value with the bounds of its interval, which are the value itself after a single repeat."""
    numbers = (row[value], row["ci_low"], row["ci_high"])
    return tuple(scale * (row[value] if number is None else number) for number in numbers)


def draw_intervals(axis, along: str, places, numbers: list, **looks) -> None:
    """Draw values with their intervals along "x" or "y", at places on the other axis; None leaves a gap."""
    numbers = [number or (nan, nan, nan) for number in numbers]
    values = [value for value, *_ in numbers]
    # Rounded to six digits, a bound of a narrow interval may lie on the wrong side of the estimate.
    error = [[max(0, v - low) for v, low, _ in numbers], [max(0, high - v) for v, _, high in numbers]]
    points = (places, values) if along == "y" else (values, places)
    axis.errorbar(*points, **{f"{along}err": error, **INTERVAL, **looks})


def find_ends(numbers) -> list[float]:
    """Return what an axis must hold: each value, and its interval from a third of the value to three times it."""
    # The rest of a very wide interval runs off the panel, since it would squeeze all others.
    return [end for v, low, high in filter(None, numbers) for end in (v, max(low, v / 3), min(high, v * 3))]


def set_log_axis(axes, which: str, values, least: float = 1.0) -> None:
    """Make an axis logarithmic over the values, its ends at least `least` apart as a ratio, with plain numbers."""
    stretch = max(1.15, (least * min(values) / max(values)) ** 0.5)
    low, high = min(values) / stretch, max(values) * stretch
    span = log10(high / low)
    # The narrower, the denser the labels: every decade, three in it, or most of its digits.
    steps = (1,) if span > 2.2 else (1, 2, 5) if span > 0.6 else (1, 1.2, 1.5, 2, 3, 4, 5, 6, 8)
    decades = [10.0**power for power in range(floor(log10(low)), ceil(log10(high)) + 1)]
    ticks = [step * decade for decade in decades for step in steps if low <= step * decade <= high]
    minor = [step * decade for decade in decades for step in range(1, 10) if low <= step * decade <= high]
    for axis in axes:
        axis.set(**{f"{which}scale": "log", f"{which}lim": (low, high)})
        getattr(axis, f"set_{which}ticks")(ticks, labels=[f"{tick:,.10g}" for tick in ticks])
        getattr(axis, f"set_{which}ticks")(minor, labels=[], minor=True)


def set_ratio_axis(axes, which: str, values) -> None:
    """Make an axis logarithmic over ratios: a line marks 1, and from there the ticks double."""
    axes = list(axes)
    set_log_axis(axes, which, [*values, 1])
    for axis in axes:
        low, high = getattr(axis, f"get_{which}lim")()
        ticks = [2.0**power for power in range(ceil(log2(low)), floor(log2(high)) + 1)]
        getattr(axis, f"set_{which}ticks")(ticks, labels=[f"{tick:g}" for tick in ticks])
        draw = axis.axhline if which == "y" else axis.axvline
        draw(1, zorder=0.9, **ONE)


def draw_rules(axis, which: str) -> None:
    """Draw thin lines at the ticks of an axis, behind all else."""
    axis.grid(axis=which, **RULE)
    axis.set_axisbelow(True)


def set_size_axis(axis, sizes: list[str]) -> list[float]:
    """Label the x axis with sizes and return their places: logarithmic for numbers, else even."""
    numeric = all(size.isdigit() for size in sizes)
    places = [float(size) for size in sizes] if numeric else list(range(len(sizes)))
    if numeric:
        axis.set_xscale("log", base=2)
    marks = [log2(place) for place in places] if numeric else places
    labels, last = [], -1
    for size, mark in zip(sizes, marks, strict=True):
        # Each size has its tick, and its label 17 % of the width from the last one; 16K is 16,384.
        room = last < 0 or mark - last >= 0.17 * (max(marks) - min(marks))
        short = f"{int(size) // 1024}K" if numeric and int(size) % 1024 == 0 else size
        labels.append(short if room else "")
        last = mark if room else last
    turned = {"rotation": 30, "ha": "right"} if max(map(len, labels)) > 5 else {}
    axis.set_xticks(places, labels=labels, **turned)
    axis.minorticks_off()
    axis.margins(x=0.08)
    return places
