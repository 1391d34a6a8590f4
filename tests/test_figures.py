"""The figures draw from any summary.json: with and without a GPU, without intervals, without numbers."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib import font_manager, rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg

from kernelbench import figures
from kernelbench.figures.data import Data
from kernelbench.figures.style import WIDE, in_style
from kernelbench.paper import results
from kernelbench.paper.files import shown

ROOT = Path(__file__).parents[1]
CAPTIONS = (ROOT / "workflow" / "report" / "figure.rst").read_text(encoding="utf-8")
OPS = {
    "matmul": ["512", "4096"],
    "softmax": ["1024", "16384", "32768", "65536"],
    "layer_norm": ["256", "4096"],
    "attention": ["128", "2048"],
    "copy": ["1GiB"],
}
MODES = {
    "eager": {"runner": "eager"},
    "eager-control": {"runner": "eager"},
    "compile": {"runner": "compile"},
    "compile-max-autotune": {"runner": "compile", "mode": "max-autotune", "devices": ["cuda"]},
    "triton": {"runner": "kernel", "devices": ["cuda"]},
}
# Figures of other kinds: intervals below each other, curves.
FEW = ("speedups", "timers")
SPEEDUP = {"eager-control": 1.001, "compile": 1.4, "compile-max-autotune": 0.7, "triton": 2.5}
VERDICT = {"eager-control": "equivalent", "compile": "faster", "compile-max-autotune": "slower"}


# What a user may prefer elsewhere.
PREFERRED = {
    "savefig.bbox": "tight",
    "axes.grid": True,
    "text.usetex": True,
    "font.serif": ["Comic Sans"],
    "lines.marker": "*",
}
ALONE = """
import json, sys
from pathlib import Path
from kernelbench import figures
figures.save(figures.FIGURES["speedups"](json.load(sys.stdin)), Path(sys.argv[1]))
"""


def test_what_the_user_prefers_elsewhere_does_not_change_a_figure(tmp_path):
    figures.save(draw("speedups", document()), tmp_path / "plain.svg")
    with rc_context(PREFERRED):
        figures.save(draw("speedups", document()), tmp_path / "preferred.svg")
    # As matplotlib finds it: beside the process, and in the environment.
    lines = [f"{name}: {', '.join(value) if isinstance(value, list) else value}" for name, value in PREFERRED.items()]
    (tmp_path / "matplotlibrc").write_text("\n".join(lines))
    subprocess.run(
        [sys.executable, "-c", ALONE, "alone.svg"],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "nonsense", "MATPLOTLIBRC": str(tmp_path / "matplotlibrc")},
        input=json.dumps(document()),
        text=True,
        check=True,
    )
    drawn = {path.read_bytes() for path in tmp_path.glob("*.svg")}
    assert len(drawn) == 1 and len(list(tmp_path.glob("*.svg"))) == 3


def test_only_matplotlibs_own_fonts_are_drawn_with(monkeypatch, tmp_path):
    fonts = font_manager.fontManager
    ours = font_manager.findfont("STIXGeneral")
    other = font_manager.FontEntry(**{**vars(next(f for f in fonts.ttflist if f.fname == ours)), "fname": "/mine.ttf"})
    monkeypatch.setattr(fonts, "ttflist", [other, *fonts.ttflist])
    with in_style():
        assert fonts.ttflist and not [font for font in fonts.ttflist if font.fname == "/mine.ttf"]


def document(gpu=True, repeats=10, missing=(), ops=OPS, modes=MODES, dtypes=("float16",), timers=()) -> dict:
    """Return a summary.json of fixed values; `missing` modes are unsupported, `timers` were taken besides."""
    metrics = {"device": "µs", "latency": "µs", **dict.fromkeys(timers, "µs")} if gpu else {"latency": "µs"}
    metrics |= {"first_call": "s"}
    summary, speedups = [], []
    for (op, sizes), dtype in itertools.product(ops.items(), dtypes):
        for mode in modes if op != "copy" else ["eager"]:
            gone = mode in missing
            for size, metric in itertools.product(sizes, metrics):
                value = (sizes.index(size) + 2) ** 2 * 10 / SPEEDUP.get(mode, 1)
                row = _row(op, dtype, size, mode, metric, gone, repeats)
                summary.append({**row, "unit": metrics[metric], **_number("estimate", value, row)})
            for size, metric in itertools.product([*sizes, "all"], metrics):
                if mode == "eager":
                    continue
                row = _row(op, dtype, size, mode, metric, gone, repeats)
                row |= {"baseline": "eager", "delta": 0.03, "verdict": VERDICT.get(mode, "")}
                speedups.append({**row, **_number("speedup", SPEEDUP.get(mode, 1), row)})
    rate = {"op": "copy", "size": "1GiB", "mode": "eager", "rate": 4.2e6}
    study = {"machine": "h200" if gpu else "cpu", "baselines": ["eager"], "modes": dict(modes)}
    study["ops"] = {op: {"sizes": sizes, "workload": op if op in OPS else "softmax"} for op, sizes in ops.items()}
    return {
        "study": study,
        "environment": {"gpu": {"name": "a GPU"} if gpu else None},
        "ceilings": {dtype: {"memory": rate} for dtype in dtypes},
        "peaks": [],
        "traces": [],
        "control": {},
        "summary": summary,
        "speedups": speedups,
    }


def _row(op, dtype, size, mode, metric, gone, repeats) -> dict:
    row = {"machine": "m", "op": op, "dtype": dtype, "size": size, "mode": mode, "metric": metric}
    status = ("unsupported", "needs cuda, this machine is cpu") if gone else ("ok", "")
    return {**row, "n": 0 if gone else repeats, "status": status[0], "reason": status[1]}


def _number(name: str, value: float, row: dict) -> dict:
    bounds = (value * 0.97, value * 1.03) if row["n"] > 1 else (None, None)
    return {name: value if row["n"] else None, "ci_low": bounds[0], "ci_high": bounds[1]}


def traced(content: dict, **without) -> dict:
    """Return the document with a trace of two modes at two cells; a CPU has no clock and no power."""
    points = [{"at": t / 10, "call": 200 + t, "sm_clock": 1980 - t, "power": 300 + 8 * t} for t in range(50)]
    points = [{k: v for k, v in point.items() if k not in without} for point in points]
    cells = [("matmul", "4096"), ("softmax", "16384")]
    names = [
        {"op": op, "dtype": "float16", "size": size, "mode": m} for op, size in cells for m in ("eager", "compile")
    ]
    return {**content, "traces": [{**name, "points": points} for name in names]}


ALL_TIMERS = ("event", "do_bench", "host", "throughput", "graph")
ARM = {"compile-arm": {"runner": "compile", "skip_guards": True, "diagnoses": "compile"}}
DOCUMENTS = {
    "gpu": document(),
    "all timers": document(timers=ALL_TIMERS),
    "traced": traced(document()),
    "traced on a CPU": traced(document(gpu=False), sm_clock=True, power=True),
    "cpu": document(gpu=False, repeats=3),
    "one repeat": document(repeats=1),
    "unsupported modes": document(gpu=False, missing=["compile-max-autotune", "triton"]),
    "no compile": document(missing=["compile"]),
    "nothing ran": document(missing=list(MODES)),
    "baseline only": document(modes={"eager": {"runner": "eager"}}),
    "two dtypes": document(dtypes=("float16", "bfloat16")),
    "one op": document(ops={"softmax": ["1024"]}),
    "odd sizes": document(ops={"softmax": ["16x4096x64", "16x4096x4096", "16x64"]}),
    "one timer": document(gpu=False),
    "no rows": {**document(), "summary": [], "speedups": [], "ceilings": {}},
}


def texts(figure) -> list[str]:
    """Return all text that the figure shows."""
    FigureCanvasAgg(figure).draw()
    found = figure.findobj(lambda artist: hasattr(artist, "get_text") and artist.get_visible())
    return [artist.get_text() for artist in found if artist.get_text()]


def draw(name: str, content: dict):
    return figures.FIGURES[name](content)


def drawn(kinds) -> pytest.MarkDecorator:
    """Return parameters (figure, document): by day the first of `kinds` in all figures, and the others in three."""
    first = next(iter(kinds))
    pairs = [
        pytest.param(name, kind, marks=() if kind == first or name in FEW else pytest.mark.nightly)
        for kind, name in itertools.product(kinds, figures.FIGURES)
    ]
    return pytest.mark.parametrize(("name", "kind"), pairs)


@drawn(DOCUMENTS)
def test_draws_within_its_page(name, kind, tmp_path):
    figure = draw(name, DOCUMENTS[kind])
    if figure is None:
        return
    figures.save(figure, tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").read_text(encoding="utf-8").lstrip().startswith("<?xml")
    width, height = figure.get_size_inches()
    assert width == WIDE and height <= 9


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FEW else pytest.mark.nightly) for name in figures.FIGURES]
)
def test_same_input_same_bytes(name, tmp_path):
    first, second = tmp_path / "1.svg", tmp_path / "2.svg"
    content = traced(document()) if name == "trace" else document()
    figures.save(draw(name, content), first)
    figures.save(draw(name, content), second)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("name", ["speedups", "times"])
def test_new_op_and_mode_appear(name):
    ops = {**OPS, "softmax_wide": ["1024", "2048", "4096"]}
    modes = {**MODES, "compile-dynamic": {"runner": "compile", "dynamic": True}}
    known, grown = texts(draw(name, document())), texts(draw(name, document(ops=ops, modes=modes)))
    for label in ("softmax_wide", "compile-dynamic"):
        assert label not in known
        assert label in grown


def test_a_new_mode_leaves_the_colours_of_the_others():
    grown = document(modes={**MODES, "compile-dynamic": {"runner": "compile", "dynamic": True}})
    known, more = Data(document()), Data(grown)
    styles = [tuple(sorted(more.look(mode).items())) for mode in more.modes]
    assert styles[: len(MODES)] == [tuple(sorted(known.look(m).items())) for m in known.modes]
    assert len(set(styles)) == len(styles)


def test_rows_in_any_order_give_the_order_of_the_config():
    content = document()
    mixed = {**content, "summary": content["summary"][::-1], "speedups": content["speedups"][::-1]}
    assert texts(draw("speedups", mixed)) == texts(draw("speedups", content))


def test_what_did_not_run_is_named_with_its_reason():
    note = " ".join(texts(draw("speedups", DOCUMENTS["unsupported modes"])))
    assert "not run: compile-max-autotune, triton (needs cuda, this machine is cpu)" in note
    assert "compile-max-autotune" not in texts(draw("times", DOCUMENTS["unsupported modes"]))


def test_each_timer_has_its_line_and_each_kind_of_mode_its_row():
    figure = draw("timers", DOCUMENTS["all timers"])
    assert {"graph", "device", "throughput", "CUDA events", "latency", "host", "do_bench"} <= set(texts(figure))
    rows = {axis.get_ylabel() for axis in figure.axes} - {""}
    assert rows == {"compile: speedup over eager", "triton: speedup over eager"}


def test_a_trace_begins_at_one_and_shows_what_the_machine_has():
    figure = draw("trace", DOCUMENTS["traced"])
    assert len(figure.axes) == 3 * 2 and {"matmul 4,096", "softmax 16,384"} <= set(texts(figure))
    assert {line.get_ydata()[0] for line in figure.axes[0].lines} == {1}
    assert len(draw("trace", DOCUMENTS["traced on a CPU"]).axes) == 2


@pytest.mark.parametrize("name", figures.FIGURES)
def test_diagnostic_arms_are_in_no_figure(name):
    grown = traced(document(modes={**MODES, **ARM}, timers=ALL_TIMERS))
    assert "compile-arm" not in " ".join(texts(draw(name, grown)))


DRAWN = {
    "gpu": ["speedups", "times", "timers"],
    "traced": ["speedups", "times", "timers", "trace"],
    "one timer": ["speedups", "times"],
    "baseline only": ["times"],
    "one op": ["speedups"],
    "nothing ran": [],
    "no rows": [],
}


@pytest.mark.parametrize("kind", DRAWN)
def test_a_study_has_the_figures_that_it_has_data_for(kind, tmp_path):
    (tmp_path / "summary.json").write_text(json.dumps(DOCUMENTS[kind]), encoding="utf-8")
    arguments = ["--document", tmp_path / "summary.json", "--output", tmp_path / "figures"]
    subprocess.run([sys.executable, ROOT / "workflow" / "scripts" / "draw_figures.py", *arguments], check=True)
    assert list(shown(tmp_path / "figures")) == DRAWN[kind]


def test_without_intervals_there_are_points_alone():
    axis = draw("times", DOCUMENTS["one repeat"]).axes[0]
    (segments, *_) = (bar.get_segments() for bar in axis.collections)
    assert all(low[1] == high[1] for low, high in segments)


def test_filled_marks_are_verdicts():
    axis = draw("speedups", document()).axes[0]
    faces = {line.get_color(): line.get_markerfacecolor() for line in axis.lines}
    data = Data(document())
    for mode, filled in (("compile", True), ("compile-max-autotune", True), ("triton", False)):
        colour = data.look(mode)["color"]
        assert faces[colour] == (colour if filled else "white")


def test_every_figure_has_a_caption():
    for name in figures.FIGURES:
        assert f'figure == "{name}"' in CAPTIONS
    assert list(results.CAPTIONS) == list(figures.FIGURES)


@drawn(["gpu", "all timers", "odd sizes", "traced", "cpu"])
def test_labels_are_neither_clipped_nor_on_top_of_each_other(name, kind):
    figure = draw(name, DOCUMENTS[kind])
    if figure is None:
        return
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    page = figure.bbox.expanded(1.001, 1.001)
    assert all(box.containsx(edge) for box in [page] for edge in _horizontal_edges(figure, canvas))
    for axis in figure.axes:
        for labels in (axis.get_xticklabels(), axis.get_yticklabels()):
            shown = [label for label in labels if label.get_visible() and label.get_text()]
            boxes = [label.get_window_extent(canvas.get_renderer()) for label in shown]
            turned = any(label.get_rotation() for label in shown)
            pairs = itertools.pairwise(sorted(boxes, key=lambda box: (box.x0, box.y0)))
            assert turned or not any(first.overlaps(second) for first, second in pairs)


def _horizontal_edges(figure, canvas):
    """Yield the left and right edges of all text that is shown."""
    for axis in figure.axes:
        if axis.axison:
            box = axis.get_tightbbox(canvas.get_renderer())
            yield from (box.x0, box.x1)
    for artist in [*figure.legends, *figure.texts, figure._supxlabel]:
        if artist is not None:
            box = artist.get_window_extent(canvas.get_renderer())
            yield from (box.x0, box.x1)


def test_repeats_in_two_peaks_are_dots_without_an_interval():
    one = document()
    flagged = {"op": "softmax", "dtype": "float16", "size": OPS["softmax"][0], "mode": "compile", "baseline": "eager"}
    one["peaks"] = [{**flagged, "metric": "device", "points": [1.1, 1.12, 1.4, 1.41]}]
    before, after = (figures.FIGURES["speedups"](d) for d in (document(), one))

    def drawn(figure):
        dots = [list(line.get_xdata()) for axis in figure.axes for line in axis.lines if line.get_marker() == "."]
        bars = [c.get_segments() for axis in figure.axes for c in axis.collections if hasattr(c, "get_segments")]
        widths = [segment[1][0] - segment[0][0] for segments in bars for segment in segments]
        return [d for d in dots if d], sum(width > 0 for width in widths)

    assert drawn(before)[0] == [] and drawn(after)[0] == [[1.1, 1.12, 1.4, 1.41]]
    assert drawn(after)[1] == drawn(before)[1] - 1
