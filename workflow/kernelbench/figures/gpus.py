"""The figure of speedups on one GPU model against those of the same cells on another."""

from kernelbench.analysis.studies import Studies
from kernelbench.analysis.two_gpus import Pair, name_gpus, pair_rows
from kernelbench.figures import parts, style
from kernelbench.figures.cells import MODES, WAITED

TITLES = {WAITED: "waited for: latency", "device": "device time"}


def draw_gpus(studies: Studies):
    """Return the speedups over eager on the second GPU model against those on the first, a panel per metric."""
    pairs = [pair for pair in pair_rows(studies) if pair.metric in TITLES and pair.mode in style.SHARED]
    if not pairs:
        return parts.make_blank()
    figure, axes = parts.make_grid(style.NARROW, style.BOTH_GPUS, 1, 2, sharex=True, sharey=True)
    speedups = [row["speedup"] for pair in pairs for row in (pair.first, pair.second)]
    for which in "xy":
        parts.set_ratio_axis(axes.flat, which, speedups)
    first, second = name_gpus(studies)
    for axis, (metric, title) in zip(axes[0], TITLES.items(), strict=True):
        axis.set_title(title, **style.TITLE)
        axis.set_aspect("equal")
        axis.plot(axis.get_xlim(), axis.get_xlim(), zorder=0.9, **style.DIAGONAL)
        _draw_points(axis, [pair for pair in pairs if pair.metric == metric])
        axis.set_xlabel(f"speedup on an {first}")
    axes[0, 0].set_ylabel(f"speedup on an {second}")
    shown = [mode for mode in style.SHARED if any(pair.mode == mode for pair in pairs)]
    names = [MODES.get(mode, mode.removeprefix("compile-")) for mode in shown]
    keys = [parts.make_key(name, **style.look(mode)) for name, mode in zip(names, shown, strict=True)]
    parts.add_legend(figure, keys, 3)
    return figure


def _draw_points(axis, pairs: list[Pair]) -> None:
    for mode in style.SHARED:
        own = [pair for pair in pairs if pair.mode == mode]
        looks = {**style.look(mode), **style.PREDICTION}
        for along, here, there in (("x", "first", "second"), ("y", "second", "first")):
            places = [getattr(pair, there)["speedup"] for pair in own]
            numbers = [parts.read_interval(getattr(pair, here), "speedup") for pair in own]
            parts.draw_intervals(axis, along, places, numbers, **looks)
