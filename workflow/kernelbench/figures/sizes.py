"""Figures against the size: what the timers say of compiled code, and how much of the machine kernels use."""

from math import log2

from kernelbench.analysis.studies import Studies
from kernelbench.figures import parts, style
from kernelbench.op_names import name

LABELS = {"device": "device time", "throughput": "queued: throughput", "latency": "waited for: latency"}
# Ops by study: with a fixed number of rows, and with inputs of one volume.
SIZED = (("ops", "matmul"), ("ops", "attention"), ("ops", "softmax"), ("kernels", "softmax_256mib"),
         ("ops", "layer_norm"), ("kernels", "layer_norm_256mib"))  # fmt: skip
LIMITED = [("kernels", op) for op in ("softmax_256mib", "layer_norm_256mib", "matmul", "attention_d128")]
# What runs at the limit's sizes, with the names of the text.
KERNELS = {"eager": "eager", "compile": "compile", "triton": "our Triton kernel", "liger": "Liger", "quack": "QuACK",
           "sdpa-flash": "FlashAttention-2", "sdpa-cudnn": "cuDNN"}  # fmt: skip


def draw_sizes(studies: Studies):
    """Return the speedup of compiled over eager code against the size, by three timers: a panel per op."""
    where = {"metric": list(style.TIMERS), "mode": "compile", "baseline": "eager"}
    panels = _find_panels(studies, SIZED, "speedups", "speedup", **where)
    if not panels:
        return parts.make_blank()
    # An octave is about as wide in all panels.
    ratios = [6 + log2(int(rows[-1]["size"]) / int(rows[0]["size"])) for _, rows in panels]
    figure, axes = parts.make_grid(style.WIDE, style.BY_SIZE, 1, len(panels), sharey=True, width_ratios=ratios)
    drawn = [_draw_panel(*panel, "metric", style.TIMERS, "speedup") for panel in zip(axes[0], panels, strict=True)]
    parts.set_ratio_axis(axes[0], "y", parts.find_ends(number for curves in drawn for _, number in curves))
    axes[0, 0].set_ylabel("compile: speedup over eager")
    keys = [parts.make_key(LABELS[timer], **looks) for timer, looks in style.TIMERS.items()]
    parts.add_legend(figure, keys, len(keys))
    return figure


def draw_limits(studies: Studies):
    """Return the share of the machine's limit that eager code, compiled code and each kernel reach: a panel per op."""
    panels = _find_panels(studies, LIMITED, "summary", "estimate", metric="roofline", mode=list(KERNELS))
    if not panels:
        return parts.make_blank()
    figure, axes = parts.make_grid(style.WIDE, style.BY_SIZE, 1, len(panels), sharey=True)
    looks = {mode: style.look(mode) | style.LIMIT_POINT for mode in KERNELS}
    drawn = []
    for axis, panel in zip(axes[0], panels, strict=True):
        axis.axhline(100, zorder=0.9, **style.LIMIT)
        drawn += _draw_panel(axis, panel, "mode", looks, "estimate", scale=100)
    axes[0, 0].set_ylim(0, 1.04 * max(100, *parts.find_ends(number for _, number in drawn)))
    axes[0, 0].set_ylabel("share of the limit (%)")
    modes = [mode for mode in KERNELS if mode in dict(drawn)]
    keys = [parts.make_key(KERNELS[mode], **style.look(mode), linestyle="-") for mode in modes]
    parts.add_legend(figure, keys, len(keys))
    return figure


def _find_panels(studies: Studies, panels, table: str, value: str, **where) -> list[tuple[str, list[dict]]]:
    """Return (op, its rows ascending by size) of the panels that have any, of several dtypes of the first."""
    found = []
    for which, op in panels:
        rows = studies.rows(which, table, op=op, **where) if which in studies else []
        rows = [row for row in rows if row[value] is not None and row["size"].isdigit()]
        rows = sorted((row for row in rows if row["dtype"] == rows[0]["dtype"]), key=lambda row: int(row["size"]))
        found += [(op, rows)] if rows else []
    return found


def _draw_panel(axis, panel: tuple, key: str, looks: dict[str, dict], value: str, scale: float = 1) -> list[tuple]:
    """Draw a curve for each name in a column of the rows, and return (name, number) of what was drawn."""
    (op, rows), drawn = panel, []
    for curve, own_looks in looks.items():
        own = [row for row in rows if row[key] == curve]
        # A library that was measured at a single size has no curve.
        if len(own) > 1 or curve not in style.LIBRARIES:
            numbers = [parts.read_interval(row, value, scale) for row in own]
            parts.draw_intervals(axis, "y", [int(row["size"]) for row in own], numbers, **own_looks)
            drawn += [(curve, number) for number in numbers]
    parts.set_size_axis(axis, [str(size) for size in sorted({int(row["size"]) for row in rows})])
    axis.set_title(name(op), **style.TITLE)
    axis.set_xlabel("edge" if "matmul" in op else "tokens" if "attention" in op else "columns")
    parts.draw_rules(axis, "y")
    return drawn
