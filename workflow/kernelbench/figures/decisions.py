"""Figures of decisions: which mode makes a call faster, and after how many calls compiling has paid."""

from math import log10

from matplotlib.colors import to_rgb
from matplotlib.patches import Patch, Rectangle

from kernelbench.analysis.causes import DECIDED
from kernelbench.analysis.studies import Studies
from kernelbench.figures import parts, style
from kernelbench.figures.cells import ARCHITECTURES, MODES, QUEUED, WAITED, find_groups, list_modes
from kernelbench.numbers import factor
from kernelbench.op_names import name

TITLES = {WAITED: "waited for", QUEUED: "queued"}
MAPPED = [mode for mode in MODES if mode != "eager"]
# What the models ran in, and which of that has a first call to earn back.
MODELS = ["compile", "cuda-graph", "compile-reduce-overhead"]
PAYING = ["compile", "compile-reduce-overhead"]
# The speedup at which the map's colour is full, the gap between its halves in tiles, and that above a heading in lines.
DEEPEST, GAP, APART = 4, 0.4, 0.3


def draw_map(studies: Studies):
    """Return what each mode makes of a call that is waited for or queued: a row per cell, a column per mode."""
    columns = [(mode, metric) for metric in TITLES for mode in MAPPED]
    lines = _list(find_groups(studies, columns))
    if not lines:
        return parts.make_blank()
    figure, ((axis,),) = parts.make_grid(style.NARROW, style.TILE * (lines[-1][0] + 1) + style.TILE_FRAME, 1, 1)
    places = [place + GAP * (place // len(MAPPED)) for place in range(len(columns))]
    for y, _, _, rows in lines:
        for x, row in zip(places, rows, strict=False):
            if row:
                _draw_tile(axis, x, y, row)
    _name_lines(axis, lines)
    # The modes stand at an angle above the map, and above them who waits for the call.
    axis.set_xlim(-0.5, places[-1] + 0.5)
    axis.set_xticks(places, labels=[MODES[mode] for mode, _ in columns], rotation=40, ha="left", rotation_mode="anchor")
    axis.tick_params(length=0, labelsize=style.SMALL, labeltop=True, labelbottom=False, pad=1)
    axis.spines[:].set_visible(False)
    for half, title in enumerate(TITLES.values()):
        x = (len(MAPPED) - 1) / 2 + half * (len(MAPPED) + GAP)
        axis.annotate(title, (x, 1), (0, 40), ("data", "axes fraction"), "offset points", ha="center", **style.TITLE)
    keys = [Patch(facecolor=_shade(-0.7)), Patch(**style.EQUAL_KEY), Patch(facecolor=_shade(0.7))]
    labels = ["slower (below 1)", "equal or undecided", "faster (above 1)"]
    figure.legend(keys, labels, loc="outside lower center", ncols=3, handlelength=1.2)
    return figure


def _list(groups) -> list[tuple]:
    """Return the lines of a list as (y, text, cell, rows): the heading of a group, without a cell, then its cells."""
    lines, y = [], -1.0
    for heading, entries in groups:
        y += 1 + APART * bool(lines)
        lines.append((y, heading, None, []))
        for at, rows in entries:
            y += 1
            lines.append((y, name(at["op"], at["size"]), at, rows))
    return lines


def _name_lines(axis, lines: list[tuple]) -> None:
    """Name the lines of a list beside it, the headings in bold."""
    axis.set_yticks([y for y, *_ in lines], labels=[text for _, text, *_ in lines])
    axis.set_ylim(lines[-1][0] + 0.5, -0.5)
    for label, (*_, at, _) in zip(axis.get_yticklabels(), lines, strict=True):
        label.set(**({} if at else style.BOLD))


def _draw_tile(axis, x: float, y: float, row: dict) -> None:
    """Draw a speedup as a number on its colour; one that is not decided as a grey number on white."""
    depth = max(-1.0, min(1.0, log10(row["speedup"]) / log10(DEEPEST)))
    face, ink = style.PAPER, style.GREY
    if row["verdict"] in DECIDED:
        face, ink = _shade(depth), style.PAPER if abs(depth) > 0.85 else style.INK
    axis.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=face, **style.TILE_EDGE))
    axis.text(x, y, factor(row["speedup"]), ha="center", va="center_baseline", fontsize=style.TINY, color=ink)


def _shade(depth: float) -> tuple:
    """Return the colour of a decided speedup: from pale to full blue up to 1, to full orange down to -1."""
    share = style.PALEST + (1 - style.PALEST) * abs(depth)
    return tuple(1 - share * (1 - channel) for channel in to_rgb(style.FASTER if depth > 0 else style.SLOWER))


def draw_models(studies: Studies):
    """Return the speedups of the models by latency, and after how many calls compiling has paid."""
    lines = _list(find_groups(studies, [(mode, WAITED) for mode in MODELS], ARCHITECTURES))
    if not lines:
        return parts.make_blank()
    height = style.LINE * (lines[-1][0] + 1) + style.LINE_FRAME
    figure, ((left, right),) = parts.make_grid(style.WIDE, height, 1, 2, sharey=True, width_ratios=[3, 2])
    _draw_speedups(left, lines)
    _draw_paybacks(right, studies, lines)
    _name_lines(left, lines)
    for axis in (left, right):
        axis.tick_params(axis="y", length=0)
        parts.draw_rules(axis, "x")
        for y in (y for y, _, at, _ in lines if at is None):
            axis.axhspan(y - 0.5, y + 0.5, color=style.SHADE, linewidth=0, zorder=-1)
    hollow = parts.make_key("hollow: equal or undecided", **style.HOLLOW)
    arrow = parts.make_key("undecided whether it ever pays", **style.ARROW_KEY)
    parts.add_legend(figure, [*list_modes(MODELS), hollow, arrow], 5)
    return figure


def _draw_speedups(axis, lines: list[tuple]) -> None:
    """Draw the speedups of each cell, one below the other."""
    numbers = []
    for y, _, _, rows in lines:
        for place, (mode, row) in enumerate(zip(MODELS, rows, strict=False)):
            if row:
                face = style.look(mode)["color"] if row["verdict"] in DECIDED else style.PAPER
                numbers.append(parts.read_interval(row, "speedup"))
                at = [y + 0.26 * (place - 1)]
                parts.draw_intervals(axis, "x", at, numbers[-1:], **style.look(mode), **style.MODEL, mfc=face)
    parts.set_ratio_axis([axis], "x", parts.find_ends(numbers))
    axis.set_xlabel("speedup over eager by latency")


def _draw_paybacks(axis, studies: Studies, lines: list[tuple]) -> None:
    """Draw after how many calls compiling has paid: "never" is a place of its own behind the greatest number."""
    rows = [
        (y + 0.26 * (place - 0.5), {**style.look(mode), **style.MODEL}, row)
        for y, _, at, _ in lines
        if at
        for place, mode in enumerate(PAYING)
        if (row := studies.find(ARCHITECTURES, "payback", "kind", **at, mode=mode, metric=WAITED))
    ]
    known = [row[end] for *_, row in rows for end in ("low", "high") if row[end]] or [1e3, 1e4]
    never = 2.2 * max(known)
    for y, point, row in rows:
        if row["kind"] == "after":
            parts.draw_intervals(axis, "x", [y], [(row["calls"], row["low"], row["high"])], **point)
        elif row["kind"] == "never":
            axis.plot([never], [y], **point)
        else:
            # What is not decided pays at the earliest after so many calls, and perhaps never.
            arrow = {**style.ARROW, "color": point["color"]}
            axis.annotate("", (never, y), (row["low"] or min(known), y), arrowprops=arrow)
    parts.set_log_axis([axis], "x", [*known, 1.2 * never])
    # The word needs as much room as a number.
    ticks = [tick for tick in axis.get_xticks() if tick < 0.4 * never]
    axis.set_xticks([*ticks, never], labels=[*(f"{tick:,.0f}" for tick in ticks), "never"])
    axis.set_xticks([tick for tick in axis.get_xticks(minor=True) if tick < 0.6 * never], labels=[], minor=True)
    axis.axvspan(0.65 * never, 2 * never, color=style.SHADE, linewidth=0, zorder=-1)
    axis.set_xlabel("calls waited for until compiling has paid")
