"""The forest plot of a study: each speedup with its interval."""

from collections import Counter
from math import ceil
from textwrap import fill, shorten

from kernelbench.analysis.causes import DECIDED
from kernelbench.figures import parts, style
from kernelbench.figures.data import TIMES, Data
from kernelbench.numbers import size as write_size
from kernelbench.study.cells import CONTROL
from kernelbench.study.metrics import ALL

# How a note says what became of a cell without numbers.
FATES = {"unsupported": "not run", "oom": "out of memory", "timeout": "timed out"}


def draw_speedups(document: dict):
    """Return the forest plot: speedup over the baseline of every cell and mode, by op and size.

    A column per time metric; with a single metric the ops stand in two columns instead.
    """
    data = Data(document)
    panels = [(group, metric, _find_lines(data, group, metric)) for group in data.groups for metric in data.metrics]
    shown = {group for group, _, lines in panels if lines}
    panels = [panel for panel in panels if panel[0] in shown]
    if not panels:
        return None
    rows = [row for *_, lines in panels for line in lines.values() for row in line]
    modes = [mode for mode in data.modes if any(row["mode"] == mode for row in rows)]
    heights = [max(len(lines) for *_, lines in panels[start : start + 2]) for start in range(0, len(panels), 2)]
    height = style.forest_height(len(heights), sum(heights), len(modes))
    if height is None:
        return None
    figure, axes = parts.make_grid(style.WIDE, height, len(heights), 2, sharex=True, height_ratios=heights)
    for place, axis in enumerate(axes.flat):
        if place < len(panels) and panels[place][2]:
            _draw_panel(axis, data, *panels[place], modes)
            # The same height of a line in both panels of a pair.
            axis.set_ylim(heights[place // 2] - 0.5, -0.5)
        else:
            axis.set_axis_off()
    ends = parts.find_ends(parts.read_interval(row, "speedup") for row in rows)
    parts.set_log_axis(axes.flat, "x", [*ends, 1], least=1.6)
    if len(data.metrics) == 2:
        for column, metric in zip(axes.T, data.metrics, strict=True):
            column[0].set_title(TIMES[metric])
        for axis in axes[:, 1]:
            axis.set_title("", loc="left")
            axis.tick_params(axis="y", labelleft=False)
    for axis, metric in zip(axes[-1], [*data.metrics, *data.metrics][:2], strict=True):
        axis.set_xlabel(f"speedup over {data.baseline}, {TIMES[metric]} (right of 1: faster)")
    _explain_marks(figure, data, modes, any(row["size"] == ALL for row in rows))
    _note_missing(figure, data)
    return figure


def _find_lines(data: Data, group: tuple, metric: str) -> dict[str, list[dict]]:
    """Return {size: the rows of its modes} of the sizes, and the mean over them, that have a speedup."""
    lines = {
        size: [data.find("speedups", "speedup", group, size=size, mode=mode, metric=metric) for mode in data.modes]
        for size in [*data.list_sizes(group), ALL]
    }
    return {size: list(filter(None, rows)) for size, rows in lines.items() if any(rows)}


def _draw_panel(axis, data: Data, group: tuple, metric: str, lines: dict, modes: list[str]) -> None:
    delta = next(row["delta"] for rows in lines.values() for row in rows)
    axis.axvspan(1 / (1 + delta), 1 + delta, color=style.BAND, linewidth=0)
    axis.axvline(1, **style.FOREST_ONE)
    axis.set_yticks(range(len(lines)), labels=[write_size(size) for size in lines])
    axis.set_title(data.name_group(group), loc="left", pad=3, **style.BOLD)
    axis.tick_params(axis="y", length=0)
    parts.draw_rules(axis, "x")
    for line, (size, rows) in enumerate(lines.items()):
        if line:
            axis.axhline(line - 0.5, **(style.BEFORE_MEAN if size == ALL else style.BETWEEN))
        for row in rows:
            mode = row["mode"]
            y = line + (modes.index(mode) + 0.5) / len(modes) * 0.86 - 0.43
            point = {**data.look(mode), **style.POINT}
            point |= {"marker": style.MEAN} if size == ALL and mode != CONTROL else {}
            point["markerfacecolor"] = point["color"] if row["verdict"] in DECIDED else style.PAPER
            peaks = data.find("peaks", "points", group, size=size, mode=mode, metric=metric)
            repeats = peaks["points"] if peaks else []
            # No interval is honest about two peaks: the repeats themselves stand in its place.
            axis.plot(repeats, [y] * len(repeats), color=point["color"], **style.REPEAT)
            number = (row["speedup"],) * 3 if repeats else parts.read_interval(row, "speedup")
            parts.draw_intervals(axis, "x", [y], [number], **point)


def _explain_marks(figure, data: Data, modes: list[str], means: bool) -> None:
    deltas = {row["metric"]: row["delta"] for row in data.speedups}
    margins = [f"{100 * deltas[metric]:g} % {TIMES[metric]}" for metric in data.metrics if metric in deltas]
    keys = [parts.make_key(f"{mode} (A/A)" if mode == CONTROL else mode, **data.look(mode)) for mode in modes]
    keys += [parts.make_key("mean over the sizes", color=style.GREY, marker=style.MEAN)] if means else []
    keys.append(parts.make_key("filled: faster or slower", **style.DOT))
    keys.append(parts.make_key("hollow: equivalent or undecided", **style.HOLLOW))
    keys.append(parts.make_key(f"±δ: {', '.join(margins)}", **style.MARGIN_KEY))
    parts.add_legend(figure, keys, min(5, ceil(len(keys) / 2)))


def _note_missing(figure, data: Data) -> None:
    """Note below the panels which modes have no numbers at some cells, and why."""
    rows = [row for row in data.summary if row["metric"] == data.metrics[-1]]
    cells, gone, notes = Counter(row["mode"] for row in rows), {}, {}
    for row in sorted(rows, key=lambda row: data.modes.index(row["mode"])):
        if row["estimate"] is None:
            gone.setdefault((row["mode"], row["status"]), []).append(row["reason"])
    for (mode, status), reasons in gone.items():
        where = mode if len(reasons) == cells[mode] else f"{mode} at {len(reasons)} of {cells[mode]} cells"
        # A reason may speak of its own cell; the first one stands for the mode.
        fate = (FATES.get(status, status), shorten(reasons[0], 70, placeholder=" …"))
        notes.setdefault(fate, []).append(where)
    if notes:
        text = "; ".join(f"{fate}: {', '.join(modes)} ({why})" for (fate, why), modes in notes.items())
        # A legend without entries, since the layout makes room for legends and not for text.
        legend = figure.legend([], [], loc="outside lower left", title=fill(text, 150), alignment="left")
        legend.get_title().set_color(style.GREY)
