"""The charts of the page, as Vega-Lite: one for each case, as wide as the page leaves room for."""

import altair as alt

from kernelbench.analysis.reasons import VERDICTS
from kernelbench.figures.style import COLOURS, FASTER, SLOWER
from kernelbench.numbers import signed
from kernelbench.page.texts import measured

INK, MUTED, GRID = "#1a1a1a", "#767676", "#e3e3e3"
COLOUR_OF_VERDICT = {"faster": FASTER, "slower": SLOWER, "equivalent": MUTED, "inconclusive": MUTED}
# The parts of a call's latency; `whole` where no profile splits it.
PARTS = {"kernels": "kernels on the GPU", "rest": "the rest: the host, launches, waiting", "whole": "the whole call"}
COLOUR_OF_PART = {"kernels": COLOURS[2], "rest": COLOURS[4], "whole": COLOURS[5]}
# Where the axis of speedups may have ticks; those of FINE if it spans less than a factor of two.
TICKS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 20, 30, 50, 100, 200, 500, 1000]
FINE = [0.6, 0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9]
# Pixels for a mode.
STEP = 26
AXES = {"labelColor": INK, "titleColor": MUTED, "gridColor": GRID, "domainColor": GRID, "tickColor": GRID}
AXES |= {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}


def draw_speedups(recommendation: dict) -> list[dict]:
    """Return for each case its speedups with intervals on an axis that all cases share; {} where none is known."""
    cases = [_list_speedups(case) for case in recommendation["cases"]]
    bounds = [bound for rows in cases for row in rows for bound in (row["low"], row["high"])]
    domain = [min([*bounds, 1]) / 1.06, max([*bounds, 1]) * 1.06]
    return [_draw_speedups(rows, domain, recommendation["baseline"]) if rows else {} for rows in cases]


def draw_times(recommendation: dict) -> list[dict]:
    """Return for each case how its calls spend their latency; {} where none is known."""
    return [_draw_times(rows) if (rows := _list_times(case)) else {} for case in recommendation["cases"]]


def split_call(mode: dict) -> dict[str, float]:
    """Return what each of the PARTS takes of the latency of a mode that has one, in µs."""
    whole = mode["latency"]["estimate"]
    # Kernels of a profile may take a little longer than the call.
    if mode["kernels"] is None:
        return {"whole": whole}
    busy = min(mode["kernels"]["estimate"], whole)
    return {"kernels": busy, "rest": whole - busy}


def _list_speedups(case: dict) -> list[dict]:
    rows = []
    for mode in case["modes"]:
        if found := mode["speedup"]:
            estimate = found["speedup"]
            low, high = (estimate if found[name] is None else found[name] for name in ("ci_low", "ci_high"))
            said = f"{signed(found)} {VERDICTS.get(found['verdict'], '')}".strip()
            colour = COLOUR_OF_VERDICT.get(found["verdict"], MUTED)
            own = {"mode": mode["mode"], "speedup": estimate, "low": low, "high": high}
            rows.append({**own, "said": said, "colour": colour})
    return rows


def _list_times(case: dict) -> list[dict]:
    rows = []
    for mode in case["modes"]:
        if found := mode["latency"]:
            for order, (part, took) in enumerate(split_call(mode).items()):
                said = f"{PARTS[part]}: {measured({'estimate': took, 'unit': 'µs'})} of {measured(found)}"
                own = {"mode": mode["mode"], "order": order, "time": took}
                rows.append({**own, "said": said, "colour": COLOUR_OF_PART[part]})
    return rows


def _draw_speedups(rows: list[dict], domain: list[float], baseline: str) -> dict:
    fits = FINE if domain[1] < 2 * domain[0] else TICKS
    ticks = [tick for tick in fits if domain[0] <= tick <= domain[1]]
    axis = alt.Axis(values=ticks, labelExpr="datum.value + '×'", labelOverlap="greedy")
    scale = alt.Scale(type="log", domain=domain, nice=False)
    base = alt.Chart().encode(y=_modes(rows), color=alt.Color("colour:N", scale=None), tooltip=_tooltip())
    interval = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", scale=scale, axis=axis), x2="high:Q")
    point = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=alt.X("speedup:Q", scale=scale, axis=axis, title=f"times as fast as {baseline}")
    )
    one = (
        alt.Chart(alt.InlineData([{"one": 1}]), name="one")
        .mark_rule(color=INK)
        .encode(x=alt.X("one:Q", scale=scale, axis=axis))
    )
    return finish(alt.layer(one, interval, point, data=alt.InlineData(rows)))


def _draw_times(rows: list[dict]) -> dict:
    in_ms = max(row["time"] for row in rows) >= 1000
    shown = [{**row, "time": row["time"] / 1000} for row in rows] if in_ms else rows
    bars = alt.Chart(alt.InlineData(shown)).mark_bar(height=14)
    return finish(
        bars.encode(
            y=_modes(rows),
            x=alt.X(
                "time:Q",
                stack="zero",
                axis=alt.Axis(tickCount=5),
                title=f"latency of a call ({'ms' if in_ms else 'µs'})",
            ),
            color=alt.Color("colour:N", scale=None),
            order="order:Q",
            tooltip=_tooltip(),
        )
    )


def _modes(rows: list[dict]) -> alt.Y:
    names = list(dict.fromkeys(row["mode"] for row in rows))
    axis = alt.Axis(domain=False, ticks=False, grid=False, labelLimit=0, labelPadding=8)
    return alt.Y("mode:N", sort=names, title=None, axis=axis)


def _tooltip() -> list:
    return [alt.Tooltip("mode:N"), alt.Tooltip("said:N", title=" ")]


def finish(chart, height: int | None = None) -> dict:
    """Return the specification of a chart in the looks of the page, as wide as there is room.

    height: in pixels; without it that of its rows.
    """
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    shaped = chart.properties(
        width="container", height=height or alt.Step(STEP), background="transparent", autosize=fit
    )
    return shaped.configure(font="system-ui, sans-serif").configure_view(stroke=None).configure_axis(**AXES).to_dict()
