"""Figures of times: by size, by timer, host and device apart, of first calls, along a load."""

from kernelbench.figures import parts
from kernelbench.figures.data import TIMES, Data
from kernelbench.figures.parts import COLUMNS
from kernelbench.figures.style import COLOURS, GREY, MARKERS, NARROW, WIDE

# All timers of a call, in the order of how much of the host is in them; how much is in do_bench depends on the call.
TIMERS = {
    "graph": "graph", "device": "device", "throughput": "throughput", "event": "CUDA events", "latency": "latency",
    "host": "host", "do_bench": "do_bench",
}  # fmt: skip
# What a trace shows.
TRACED = {"call": "time of a call\n(of the first)", "sm_clock": "SM clock\n(MHz)", "power": "power\n(W)"}


def times(document: dict):
    """Return the time of a call against the size, log-log: a column per op, a row per metric."""
    data = Data(document)
    groups = [group for group in data.groups if any(data.curves(group, m) for m in data.metrics)]
    if not groups:
        return parts.blank(WIDE, f"{data.machine}: no times")
    figure, axes = parts.curve_grid(data, groups, len(data.metrics), 1.65)
    drawn = {}
    for (group, band), axis in axes.items():
        drawn[group, band] = parts.curves(axis, data, group, data.metrics[band])
        if group in groups[::COLUMNS]:
            axis.set_ylabel(f"{TIMES[data.metrics[band]]} (µs)")
        else:
            axis.tick_params(axis="y", labelleft=False)
    # One scale for all panels, so that ops and metrics compare by eye.
    parts.log_axis(axes.values(), "y", parts.ends(drawn.values()), least=10)
    parts.legend(figure, parts.drawn_keys(data, drawn.values()), 6)
    return figure


def timers(document: dict):
    """Return the speedup of the main modes by each timer against the size: a column per op, a row per mode."""
    data = Data(document)
    shown = [t for t in TIMERS if any(row["metric"] == t and row["speedup"] for row in data.speedups)]
    panels = {
        (group, mode): {t: [data.number("speedup", group, s, mode, t) for s in data.sizes(group)] for t in shown}
        for group in data.groups
        for mode in data.main[1:]
    }
    panels = {at: {t: n for t, n in drawn.items() if any(n)} for at, drawn in panels.items()}
    groups = [group for group in data.groups if any(panels[group, mode] for mode in data.main[1:])]
    if len(shown) < 2 or not groups:
        return parts.blank(WIDE, f"{data.machine}: no speedups by several timers")
    figure, axes = parts.curve_grid(data, groups, len(data.main) - 1, 1.65)
    for (group, band), axis in axes.items():
        mode = data.main[1 + band]
        places = parts.size_axis(axis, data.sizes(group))
        axis.axhline(1, color="black", linewidth=0.5)
        for timer, numbers in panels[group, mode].items():
            parts.bars(axis, places, parts.values(numbers), numbers, "y", **_timer_style(timer))
        if group in groups[::COLUMNS]:
            axis.set_ylabel(f"{mode}: speedup over {data.baseline}")
        else:
            axis.tick_params(axis="y", labelleft=False)
    parts.log_axis(axes.values(), "y", [*parts.ends(panels.values()), 1], least=3)
    parts.legend(figure, [parts.key(TIMERS[timer], **_timer_style(timer) | {"linestyle": "-"}) for timer in shown], 6)
    return figure


def _timer_style(timer: str) -> dict:
    place = list(TIMERS).index(timer)
    return {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place], "mew": 0}


def split(document: dict):
    """Return what a call takes on the host and on the device against the size, for the main modes: a column per op."""
    data = Data(document)
    dashes = {"host": (0, (2, 1.2)), "device": "-"}
    panels = {
        group: {
            (m, part): data.curves(group, part)[m]
            for part in dashes
            for m in data.main
            if m in data.curves(group, part)
        }
        for group in data.groups
    }
    groups = [group for group in data.groups if {part for _, part in panels[group]} == set(dashes)]
    if not groups:
        return parts.blank(WIDE, f"{data.machine}: the host was not timed apart")
    figure, axes = parts.curve_grid(data, groups, 1, 2.0)
    for (group, _), axis in axes.items():
        places = parts.size_axis(axis, data.sizes(group))
        for (mode, part), numbers in panels[group].items():
            style = {**data.style(mode), "linestyle": dashes[part]}
            parts.bars(axis, places, parts.values(numbers), numbers, "y", mew=0, **style)
        parts.rule(axis, "y")
        if group in groups[::COLUMNS]:
            axis.set_ylabel("time of a call (µs)")
        else:
            axis.tick_params(axis="y", labelleft=False)
    parts.log_axis(axes.values(), "y", parts.ends([panels[group] for group in groups]), least=10)
    lines = [parts.key(f"{part}", color=GREY, linestyle=line) for part, line in dashes.items()]
    parts.legend(figure, [*parts.mode_keys(data, data.main, linestyle="-", mew=0), *lines], 6)
    return figure


def trace(document: dict):
    """Return time of a call, SM clock and power during a load of some seconds: a column per cell, a line per mode."""
    data = Data(document)
    cells = list(dict.fromkeys((t["op"], t["dtype"], t["size"]) for t in data.traces))[:COLUMNS]
    bands = {name: label for name, label in TRACED.items() if any(name in t["points"][0] for t in data.traces)}
    if not cells:
        return parts.blank(WIDE, f"{data.machine}: nothing was traced")
    figure, axes = parts.grid(WIDE, 0.45 + 1.1 * len(bands), len(bands), len(cells), sharex=True, sharey="row")
    line = {"linestyle": "-", "marker": ""}
    for column, (*group, size) in enumerate(cells):
        axes[0, column].set_title(f"{data.label(tuple(group))} {parts.long(size)}", fontweight="bold")
        axes[-1, column].set_xlabel("time since the load began (s)")
        for traced in data.traces:
            if (traced["op"], traced["dtype"], traced["size"]) == (*group, size):
                at = [point["at"] for point in traced["points"]]
                style = data.style(data.untraced(traced["mode"])) | line
                for axis, name in zip(axes[:, column], bands, strict=True):
                    first = traced["points"][0]["call"] if name == "call" else 1
                    axis.plot(at, [point[name] / first for point in traced["points"]], **style)
    for axis, label in zip(axes[:, 0], bands.values(), strict=True):
        axis.set_ylabel(label)
    modes = [mode for mode in data.modes if any(traced["mode"] == mode for traced in data.traces)]
    parts.legend(figure, [parts.key(mode, **data.style(data.untraced(mode)) | line) for mode in modes], 6)
    return figure


def first_call(document: dict):
    """Return the cost of the first call with empty caches, for each op, mode and size."""
    data = Data(document)
    panels = {group: data.curves(group, "first_call") for group in data.groups}
    panels = {group: modes for group, modes in panels.items() if modes}
    if not panels:
        return parts.blank(NARROW, f"{data.machine}: no first calls")
    heights = [len(modes) for modes in panels.values()]
    height = min(9.0, 0.14 * sum(heights) + 0.24 * len(panels) + 0.35)
    figure, axes = parts.grid(NARROW, height, len(panels), 1, sharex=True, height_ratios=heights)
    for axis, (group, modes) in zip(axes.flat, panels.items(), strict=True):
        parts.strip(axis, list(modes), data.label(group))
        for line, (mode, numbers) in enumerate(modes.items()):
            # Sizes from the top down, close together: mostly they agree, and then read as one mark.
            places = [line + (i + 0.5) / len(numbers) * 0.7 - 0.35 for i in range(len(numbers))]
            style = {**data.style(mode), "linestyle": "none", "markersize": 2.4, "mew": 0}
            parts.bars(axis, parts.values(numbers), places, numbers, "x", **style)
    parts.log_axis(axes.flat, "x", parts.ends(panels.values()), least=10)
    # Longer than the panels are wide.
    figure.supxlabel("first call (s); a mark per size, smallest on top", fontsize=8)
    return figure
