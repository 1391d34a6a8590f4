"""The figures of the article, which are about several studies at once.

Each function takes the studies and returns a matplotlib Figure at its final size. Where a study is missing a figure
shows what there is, and says so where that is nothing.
"""

from math import log10

from kernelbench.documents import law
from kernelbench.documents.names import name
from kernelbench.documents.studies import CELL, NoData, Studies
from kernelbench.figures import parts
from kernelbench.figures.style import BASELINE, COLOURS, GREY, MARKERS, NARROW, SHARED, WIDE

# The modes of the article, with their names in its figures.
MODES = {
    "compile": "compile",
    "cuda-graph": "cuda-graph",
    "compile-reduce-overhead": "reduce-overhead",
    "triton": "triton",
}
CALLS = {"eager": "eager", **{mode: MODES[mode] for mode in ("compile", "cuda-graph", "compile-reduce-overhead")}}
# The rows of the decision map: cells by topic, a blank line between groups.
MAP = (
    ("ops", ("matmul 512", "matmul 4096", "attention 128", "attention 2048")),
    ("ops", ("softmax 1024", "softmax 4096", "softmax 16384", "layer_norm 256", "layer_norm 4096")),
    ("elementwise", ("elementwise_chain 65536", "elementwise_chain 20971520")),
    ("architectures", ("resnet50 1", "vit_b_16 1", "bert_base 1x128", "gpt2_prefill 1x512", "llama_1b_decode 1x1024")),
    (
        "architectures",
        ("resnet50 64", "vit_b_16 32", "convnext_tiny 64", "bert_base 32x128", "llama_1b_prefill 1x1024"),
    ),
    (
        "architectures",
        ("llama_1b_decode 16x1024", "transformer_fast 128", "resnet50_training 64", "gpt2_training 8x512"),
    ),
)
WAITED = {"latency": "waited for", "throughput": "queued"}
TIMERS = {"device": "device time", "throughput": "throughput", "latency": "latency"}
# The ops against the size: the study's own rows, and inputs of one volume.
SIZES = {"matmul": None, "softmax": "softmax_256mib", "layer_norm": "layer_norm_256mib", "attention": None}
PARTS = (("ops", "softmax 1024"), ("ops", "layer_norm 1024"), ("architectures", "resnet50 1"),
         ("architectures", "bert_base 1x128"), ("architectures", "llama_1b_decode 1x1024"))  # fmt: skip
LIMIT = ("softmax_256mib", "layer_norm_256mib", "matmul", "attention_d128")
# The greatest and least speedup that the map's colours tell apart.
DEEPEST = 4


def look(mode: str) -> dict:
    """Return the colour and marker of a mode, the same in all figures."""
    if mode == "eager":
        return BASELINE
    place = SHARED.index(mode)
    return {"color": COLOURS[place], "marker": MARKERS[place]}


def keys(modes: dict[str, str], **style) -> list:
    """Return entries of a legend for modes with their names."""
    return [parts.key(label, **look(mode), **style) for mode, label in modes.items()]


def find(studies: Studies, which: str, cell: str, mode: str, metric: str) -> dict | None:
    """Return the row of a speedup over eager, None where it was not measured."""
    try:
        at = dict(zip(CELL, studies.cell(which, cell), strict=True))
        row = studies.row(which, "speedups", **at, mode=mode, baseline="eager", metric=metric)
    except NoData:
        return None
    return row if row["speedup"] is not None else None


def decision_map(studies: Studies):
    """Return what each mode makes of a call that is waited for or queued: a row per cell, a column per mode."""
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("speedup", [COLOURS[1], "white", COLOURS[0]])
    columns = [(metric, mode) for metric in WAITED for mode in MODES]
    rows = []
    for which, cells in MAP:
        found = [(cell, [find(studies, which, cell, mode, metric) for metric, mode in columns]) for cell in cells]
        found = [(cell, values) for cell, values in found if any(values)]
        rows += [*([(None, [])] if rows and found else []), *found]
    if not rows:
        return parts.blank(NARROW, "no study has a cell of the map")
    figure, axes = parts.grid(NARROW, 0.115 * len(rows) + 0.55, 1, 1)
    axis = axes[0, 0]
    for y, (_, values) in enumerate(rows):
        for place, row in enumerate(values):
            if row:
                _tile(axis, place + (0.3 if place >= len(MODES) else 0), y, row, shades)
    axis.set_xlim(-0.5, len(columns) - 0.2)
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_yticks([y for y, (cell, _) in enumerate(rows) if cell], labels=[_named(cell) for cell, _ in rows if cell])
    places = [place + (0.3 if place >= len(MODES) else 0) for place in range(len(columns))]
    axis.set_xticks(places, labels=[*MODES.values()] * 2, rotation=40, ha="right", rotation_mode="anchor")
    axis.tick_params(length=0, labelsize=6.5)
    for spine in axis.spines.values():
        spine.set_visible(False)
    for place, label in enumerate(WAITED.values()):
        axis.text(
            (len(MODES) - 1) / 2 + place * (len(MODES) + 0.3), -0.9, label, ha="center", fontsize=7, fontweight="bold"
        )
    return figure


def _tile(axis, x: float, y: int, row: dict, shades) -> None:
    from matplotlib.patches import Rectangle

    decided = row["verdict"] in ("faster", "slower")
    depth = max(-1.0, min(1.0, log10(row["speedup"]) / log10(DEEPEST)))
    face = shades(0.5 + depth / 2) if decided else "white"
    axis.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=face, edgecolor="white", linewidth=0.6))
    text = f"{row['speedup']:.2f}" if row["speedup"] < 9.95 else f"{row['speedup']:.1f}"
    ink = "white" if decided and abs(depth) > 0.75 else "black" if decided else GREY
    axis.text(x, y, text, ha="center", va="center", fontsize=6, color=ink)


def _named(cell: str) -> str:
    op, size = cell.split()
    return name(op, size)


def predicted(studies: Studies):
    """Return the predicted against the measured speedups, a panel per metric."""
    if not studies.predictions:
        return parts.blank(WIDE, "the law predicts nothing of these studies")
    figure, axes = parts.grid(WIDE, 2.9, 1, 2, sharex=True, sharey=True)
    titles = {"latency": "waited for: latency", "throughput": "queued: throughput"}
    for axis, metric in zip(axes[0], titles, strict=True):
        rows = [row for row in studies.predictions if row.metric == metric]
        axis.set_title(titles[metric], fontweight="bold")
        for row in rows:
            style = {**look(row.mode), "markersize": 2.8, "mew": 0.5, "linestyle": "none", "alpha": 0.8}
            face = "white" if row.fitted else style["color"]
            bounds = (row.measured, row.ci_low or row.measured, row.ci_high or row.measured)
            parts.bars(axis, [row.predicted], [row.measured], [bounds], "y", markerfacecolor=face, **style)
        wrong = [row for row in rows if row.right is False]
        axis.plot(
            [row.predicted for row in wrong],
            [row.measured for row in wrong],
            "o",
            mfc="none",
            mec="black",
            ms=7,
            mew=0.6,
        )
        ends = [0.15, 12]
        axis.plot(ends, ends, color="black", linewidth=0.5, zorder=0)
        axis.axhline(1, color=GREY, linewidth=0.4, zorder=0)
        axis.axvline(1, color=GREY, linewidth=0.4, zorder=0)
        axis.set_xlabel("predicted speedup")
    axes[0, 0].set_ylabel("measured speedup")
    found = [value for row in studies.predictions for value in (row.predicted, row.measured)]
    for which in "xy":
        parts.log_axis(axes.flat, which, found)
    dot = {"color": GREY, "marker": "o"}
    fitted = parts.key("hollow: the study it was fitted to", **dot, markerfacecolor="white", mew=0.6)
    ring = parts.key(
        "ringed: wrong side of 1", color="black", marker="o", markerfacecolor="none", markersize=7, mew=0.6
    )
    parts.legend(figure, [*keys({mode: MODES[mode] for mode in law.MODES}), fitted, ring], 4)
    return figure


def host(studies: Studies):
    """Return the host's time of a call against the kernels it launches, of all GPU studies."""
    figure, axes = parts.grid(NARROW, 2.75, 1, 1)
    axis, drawn = axes[0, 0], []
    for document in studies.documents:
        for key, call in law.calls(document).items():
            if key[3] in CALLS:
                trains = "training" in key[0]
                style = {**look(key[3]), "markersize": 3.4 if trains else 2.6, "mew": 0.5, "linestyle": "none"}
                face = "white" if trains else style["color"]
                axis.plot([call.launches], [call.host], markerfacecolor=face, alpha=0.8, **style)
                drawn.append((call.launches, call.host))
    if not drawn:
        return parts.blank(NARROW, "no host times")
    widest = max(launches for launches, _ in drawn)
    line = [10 ** (place * log10(widest) / 50) for place in range(51)]
    if law.COMPILED in studies.laws:
        axis.plot(line, [studies.laws[law.COMPILED].host(x) for x in line], color=COLOURS[0], linewidth=0.8, zorder=0)
    parts.log_axis([axis], "x", [launches for launches, _ in drawn])
    parts.log_axis([axis], "y", [time for _, time in drawn])
    axis.set_xlabel("kernels launched by a call")
    axis.set_ylabel("host time of a call (µs)")
    legend = [*keys(CALLS), parts.key("law of compile", color=COLOURS[0], linestyle="-", linewidth=0.8)]
    legend.append(parts.key("hollow: training", color=GREY, marker="o", markerfacecolor="white", mew=0.6))
    parts.legend(figure, legend, 3)
    return figure


def sizes(studies: Studies):
    """Return the speedup of compiled over eager code against the size, by three timers: a panel per op."""
    figure, axes = parts.grid(WIDE, 2.05, 1, len(SIZES), sharey=True)
    found = []
    for axis, (op, fixed) in zip(axes[0], SIZES.items(), strict=True):
        axis.axhline(1, color="black", linewidth=0.5)
        axis.set_title(name(op), fontweight="bold")
        axis.set_xlabel("edge" if op == "matmul" else "tokens" if op == "attention" else "columns")
        places = set()
        for which, label, line in (("ops", op, "-"), ("kernels", fixed, (0, (2.5, 1.5)))):
            for timer, colour in zip(TIMERS, (COLOURS[0], COLOURS[2], COLOURS[1]), strict=True):
                rows = _by_size(studies, which, label, timer)
                if rows:
                    numbers = [
                        (row["speedup"], row["ci_low"] or row["speedup"], row["ci_high"] or row["speedup"])
                        for row in rows
                    ]
                    at = [int(row["size"]) for row in rows]
                    style = {"color": colour, "linestyle": line, "marker": "o", "markersize": 2.2, "mew": 0}
                    parts.bars(axis, at, [number[0] for number in numbers], numbers, "y", **style)
                    places |= set(at)
                    found += [end for number in numbers for end in number]
        if places:
            parts.size_axis(axis, [str(place) for place in sorted(places)])
    if not found:
        return parts.blank(WIDE, "no speedups by size")
    parts.log_axis(axes.flat, "y", [*found, 1])
    axes[0, 0].set_ylabel("compile: speedup over eager")
    legend = [
        parts.key(label, color=colour, linestyle="-")
        for label, colour in zip(TIMERS.values(), (COLOURS[0], COLOURS[2], COLOURS[1]), strict=True)
    ]
    legend.append(parts.key("dashed: inputs of one volume", color=GREY, linestyle=(0, (2.5, 1.5))))
    parts.legend(figure, legend, 4)
    return figure


def _by_size(studies: Studies, which: str, op: str | None, timer: str) -> list[dict]:
    """Return the speedups of compile over eager of an op by a timer, ascending; none where a study lacks them."""
    if which not in studies or op is None:
        return []
    rows = studies.rows(which, "speedups", op=op, mode="compile", baseline="eager", metric=timer)
    rows = [row for row in rows if row["speedup"] is not None]
    return sorted(rows, key=lambda row: int(row["size"]))


def where_time_goes(studies: Studies):
    """Return the host's and the device's time of a call with its latency, by mode: a panel per cell."""
    figure, axes = parts.grid(WIDE, 1.9, 1, len(PARTS))
    hatched = {"edgecolor": "white", "linewidth": 0, "hatch": "/////"}
    for axis, (which, cell) in zip(axes[0], PARTS, strict=True):
        axis.set_title(_named(cell), fontweight="bold", fontsize=7)
        bars = list(_calls_of(studies, which, cell))
        if not bars:
            axis.set_axis_off()
            continue
        scale = 1000 if max(latency for *_, latency in bars) >= 1000 else 1
        for place, (mode, call, latency) in enumerate(bars):
            colour = look(mode)["color"]
            axis.bar(place - 0.19, call.host / scale, 0.36, color=colour)
            axis.bar(place + 0.19, call.device / scale, 0.36, color=colour, alpha=0.45, **hatched)
            axis.plot([place - 0.4, place + 0.4], [latency / scale] * 2, color="black", linewidth=1)
        axis.set_xticks(
            range(len(bars)),
            labels=[CALLS[mode] for mode, *_ in bars],
            rotation=35,
            ha="right",
            rotation_mode="anchor",
            fontsize=6.5,
        )
        axis.tick_params(axis="x", length=0)
        axis.set_ylabel("ms" if scale == 1000 else "µs", labelpad=1)
        axis.margins(y=0.12)
    from matplotlib.patches import Patch

    legend = [Patch(color=GREY, label="host"), Patch(facecolor=GREY, alpha=0.45, label="device", **hatched)]
    legend.append(parts.key("latency", color="black", linestyle="-", linewidth=1))
    parts.legend(figure, legend, 3)
    return figure


def _calls_of(studies: Studies, which: str, cell: str):
    """Yield (mode, Call, latency in µs) of a cell in the modes of CALLS that have all three."""
    try:
        at = studies.cell(which, cell)
    except NoData:
        return
    calls = law.calls(studies.of(which))
    for mode in CALLS:
        if (*at, mode) in calls:
            row = studies.row(which, "summary", **dict(zip(CELL, at, strict=True)), mode=mode, metric="latency")
            yield mode, calls[*at, mode], row["estimate"]


def models(studies: Studies):
    """Return the speedups of the models by latency, and after how many calls compiling has paid."""
    cells = [cell for which, group in MAP if which == "architectures" for cell in group]
    modes = [mode for mode in MODES if mode != "triton"]
    found = {cell: {mode: find(studies, "architectures", cell, mode, "latency") for mode in modes} for cell in cells}
    found = {cell: rows for cell, rows in found.items() if any(rows.values())}
    if not found:
        return parts.blank(WIDE, "no study of models")
    figure, axes = parts.grid(WIDE, 0.19 * len(found) + 0.75, 1, 2, sharey=True, width_ratios=[3, 2])
    left, right = axes[0]
    parts.strip(left, [_named(cell) for cell in found], "")
    left.axvline(1, color="black", linewidth=0.5)
    ends = []
    for y, (cell, rows) in enumerate(found.items()):
        for place, (mode, row) in enumerate(rows.items()):
            if row:
                bounds = (row["speedup"], row["ci_low"] or row["speedup"], row["ci_high"] or row["speedup"])
                face = look(mode)["color"] if row["verdict"] in ("faster", "slower") else "white"
                style = {**look(mode), "linestyle": "none", "mew": 0.6, "markersize": 3}
                parts.bars(
                    left, [row["speedup"]], [y + 0.24 * (place - 1)], [bounds], "x", markerfacecolor=face, **style
                )
                ends += bounds
        _payback(right, studies, cell, y)
    parts.log_axis([left], "x", ends)
    left.set_xlabel("latency: speedup over eager")
    right.set_xscale("log")
    right.set_xlim(700, 9e4)
    right.set_xticks([1e3, 1e4, 4.2e4, 7.6e4], labels=["1,000", "10,000", "un-\ndecided", "never"])
    right.minorticks_off()
    right.axvline(3e4, color="0.8", linewidth=0.5)
    right.grid(axis="x", color="0.9", linewidth=0.4)
    right.set_axisbelow(True)
    right.set_xlabel("calls until compiling has paid, by latency")
    parts.legend(figure, keys({mode: MODES[mode] for mode in modes}), 4)
    return figure


def _payback(axis, studies: Studies, cell: str, y: int) -> None:
    at = dict(zip(CELL, studies.cell("architectures", cell), strict=True))
    for place, mode in enumerate(("compile", "compile-reduce-overhead")):
        try:
            row = studies.row("architectures", "payback", **at, mode=mode, metric="latency")
        except NoData:
            continue
        x = row["calls"] if row["kind"] == "after" else 7.6e4 if row["kind"] == "never" else 4.2e4
        bounds = (x, row["low"], row["high"]) if row["kind"] == "after" else (x, x, x)
        style = {**look(mode), "linestyle": "none", "mew": 0.6, "markersize": 3}
        parts.bars(axis, [x], [y + 0.24 * (2 * place - 1) / 2], [bounds], "x", **style)


def limit(studies: Studies):
    """Return the share of what the machine allows that eager, compiled code, our kernel and the best library reach."""
    if "kernels" not in studies:
        return parts.blank(WIDE, "no study of kernels")
    rows = studies.rows("kernels", "summary", op=list(LIMIT), metric="roofline")
    rows = [row for row in rows if row["estimate"] is not None]
    entries = studies.of("kernels")["study"]["modes"]
    others = [mode for mode, entry in entries.items() if entry["runner"] in ("library",) or "backend" in entry]
    figure, axes = parts.grid(WIDE, 2.0, 1, len(LIMIT), sharey=True)
    best = {"color": COLOURS[5], "marker": MARKERS[5]}
    for axis, op in zip(axes[0], LIMIT, strict=True):
        own = [row for row in rows if row["op"] == op]
        order = sorted({int(row["size"]) for row in own})
        axis.axhline(100, color=GREY, linewidth=0.6, linestyle=(0, (4, 2)))
        curves = {
            mode: {int(r["size"]): r["estimate"] for r in own if r["mode"] == mode}
            for mode in ("eager", "compile", "triton")
        }
        peers = [row for row in own if row["mode"] in others]
        curves["best library"] = {
            s: max(r["estimate"] for r in peers if int(r["size"]) == s) for s in {int(r["size"]) for r in peers}
        }
        for mode, curve in curves.items():
            at = sorted(curve)
            style = best if mode == "best library" else look(mode)
            axis.plot(at, [100 * curve[size] for size in at], linestyle="-", markersize=2.6, mew=0, **style)
        if order:
            parts.size_axis(axis, [str(size) for size in order])
        axis.set_title(name(op), fontweight="bold", fontsize=7.5)
        axis.set_xlabel("edge" if op == "matmul" else "tokens" if op.startswith("attention") else "columns")
        axis.grid(axis="y", color="0.9", linewidth=0.4)
    axes[0, 0].set_ylim(0, 108)
    axes[0, 0].set_ylabel("share of the limit (%)")
    shown = keys({"eager": "eager", "compile": "compile", "triton": "our Triton kernel"}, linestyle="-")
    parts.legend(figure, [*shown, parts.key("best other library", linestyle="-", **best)], 4)
    return figure


ARTICLE = {
    "map": decision_map,
    "law": predicted,
    "host": host,
    "sizes": sizes,
    "parts": where_time_goes,
    "models": models,
    "limit": limit,
}
