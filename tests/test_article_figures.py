"""The article's figures show the recorded numbers where they belong, legibly, and whatever of them there is."""

import itertools
from collections import Counter
from unittest.mock import patch

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.text import Text
from recorded import studied

from kernelbench.analysis import host_law, two_gpus
from kernelbench.analysis.studies import Studies
from kernelbench.figures import calls, cells, decisions, gpus, sizes
from kernelbench.figures.article import ARTICLE
from kernelbench.figures.style import SHARED, TIMERS, in_style, look
from kernelbench.numbers import factor
from kernelbench.op_names import name


@pytest.fixture(scope="module")
def studies() -> Studies:
    return studied("h200", "h100-architectures", "h200-elementwise", "h200-kernels")


@pytest.fixture(scope="module")
def drawn(studies) -> dict:
    """Return the figures, each with (text, box) of all that was written into it when it was drawn."""
    return {which: (figure := draw(which, studies), written(figure)) for which in ARTICLE}


def draw(which: str, studies: Studies):
    return ARTICLE[which](studies)


def written(figure) -> list[tuple]:
    found, original = [], Text.draw

    def spy(text, renderer):
        if text.get_visible() and text.get_text().strip():
            found.append((text, Text.get_window_extent(text, renderer)))
        original(text, renderer)

    with in_style(), patch.object(Text, "draw", spy):
        FigureCanvasAgg(figure).draw()
        found.clear()  # The first drawing lays the figure out.
        FigureCanvasAgg(figure).draw()
    return found


def marks(axis) -> list:
    """Return the marks in a panel that stand for data: no lines without marks, no ticks and no rings."""
    return [line for line in axis.lines if line.get_marker() not in ("None", "", "|") and line.get_markersize() < 6]


def points(axis) -> set[tuple]:
    return {rounded(*point) for line in marks(axis) for point in line.get_xydata()}


def bars(axis, along: int = 1) -> set[tuple]:
    """Return the ends of all intervals in a panel along x (0) or y (1)."""
    found = [bar for bar in axis.collections if hasattr(bar, "get_segments")]
    return {rounded(*(end[along] for end in segment)) for bar in found for segment in bar.get_segments()}


def rounded(*numbers) -> tuple:
    return tuple(float(f"{number:.5g}") for number in numbers)


@pytest.mark.parametrize("which", ARTICLE)
def test_texts_are_large_enough_inside_and_apart_and_no_legend_covers_data(which, drawn):
    figure, texts = drawn[which]
    assert min(text.get_fontsize() for text, _ in texts) >= 6
    page = figure.bbox.padded(0.5)
    assert [t.get_text() for t, box in texts if not (page.contains(*box.min) and page.contains(*box.max))] == []
    level = [(text.get_text(), box.padded(-0.5)) for text, box in texts if not text.get_rotation() % 90]
    assert [(a, b) for (a, one), (b, two) in itertools.combinations(level, 2) if one.overlaps(two)] == []
    boxes = [legend.get_window_extent() for legend in figure.legends]
    assert boxes and not any(box.overlaps(axis.get_window_extent()) for box in boxes for axis in figure.axes)


def test_a_mode_has_one_colour_and_one_marker_in_all_figures(drawn):
    seen = {}
    for figure, _ in drawn.values():
        for text, key in ((t, k) for lg in figure.legends for t, k in zip(lg.texts, lg.legend_handles, strict=True)):
            if hasattr(key, "get_marker"):
                seen.setdefault(text.get_text(), set()).add((to_hex(key.get_color()), key.get_marker()))
    looks = {mode: (to_hex(look(mode)["color"]), look(mode)["marker"]) for mode in [*cells.MODES, *sizes.KERNELS]}
    assert len(set(looks.values())) == len(looks)
    for mode, label in [*sizes.KERNELS.items(), *cells.MODES.items()]:
        assert seen.get(label, {looks[mode]}) == {looks[mode]}
    colours = {colour for colour, _ in looks.values()} | {to_hex(style["color"]) for style in TIMERS.values()}
    assert {to_hex(m.get_color()) for f, _ in drawn.values() for a in f.axes for m in marks(a)} <= colours


def test_the_tiles_of_the_map_are_the_speedups_and_their_colours_the_verdicts(studies, drawn):
    (axis,) = drawn["map"][0].axes
    columns = dict(zip(itertools.product(decisions.TITLES, decisions.MAPPED), axis.get_xticks(), strict=True))
    heights = {label.get_text(): y for label, y in zip(axis.get_yticklabels(), axis.get_yticks(), strict=True)}
    expected = {}
    for heading, (which, group) in cells.GROUPS.items():
        for place, at in enumerate(cells.locate(studies, which, group)):
            y = heights[name(at["op"], at["size"])]
            assert y == pytest.approx(heights[heading] + 1 + place)
            for row in studies.rows(which, "speedups", **at, baseline="eager"):
                if row["speedup"] and (row["metric"], row["mode"]) in columns:
                    expected[rounded(columns[row["metric"], row["mode"]], y)] = row
    tiles = {rounded(*text.get_position()): text.get_text() for text in axis.texts if text.get_fontsize() == 6}
    assert tiles == {at: factor(row["speedup"]) for at, row in expected.items()} and len(tiles) > 100
    for tile in axis.patches:
        red, _, blue, _ = tile.get_facecolor()
        verdict = expected[rounded(tile.get_x() + 0.5, tile.get_y() + 0.5)]["verdict"]
        assert {"faster": blue > red, "slower": red > blue}.get(verdict, red == blue == 1)


def test_each_prediction_is_a_point_and_each_miss_has_its_name(studies, drawn):
    for axis, metric in zip(drawn["law"][0].axes, calls.TITLES, strict=True):
        rows = [row for row in studies.predictions if row.metric == metric]
        assert points(axis) == {rounded(row.predicted, row.measured) for row in rows}
        assert bars(axis) == {rounded(row.ci_low, row.ci_high) for row in rows}
        assert axis.get_xlim() == axis.get_ylim() and axis.get_aspect() == 1
        missed = {(name(row.op, row.size), rounded(row.predicted, row.measured)) for row in rows if row.on_wrong_side}
        assert {(text.get_text(), rounded(*text.xy)) for text in axis.texts} == missed
    row = next(row for row in studies.predictions if row.on_wrong_side)
    both = calls._tell_apart([row, row._replace(dtype="other")], studies)
    assert both == [f"{name(row.op, row.size)} ({dtype})" for dtype in (row.dtype, "other")]


def test_each_pair_of_speedups_on_two_gpus_is_a_point(studies, drawn):
    found = [pair for pair in two_gpus.pair_rows(studies) if pair.mode in SHARED]
    for axis, metric in zip(drawn["gpus"][0].axes, gpus.TITLES, strict=True):
        rows = [(pair.first, pair.second) for pair in found if pair.metric == metric]
        assert points(axis) == {rounded(first["speedup"], second["speedup"]) for first, second in rows}
        for place in (0, 1):
            assert bars(axis, place) > {rounded(pair[place]["ci_low"], pair[place]["ci_high"]) for pair in rows}
        assert axis.get_xlim() == axis.get_ylim() and axis.get_aspect() == 1


def test_host_times_lie_over_their_launches_and_training_is_hollow(studies, drawn):
    (axis,) = drawn["host"][0].axes
    found = [item for document in studies.documents for item in host_law.calls(document).items()]
    found = [(key, call) for key, call in found if key[3] in calls.CALLED]
    assert points(axis) == {rounded(call.launches, call.host) for _, call in found}
    hollow = {rounded(*at) for line in marks(axis) if line.get_mfc() == "white" for at in line.get_xydata()}
    assert hollow == {rounded(call.launches, call.host) for key, call in found if "training" in key[0]}
    compiled, _ = (line.get_ydata() for line in axis.lines if line.get_marker() in ("None", ""))
    ends = [studies.laws["compile"].host(launches) for launches in (1, max(call.launches for _, call in found))]
    assert [compiled[0], compiled[-1]] == pytest.approx(ends)


def test_bars_are_the_host_and_the_device_of_the_call(studies, drawn):
    shown = {axis.get_title(): axis for axis in drawn["parts"][0].axes}
    for topic, group in calls.SPLIT.items():
        found = host_law.calls(studies.of(topic))
        for at in cells.locate(studies, topic, group):
            axis = shown.pop(name(at["op"], at["size"]))
            own = [found[*at.values(), mode] for mode in calls.CALLED if (*at.values(), mode) in found]
            widths = {rounded(bar.get_width() * (1000 if "(ms)" in axis.get_xlabel() else 1)) for bar in axis.patches}
            assert widths == {rounded(time) for call in own for time in (call.host, call.kernels)}
    assert not shown


def test_curves_are_the_rows_and_softmax_is_not_monotone(studies, drawn):
    compiled = {"metric": list(TIMERS), "mode": "compile", "baseline": "eager"}
    shares = {"metric": "roofline", "mode": list(sizes.KERNELS)}
    panels = [("sizes", at, "speedups", "speedup", 1, compiled) for at in sizes.SIZED]
    panels += [("limit", at, "summary", "estimate", 100, shares) for at in sizes.LIMITED]
    for which, (topic, op), table, value, scale, where in panels:
        (axis,) = (axis for axis in drawn[which][0].axes if axis.get_title() == name(op))
        rows = [row for row in studies.rows(topic, table, op=op, **where) if row[value] is not None]
        count = Counter(row["mode"] for row in rows)
        rows = [row for row in rows if count[row["mode"]] > 1]
        assert points(axis) == {rounded(float(row["size"]), scale * row[value]) for row in rows} != set()
        assert bars(axis) == {rounded(scale * row["ci_low"], scale * row["ci_high"]) for row in rows}
        if op == "softmax_256mib" and which == "sizes":
            for course in (dict(line.get_xydata()) for line in marks(axis)):
                assert course[256] > 1 > course[2048] and course[8192] > 1


def test_models_have_their_speedups_and_never_is_a_place(studies, drawn):
    left, right = drawn["models"][0].axes
    groups = cells.find_groups(studies, [(mode, "latency") for mode in decisions.MODELS], "architectures")
    entries = [entry for _, group in groups for entry in group]
    assert {x for x, _ in points(left)} == {rounded(row["speedup"])[0] for _, rows in entries for row in rows if row}
    where = [at | {"mode": mode, "metric": "latency"} for at, _ in entries for mode in decisions.PAYING]
    kinds = Counter(studies.row("architectures", "payback", **one)["kind"] for one in where)
    (never,) = (x for label, x in zip(right.get_xticklabels(), right.get_xticks()) if label.get_text() == "never")  # noqa: B905
    places = [x == never for line in marks(right) for x in line.get_xdata()]
    assert (places.count(True), places.count(False), len(right.texts)) == (
        kinds["never"], kinds["after"], kinds["open"])  # fmt: skip
    assert min(kinds.values()) > 0


def only(studies: Studies, *topics: str, change=lambda row: [row]) -> Studies:
    """Return a part of the studies, with what `change` makes of each row."""
    tables = {topic: studies.of(topic) for topic in topics}
    for topic, whole in tables.items():
        rows = {key: whole[key] for key in ("summary", "speedups", "compilation", "payback")}
        tables[topic] = whole | {key: [new for row in own for new in change(row)] for key, own in rows.items()}
    found = Studies(list(tables.values()))
    host_law.apply(found)
    return found


ALL = ("ops", "architectures", "elementwise", "kernels")
PARTIAL = {
    "nothing": only,
    "a CPU": lambda _: studied("cpu-amd-epyc-models"),
    **{topic: lambda studies, topic=topic: only(studies, topic) for topic in ALL},
    "no intervals": lambda found: only(found, *ALL, change=lambda row: [row | {"ci_low": None, "ci_high": None}]),
    "two dtypes": lambda found: only(found, *ALL, change=lambda row: [row, row | {"dtype": "other"}]),
    "odd sizes": lambda found: only(found, *ALL, change=lambda row: [row | {"size": "16x64"}]),
}


@pytest.mark.parametrize("kind", PARTIAL)
def test_what_is_missing_is_left_out_and_said_where_nothing_is_left(kind, studies, drawn):
    part = PARTIAL[kind](studies)
    for which in ARTICLE:
        figure = draw(which, part)
        assert all(axis.has_data() for axis in figure.axes) and (figure.axes or figure.texts)
        assert figure.axes or kind not in ("no intervals", "two dtypes")
        if kind == "two dtypes" and which in ("sizes", "limit", "models"):
            assert [points(axis) for axis in figure.axes] == [points(axis) for axis in drawn[which][0].axes]
