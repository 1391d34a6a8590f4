"""The charts of the site, as Vega-Lite without data: the page fills in the rows of what a reader has chosen.

Each reads the rows of a data set named `rows`. A scale that panels share takes its bounds from the parameter `domain`.
"""

import altair as alt
from matplotlib.colors import to_hex

from kernelbench.figures.style import LIBRARIES, MARKERS, SHARED, look
from kernelbench.page.charts import COLOUR_OF_VERDICT, MUTED, finish

ROWS = alt.NamedData("rows")
FACTOR = alt.Axis(labelExpr="format(datum.value, '~g') + '×'", labelOverlap="greedy")
NUMBER = alt.Axis(labelExpr="format(datum.value, '~s')", labelOverlap="greedy")
TRIANGLES = [f"triangle-{side}" for side in ("up", "down", "left", "right")]
# Matplotlib's markers in Vega, which has no filled × and no star.
SHAPES = {
    **dict(zip(MARKERS, ("square", *TRIANGLES[:2], "cross", "diamond", *TRIANGLES[2:]), strict=True)),
    **{"o": "circle", "D": "diamond", "*": "wedge"},
}
# How tall a chart against the size is, in pixels.
HEIGHT = 300


def looks(modes: list[str]) -> dict[str, dict[str, str]]:
    """Return {colour, shape} by mode, as in the article; eager's black would be lost on a dark page."""
    own = [mode for mode in modes if mode not in (*SHARED, *LIBRARIES, "eager")]
    found = {mode: {"color": MUTED, "marker": "o"} if mode == "eager" else look(mode, own) for mode in modes}
    return {mode: {"colour": to_hex(own["color"]), "shape": SHAPES[own["marker"]]} for mode, own in found.items()}


def make_specs() -> dict[str, dict]:
    """Return the charts by name: `ranking`, `sizes`, and of a claim `factors` or `values`."""
    return {
        "ranking": _draw_rows("mode", "speedup", FACTOR, "log"),
        "sizes": _draw_sizes(),
        "factors": _draw_rows("label", "value", FACTOR, "log"),
        "values": _draw_rows("label", "value", NUMBER, "linear"),
    }


def _draw_rows(name: str, value: str, axis: alt.Axis, kind: str) -> dict:
    """Return a chart of values with intervals, one row below the other."""
    scale = alt.Scale(type=kind, nice=False, padding=12, **({"zero": True} if kind == "linear" else {}))
    verdicts = alt.Scale(domain=[*COLOUR_OF_VERDICT, ""], range=[*COLOUR_OF_VERDICT.values(), MUTED])
    labels = alt.Axis(domain=False, ticks=False, grid=False, labelPadding=8)
    base = alt.Chart().encode(
        y=alt.Y(f"{name}:N", sort=None, title=None, axis=labels),
        color=alt.Color("verdict:N", scale=verdicts, legend=None),
        tooltip=[alt.Tooltip(f"{name}:N"), alt.Tooltip("text:N", title=" ")],
    )
    interval = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", scale=scale, axis=axis, title=None), x2="high:Q")
    point = base.mark_point(filled=True, size=70, opacity=1).encode(x=alt.X(f"{value}:Q", scale=scale, axis=axis))
    return finish(alt.layer(*([_draw_one("x", scale, axis)] if kind == "log" else []), interval, point, data=ROWS))


def _draw_sizes() -> dict:
    """Return a chart of speedups with intervals against the size, a curve for each mode."""
    scale = alt.Scale(type="log", nice=False, domain=alt.ExprRef("domain"))
    by_mode = alt.Color("colour:N", scale=None)
    base = alt.Chart().encode(x=alt.X("shown:N", sort=None, title="size", axis=alt.Axis(labelAngle=0, grid=False)))
    interval = base.mark_rule(strokeWidth=1.5).encode(
        y=alt.Y("low:Q", scale=scale, axis=FACTOR, title=None), y2="high:Q", color=by_mode
    )
    curve = base.mark_line(strokeWidth=1.5).encode(
        y=alt.Y("speedup:Q", scale=scale, axis=FACTOR), color=by_mode, detail="mode:N"
    )
    shown = {"mode": "mode", "text": "speedup", "n": "repeats", "samples": "samples each", "cause": "cause"}
    point = base.mark_point(filled=True, size=80, opacity=1, cursor="pointer").encode(
        y=alt.Y("speedup:Q", scale=scale, axis=FACTOR),
        color=by_mode,
        shape=alt.Shape("shape:N", scale=None),
        tooltip=[alt.Tooltip(f"{name}:N", title=title) for name, title in shown.items()],
    )
    chart = alt.layer(_draw_one("y", scale, FACTOR), interval, curve, point, data=ROWS)
    return finish(chart.add_params(alt.param(name="domain", value=[0.5, 2])), height=HEIGHT)


def _draw_one(channel: str, scale: alt.Scale, axis: alt.Axis) -> alt.Chart:
    """Return the line at a speedup of 1, which the page's style colours."""
    at = {"x": alt.X, "y": alt.Y}[channel]("one:Q", scale=scale, axis=axis, title=None)
    return alt.Chart(alt.InlineData([{"one": 1}]), name="one").mark_rule().encode(**{channel: at})
