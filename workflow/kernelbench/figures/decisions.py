"""Figures of decisions: which mode makes a call faster, and after how many calls compiling has paid."""

from math import log10

from kernelbench.analysis.studies import Studies
from kernelbench.figures import cells, parts
from kernelbench.figures.cells import ARCHITECTURES, MODES, QUEUED, WAITED, find, is_decided
from kernelbench.figures.style import COLOURS, GREY, NARROW, WIDE, look
from kernelbench.numbers import factor
from kernelbench.op_names import name

TITLES = {WAITED: "waited for", QUEUED: "queued"}
MAPPED = [mode for mode in MODES if mode != "eager"]
# What the models ran in, and which of that has a first call to earn back.
MODELS = ["compile", "cuda-graph", "compile-reduce-overhead"]
PAYING = ["compile", "compile-reduce-overhead"]
# The speedup at which the map's colour is full, how pale it is next to 1, and the gap between its halves in tiles.
DEEPEST, PALEST, GAP = 4, 0.12, 0.4
# Inches from one line of a list to the next: of tiles, and of points with intervals. Headings stand farther off.
TILE, LINE, APART = 0.103, 0.155, 0.3


def draw_map(studies: Studies):
    """Return what each mode makes of a call that is waited for or queued: a row per cell, a column per mode."""
    columns = [(mode, metric) for metric in TITLES for mode in MAPPED]
    lines = _list(cells.find_groups(studies, columns))
    if not lines:
        return parts.blank(NARROW, "no study has a cell of the map")
    figure, axes = parts.grid(NARROW, TILE * (lines[-1][0] + 1) + 0.8, 1, 1)
    axis = axes[0, 0]
    places = [place + GAP * (place // len(MAPPED)) for place in range(len(columns))]
    for y, _, entry in lines:
        for x, row in zip(places, entry[1] if entry else [], strict=False):
            if row:
                _draw_tile(axis, x, y, row)
    _name_lines(axis, lines)
    _name_columns(axis, columns, places)
    _explain_colours(figure)
    return figure


def _list(groups) -> list[tuple]:
    """Return the lines of a list, each (y, text, entry): the heading of a group without an entry, then its cells."""
    lines, y = [], -1.0
    for heading, entries in groups:
        y += 1 + APART * bool(lines)
        lines.append((y, heading, None))
        for entry in entries:
            y += 1
            lines.append((y, name(entry[0]["op"], entry[0]["size"]), entry))
    return lines


def _name_lines(axis, lines: list[tuple]) -> None:
    """Name the lines of a list beside it, the headings in bold."""
    axis.set_yticks([y for y, *_ in lines], labels=[text for _, text, _ in lines])
    axis.set_ylim(lines[-1][0] + 0.5, -0.5)
    for label, (*_, entry) in zip(axis.get_yticklabels(), lines, strict=True):
        label.set_fontweight("normal" if entry else "bold")


def _name_columns(axis, columns: list[tuple], places: list[float]) -> None:
    """Name the modes at an angle above the map, and above them who waits for the call."""
    axis.set_xlim(-0.5, places[-1] + 0.5)
    axis.set_xticks(places, labels=[MODES[mode] for mode, _ in columns], rotation=40, ha="left", rotation_mode="anchor")
    axis.tick_params(length=0, labelsize=6.5, labeltop=True, labelbottom=False, pad=1)
    axis.spines[:].set_visible(False)
    style = {"ha": "center", "fontsize": 7.5, "fontweight": "bold"}
    for half, title in enumerate(TITLES.values()):
        x = (len(MAPPED) - 1) / 2 + half * (len(MAPPED) + GAP)
        axis.annotate(title, (x, 1), (0, 40), ("data", "axes fraction"), "offset points", **style)


def _draw_tile(axis, x: float, y: float, row: dict) -> None:
    """Draw a speedup as a number on its colour; one that is not decided as a grey number on white."""
    from matplotlib.patches import Rectangle

    depth = max(-1.0, min(1.0, log10(row["speedup"]) / log10(DEEPEST)))
    face, ink = "white", GREY
    if is_decided(row):
        face, ink = _shade(depth), "white" if abs(depth) > 0.85 else "black"
    axis.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=face, edgecolor="white", linewidth=0.7))
    axis.text(x, y, factor(row["speedup"]), ha="center", va="center_baseline", fontsize=6, color=ink)


def _shade(depth: float) -> tuple:
    """Return the colour of a decided speedup: from pale to full blue up to 1, to full orange down to -1."""
    from matplotlib.colors import to_rgb

    share = PALEST + (1 - PALEST) * abs(depth)
    return tuple(1 - share * (1 - channel) for channel in to_rgb(COLOURS[0] if depth > 0 else COLOURS[1]))


def _explain_colours(figure) -> None:
    from matplotlib.patches import Patch

    keys = [
        Patch(facecolor=_shade(-0.7), label="slower (below 1)"),
        Patch(facecolor="white", edgecolor=GREY, linewidth=0.4, label="equal or undecided"),
        Patch(facecolor=_shade(0.7), label="faster (above 1)"),
    ]
    figure.legend(handles=keys, loc="outside lower center", ncols=3, handlelength=1.2)


def draw_models(studies: Studies):
    """Return the speedups of the models by latency, and after how many calls compiling has paid."""
    lines = _list(cells.find_groups(studies, [(mode, WAITED) for mode in MODELS], ARCHITECTURES))
    if not lines:
        return parts.blank(WIDE, "no study of models")
    figure, axes = parts.grid(WIDE, LINE * (lines[-1][0] + 1) + 0.75, 1, 2, sharey=True, width_ratios=[3, 2])
    left, right = axes[0]
    entries = [(y, entry) for y, _, entry in lines if entry]
    parts.ratio_axis([left], "x", [end for y, (_, rows) in entries for end in _draw_speedups(left, y, rows)])
    left.set_xlabel("speedup over eager by latency")
    _draw_paybacks(right, studies, [(y, at) for y, (at, _) in entries])
    _name_lines(left, lines)
    for axis in axes[0]:
        axis.tick_params(axis="y", length=0)
        parts.rule(axis, "x")
        for y in (y for y, _, entry in lines if not entry):
            axis.axhspan(y - 0.5, y + 0.5, color="0.95", linewidth=0, zorder=-1)
    dot = {"color": GREY, "marker": "o", "markerfacecolor": "white", "mew": 0.6}
    arrow = parts.key("undecided whether it ever pays", color=GREY, marker=r"$\rightarrow$", markersize=8, mew=0.3)
    parts.legend(figure, [*cells.mode_keys(MODELS), parts.key("hollow: equal or undecided", **dot), arrow], 5)
    return figure


def _draw_speedups(axis, y: float, rows: list) -> list[float]:
    """Draw the speedups of a cell, one below the other; return where they and their intervals end."""
    ends = []
    for place, (mode, row) in enumerate(zip(MODELS, rows, strict=True)):
        if row:
            number, face = cells.interval(row, "speedup"), look(mode)["color"] if is_decided(row) else "white"
            parts.bars(axis, [number[0]], [y + 0.26 * (place - 1)], [number], "x", **{**_point(mode), "mfc": face})
            ends += number
    return ends


def _point(mode: str) -> dict:
    return {**look(mode), "linestyle": "none", "mew": 0.6, "markersize": 3}


def _draw_paybacks(axis, studies: Studies, entries: list[tuple]) -> None:
    """Draw after how many calls compiling has paid: "never" is a place of its own behind the greatest number."""
    rows = [
        (y + 0.26 * (place - 0.5), mode, row)
        for y, at in entries
        for place, mode in enumerate(PAYING)
        if (row := find(studies, ARCHITECTURES, "payback", "kind", **at, mode=mode, metric=WAITED))
    ]
    known = [row[end] for *_, row in rows for end in ("low", "high") if row[end]] or [1e3, 1e4]
    never = 2.2 * max(known)
    for y, mode, row in rows:
        _draw_payback(axis, y, mode, row, (min(known), never))
    parts.log_axis([axis], "x", [*known, 1.2 * never])
    # The word needs as much room as a number.
    ticks = [tick for tick in axis.get_xticks() if tick < 0.4 * never]
    axis.set_xticks([*ticks, never], labels=[*(f"{tick:,.0f}" for tick in ticks), "never"])
    axis.set_xticks([tick for tick in axis.get_xticks(minor=True) if tick < 0.6 * never], labels=[], minor=True)
    axis.axvspan(0.65 * never, 2 * never, color="0.95", linewidth=0, zorder=-1)
    axis.set_xlabel("calls waited for until compiling has paid")


def _draw_payback(axis, y: float, mode: str, row: dict, ends: tuple[float, float]) -> None:
    if row["kind"] == "after":
        parts.bars(axis, [row["calls"]], [y], [(row["calls"], row["low"], row["high"])], "x", **_point(mode))
    elif row["kind"] == "never":
        axis.plot([ends[1]], [y], **_point(mode))
    else:
        # What is not decided pays at the earliest after so many calls, and perhaps never.
        arrow = {"arrowstyle": "->", "color": look(mode)["color"], "shrinkA": 0, "shrinkB": 0, "linewidth": 0.8}
        axis.annotate("", (ends[1], y), (row["low"] or ends[0], y), arrowprops={**arrow, "mutation_scale": 5})
