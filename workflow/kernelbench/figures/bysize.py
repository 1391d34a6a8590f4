"""Figures against the size: what the timers say of compiled code, and how much of the machine kernels use."""

from math import log2

from kernelbench.analysis.studies import Studies
from kernelbench.figures import parts
from kernelbench.figures.cells import MODES, interval
from kernelbench.figures.style import COLOURS, GREY, LIBRARIES, WIDE, look
from kernelbench.op_names import name

# All are about one mode, so they share its marker and are told apart by shade, dashes and filling.
BLUE = COLOURS[0]
TIMERS = {
    "device": ("device time", {"color": "#66AAD2", "markerfacecolor": "white", "linestyle": "-"}),
    "throughput": ("queued: throughput", {"color": BLUE, "markerfacecolor": BLUE, "linestyle": (0, (3, 1))}),
    "latency": ("waited for: latency", {"color": "#003A5C", "markerfacecolor": "#003A5C", "linestyle": "-"}),
}
# Ops by study: with a fixed number of rows, and with inputs of one volume.
SIZED = (("ops", "matmul"), ("ops", "attention"), ("ops", "softmax"), ("kernels", "softmax_256mib"),
         ("ops", "layer_norm"), ("kernels", "layer_norm_256mib"))  # fmt: skip
LIMITED = ("softmax_256mib", "layer_norm_256mib", "matmul", "attention_d128")
# What runs at the limit's sizes, with the names of the text.
KERNELS = {
    **{mode: MODES[mode] for mode in ("eager", "compile")},
    "triton": "our Triton kernel",
    "liger": "Liger",
    "quack": "QuACK",
    "sdpa-flash": "FlashAttention-2",
    "sdpa-cudnn": "cuDNN",
}


def draw_sizes(studies: Studies):
    """Return the speedup of compiled over eager code against the size, by three timers: a panel per op."""
    where = {"mode": "compile", "baseline": "eager"}
    panels = {
        (which, op): _find_rows(studies, which, "speedups", "speedup", metric=list(TIMERS), op=op, **where)
        for which, op in SIZED
    }
    panels = {at: rows for at, rows in panels.items() if rows}
    if not panels:
        return parts.blank(WIDE, "no speedups by size")
    # An octave is about as wide in all panels.
    ratios = [6 + log2(int(rows[-1]["size"]) / int(rows[0]["size"])) for rows in panels.values()]
    figure, axes = parts.grid(WIDE, 2.05, 1, len(panels), sharey=True, width_ratios=ratios)
    ends = []
    for axis, ((_, op), rows) in zip(axes[0], panels.items(), strict=True):
        curves = {timer: [row for row in rows if row["metric"] == timer] for timer in TIMERS}
        for timer, own in curves.items():
            ends += _draw_curve(axis, own, "speedup", 1, _style_timer(timer))
        _label_sizes(axis, op, rows)
    parts.ratio_axis(axes.flat, "y", ends)
    axes[0, 0].set_ylabel("compile: speedup over eager")
    parts.legend(figure, [parts.key(label, **_style_timer(timer)) for timer, (label, _) in TIMERS.items()], len(TIMERS))
    return figure


def draw_limits(studies: Studies):
    """Return the share of what the machine allows that eager and compiled code and each kernel reach: a panel per op.

    A library that was measured at a single size has no curve.
    """
    panels = {op: _find_rows(studies, "kernels", "summary", "estimate", metric="roofline", op=op) for op in LIMITED}
    panels = {op: rows for op, rows in panels.items() if rows}
    if not panels:
        return parts.blank(WIDE, "no study of kernels")
    figure, axes = parts.grid(WIDE, 2.05, 1, len(panels), sharey=True)
    drawn, top = set(), 100.0
    for axis, (op, rows) in zip(axes[0], panels.items(), strict=True):
        axis.axhline(100, color=GREY, linewidth=0.6, linestyle=(0, (4, 2)), zorder=0.9)
        curves = {mode: [row for row in rows if row["mode"] == mode] for mode in KERNELS}
        for mode, own in curves.items():
            if len(own) > 1 or mode not in LIBRARIES:
                top = max([top, *_draw_curve(axis, own, "estimate", 100, {**look(mode), "markersize": 3})])
                drawn |= {mode} if own else set()
        _label_sizes(axis, op, rows)
    axes[0, 0].set_ylim(0, 1.04 * top)
    axes[0, 0].set_ylabel("share of the limit (%)")
    keys = [parts.key(label, **look(mode), linestyle="-") for mode, label in KERNELS.items() if mode in drawn]
    parts.legend(figure, keys, len(keys))
    return figure


def _find_rows(studies: Studies, which: str, table: str, value: str, **where) -> list[dict]:
    """Return the rows of a table that have a value, ascending by size; none where no study is about it.

    Only of the first of several dtypes, and of sizes that have a place on an axis.
    """
    rows = studies.rows(which, table, **where) if which in studies else []
    rows = [row for row in rows if row[value] is not None and row["size"].isdigit()]
    return sorted((row for row in rows if row["dtype"] == rows[0]["dtype"]), key=lambda row: int(row["size"]))


def _draw_curve(axis, rows: list[dict], value: str, scale: float, style: dict) -> list[float]:
    """Draw a value with its intervals against the size; return where the intervals end."""
    numbers = [tuple(scale * end for end in interval(row, value)) for row in rows]
    parts.bars(axis, [int(row["size"]) for row in rows], [number[0] for number in numbers], numbers, "y", **style)
    return [end for number in numbers for end in number]


def _style_timer(timer: str) -> dict:
    return {"marker": look("compile")["marker"], "markersize": 2.5, "mew": 0.6, **TIMERS[timer][1]}


def _label_sizes(axis, op: str, rows: list[dict]) -> None:
    """Title a panel with its op, and mark the sizes that it has."""
    parts.size_axis(axis, [str(size) for size in sorted({int(row["size"]) for row in rows})])
    axis.set_title(name(op), fontweight="bold", fontsize=7.5)
    axis.set_xlabel("edge" if "matmul" in op else "tokens" if "attention" in op else "columns")
    parts.rule(axis, "y")
