"""The article's figures show the recorded numbers where they belong, legibly, and whatever of them there is."""

import itertools
from dataclasses import replace
from unittest.mock import patch

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.text import Text
from recorded import rebuilt, studied

from kernelbench import figures
from kernelbench.documents import law
from kernelbench.documents.names import name
from kernelbench.documents.studies import CELL, Studies
from kernelbench.documents.words import factor
from kernelbench.figures import bysize, calls, cells, decisions
from kernelbench.figures.article import ARTICLE
from kernelbench.figures.style import look

# What the figures are about and is quick to rebuild. That of the kernels is not: it is planted by day.
FEW = ("h200", "h100-architectures", "h200-elementwise")
SHARES = {"eager": 0.5, "compile": 0.6, "triton": 1.0, "quack": 0.9, "liger": 0.8, "sdpa-flash": 0.45}
DIP = {"256": 1.7, "2048": 0.9, "8192": 1.6}


def planted() -> dict:
    """Return a study of kernels: shares of the limit, and a speedup of compiled softmax that dips."""
    ops = {op: {"sizes": [int(size) for size in DIP]} for op in bysize.LIMITED}
    modes = {mode: {"runner": "eager"} for mode in [*SHARES, "sdpa-math"]}
    summary, speedups = [], []
    for op, size, (mode, share) in itertools.product(ops, DIP, SHARES.items()):
        at = {"op": op, "dtype": "float16", "size": size, "mode": mode, "notes": []}
        summary.append({**at, "metric": "roofline", "estimate": share, "ci_low": share - 0.02, "ci_high": share + 0.02})
    summary.append({**summary[0], "mode": "sdpa-cudnn", "estimate": 0.3})
    for op, (size, speedup), timer in itertools.product(("softmax_256mib",), DIP.items(), bysize.TIMERS):
        at = {"op": op, "dtype": "float16", "size": size, "mode": "compile", "baseline": "eager", "metric": timer}
        speedups.append({**at, "speedup": speedup, "ci_low": 0.9 * speedup, "ci_high": 1.1 * speedup, "verdict": ""})
    study = {"machine": "h200-kernels", "study": "kernels", "ops": ops, "modes": modes}
    return {"study": study, "summary": summary, "speedups": speedups, "compilation": [], "payback": []}


@pytest.fixture(scope="module", params=["planted", pytest.param("recorded", marks=pytest.mark.nightly)])
def studies(request) -> Studies:
    few = studied(*FEW)
    found = Studies([*few.documents, planted() if request.param == "planted" else rebuilt("h200-kernels")])
    law.apply(found)
    return found


def draw(which: str, studies: Studies):
    return figures.styled(ARTICLE[which])(studies)


@pytest.fixture(scope="module")
def drawn(studies) -> dict:
    """Return the figures, each with (text, box) of all that was written into it when it was drawn."""
    return {which: (figure := draw(which, studies), written(figure)) for which in ARTICLE}


def written(figure) -> list[tuple]:
    found, original = [], Text.draw

    def spy(text, renderer):
        if text.get_visible() and text.get_text().strip():
            found.append((text, Text.get_window_extent(text, renderer)))
        original(text, renderer)

    with figures._style(), patch.object(Text, "draw", spy):
        FigureCanvasAgg(figure).draw()
        found.clear()  # The first drawing lays the figure out.
        FigureCanvasAgg(figure).draw()
    return found


def outside(figure, texts: list[tuple]) -> list[str]:
    """Return what is written beyond the edges of a figure."""
    page = figure.bbox.padded(0.5)
    return [text.get_text() for text, box in texts if not (page.contains(*box.min) and page.contains(*box.max))]


def overlaps(texts: list[tuple]) -> list[tuple[str, str]]:
    """Return the pairs of texts that overlap. Two names at the same angle may share a corner of their boxes."""
    found = [(text.get_text(), text.get_rotation() % 90 > 0, box) for text, box in texts]
    pairs = [pair for pair in itertools.combinations(found, 2) if not (pair[0][1] and pair[1][1])]
    return [(one[0], other[0]) for one, other in pairs if one[2].padded(-0.5).overlaps(other[2])]


def marks(axis) -> list:
    """Return the marks in a panel that stand for data: no lines without marks, no ticks and no rings."""
    return [line for line in axis.lines if line.get_marker() not in ("None", "", "|") and line.get_markersize() < 6]


def points(axis) -> set[tuple]:
    """Return the rounded (x, y) of all marks in a panel."""
    return {rounded(*point) for line in marks(axis) for point in line.get_xydata()}


def rounded(*numbers) -> tuple:
    return tuple(float(f"{number:.5g}") for number in numbers)


def bars(axis, along: int) -> set[tuple]:
    """Return the rounded ends of all intervals in a panel along x (0) or y (1)."""
    found = [bar for bar in axis.collections if hasattr(bar, "get_segments")]
    return {rounded(*(end[along] for end in segment)) for bar in found for segment in bar.get_segments()}


def panels(figure) -> dict:
    return {axis.get_title(): axis for axis in figure.axes}


# How they look


@pytest.mark.parametrize("which", ARTICLE)
def test_texts_are_large_enough_inside_and_apart(which, drawn):
    figure, texts = drawn[which]
    assert min(text.get_fontsize() for text, _ in texts) >= 6
    assert outside(figure, texts) == [] and overlaps(texts) == []


@pytest.mark.parametrize("which", ARTICLE)
def test_a_legend_covers_no_panel(which, drawn):
    figure, _ = drawn[which]
    assert figure.legends
    boxes = [legend.get_window_extent() for legend in figure.legends]
    assert not any(box.overlaps(axis.get_window_extent()) for box in boxes for axis in figure.axes)


def test_a_mode_has_one_colour_and_one_marker_in_all_figures(drawn):
    named, marked = {}, {}
    for figure, _ in drawn.values():
        for legend in figure.legends:
            for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True):
                if hasattr(handle, "get_marker"):
                    named.setdefault(text.get_text(), set()).add((to_hex(handle.get_color()), handle.get_marker()))
        for line in itertools.chain(*map(marks, figure.axes)):
            marked.setdefault(to_hex(line.get_color()), set()).add(line.get_marker())
    looks = {mode: (to_hex(look(mode)["color"]), look(mode)["marker"]) for mode in [*cells.MODES, *bysize.KERNELS]}
    for mode, label in {**bysize.KERNELS, **cells.MODES}.items():
        assert named.get(label, {looks[mode]}) == {looks[mode]}
    assert all(len(markers) == 1 for markers in marked.values())
    assert {(colour, marker) for colour, (marker,) in marked.items()} >= {looks[mode] for mode in decisions.MAPPED}
    assert len(set(looks.values())) == len(looks)


# What they show


def test_the_tiles_of_the_map_are_the_speedups_and_their_colours_the_verdicts(studies, drawn):
    (axis,) = drawn["map"][0].axes
    rows = {y: label.get_text() for y, label in zip(axis.get_yticks(), axis.get_yticklabels(), strict=True)}
    columns = dict(zip(axis.get_xticks(), itertools.product(decisions.TITLES, decisions.MAPPED), strict=True))
    tiles = {(rows[y], columns[x]): text for text in axis.texts for x, y in [text.get_position()] if y in rows}
    expected = {}
    for which, group in cells.GROUPS.values():
        named = {tuple(cell.split()): name(*cell.split()) for cell in group.split(", ")}
        for row in studies.of(which)["speedups"]:
            column, at = (row["metric"], row["mode"]), (row["op"], row["size"])
            if at in named and column in columns.values() and row["baseline"] == "eager" and row["speedup"]:
                expected[named[at], column] = row
    assert {at: text.get_text() for at, text in tiles.items()} == {a: factor(r["speedup"]) for a, r in expected.items()}
    faces = {rounded(tile.get_x() + 0.5, tile.get_y() + 0.5): tile.get_facecolor() for tile in axis.patches}
    for at, text in tiles.items():
        red, _, blue, _ = faces[rounded(*text.get_position())]
        assert {"faster": blue > red, "slower": red > blue}.get(expected[at]["verdict"], red == blue == 1), at


def test_cells_stand_below_the_heading_of_their_group(drawn):
    for which in ("map", "models"):
        labels = [label.get_text() for label in drawn[which][0].axes[0].get_yticklabels()]
        for heading, (topic, group) in cells.GROUPS.items():
            if which == "map" or topic == "architectures":
                own, start = [name(*cell.split()) for cell in group.split(", ")], labels.index(heading) + 1
                assert labels[start : start + len(own)] == own


def test_each_prediction_is_a_point_between_equal_axes_and_a_miss_has_its_name(studies, drawn):
    for axis, metric in zip(drawn["law"][0].axes, calls.TITLES, strict=True):
        rows = [row for row in studies.predictions if row.metric == metric]
        assert points(axis) == {rounded(row.predicted, row.measured) for row in rows}
        assert bars(axis, 1) == {rounded(row.ci_low, row.ci_high) for row in rows}
        assert axis.get_xlim() == axis.get_ylim() and axis.get_aspect() == 1
        missed = {(name(row.op, row.size), rounded(row.predicted, row.measured)) for row in rows if row.right is False}
        assert {(text.get_text(), rounded(*text.xy)) for text in axis.texts} == missed
        assert missed or metric == "throughput"


def test_misses_that_read_the_same_are_told_apart_and_many_are_counted(studies):
    row = next(row for row in studies.predictions if row.right is False)
    told = lambda **other: calls._tell_apart([row, replace(row, **other)], studies)  # noqa: E731
    own = name(row.op, row.size)
    assert calls._tell_apart([row], studies) == [own]
    assert told(dtype="bfloat16") == [f"{own} ({row.dtype})", f"{own} (bfloat16)"]
    assert told(study="h200-elementwise") == [f"{own} (ops)", f"{own} (elementwise)"]
    assert told(mode="compile-reduce-overhead") == [f"{own} (compile)", f"{own} (reduce-overhead)"]
    many = Studies(studies.documents)
    many.predictions = [replace(row, size=str(2**place)) for place in range(calls.NAMED + 4)]
    figure = draw("law", many)
    texts = written(figure)
    assert "and 4 more" in [text.get_text() for text, _ in texts]
    assert outside(figure, texts) == [] and overlaps(texts) == []


def test_host_times_lie_over_their_launches_and_the_lines_are_the_law(studies, drawn):
    (axis,) = drawn["host"][0].axes
    found = [(key, call) for document in studies.documents for key, call in law.calls(document).items()]
    found = {rounded(call.launches, call.host): key[0] for key, call in found if key[3] in calls.CALLED}
    assert points(axis) == set(found)
    hollow = [line.get_xydata() for line in marks(axis) if line.get_markerfacecolor() == "white"]
    assert {rounded(*point) for line in hollow for point in line} == {p for p, op in found.items() if "training" in op}
    compiled, replayed = (line.get_ydata() for line in axis.lines if line.get_marker() in ("None", ""))
    most = max(launches for launches, _ in found)
    assert compiled[0] == pytest.approx(studies.laws["compile"].host(1))
    assert compiled[-1] == pytest.approx(studies.laws["compile"].host(most))
    assert set(replayed) == {studies.laws["compile-reduce-overhead"].host(1)}


def test_speedups_by_size_are_those_of_each_timer_in_order(studies, drawn):
    shown = panels(drawn["sizes"][0])
    assert {"matrix product", "softmax", "softmax, 256 MiB", "layer norm", "attention"} <= set(shown)
    for which, op in bysize.SIZED:
        rows = studies.rows(which, "speedups", op=op, mode="compile", baseline="eager", metric=list(bysize.TIMERS))
        if rows:
            axis = shown[name(op)]
            assert points(axis) == {rounded(float(row["size"]), row["speedup"]) for row in rows}
            assert bars(axis, 1) == {rounded(row["ci_low"], row["ci_high"]) for row in rows}
    lines = [line.get_xdata() for axis in shown.values() for line in axis.lines if len(line.get_xdata()) > 2]
    assert lines and all(list(line) == sorted(line) for line in lines)


def test_the_course_of_softmax_is_not_monotone(drawn):
    axis = panels(drawn["sizes"][0])["softmax, 256 MiB"]
    for line in (line for line in axis.lines if len(line.get_xdata()) > 2):
        course = dict(zip(line.get_xdata(), line.get_ydata(), strict=True))
        assert course[256] > 1 > course[2048] and course[8192] > 1


def test_bars_are_host_and_device_and_the_tick_is_the_latency(studies, drawn):
    shown = panels(drawn["parts"][0])
    places = [(which, cell) for which, split in calls.SPLIT for cell in split.split(", ")]
    assert list(shown) == [name(*cell.split()) for _, cell in places]
    for which, cell in places:
        axis, at = shown[name(*cell.split())], studies.cell(which, cell)
        scale = 1000 if "(ms)" in axis.get_xlabel() else 1
        own = {key[3]: call for key, call in law.calls(studies.of(which)).items() if key[:3] == at}
        widths = {rounded(bar.get_width() * scale)[0] for bar in axis.patches}
        wanted = [call for mode, call in own.items() if mode in calls.CALLED]
        assert widths == {rounded(time)[0] for call in wanted for time in (call.host, call.device)}
        ticks = {
            round(line.get_ydata().mean()): line.get_xdata()[0] for line in axis.lines if len(line.get_xdata()) == 2
        }
        for mode in set(own) & set(calls.CALLED):
            row = studies.row(which, "summary", **dict(zip(CELL, at, strict=True)), mode=mode, metric="latency")
            assert ticks[calls.CALLED.index(mode)] * scale == pytest.approx(row["estimate"])


def test_models_stand_in_their_rows_and_what_never_pays_at_never(studies, drawn):
    left, right = drawn["models"][0].axes
    rows = {label.get_text(): y for y, label in zip(left.get_yticks(), left.get_yticklabels(), strict=True)}
    ticks = {label.get_text(): x for x, label in zip(right.get_xticks(), right.get_xticklabels(), strict=True)}
    expected = {"speedup": set(), "paid": set(), "open": set()}
    for heading, (which, group) in cells.GROUPS.items():
        for cell in group.split(", ") if which == "architectures" else ():
            y, at = rows[name(*cell.split())], dict(zip(CELL, studies.cell(which, cell), strict=True))
            assert y > rows[heading]
            for mode in decisions.MODELS:
                row = studies.row(which, "speedups", **at, mode=mode, baseline="eager", metric="latency")
                expected["speedup"].add((y, *rounded(row["speedup"])))
            for mode in decisions.PAYING:
                row = studies.row(which, "payback", **at, mode=mode, metric="latency")
                x = {"after": row["calls"], "never": ticks["never"]}.get(row["kind"])
                expected["paid" if x else "open"].add((y, *rounded(x or row["low"])))
    near = lambda y: min(rows.values(), key=lambda row: abs(row - y))  # noqa: E731
    assert {(near(y), x) for x, y in points(left)} == expected["speedup"]
    assert {(near(y), x) for x, y in points(right)} == expected["paid"]
    assert {(near(arrow.get_position()[1]), *rounded(arrow.get_position()[0])) for arrow in right.texts} == expected[
        "open"
    ]
    assert expected["open"] and ticks["never"] in {x for _, x in expected["paid"]} | {ticks["never"]}


def test_each_kernel_and_library_has_its_curve_of_shares(studies, drawn):
    shown = panels(drawn["limit"][0])
    assert set(shown) == {name(op) for op in bysize.LIMITED}
    for op in bysize.LIMITED:
        rows = studies.rows("kernels", "summary", op=op, metric="roofline", mode=list(bysize.KERNELS))
        rows = [row for row in rows if row["estimate"] is not None]
        several = {row["mode"] for row in rows if sum(other["mode"] == row["mode"] for other in rows) > 1}
        wanted = {rounded(float(row["size"]), 100 * row["estimate"]) for row in rows if row["mode"] in several}
        assert points(shown[name(op)]) == wanted


# Whatever there is


def applied(documents: list[dict]) -> Studies:
    found = Studies(documents)
    law.apply(found)
    return found


def only(studies: Studies, *topics: str) -> Studies:
    return applied([studies.of(topic) for topic in topics])


def changed(studies: Studies, **columns) -> Studies:
    """Return the studies with these values in every row of the summary and the speedups that has such a column."""
    tables = ("summary", "speedups")
    rows = lambda table: [row | {key: value for key, value in columns.items() if key in row} for row in table]  # noqa: E731
    return applied([document | {table: rows(document[table]) for table in tables} for document in studies.documents])


PARTIAL = {
    "nothing": lambda studies: Studies([]),
    "ops alone": lambda studies: only(studies, "ops"),
    "models alone": lambda studies: only(studies, "architectures"),
    "kernels alone": lambda studies: only(studies, "kernels"),
    "no intervals": lambda studies: changed(studies, ci_low=None, ci_high=None),
    "no numbers": lambda studies: changed(studies, estimate=None, speedup=None, ci_low=None, ci_high=None, verdict=""),
    "two dtypes": lambda studies: applied([twice(document) for document in studies.documents]),
    "odd sizes": lambda studies: changed(studies, size="16x64"),
}


def twice(document: dict) -> dict:
    """Return a document that has everything in a second dtype as well."""
    tables = ("summary", "speedups", "compilation", "payback")
    return document | {t: [*document[t], *({**row, "dtype": "other"} for row in document[t])] for t in tables}


@pytest.mark.parametrize("kind", PARTIAL)
@pytest.mark.parametrize("which", ARTICLE)
def test_what_is_missing_is_left_out(which, kind, studies):
    figure = draw(which, PARTIAL[kind](studies))
    if kind in ("nothing", "no numbers"):
        assert [text.get_text() for text in figure.texts] and not figure.axes
    elif kind in ("no intervals", "two dtypes"):
        assert figure.axes
    assert all(axis.has_data() for axis in figure.axes)


def test_of_several_dtypes_curves_are_of_the_first(studies):
    both = PARTIAL["two dtypes"](studies)
    for which in ("sizes", "limit"):
        one, other = (draw(which, found) for found in (studies, both))
        assert [points(axis) for axis in one.axes] == [points(axis) for axis in other.axes]
        assert all(len(set(line.get_xdata())) == len(line.get_xdata()) for axis in other.axes for line in marks(axis))


def test_a_new_number_moves_its_point(studies):
    other = changed(studies, speedup=2.5, ci_low=2.4, ci_high=2.6, verdict="faster")
    (axis,) = draw("map", other).axes
    assert {text.get_text() for text in axis.texts if text.get_text()[0].isdigit()} == {"2.50"}
