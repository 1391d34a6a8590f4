"""Figures of calls: what the host and the device do in one, and what the law makes of that."""

from collections import Counter

from kernelbench.analysis import host_law
from kernelbench.analysis.studies import Studies, topic
from kernelbench.figures import parts
from kernelbench.figures.cells import ARCHITECTURES, MODES, QUEUED, WAITED, find, interval, locate, mode_keys
from kernelbench.figures.style import GREY, NARROW, WIDE, look
from kernelbench.op_names import name

TITLES = {WAITED: "waited for: latency", QUEUED: "queued: throughput"}
CALLED = [mode for mode in MODES if mode != "triton"]
# What is split into host and device: single operations, models at small batches, and one at a large batch.
SPLIT = (
    ("ops", "softmax 1024, layer_norm 1024"),
    (ARCHITECTURES, "resnet50 1, llama_1b_decode 1x1024, resnet50 64"),
)
DEVICE = {"edgecolor": "white", "linewidth": 0, "hatch": "/////", "alpha": 0.5}
# How many misses there is room to name on one side of the diagonal.
NAMED = 8


def draw_predictions(studies: Studies):
    """Return the measured against the predicted speedups, a panel per metric."""
    found = [value for row in studies.predictions for value in (row.predicted, row.measured)]
    if not found:
        return parts.blank(WIDE, "the law predicts nothing of these studies")
    figure, axes = parts.grid(WIDE, 3.55, 1, 2, sharex=True, sharey=True)
    for which in "xy":
        parts.ratio_axis(axes.flat, which, found)
    for axis, (metric, title) in zip(axes[0], TITLES.items(), strict=True):
        axis.set_title(title, fontweight="bold")
        axis.set_aspect("equal")
        axis.plot(axis.get_xlim(), axis.get_xlim(), color=GREY, linewidth=0.5, zorder=0.9)
        rows = [row for row in studies.predictions if row.metric == metric]
        _draw_points(axis, rows)
        _name_misses(axis, [row for row in rows if row.right is False], studies)
        axis.set_xlabel("predicted speedup over eager")
    axes[0, 0].set_ylabel("measured speedup over eager")
    dot = {"color": GREY, "marker": "o", "markerfacecolor": "white", "mew": 0.6}
    fitted = parts.key("hollow: study that the law was fitted to", **dot)
    ring = parts.key("ring: predicted on the wrong side of 1", **dot | {"color": "black", "markersize": 7})
    parts.legend(figure, [*mode_keys(host_law.MODES), fitted, ring], 4)
    return figure


def _draw_points(axis, rows: list[host_law.Prediction]) -> None:
    for mode in host_law.MODES:
        style = {**look(mode), "markersize": 2.8, "mew": 0.5, "linestyle": "none", "alpha": 0.8}
        for fitted, face in ((True, "white"), (False, style["color"])):
            own = [row for row in rows if (row.mode, row.fitted) == (mode, fitted)]
            numbers = [(row.measured, row.ci_low or row.measured, row.ci_high or row.measured) for row in own]
            at = ([row.predicted for row in own], [row.measured for row in own])
            parts.bars(axis, *at, numbers, "y", mfc=face, **style)


def _name_misses(axis, rows: list[host_law.Prediction], studies: Studies) -> None:
    """Ring the misses and name them: those above the diagonal farther up on the left, those below it on the right.

    There the panel is empty, and lines to names in the order of their heights cross nothing.
    """
    labels = dict(zip(rows, _tell_apart(rows, studies), strict=True))
    ring = {"markersize": 7, "mew": 0.6, "markeredgecolor": "black", "markerfacecolor": "none", "linestyle": "none"}
    axis.plot([row.predicted for row in rows], [row.measured for row in rows], marker="o", **ring)
    line = {"arrowstyle": "-", "linewidth": 0.5, "color": GREY, "patchA": None, "shrinkA": 2, "shrinkB": 3.5}
    share = axis.transScale + axis.transLimits
    for sign, align in ((1, "right"), (-1, "left")):
        misses = [row for row in rows if (row.measured > row.predicted) == (sign > 0)]
        named = sorted(misses, key=lambda row: sign * row.measured)[-NAMED:]
        reach = 0.055 * len(named)
        text = {"ha": align, "va": "center", "fontsize": 6.5}
        for place, row in enumerate(named):
            start = share.transform((1, named[-1].measured))[1] + sign * 0.11
            # All names are within the panel.
            y = sorted((0.05 + reach, start, 0.95 - reach))[1] + sign * 0.055 * place
            at = (share.transform((1, 1))[0] - sign * 0.05, y)
            arrow = {**line, "relpos": ((1 + sign) / 2, 0.5)}
            point = (row.predicted, row.measured)
            axis.annotate(labels[row], point, at, textcoords="axes fraction", arrowprops=arrow, **text)
        if len(misses) > NAMED:
            axis.annotate(
                f"and {len(misses) - NAMED} more", (at[0], y + sign * 0.055), xycoords="axes fraction", **text
            )


def _tell_apart(rows: list[host_law.Prediction], studies: Studies) -> list[str]:
    """Return the names of these cells, with dtype, study and mode where two would read the same and differ in it."""
    topics = {document["study"]["machine"]: topic(document["study"]) for document in studies.documents}
    labels = [name(row.op, row.size) for row in rows]
    for extra in (lambda row: row.dtype, lambda row: topics[row.study], lambda row: MODES[row.mode]):
        count = Counter(labels)
        apart = Counter(label for label, _ in {(label, extra(row)) for label, row in zip(labels, rows, strict=True)})
        labels = [
            f"{label} ({extra(row)})" if count[label] > 1 and apart[label] > 1 else label
            for label, row in zip(labels, rows, strict=True)
        ]
    return labels


def draw_host_times(studies: Studies):
    """Return the host's time of a call against the kernels it launches, of all GPU studies."""
    calls = [
        (key[3], "training" in key[0], call)
        for document in studies.documents
        for key, call in host_law.calls(document).items()
        if key[3] in CALLED
    ]
    if not calls:
        return parts.blank(NARROW, "no study has host times and launches")
    figure, axes = parts.grid(NARROW, 2.95, 1, 1)
    axis = axes[0, 0]
    for mode in CALLED:
        colour = look(mode)["color"]
        # An edge in white keeps points apart that lie on each other.
        filled = {"markersize": 3.1, "mew": 0.25, "mec": "white"}
        hollow = {"markersize": 3.6, "mew": 0.6, "mec": colour, "mfc": "white"}
        for trains, style in ((False, filled), (True, hollow)):
            own = [call for *kind, call in calls if kind == [mode, trains]]
            axis.plot([c.launches for c in own], [c.host for c in own], linestyle="none", **look(mode), **style)
    launches = [call.launches for *_, call in calls]
    lines = _draw_laws(axis, studies.laws, max(launches))
    parts.log_axis([axis], "x", launches)
    parts.log_axis([axis], "y", [call.host for *_, call in calls])
    axis.set_xlabel("kernels launched by a call")
    axis.set_ylabel("host time of a call (µs)")
    training = parts.key("hollow: training", color=GREY, marker="o", markerfacecolor="white", mew=0.6)
    parts.legend(figure, [*mode_keys(CALLED), training, *lines], 2)
    return figure


def _draw_laws(axis, laws: dict[str, host_law.Law], widest: float) -> list:
    """Draw the lines of the law; return their entries of the legend.

    A replay's host time follows its copies and not its launches: its line is that of one copied input.
    """
    places = [widest ** (place / 50) for place in range(51)]
    keys = []
    for mode, dashes, each in (
        (host_law.COMPILED, "-", "launch"),
        (host_law.REPLAYED, (0, (4, 1.5)), "copy (drawn: one)"),
    ):
        if mode in laws:
            own, style = laws[mode], {"color": look(mode)["color"], "linewidth": 0.9, "linestyle": dashes}
            axis.plot(places, [own.host(x if mode == host_law.COMPILED else 1) for x in places], zorder=1, **style)
            keys.append(parts.key(f"law: {own.call:.0f} µs + {own.each:.2g} µs per {each}", **style))
    return keys


def draw_parts(studies: Studies):
    """Return the host's and the device's time of a call with its latency, by mode: a panel per cell."""
    from matplotlib.patches import Patch

    panels = [(at, _split_calls(studies, which, at)) for which, cells in SPLIT for at in locate(studies, which, cells)]
    panels = [(at, calls) for at, calls in panels if calls]
    if not panels:
        return parts.blank(WIDE, "no study has the host and the device time of these calls")
    figure, axes = parts.grid(WIDE, 1.75, 1, len(panels), sharey=True)
    for axis, (at, calls) in zip(axes[0], panels, strict=True):
        axis.set_title(name(at["op"], at["size"]), fontweight="bold", fontsize=7.5)
        scale, unit = (1000, "ms") if max(number[2] for _, number in calls.values()) >= 1000 else (1, "µs")
        for mode, (call, latency) in calls.items():
            _draw_split(axis, mode, call, latency, scale)
        for mode in (mode for mode in CALLED if mode not in calls):
            axis.text(0, CALLED.index(mode), " not measured", va="center", fontsize=6, color=GREY)
        axis.set_xlabel(f"time of a call ({unit})")
        axis.set_xlim(0, 1.08 * axis.dataLim.x1)
        axis.tick_params(axis="y", length=0)
    axes[0, 0].set_yticks(range(len(CALLED)), labels=[MODES[mode] for mode in CALLED])
    axes[0, 0].set_ylim(len(CALLED) - 0.45, -0.55)
    legend = [Patch(color=GREY, label="host"), Patch(facecolor=GREY, label="device", **DEVICE)]
    legend.append(parts.key("latency, 95 % interval", color="black", marker="|", markersize=8, mew=1.2))
    parts.legend(figure, legend, 3)
    return figure


def _split_calls(studies: Studies, which: str, at: dict) -> dict[str, tuple]:
    """Return by mode (Call, latency with its interval in µs) of a cell, where all was measured."""
    calls, found = host_law.calls(studies.of(which)), {}
    for mode in CALLED:
        call = calls.get((*at.values(), mode))
        row = find(studies, which, "summary", "estimate", **at, mode=mode, metric=WAITED)
        if call and row:
            found[mode] = (call, interval(row, "estimate"))
    return found


def _draw_split(axis, mode: str, call: host_law.Call, latency: tuple, scale: float) -> None:
    """Draw the host's bar above the device's, and a tick across both where a caller who waits sees the call end."""
    y, colour = CALLED.index(mode), look(mode)["color"]
    axis.barh(y - 0.19, call.host / scale, 0.38, color=colour)
    axis.barh(y + 0.19, call.device / scale, 0.38, color=colour, **DEVICE)
    end, low, high = (number / scale for number in latency)
    axis.plot([end, end], [y - 0.44, y + 0.44], color="black", linewidth=1.2, solid_capstyle="butt")
    parts.bars(axis, [end], [y], [(end, low, high)], "x", color="black", elinewidth=0.6)
