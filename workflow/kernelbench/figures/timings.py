"""Figures of times in a study: against the size, by each timer, and during a load."""

from math import ceil

from kernelbench.figures import parts, style
from kernelbench.figures.data import TIMES, Data
from kernelbench.numbers import size as write_size
from kernelbench.study.cells import CONTROL
from kernelbench.study.config import MEASURE_KEYS

# All timers of a call, in the order of how much of the host is in them; how much is in do_bench depends on the call.
TIMERS = {"graph": "graph", "device": "device", "throughput": "throughput", "event": "CUDA events",
          "latency": "latency", "host": "host", "do_bench": "do_bench"}  # fmt: skip
# What a trace shows.
TRACED = {"call": "time of a call\n(of the first)", "sm_clock": "SM clock\n(MHz)", "power": "power\n(W)"}
# Panels side by side, and how many sizes make a curve: fewer are easier to read in a table.
COLUMNS, SIZES = 4, 3


def draw_times(document: dict):
    """Return the time of a call against the size, log-log: a column per op, a row per metric."""
    data = Data(document)
    labels = {metric: f"{TIMES[metric]} (µs)" for metric in data.metrics}
    looks = {mode: (mode, data.look(mode)) for mode in data.modes if mode != CONTROL}
    return _draw_curves(data, "summary", "estimate", ("metric", labels), ("mode", looks))


def draw_timers(document: dict):
    """Return the speedup of the main modes by each timer against the size: a column per op, a row per mode."""
    data = Data(document)
    if len({row["metric"] for row in data.speedups if row["speedup"]} & set(TIMERS)) < 2:
        return None
    # The first mode of each runner but the baseline's stands for its kind.
    kinds = {data.configs[data.baseline]["runner"]: data.baseline}
    for mode in data.modes:
        kinds.setdefault(data.configs[mode]["runner"], mode)
    labels = {mode: f"{mode}: speedup over {data.baseline}" for mode in kinds.values() if mode != data.baseline}
    looks = {timer: (label, style.pick_look(place)) for place, (timer, label) in enumerate(TIMERS.items())}
    return _draw_curves(data, "speedups", "speedup", ("mode", labels), ("metric", looks))


def _draw_curves(data: Data, table: str, value: str, bands: tuple[str, dict], curves: tuple[str, dict]):
    """Return curves against the size, a column per group and a row per band, all with one scale to compare by eye.

    bands: a column of the table, and {name: label}; curves: another column, and {name: (label, look)}.
    """
    (band_key, labels), (curve_key, looks) = bands, curves
    sizes = {group: found for group in data.groups if len(found := data.list_sizes(group)) >= SIZES}
    panels = {(group, band): {} for group in sizes for band in labels}
    for (group, band), panel in panels.items():
        for name in looks:
            where = {band_key: band, curve_key: name}
            rows = [data.find(table, value, group, size=size, **where) for size in sizes[group]]
            if any(rows):
                panel[name] = [row and parts.read_interval(row, value) for row in rows]
    groups = [group for group in sizes if any(panels[group, band] for band in labels)]
    columns, ratios = min(COLUMNS, len(groups)), table == "speedups"
    rows = ceil(len(groups) / COLUMNS) * len(labels)
    height = style.ROW_FRAME + style.CURVES * rows
    # Of panels that are too many for a page, the tables have the numbers.
    if not groups or height > style.TALLEST:
        return None
    figure, axes = parts.make_grid(style.WIDE, height, rows, columns)
    # A column of panels for each group, of a block of bands below the other.
    blocks = axes.reshape(-1, len(labels), columns).swapaxes(1, 2).reshape(-1, len(labels))
    for axis in blocks[len(groups) :].flat:
        axis.set_axis_off()
    for place, (group, column) in enumerate(zip(groups, blocks, strict=False)):
        column[0].set_title(data.name_group(group), **style.BOLD)
        column[-1].set_xlabel("size")
        for axis, (band, label) in zip(column, labels.items(), strict=True):
            places = parts.set_size_axis(axis, sizes[group])
            axis.axhline(1, **style.ONE) if ratios else parts.draw_rules(axis, "y")
            for name, numbers in panels[group, band].items():
                parts.draw_intervals(axis, "y", places, numbers, **looks[name][1], mew=0)
            axis.set_ylabel(label) if place % columns == 0 else axis.tick_params(axis="y", labelleft=False)
    ends = parts.find_ends(number for panel in panels.values() for numbers in panel.values() for number in numbers)
    used = blocks[: len(groups)].flat
    parts.set_log_axis(used, "y", [*ends, 1] if ratios else ends, least=3 if ratios else 10)
    drawn = [look for name, look in looks.items() if any(name in panel for panel in panels.values())]
    parts.add_legend(figure, [parts.make_key(label, **own, **style.CURVE) for label, own in drawn], 6)
    return figure


def draw_trace(document: dict):
    """Return time of a call, SM clock and power during a load of some seconds: a column per cell, a line per mode."""
    data = Data(document)
    cells = list(dict.fromkeys((trace["op"], trace["dtype"], trace["size"]) for trace in data.traces))[:COLUMNS]
    if not cells:
        return None
    bands = [name for name in TRACED if any(name in trace["points"][0] for trace in data.traces)]
    height = style.ROW_FRAME + style.TRACE * len(bands)
    figure, axes = parts.make_grid(style.WIDE, height, len(bands), len(cells), sharex=True, sharey="row")
    modes = [mode for mode in data.modes if any(trace["mode"] == mode for trace in data.traces)]
    looks = {mode: data.look(_find_untraced(data, mode)) | style.TRACED for mode in modes}
    for (op, dtype, size), column in zip(cells, axes.T, strict=True):
        column[0].set_title(f"{data.name_group((op, dtype))} {write_size(size)}", **style.BOLD)
        column[-1].set_xlabel("time since the load began (s)")
        for trace in data.traces:
            if (trace["op"], trace["dtype"], trace["size"]) == (op, dtype, size):
                points = trace["points"]
                for axis, name in zip(column, bands, strict=True):
                    unit = points[0]["call"] if name == "call" else 1
                    axis.plot([p["at"] for p in points], [p[name] / unit for p in points], **looks[trace["mode"]])
    for axis, name in zip(axes[:, 0], bands, strict=True):
        axis.set_ylabel(TRACED[name])
    parts.add_legend(figure, [parts.make_key(mode, **own) for mode, own in looks.items()], 6)
    return figure


def _find_untraced(data: Data, mode: str) -> str:
    """Return the mode that differs from a traced one in nothing but the trace, else that mode itself."""
    run = {key: value for key, value in data.configs[mode].items() if key not in MEASURE_KEYS}
    return next((other for other in data.modes if data.configs[other] == run and other != CONTROL), mode)
