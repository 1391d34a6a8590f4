"""Figures of rates: beside what the machine reaches, and over the intensity."""

from itertools import cycle, product

from kernelbench.figures import parts
from kernelbench.figures.data import Data
from kernelbench.figures.style import COLOURS, GREY, MARKERS, WIDE
from kernelbench.study.cells import workload_of

CEILING = {"color": GREY, "linewidth": 0.7, "linestyle": (0, (4, 2))}
# By what bounds an op: its rate's metric, the unit, and that in units of the ceilings (bytes/µs and
# FLOP/µs).
RATES = {"memory": ("gbps", "GB/s", 1e3), "compute": ("tflops", "TFLOP/s", 1e6)}


def rates(document: dict):
    """Return TFLOP/s of compute-bound and GB/s of memory-bound ops against the size, and ceilings."""
    data = Data(document)
    metric = {group: RATES[_bound(data, group)][0] for group in data.groups}
    groups = [group for group in data.groups if data.curves(group, metric[group])]
    if not groups:
        return parts.blank(WIDE, f"{data.machine}: no rates")
    figure, axes = parts.curve_grid(data, groups, 1, 1.75)
    drawn = []
    for (group, _), axis in axes.items():
        drawn.append(parts.curves(axis, data, group, metric[group]))
        ceiling = _ceiling(axis, data, group)
        axis.set_ylim(0, max(*parts.ends(drawn[-1:], reach=1.3), ceiling) * 1.06)
        axis.set_ylabel(RATES[_bound(data, group)][1], labelpad=2)
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    parts.legend(figure, [*parts.drawn_keys(data, drawn), parts.key("ceiling of the machine", **CEILING)], 7)
    return figure


def roofline(document: dict):
    """Return the rates of baseline and kernels against the operations per byte, and their shares of what is allowed."""
    data = Data(document)
    kernels = [mode for mode in data.modes if data.configs[mode]["runner"] == "kernel"]
    found = {
        (group, mode): points
        for group, mode in product(data.groups, (data.baseline, *kernels))
        if (points := _intensities(data, group, mode))
    }
    if not (kernels and found):
        return parts.blank(WIDE, f"{data.machine}: no kernels with a rate")
    figure, axes = parts.grid(WIDE, 2.6, 1, 2)
    rates, shares = axes[0]
    families = {group: data.ops[group[0]].get("workload", group[0]) for group, _ in found}
    colours = dict(zip(dict.fromkeys(families.values()), cycle(COLOURS), strict=False))
    markers = dict(zip(dict.fromkeys(dtype for _, dtype in families), MARKERS, strict=False))
    own = {"linestyle": "none", "mew": 0.6, "markersize": 2.8}
    for (group, mode), points in found.items():
        style = {**own, "color": colours[families[group]], "marker": markers[group[1]]}
        style["markerfacecolor"] = "white" if mode == data.baseline else style["color"]
        rates.plot(*zip(*points, strict=True), **style)
        if roof := _roof(data, group[1]):
            shares.plot([x for x, _ in points], [100 * rate / min(x * roof[0], roof[1]) for x, rate in points], **style)
    _roofs(rates, data, [x for points in found.values() for x, _ in points])
    rates.set_yscale("log")
    rates.set_ylabel("TFLOP/s", labelpad=2)
    shares.axhline(100, **CEILING)
    shares.set_ylim(0)
    shares.set_ylabel("share of the limit (%)", labelpad=2)
    for axis in (rates, shares):
        axis.set_xscale("log")
        axis.set_xlabel("operations per byte")
    keys = [parts.key(workload, color=colour, marker="o", **own) for workload, colour in colours.items()]
    keys += [parts.key(dtype, color="black", marker=marker, **own) for dtype, marker in markers.items()]
    keys += [parts.key(f"hollow: {data.baseline}", color="black", marker="o", markerfacecolor="white", **own)]
    parts.legend(figure, keys, len(keys))
    return figure


def _intensities(data: Data, group: tuple[str, str], mode: str) -> list[tuple[float, float]]:
    """Return (operations per byte, TFLOP/s) of each size of a group in a mode; nothing for what does no arithmetic."""
    rates = [data.curves(group, metric).get(mode, []) for metric in ("tflops", "gbps")]
    pairs = zip(*(parts.values(numbers) for numbers in rates), strict=True) if all(rates) else ()
    return [(1e3 * tflops / gbps, tflops) for tflops, gbps in pairs if tflops > 0]


def _roof(data: Data, dtype: str) -> tuple[float, float] | None:
    """Return what the study's fastest copy and matrix product allow: TFLOP/s by operation per byte, and at most."""
    best = data.ceilings.get(dtype, {})
    if not {"memory", "compute"} <= set(best):
        return None
    return tuple(best[bound]["rate"] / RATES["compute"][2] for bound in ("memory", "compute"))


def _roofs(axis, data: Data, intensities: list[float]) -> None:
    """Draw for each dtype the least of what the fastest copy and the fastest matrix product of the study allow."""
    low, high = min(intensities) / 2, max(intensities) * 2
    for memory, compute in filter(None, (_roof(data, dtype) for dtype in data.ceilings)):
        ridge = compute / memory
        axis.plot([low, ridge, max(high, ridge)], [low * memory, compute, compute], **CEILING)


def _bound(data: Data, group: tuple[str, str]) -> str:
    op = group[0]
    return workload_of(op, data.ops[op]).bound


def _ceiling(axis, data: Data, group: tuple[str, str]) -> float:
    """Draw and label what the machine reached at best; return it, 0 where it was not measured."""
    bound = _bound(data, group)
    best = data.ceilings.get(group[1], {}).get(bound)
    if best is None:
        return 0
    _, unit, divisor = RATES[bound]
    rate = best["rate"] / divisor
    axis.axhline(rate, **CEILING)
    axis.set_title(axis.get_title(), pad=12, fontweight="bold")
    # Above the panel, since a small input can stay in a cache and cross the line.
    figures = f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
    text = f"{best['op']} {parts.long(best['size'])}: {figures} {unit}"
    axis.text(0.5, 1.03, text, transform=axis.transAxes, fontsize=6.5, color=GREY, ha="center")
    return rate
