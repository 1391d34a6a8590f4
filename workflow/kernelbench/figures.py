"""Figures: from the summary.json of one machine to vector graphics.

Each function takes the content of summary.json (`published` also that of paper/published.yaml),
reads nothing else and returns a matplotlib Figure at its final size; `save` writes it so that the
same input gives the same bytes. Ops, sizes, dtypes and modes are those of the data: a new one
appears by itself.

matplotlib is imported where it is used, since Snakemake reads the names in FIGURES in every job.
"""

import textwrap
from collections.abc import Callable
from functools import cached_property, wraps
from itertools import cycle, product
from math import ceil, floor, log2, log10, nan
from pathlib import Path

from kernelbench.harness import plugins, workloads
from kernelbench.study import CONTROL, kind, without_arms

# The figures by name, filled by @_registered.
FIGURES: dict[str, Callable] = {}

# Inches: the width of a page and of one of its two columns.
WIDE, NARROW = 7.0, 3.35
# Panels side by side, and the least distance of two labels below one, as a share of its width.
COLUMNS, LABEL_GAP = 4, 0.17

STYLE = {
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.title_fontsize": 7,
    "axes.linewidth": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.5,
    "ytick.major.width": 0.5,
    "xtick.minor.width": 0.3,
    "ytick.minor.width": 0.3,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "lines.linewidth": 0.9,
    "lines.markersize": 3.2,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "legend.handletextpad": 0.4,
    "legend.columnspacing": 1.2,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
    "svg.fonttype": "path",
    "svg.hashsalt": "kernelbench",
}

# Okabe and Ito's colours without their yellow, which is too pale for a thin line on white. Seven
# markers to six colours: the pairs repeat only after 42 modes. The diamond is for means over sizes.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
MARKERS = ["s", "^", "v", "P", "X", "<", ">"]
BASELINE = {"color": "black", "marker": "o"}
CONTROL_STYLE = {"color": "0.55", "marker": "o", "markersize": 2.2}
MEAN = "D"
GREY, BAND = "0.45", "0.8"

CEILING = {"color": GREY, "linewidth": 0.7, "linestyle": (0, (4, 2))}
# A range over sizes, and a pale bar below it for an interval.
RANGE = {"linewidth": 0.6, "marker": "|", "markersize": 4, "mew": 0.6}
INTERVAL, TINT = {"elinewidth": 4, "mew": 0, "linestyle": "none"}, 0.3

ALL = "all"
# The time metrics that figures show, with their names in full.
TIMES = {"device": "device time", "latency": "latency"}
# All timers of a call, in the order of how much of the host is in them.
TIMERS = {
    "graph": "graph", "device": "device", "throughput": "throughput", "event": "CUDA events", "latency": "latency",
    "host": "host",
}  # fmt: skip
# What a trace shows.
TRACED = {"call": "time of a call\n(of the first)", "sm_clock": "SM clock\n(MHz)", "power": "power\n(W)"}
# By what bounds an op: its rate's metric, the unit, and that in units of the ceilings (bytes/µs and
# FLOP/µs).
RATES = {"memory": ("gbps", "GB/s", 1e3), "compute": ("tflops", "TFLOP/s", 1e6)}
# How a note says what became of a cell without numbers.
FATES = {"unsupported": "not run", "oom": "out of memory", "timeout": "timed out"}


def _registered(function: Callable) -> Callable:
    """Enter a figure into FIGURES, and draw it in the paper's style."""

    @wraps(function)
    def styled(*documents):
        from matplotlib import rc_context

        with rc_context(STYLE):
            return function(*documents)

    FIGURES[function.__name__] = styled
    return styled


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


class _Data:
    """What the figures ask of a summary.json. A group is an (op, dtype): what shares a panel."""

    def __init__(self, document: dict):
        document = without_arms(document)
        study = document["study"]
        self.machine, self.baseline = study["machine"], study["baselines"][0]
        self.ops, self.configs = study["ops"], study.get("modes", {})
        self.ceilings = document["ceilings"]
        self.summary = document["summary"]
        self.traces = document["traces"]
        self.speedups = [row for row in document["speedups"] if row["baseline"] == self.baseline]
        self.metrics = [m for m in TIMES if any(row["metric"] == m for row in self.summary)]
        key = ("op", "dtype", "size", "mode", "metric")
        peaks = [found for found in document["peaks"] if found["baseline"] == self.baseline]
        self._points = {tuple(found[k] for k in key): found["points"] for found in peaks}
        self._found = {
            name: {tuple(row[k] for k in key): row for row in rows}
            for name, rows in (("estimate", self.summary), ("speedup", self.speedups))
        }

    def points(self, group: tuple[str, str], size: str, mode: str, metric: str) -> list[float]:
        """Return the speedup of each repeat where they fall into two peaks, else nothing."""
        return self._points.get((*group, size, mode, metric), [])

    @cached_property
    def groups(self) -> list[tuple[str, str]]:
        """Every (op, dtype), the ops in the order of the config: rows come in the order of the run."""
        found = dict.fromkeys((row["op"], row["dtype"]) for row in self.summary)
        return sorted(found, key=lambda group: _place(group[0], self.ops))

    @cached_property
    def modes(self) -> list[str]:
        """All modes in the order of the config."""
        found = dict.fromkeys(row["mode"] for row in self.summary)
        return sorted(found, key=lambda mode: _place(mode, self.configs))

    def is_control(self, mode: str) -> bool:
        """Return whether `mode` is the A/A arm."""
        return mode == CONTROL

    def style(self, mode: str) -> dict:
        """Return colour and marker of `mode`: its place among the modes decides, in every figure."""
        if mode == self.baseline:
            return BASELINE
        if self.is_control(mode):
            return CONTROL_STYLE
        place = [m for m in self.modes if m != self.baseline and not self.is_control(m)].index(mode)
        return {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}

    @cached_property
    def main(self) -> list[str]:
        """The baseline, and the first mode of each other runner: those that stand for their kind."""
        found = {self.configs[self.baseline]["runner"]: self.baseline}
        for mode in self.modes:
            found.setdefault(self.configs[mode]["runner"], mode)
        return list(found.values())

    def label(self, group: tuple[str, str]) -> str:
        """Return the name of a panel: the op, and its dtype where the study has several."""
        return group[0] if len({dtype for _, dtype in self.groups}) == 1 else ", ".join(group)

    def sizes(self, group: tuple[str, str]) -> list[str]:
        """Return the sizes of `group`, ascending; in the order of the config if not numbers."""
        found = {row["size"] for row in self.summary if (row["op"], row["dtype"]) == group}
        if all(size.isdigit() for size in found):
            return sorted(found, key=int)
        named = [str(size) for size in self.ops.get(group[0], {}).get("sizes", [])]
        return sorted(found, key=lambda size: (_place(size, named), size))

    def number(self, kind: str, group, size: str, mode: str, metric: str) -> tuple | None:
        """Return (value, low, high, verdict) of an "estimate" or a "speedup", None where none is.

        Without an interval (one repeat) the bounds are the value itself: the point is drawn alone.
        """
        row = self._found[kind].get((*group, size, mode, metric))
        if row is None or row[kind] is None:
            return None
        value, low, high = (row[name] for name in (kind, "ci_low", "ci_high"))
        low, high = (value if bound is None else bound for bound in (low, high))
        return value, low, high, row.get("verdict", "")

    def curves(self, group: tuple[str, str], metric: str) -> dict[str, list]:
        """Return {mode: its number at each size, None where missing} of the modes that have any.

        A/A is left out: it is the baseline's curve again. Nothing where the op is a single point
        (`copy`, which stands as a ceiling), since that is no curve.
        """
        sizes = self.sizes(group)
        rows = {
            mode: [self.number("estimate", group, size, mode, metric) for size in sizes]
            for mode in self.modes
            if not self.is_control(mode)
        }
        rows = {mode: numbers for mode, numbers in rows.items() if any(numbers)}
        return rows if len(rows) > 1 or len(sizes) > 1 else {}

    def missing(self) -> str:
        """Return a note on the modes without numbers at some cells, and why; empty if all have."""
        metric = self.metrics[-1] if self.metrics else None
        cells, found = {}, {}
        for row in self.summary:
            if row["metric"] != metric:
                continue
            cells[row["mode"]] = cells.get(row["mode"], 0) + 1
            if row["estimate"] is None:
                # A reason may speak of its own cell; the first one stands for the mode.
                first = found.setdefault((row["status"], row["mode"]), [row["reason"], 0])
                first[1] += 1
        notes = {}
        for (status, mode), (reason, count) in sorted(found.items(), key=lambda item: self.modes.index(item[0][1])):
            where = mode if count == cells[mode] else f"{mode} at {count} of {cells[mode]} cells"
            reason = textwrap.shorten(reason, 70, placeholder=" …")
            notes.setdefault((FATES.get(status, status), reason), []).append(where)
        return "; ".join(f"{fate}: {', '.join(w)} ({why})" for (fate, why), w in notes.items())


def _place(name: str, names) -> int:
    """Return the place of `name` in `names`, behind them all if it is not there."""
    return list(names).index(name) if name in names else len(names)


# Parts that several figures share.


def _blank(width: float, text: str):
    """Return a figure that only says why there is nothing to draw."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, 1.0))
    figure.text(0.5, 0.5, text, ha="center", va="center", color=GREY)
    return figure


def _grid(width: float, height: float, rows: int, columns: int, **options):
    """Return (figure, rows × columns array of axes)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def _key(label: str, **style):
    """Return an entry of a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **{"linestyle": "none", "label": label, **style})


def _mode_keys(data: _Data, modes, **style) -> list:
    names = {mode: f"{mode} (A/A)" if data.is_control(mode) else mode for mode in modes}
    return [_key(names[mode], **data.style(mode), **style) for mode in modes]


def _legend(figure, keys: list, columns: int) -> None:
    figure.legend(handles=keys, loc="outside upper center", ncols=min(columns, len(keys)))


def _bars(axis, x: list, y: list, numbers: list, along: str, **style) -> None:
    """Draw points with their intervals along `along` ("x" or "y"); None in `numbers` is a gap."""
    values = [number or (nan, nan, nan) for number in numbers]
    # Rounded to six digits, a bound of a narrow interval may lie on the wrong side of the estimate.
    error = [[max(0, v[0] - v[1]) for v in values], [max(0, v[2] - v[0]) for v in values]]
    axis.errorbar(x, y, **{f"{along}err": error}, **{"elinewidth": 0.8, **style})


def _values(numbers: list) -> list[float]:
    return [nan if number is None else number[0] for number in numbers]


def _ends(drawn, reach: float = 3) -> list[float]:
    """Return what an axis must hold of the numbers in mappings of lists of them.

    That is every value, and its interval up to `reach` times the value or a `reach`-th of it: the
    rest of a very wide one runs off the panel, else it would squeeze all others.
    """
    lists = [numbers for modes in drawn for numbers in modes.values()]
    found = [number for numbers in lists for number in numbers if number]
    return [e for v, low, high, *_ in found for e in (v, max(low, v / reach), min(high, v * reach))]


def _log_axis(axes, which: str, values, least: float = 1.0) -> None:
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


def _short(size: str) -> str:
    """Return a size for a narrow axis: 16384 is 16K, in the sense of 1,024."""
    return f"{int(size) // 1024}K" if size.isdigit() and int(size) % 1024 == 0 else size


def _long(size: str) -> str:
    return f"{int(size):,}" if size.isdigit() else size


def _size_axis(axis, sizes: list[str]) -> list[float]:
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


def _curves(axis, data: _Data, group, metric: str) -> dict[str, list]:
    """Draw `metric` against the size, a line per mode with its intervals; return what was drawn."""
    drawn = data.curves(group, metric)
    places = _size_axis(axis, data.sizes(group))
    for mode, numbers in drawn.items():
        _bars(axis, places, _values(numbers), numbers, "y", mew=0, **data.style(mode))
    axis.grid(axis="y", color="0.9", linewidth=0.4)
    axis.set_axisbelow(True)
    return drawn


def _curve_grid(data: _Data, groups: list, bands: int, height: float):
    """Return (figure, {(group, band): axis}): a column of `bands` panels per group, wrapped."""
    columns = min(COLUMNS, len(groups))
    rows = ceil(len(groups) / columns) * bands
    figure, axes = _grid(WIDE, 0.45 + height * rows, rows, columns)
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


def _strip(axis, labels: list[str], title: str) -> None:
    """Make the y axis a list of `labels` from the top down, under a `title`."""
    axis.set_yticks(range(len(labels)), labels=labels)
    axis.set_ylim(len(labels) - 0.5, -0.5)
    axis.set_title(title, loc="left", pad=3, fontweight="bold")
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x", color="0.9", linewidth=0.4)
    axis.set_axisbelow(True)


# The figures.


@_registered
def speedups(document: dict):
    """Return the forest plot: speedup over the baseline of every cell and mode, by op and size.

    A column per time metric; with a single metric the ops stand in two columns instead.
    """
    data = _Data(document)
    lines = {(g, m): _forest_lines(data, g, m) for g in data.groups for m in data.metrics}
    groups = [group for group in data.groups if any(lines[group, m] for m in data.metrics)]
    panels = [(group, metric) for group in groups for metric in data.metrics]
    if not panels:
        return _blank(WIDE, f"{data.machine}: no speedups over {data.baseline}")
    shown = {mode for panel in panels for numbers in lines[panel].values() for mode in numbers}
    modes = [mode for mode in data.modes if mode in shown]
    pairs = [panels[start : start + 2] for start in range(0, len(panels), 2)]
    heights = [max(len(lines[panel]) for panel in pair) for pair in pairs]
    # A larger study is drawn denser, never taller than a page.
    height = sum(heights) * (0.05 + 0.045 * len(modes)) + 0.24 * len(pairs) + 0.9
    figure, axes = _grid(WIDE, min(9.0, height), len(pairs), 2, sharex=True, height_ratios=heights)
    for axis, place in zip(axes.flat, range(2 * len(pairs)), strict=True):
        if place >= len(panels) or not lines[panels[place]]:
            axis.set_axis_off()
            continue
        _forest_panel(axis, data, panels[place], lines[panels[place]], modes)
        # The same height of a line in both panels of a pair.
        axis.set_ylim(heights[place // 2] - 0.5, -0.5)
    numbers = [list(line.values()) for panel in panels for line in lines[panel].values()]
    _log_axis(axes.flat, "x", [*_ends([dict(enumerate(numbers))]), 1], least=1.6)
    _forest_frame(figure, axes, data, modes)
    return figure


def _forest_lines(data: _Data, group, metric: str) -> dict[str, dict]:
    """Return {size: {mode: number}} of the sizes, and the mean over them, that have a speedup."""
    lines = {}
    for size in [*data.sizes(group), ALL]:
        found = {m: data.number("speedup", group, size, m, metric) for m in data.modes}
        numbers = {mode: number for mode, number in found.items() if number}
        if numbers:
            lines[size] = numbers
    return lines


def _forest_panel(axis, data: _Data, panel, lines: dict, modes: list[str]) -> None:
    group, metric = panel
    delta = _deltas(data)[metric]
    axis.axvspan(1 / (1 + delta), 1 + delta, color=BAND, linewidth=0)
    axis.axvline(1, color="black", linewidth=0.4)
    _strip(axis, [_long(size) for size in lines], data.label(group))
    for line, (size, numbers) in enumerate(lines.items()):
        if line:
            axis.axhline(line - 0.5, color="0.3" if size == ALL else "0.85", linewidth=0.4)
        for mode, number in numbers.items():
            y = line + (modes.index(mode) + 0.5) / len(modes) * 0.86 - 0.43
            style = {**data.style(mode), "linestyle": "none", "mew": 0.6}
            if size == ALL and not data.is_control(mode):
                style["marker"] = MEAN
            decided = number[3] in ("faster", "slower")
            face = style["color"] if decided else "white"
            points = data.points(group, size, mode, metric)
            # No interval is honest about two peaks: the repeats themselves stand in its place.
            axis.plot(points, [y] * len(points), ".", color=style["color"], markersize=1.5)
            shown = (number[0],) * 3 if points else number
            _bars(axis, [number[0]], [y], [shown], "x", markerfacecolor=face, **style)


def _deltas(data: _Data) -> dict[str, float]:
    """Return the margin of equivalence of each time metric that has speedups."""
    found = {row["metric"]: row["delta"] for row in data.speedups}
    return {metric: found[metric] for metric in data.metrics if metric in found}


def _forest_frame(figure, axes, data: _Data, modes: list[str]) -> None:
    """Add what all panels share: titles, labels, legend, and the note on what has no numbers."""
    if len(data.metrics) == 2:
        for axis, metric in zip(axes[0], data.metrics, strict=True):
            axis.set_title(TIMES[metric])
        for axis in axes[:, 1]:
            axis.set_title("", loc="left")
            axis.tick_params(axis="y", labelleft=False)
    for axis, metric in zip(axes[-1], [*data.metrics, *data.metrics][:2], strict=True):
        axis.set_xlabel(f"speedup over {data.baseline}, {TIMES[metric]} (right of 1: faster)")
    margins = [f"{100 * delta:g} % {TIMES[metric]}" for metric, delta in _deltas(data).items()]
    dot = {"color": GREY, "marker": "o", "mew": 0.6}
    keys = [
        *_mode_keys(data, modes),
        _key("mean over the sizes", color=GREY, marker=MEAN),
        _key("filled: faster or slower", **dot),
        _key("hollow: equivalent or inconclusive", **dot, markerfacecolor="white"),
        _key(f"±δ: {', '.join(margins)}", color=BAND, marker="s", markersize=6),
    ]
    _legend(figure, keys, min(5, ceil(len(keys) / 2)))
    note = data.missing()
    if note:
        # A legend without entries, since the layout makes room for legends and not for text.
        text = textwrap.fill(note, 150)
        legend = figure.legend([], [], loc="outside lower left", title=text, alignment="left")
        legend.get_title().set_color(GREY)


@_registered
def times(document: dict):
    """Return the time of a call against the size, log-log: a column per op, a row per metric."""
    data = _Data(document)
    groups = [group for group in data.groups if any(data.curves(group, m) for m in data.metrics)]
    if not groups:
        return _blank(WIDE, f"{data.machine}: no times")
    figure, axes = _curve_grid(data, groups, len(data.metrics), 1.65)
    drawn = {}
    for (group, band), axis in axes.items():
        drawn[group, band] = _curves(axis, data, group, data.metrics[band])
        if group in groups[::COLUMNS]:
            axis.set_ylabel(f"{TIMES[data.metrics[band]]} (µs)")
        else:
            axis.tick_params(axis="y", labelleft=False)
    # One scale for all panels, so that ops and metrics compare by eye.
    _log_axis(axes.values(), "y", _ends(drawn.values()), least=10)
    _legend(figure, _drawn_keys(data, drawn.values()), 6)
    return figure


def _drawn_keys(data: _Data, drawn) -> list:
    shown = set().union(*drawn)
    return _mode_keys(data, [m for m in data.modes if m in shown], linestyle="-", mew=0)


@_registered
def timers(document: dict):
    """Return the speedup of the main modes by each timer against the size: a column per op, a row per mode."""
    data = _Data(document)
    shown = [t for t in TIMERS if any(row["metric"] == t and row["speedup"] for row in data.speedups)]
    panels = {
        (group, mode): {t: [data.number("speedup", group, s, mode, t) for s in data.sizes(group)] for t in shown}
        for group in data.groups
        for mode in data.main[1:]
    }
    panels = {at: {t: n for t, n in drawn.items() if any(n)} for at, drawn in panels.items()}
    groups = [group for group in data.groups if any(panels[group, mode] for mode in data.main[1:])]
    if len(shown) < 2 or not groups:
        return _blank(WIDE, f"{data.machine}: no speedups by several timers")
    figure, axes = _curve_grid(data, groups, len(data.main) - 1, 1.65)
    for (group, band), axis in axes.items():
        mode = data.main[1 + band]
        places = _size_axis(axis, data.sizes(group))
        axis.axhline(1, color="black", linewidth=0.5)
        for timer, numbers in panels[group, mode].items():
            _bars(axis, places, _values(numbers), numbers, "y", **_timer_style(timer))
        if group in groups[::COLUMNS]:
            axis.set_ylabel(f"{mode}: speedup over {data.baseline}")
        else:
            axis.tick_params(axis="y", labelleft=False)
    _log_axis(axes.values(), "y", [*_ends(panels.values()), 1], least=3)
    _legend(figure, [_key(TIMERS[timer], **_timer_style(timer) | {"linestyle": "-"}) for timer in shown], 6)
    return figure


def _timer_style(timer: str) -> dict:
    place = list(TIMERS).index(timer)
    return {"color": COLOURS[place], "marker": MARKERS[place], "mew": 0}


@_registered
def split(document: dict):
    """Return what a call takes on the host and on the device against the size, for the main modes: a column per op."""
    data = _Data(document)
    parts = {"host": (0, (2, 1.2)), "device": "-"}
    panels = {
        group: {
            (m, part): data.curves(group, part)[m] for part in parts for m in data.main if m in data.curves(group, part)
        }
        for group in data.groups
    }
    groups = [group for group in data.groups if {part for _, part in panels[group]} == set(parts)]
    if not groups:
        return _blank(WIDE, f"{data.machine}: the host was not timed apart")
    figure, axes = _curve_grid(data, groups, 1, 2.0)
    for (group, _), axis in axes.items():
        places = _size_axis(axis, data.sizes(group))
        for (mode, part), numbers in panels[group].items():
            style = {**data.style(mode), "linestyle": parts[part]}
            _bars(axis, places, _values(numbers), numbers, "y", mew=0, **style)
        axis.grid(axis="y", color="0.9", linewidth=0.4)
        axis.set_axisbelow(True)
        if group in groups[::COLUMNS]:
            axis.set_ylabel("time of a call (µs)")
        else:
            axis.tick_params(axis="y", labelleft=False)
    _log_axis(axes.values(), "y", _ends([panels[group] for group in groups]), least=10)
    lines = [_key(f"{part}", color=GREY, linestyle=line) for part, line in parts.items()]
    _legend(figure, [*_mode_keys(data, data.main, linestyle="-", mew=0), *lines], 6)
    return figure


@_registered
def trace(document: dict):
    """Return time of a call, SM clock and power during a load of some seconds: a column per cell, a line per mode."""
    data = _Data(document)
    cells = list(dict.fromkeys((t["op"], t["dtype"], t["size"]) for t in data.traces))[:COLUMNS]
    bands = {name: label for name, label in TRACED.items() if any(name in t["points"][0] for t in data.traces)}
    if not cells:
        return _blank(WIDE, f"{data.machine}: nothing was traced")
    figure, axes = _grid(WIDE, 0.45 + 1.1 * len(bands), len(bands), len(cells), sharex=True, sharey="row")
    for column, (*group, size) in enumerate(cells):
        axes[0, column].set_title(f"{data.label(tuple(group))} {_long(size)}", fontweight="bold")
        axes[-1, column].set_xlabel("time since the load began (s)")
        for traced in data.traces:
            if (traced["op"], traced["dtype"], traced["size"]) == (*group, size):
                at = [point["at"] for point in traced["points"]]
                style = data.style(traced["mode"]) | {"linestyle": "-", "marker": ""}
                for axis, name in zip(axes[:, column], bands, strict=True):
                    first = traced["points"][0]["call"] if name == "call" else 1
                    axis.plot(at, [point[name] / first for point in traced["points"]], **style)
    for axis, label in zip(axes[:, 0], bands.values(), strict=True):
        axis.set_ylabel(label)
    modes = [mode for mode in data.modes if any(traced["mode"] == mode for traced in data.traces)]
    _legend(figure, [_key(mode, **data.style(mode) | {"linestyle": "-", "marker": ""}) for mode in modes], 6)
    return figure


@_registered
def rates(document: dict):
    """Return TFLOP/s of compute-bound and GB/s of memory-bound ops against the size, and ceilings."""
    data = _Data(document)
    metric = {group: RATES[_bound(data, group)][0] for group in data.groups}
    groups = [group for group in data.groups if data.curves(group, metric[group])]
    if not groups:
        return _blank(WIDE, f"{data.machine}: no rates")
    figure, axes = _curve_grid(data, groups, 1, 1.75)
    drawn = []
    for (group, _), axis in axes.items():
        drawn.append(_curves(axis, data, group, metric[group]))
        ceiling = _ceiling(axis, data, group)
        axis.set_ylim(0, max(*_ends(drawn[-1:], reach=1.3), ceiling) * 1.06)
        axis.set_ylabel(RATES[_bound(data, group)][1], labelpad=2)
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    _legend(figure, [*_drawn_keys(data, drawn), _key("ceiling of the machine", **CEILING)], 7)
    return figure


@_registered
def roofline(document: dict):
    """Return the rates of baseline and kernels against the operations per byte, and their shares of what is allowed."""
    data = _Data(document)
    kernels = [mode for mode in data.modes if data.configs[mode]["runner"] == "kernel"]
    found = {
        (group, mode): points
        for group, mode in product(data.groups, (data.baseline, *kernels))
        if (points := _intensities(data, group, mode))
    }
    if not (kernels and found):
        return _blank(WIDE, f"{data.machine}: no kernels with a rate")
    figure, axes = _grid(WIDE, 2.6, 1, 2)
    rates, shares = axes[0]
    families = {group: data.ops[group[0]].get("workload", group[0]) for group, _ in found}
    colours = dict(zip(dict.fromkeys(families.values()), cycle(COLOURS), strict=False))
    markers = dict(zip(dict.fromkeys(dtype for _, dtype in families), MARKERS, strict=False))
    own = {"linestyle": "none", "mew": 0.6, "markersize": 2.8}
    for (group, mode), points in found.items():
        style = {**own, "color": colours[families[group]], "marker": markers[group[1]]}
        style["markerfacecolor"] = "white" if mode == data.baseline else style["color"]
        rates.plot(*zip(*points, strict=True), **style)
        if roof := _roof(data, group[1]):
            shares.plot([x for x, _ in points], [100 * rate / min(x * roof[0], roof[1]) for x, rate in points], **style)
    _roofs(rates, data, [x for points in found.values() for x, _ in points])
    rates.set_yscale("log")
    rates.set_ylabel("TFLOP/s", labelpad=2)
    shares.axhline(100, **CEILING)
    shares.set_ylim(0)
    shares.set_ylabel("share of the limit (%)", labelpad=2)
    for axis in (rates, shares):
        axis.set_xscale("log")
        axis.set_xlabel("operations per byte")
    keys = [_key(workload, color=colour, marker="o", **own) for workload, colour in colours.items()]
    keys += [_key(dtype, color="black", marker=marker, **own) for dtype, marker in markers.items()]
    keys += [_key(f"hollow: {data.baseline}", color="black", marker="o", markerfacecolor="white", **own)]
    _legend(figure, keys, len(keys))
    return figure


def _intensities(data: _Data, group: tuple[str, str], mode: str) -> list[tuple[float, float]]:
    """Return (operations per byte, TFLOP/s) of each size of a group in a mode; nothing for what does no arithmetic."""
    rates = [data.curves(group, metric).get(mode, []) for metric in ("tflops", "gbps")]
    pairs = zip(*(_values(numbers) for numbers in rates), strict=True) if all(rates) else ()
    return [(1e3 * tflops / gbps, tflops) for tflops, gbps in pairs if tflops > 0]


def _roof(data: _Data, dtype: str) -> tuple[float, float] | None:
    """Return what the study's fastest copy and matrix product allow: TFLOP/s by operation per byte, and at most."""
    best = data.ceilings.get(dtype, {})
    if not {"memory", "compute"} <= set(best):
        return None
    return tuple(best[bound]["rate"] / RATES["compute"][2] for bound in ("memory", "compute"))


def _roofs(axis, data: _Data, intensities: list[float]) -> None:
    """Draw for each dtype the least of what the fastest copy and the fastest matrix product of the study allow."""
    low, high = min(intensities) / 2, max(intensities) * 2
    for memory, compute in filter(None, (_roof(data, dtype) for dtype in data.ceilings)):
        ridge = compute / memory
        axis.plot([low, ridge, max(high, ridge)], [low * memory, compute, compute], **CEILING)


def _bound(data: _Data, group: tuple[str, str]) -> str:
    op = group[0]
    return plugins.load(workloads, "workload", data.ops[op].get("workload", op)).bound


def _ceiling(axis, data: _Data, group: tuple[str, str]) -> float:
    """Draw and label what the machine reached at best; return it, 0 where it was not measured."""
    bound = _bound(data, group)
    best = data.ceilings.get(group[1], {}).get(bound)
    if best is None:
        return 0
    _, unit, divisor = RATES[bound]
    rate = best["rate"] / divisor
    axis.axhline(rate, **CEILING)
    axis.set_title(axis.get_title(), pad=12, fontweight="bold")
    # Above the panel, since a small input can stay in a cache and cross the line.
    figures = f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
    text = f"{best['op']} {_long(best['size'])}: {figures} {unit}"
    axis.text(0.5, 1.03, text, transform=axis.transAxes, fontsize=6.5, color=GREY, ha="center")
    return rate


@_registered
def first_call(document: dict):
    """Return the cost of the first call with empty caches, for each op, mode and size."""
    data = _Data(document)
    panels = {group: data.curves(group, "first_call") for group in data.groups}
    panels = {group: modes for group, modes in panels.items() if modes}
    if not panels:
        return _blank(NARROW, f"{data.machine}: no first calls")
    heights = [len(modes) for modes in panels.values()]
    height = min(9.0, 0.14 * sum(heights) + 0.24 * len(panels) + 0.35)
    figure, axes = _grid(NARROW, height, len(panels), 1, sharex=True, height_ratios=heights)
    for axis, (group, modes) in zip(axes.flat, panels.items(), strict=True):
        _strip(axis, list(modes), data.label(group))
        for line, (mode, numbers) in enumerate(modes.items()):
            # Sizes from the top down, close together: mostly they agree, and then read as one mark.
            places = [line + (i + 0.5) / len(numbers) * 0.7 - 0.35 for i in range(len(numbers))]
            style = {**data.style(mode), "linestyle": "none", "markersize": 2.4, "mew": 0}
            _bars(axis, _values(numbers), places, numbers, "x", **style)
    _log_axis(axes.flat, "x", _ends(panels.values()), least=10)
    # Longer than the panels are wide.
    figure.supxlabel("first call (s); a mark per size, smallest on top", fontsize=8)
    return figure


@_registered
def published(document: dict, published: dict):
    """Return the published mean speedup and range of each op beside those measured here."""
    data = _Data(document)
    lines = [f"published ({published['machine']})", *(TIMES[metric] for metric in data.metrics)]
    ops = published["ops"]
    height = (0.15 * len(lines) + 0.24) * len(ops) + 0.65
    figure, axes = _grid(NARROW, height, len(ops), 1, sharex=True)
    own = {"marker": MEAN, "color": COLOURS[0]}
    if published["mode"] in data.modes:
        own["color"] = data.style(published["mode"])["color"]
    ends = [1]
    for axis, (op, known) in zip(axes.flat, ops.items(), strict=True):
        axis.axvline(1, color="black", linewidth=0.5)
        _strip(axis, lines, op)
        found = [((known["mean"],) * 3, [known["low"], known["high"]])]
        found += [_over_sizes(data, op, published, metric) for metric in data.metrics]
        for line, (mean, span) in enumerate(found):
            style = {"color": "black", "marker": "s"} if line == 0 else own
            tint = (style["color"], TINT)
            _bars(axis, _values([mean]), [line], [mean], "x", ecolor=tint, **style, **INTERVAL)
            axis.plot(span, [line] * len(span), color=style["color"], **RANGE)
            ends += [*span, *_ends([{op: [mean]}])]
    _log_axis(axes.flat, "x", ends, least=4)
    axes[-1, 0].set_xlabel(f"speedup of {published['mode']} over {published['baseline']}")
    keys = [
        _key(f"mean, {published['machine']}", color="black", marker="s", mew=0),
        _key("range over the sizes", color=GREY, linestyle="-", **RANGE),
        _key(f"mean, {data.machine}", **own, mew=0),
        _key("its 95 % interval", color=(own["color"], TINT), linestyle="-", linewidth=4),
    ]
    _legend(figure, keys, 2)
    return figure


def _over_sizes(data: _Data, op: str, published: dict, metric: str) -> tuple:
    """Return (mean speedup of `op` as a number or None, [least, greatest] over its sizes or [])."""
    groups = [group for group in data.groups if group[0] == op]
    # The published dtype where the study has it, else what it has (a CPU measures float32).
    groups.sort(key=lambda group: group[1] != published["dtype"])
    if not groups or published["baseline"] != data.baseline:
        return None, []
    group, mode = groups[0], published["mode"]
    sizes = data.sizes(group)
    found = {size: data.number("speedup", group, size, mode, metric) for size in [*sizes, ALL]}
    values = [found[size][0] for size in sizes if found[size]]
    mean = found[sizes[0]] if len(sizes) == 1 else found[ALL]
    return mean, [min(values), max(values)] if values else []
