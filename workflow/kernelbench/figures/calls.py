"""Figures of calls: what the host and the kernels do in one, and what the law makes of that."""

from collections import Counter

from matplotlib.patches import Patch

from kernelbench.analysis import host_law
from kernelbench.analysis.studies import Studies
from kernelbench.figures import parts, style
from kernelbench.figures.cells import ARCHITECTURES, MODES, QUEUED, WAITED, list_modes, locate
from kernelbench.op_names import name

TITLES = {WAITED: "waited for: latency", QUEUED: "queued: throughput"}
CALLED = [mode for mode in MODES if mode != "triton"]
# What is split into host and device: single operations, models at small batches, and one at a large batch.
SPLIT = {
    "ops": "softmax 1024, layer_norm 1024", ARCHITECTURES: "resnet50 1, llama_1b_decode 1x1024, resnet50 64"
}  # fmt: skip
# How many misses there is room to name on one side of the diagonal, and the height of a name as a share of the panel.
NAMED, STEP = 8, 0.055


def draw_predictions(studies: Studies):
    """Return the measured against the predicted speedups, a panel per metric."""
    found = [value for row in studies.predictions for value in (row.predicted, row.measured)]
    if not found:
        return parts.make_blank()
    figure, axes = parts.make_grid(style.WIDE, style.LAW, 1, 2, sharex=True, sharey=True)
    for which in "xy":
        parts.set_ratio_axis(axes.flat, which, found)
    for axis, (metric, title) in zip(axes[0], TITLES.items(), strict=True):
        axis.set_title(title, **style.BOLD)
        axis.set_aspect("equal")
        axis.plot(axis.get_xlim(), axis.get_xlim(), zorder=0.9, **style.DIAGONAL)
        rows = [row for row in studies.predictions if row.metric == metric]
        _draw_points(axis, rows)
        _name_misses(axis, [row for row in rows if row.on_wrong_side], studies)
        axis.set_xlabel("predicted speedup over eager")
    axes[0, 0].set_ylabel("measured speedup over eager")
    fitted = parts.make_key("hollow: study that the law was fitted to", **style.HOLLOW)
    ring = parts.make_key("ring: wrong side of 1, by more than δ", **style.RING_KEY)
    parts.add_legend(figure, [*list_modes(host_law.MODES), fitted, ring], 4)
    return figure


def _draw_points(axis, rows: list[host_law.Prediction]) -> None:
    for mode in host_law.MODES:
        looks = {**style.look(mode), **style.PREDICTION}
        for fitted, face in ((True, style.PAPER), (False, looks["color"])):
            own = [row for row in rows if (row.mode, row.fitted) == (mode, fitted)]
            numbers = [parts.read_interval(row._asdict(), "measured") for row in own]
            parts.draw_intervals(axis, "y", [row.predicted for row in own], numbers, mfc=face, **looks)


def _name_misses(axis, rows: list[host_law.Prediction], studies: Studies) -> None:
    """Ring the misses and name them: those above the diagonal farther up on the left, those below it on the right."""
    # There the panel is empty, and lines to names in the order of their heights cross nothing.
    labels = dict(zip(rows, _tell_apart(rows, studies), strict=True))
    axis.plot([row.predicted for row in rows], [row.measured for row in rows], **style.RING)
    share = axis.transScale + axis.transLimits
    for sign, align in ((1, "right"), (-1, "left")):
        misses = [row for row in rows if (row.measured > row.predicted) == (sign > 0)]
        named = sorted(misses, key=lambda row: sign * row.measured)[-NAMED:]
        for place, row in enumerate(named):
            start = share.transform((1, named[-1].measured))[1] + sign * 2 * STEP
            # All names are within the panel.
            y = sorted((0.05 + STEP * len(named), start, 0.95 - STEP * len(named)))[1] + sign * STEP * place
            at = (share.transform((1, 1))[0] - sign * 0.05, y)
            text = {"ha": align, "va": "center", "fontsize": style.SMALL}
            text["arrowprops"] = {**style.POINTER, "relpos": ((1 + sign) / 2, 0.5)}
            axis.annotate(labels[row], (row.predicted, row.measured), at, textcoords="axes fraction", **text)


def _tell_apart(rows: list[host_law.Prediction], studies: Studies) -> list[str]:
    """Return the names of these cells, with dtype, study and mode where two would read the same and differ in it."""
    titles = {document["study"]["machine"]: studies.title(document) for document in studies.documents}
    labels = [name(row.op, row.size) for row in rows]
    for read in (lambda row: row.dtype, lambda row: titles[row.study], lambda row: MODES[row.mode]):
        pairs = [(label, read(row)) for label, row in zip(labels, rows, strict=True)]
        differ = Counter(label for label, _ in set(pairs))
        labels = [f"{label} ({extra})" if differ[label] > 1 else label for label, extra in pairs]
    return labels


def draw_host_times(studies: Studies):
    """Return the host's time of a call against the kernels it launches, of all GPU studies."""
    calls = [
        (mode, "training" in op, call)
        for document in studies.documents
        for (op, _, _, mode), call in host_law.calls(document).items()
        if mode in CALLED
    ]
    if not calls:
        return parts.make_blank()
    figure, ((axis,),) = parts.make_grid(style.NARROW, style.HOST, 1, 1)
    for mode in CALLED:
        hollow = {**style.TRAINING, "mec": style.look(mode)["color"]}
        for trains, marks in ((False, style.INFERENCE), (True, hollow)):
            own = [call for *kind, call in calls if kind == [mode, trains]]
            axis.plot([call.launches for call in own], [call.host for call in own], **style.look(mode), **marks)
    launches = [call.launches for *_, call in calls]
    lines = _draw_laws(axis, studies.laws, max(launches))
    parts.set_log_axis([axis], "x", launches)
    parts.set_log_axis([axis], "y", [call.host for *_, call in calls])
    axis.set_xlabel("kernels launched by a call")
    axis.set_ylabel("host time of a call (µs)")
    training = parts.make_key("hollow: training", **style.HOLLOW)
    parts.add_legend(figure, [*list_modes(CALLED), training, *lines], 2)
    return figure


def _draw_laws(axis, laws: dict[str, host_law.Law], widest: float) -> list:
    """Draw the lines of the law; return their entries of the legend."""
    # A replay's host time follows its copies and not its launches: its line is that of one copied input.
    places = [widest ** (place / 50) for place in range(51)]
    keys = []
    for mode, each in ((host_law.COMPILED, "launch"), (host_law.REPLAYED, "copy (drawn: one)")):
        if mode in laws:
            law, line = laws[mode], {"color": style.look(mode)["color"], **style.LAWS[mode]}
            axis.plot(places, [law.host(x if mode == host_law.COMPILED else 1) for x in places], zorder=1, **line)
            keys.append(parts.make_key(f"law: {law.call:.0f} µs + {law.each:.2g} µs per {each}", **line))
    return keys


def draw_parts(studies: Studies):
    """Return the host's and the kernels' time of a call with its latency, by mode: a panel per cell."""
    panels = [
        (at, _split_calls(studies, which, at)) for which, cells in SPLIT.items() for at in locate(studies, which, cells)
    ]
    panels = [(at, calls) for at, calls in panels if calls]
    if not panels:
        return parts.make_blank()
    figure, axes = parts.make_grid(style.WIDE, style.PARTS, 1, len(panels), sharey=True)
    for axis, (at, calls) in zip(axes[0], panels, strict=True):
        axis.set_title(name(at["op"], at["size"]), **style.TITLE)
        scale, unit = (1000, "ms") if max(high for _, (*_, high) in calls.values()) >= 1000 else (1, "µs")
        for mode, (call, latency) in calls.items():
            _draw_split(axis, mode, call, latency, scale)
        for mode in (mode for mode in CALLED if mode not in calls):
            axis.text(0, CALLED.index(mode), " not measured", va="center", fontsize=style.TINY, color=style.GREY)
        axis.set_xlabel(f"time of a call ({unit})")
        axis.set_xlim(0, 1.08 * axis.dataLim.x1)
        axis.tick_params(axis="y", length=0)
    axes[0, 0].set_yticks(range(len(CALLED)), labels=[MODES[mode] for mode in CALLED])
    axes[0, 0].set_ylim(len(CALLED) - 0.45, -0.55)
    bars = [Patch(color=style.GREY, label="host"), Patch(facecolor=style.GREY, label="kernels", **style.DEVICE)]
    parts.add_legend(figure, [*bars, parts.make_key("latency, 95 % interval", **style.END_KEY)], 3)
    return figure


def _split_calls(studies: Studies, which: str, at: dict) -> dict[str, tuple]:
    """Return by mode (Call, latency with its interval in µs) of a cell, where all was measured."""
    calls = host_law.calls(studies.of(which))
    calls = {mode: calls[*at.values(), mode] for mode in CALLED if (*at.values(), mode) in calls}
    rows = {mode: studies.find(which, "summary", "estimate", **at, mode=mode, metric=WAITED) for mode in calls}
    return {mode: (calls[mode], parts.read_interval(row, "estimate")) for mode, row in rows.items() if row}


def _draw_split(axis, mode: str, call: host_law.Call, latency: tuple, scale: float) -> None:
    """Draw the host's bar above the kernels', and a tick across both where a caller who waits sees the call end."""
    y, colour = CALLED.index(mode), style.look(mode)["color"]
    axis.barh(y - 0.19, call.host / scale, 0.38, color=colour)
    axis.barh(y + 0.19, call.kernels / scale, 0.38, color=colour, **style.DEVICE)
    latency = tuple(number / scale for number in latency)
    axis.plot([latency[0]] * 2, [y - 0.44, y + 0.44], **style.END)
    parts.draw_intervals(axis, "x", [y], [latency], **style.END_INTERVAL)
