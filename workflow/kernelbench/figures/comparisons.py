"""Figures of comparisons: each speedup with its interval, and ours beside published ones."""

import textwrap
from math import ceil

from kernelbench.figures import parts
from kernelbench.figures.data import TIMES, Data
from kernelbench.figures.style import BAND, COLOURS, GREY, MEAN, NARROW, WIDE
from kernelbench.study.metrics import ALL

# A range over sizes, and a pale bar below it for an interval.
RANGE = {"linewidth": 0.6, "marker": "|", "markersize": 4, "mew": 0.6}
INTERVAL, TINT = {"elinewidth": 4, "mew": 0, "linestyle": "none"}, 0.3


def speedups(document: dict):
    """Return the forest plot: speedup over the baseline of every cell and mode, by op and size.

    A column per time metric; with a single metric the ops stand in two columns instead.
    """
    data = Data(document)
    lines = {(g, m): _forest_lines(data, g, m) for g in data.groups for m in data.metrics}
    groups = [group for group in data.groups if any(lines[group, m] for m in data.metrics)]
    panels = [(group, metric) for group in groups for metric in data.metrics]
    if not panels:
        return parts.blank(WIDE, f"{data.machine}: no speedups over {data.baseline}")
    shown = {mode for panel in panels for numbers in lines[panel].values() for mode in numbers}
    modes = [mode for mode in data.modes if mode in shown]
    pairs = [panels[start : start + 2] for start in range(0, len(panels), 2)]
    heights = [max(len(lines[panel]) for panel in pair) for pair in pairs]
    # A larger study is drawn denser, never taller than a page.
    room = sum(heights) * len(modes)
    height = room * min(0.08, max(0.045, 4.5 / room)) + 0.05 * sum(heights) + 0.24 * len(pairs) + 0.9
    figure, axes = parts.grid(WIDE, min(9.0, height), len(pairs), 2, sharex=True, height_ratios=heights)
    for axis, place in zip(axes.flat, range(2 * len(pairs)), strict=True):
        if place >= len(panels) or not lines[panels[place]]:
            axis.set_axis_off()
            continue
        _forest_panel(axis, data, panels[place], lines[panels[place]], modes)
        # The same height of a line in both panels of a pair.
        axis.set_ylim(heights[place // 2] - 0.5, -0.5)
    numbers = [list(line.values()) for panel in panels for line in lines[panel].values()]
    parts.log_axis(axes.flat, "x", [*parts.ends([dict(enumerate(numbers))]), 1], least=1.6)
    _forest_frame(figure, axes, data, modes, any(ALL in of for of in lines.values()))
    return figure


def _forest_lines(data: Data, group, metric: str) -> dict[str, dict]:
    """Return {size: {mode: number}} of the sizes, and the mean over them, that have a speedup."""
    lines = {}
    for size in [*data.sizes(group), ALL]:
        found = {m: data.number("speedup", group, size, m, metric) for m in data.modes}
        numbers = {mode: number for mode, number in found.items() if number}
        if numbers:
            lines[size] = numbers
    return lines


def _forest_panel(axis, data: Data, panel, lines: dict, modes: list[str]) -> None:
    group, metric = panel
    delta = _deltas(data)[metric]
    axis.axvspan(1 / (1 + delta), 1 + delta, color=BAND, linewidth=0)
    axis.axvline(1, color="black", linewidth=0.4)
    parts.strip(axis, [parts.long(size) for size in lines], data.label(group))
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
            parts.bars(axis, [number[0]], [y], [shown], "x", markerfacecolor=face, **style)


def _deltas(data: Data) -> dict[str, float]:
    """Return the margin of equivalence of each time metric that has speedups."""
    found = {row["metric"]: row["delta"] for row in data.speedups}
    return {metric: found[metric] for metric in data.metrics if metric in found}


def _forest_frame(figure, axes, data: Data, modes: list[str], means: bool) -> None:
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
        *parts.mode_keys(data, modes),
        *([parts.key("mean over the sizes", color=GREY, marker=MEAN)] if means else []),
        parts.key("filled: faster or slower", **dot),
        parts.key("hollow: equivalent or not told apart", **dot, markerfacecolor="white"),
        parts.key(f"±δ: {', '.join(margins)}", color=BAND, marker="s", markersize=6),
    ]
    parts.legend(figure, keys, min(5, ceil(len(keys) / 2)))
    note = data.missing()
    if note:
        # A legend without entries, since the layout makes room for legends and not for text.
        text = textwrap.fill(note, 150)
        legend = figure.legend([], [], loc="outside lower left", title=text, alignment="left")
        legend.get_title().set_color(GREY)


def published(document: dict, published: dict):
    """Return the published mean speedup and range of each op beside those measured here."""
    data = Data(document)
    lines = [f"published ({published['machine']})", *(TIMES[metric] for metric in data.metrics)]
    ops = published["ops"]
    height = (0.15 * len(lines) + 0.24) * len(ops) + 0.65
    figure, axes = parts.grid(NARROW, height, len(ops), 1, sharex=True)
    own = {"marker": MEAN, "color": COLOURS[0]}
    if published["mode"] in data.modes:
        own["color"] = data.style(published["mode"])["color"]
    ends = [1]
    for axis, (op, known) in zip(axes.flat, ops.items(), strict=True):
        axis.axvline(1, color="black", linewidth=0.5)
        parts.strip(axis, lines, op)
        found = [((known["mean"],) * 3, [known["low"], known["high"]])]
        found += [_over_sizes(data, op, published, metric) for metric in data.metrics]
        for line, (mean, span) in enumerate(found):
            style = {"color": "black", "marker": "s"} if line == 0 else own
            tint = (style["color"], TINT)
            parts.bars(axis, parts.values([mean]), [line], [mean], "x", ecolor=tint, **style, **INTERVAL)
            axis.plot(span, [line] * len(span), color=style["color"], **RANGE)
            ends += [*span, *parts.ends([{op: [mean]}])]
    parts.log_axis(axes.flat, "x", ends, least=4)
    axes[-1, 0].set_xlabel(f"speedup of {published['mode']} over {published['baseline']}")
    keys = [
        parts.key(f"mean, {published['machine']}", color="black", marker="s", mew=0),
        parts.key("range over the sizes", color=GREY, linestyle="-", **RANGE),
        parts.key(f"mean, {data.machine}", **own, mew=0),
        parts.key("its 95 % interval", color=(own["color"], TINT), linestyle="-", linewidth=4),
    ]
    parts.legend(figure, keys, 2)
    return figure


def _over_sizes(data: Data, op: str, published: dict, metric: str) -> tuple:
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
