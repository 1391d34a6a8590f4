"""The page of a recommendation, also in a browser, and its form in the terminal."""

import json
import re
import runpy
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest
from browser import browser  # noqa: F401, a fixture
from checkout import ROOT
from rich.console import Console
from test_recommendation import document, only, over_eager, uncompared

from kernelbench.analysis.reasons import headline
from kernelbench.analysis.recommendation import recommend
from kernelbench.analysis.summary import summarize
from kernelbench.numbers import NBSP
from kernelbench.page.page import render
from kernelbench.page.terminal import format_recommendation
from kernelbench.page.texts import code, measured, warn_uncompared
from kernelbench.study.config import RECORDED

SCRIPTS = ROOT / "workflow" / "scripts"


class Elements(HTMLParser):
    """The elements of a page: name, attributes, and the text right inside."""

    def __init__(self, html: str):
        super().__init__()
        self.found: list = []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.found.append([tag, dict(attributes), ""])

    def handle_data(self, data):
        if self.found:
            self.found[-1][2] += data


@pytest.fixture(scope="module", params=[("h100-architectures", "resnet50"), ("cpu-amd-epyc-models", "conv")])
def found(request):
    """The recommendation for a model on a GPU, and on a CPU."""
    return recommend(only(*request.param))


@pytest.fixture(scope="module")
def html(found):
    return render(found)


def open_in_browser(browser, html: str, directory: Path, charts: int) -> list:  # noqa: F811
    """Return the elements of a page after its scripts drew so many charts."""
    (directory / "report.html").write_text(html, encoding="utf-8")
    page = browser.new_page()
    page.goto((directory / "report.html").as_uri())
    page.wait_for_function(f"document.querySelectorAll('svg').length >= {charts}")
    return Elements(page.content()).found


def test_a_browser_shows_the_answer_and_draws_every_chart(found, html, tmp_path, browser):  # noqa: F811
    elements = open_in_browser(browser, html, tmp_path, 2 * len(found["cases"]))
    answers = [(given["data-case"], given["data-mode"]) for tag, given, _ in elements if "data-mode" in given]
    assert answers == [(case["case"], case["mode"]) for case in found["cases"]]
    # Two figures with a panel for each case, each with marks of its own.
    assert sum(tag == "svg" for tag, *_ in elements) == 2 * len(found["cases"])
    marks = [given.get("aria-roledescription") for *_, given, _ in elements]
    assert marks.count("point") >= len(found["cases"]) and marks.count("bar") >= len(found["cases"])


def test_a_page_without_any_speedup_is_drawn_as_well(tmp_path, browser):  # noqa: F811
    failed = {"compile": "crashed", "compile-regional": "timeout", "cuda-graph": "unsupported"}
    elements = open_in_browser(browser, render(recommend(document(failed=failed))), tmp_path, 1)
    assert [given["data-mode"] for _, given, _ in elements if "data-mode" in given] == ["eager"]
    assert sum(tag == "svg" for tag, *_ in elements) == 1


def test_page_and_terminal_say_what_was_not_compared():
    found = recommend(uncompared("cuda-graph")) | {"settings": {"torch.backends.cudnn.benchmark": "True"}}
    texts = [text.strip() for _, _, text in Elements(render(found)).found]
    assert texts.count("not compared") == 1 and texts.count("right") == 3
    assert any("cuda-graph" in text for text in texts if text.startswith(warn_uncompared(found["cases"][0])))
    slower = recommend(uncompared("eager", "compile-regional"))["cases"][0]
    assert "eager, compile-regional" in warn_uncompared(slower)
    assert any(text.startswith("torch.backends.cudnn.benchmark is") for text in texts), "what the file changes"
    assert warn_uncompared(found["cases"][0]) in "\n".join(map(str, format_recommendation(found)))


def test_a_page_loads_nothing(html):
    for tag, given, _ in Elements(html).found:
        assert not {"src", "href", "srcset", "data"} & set(given), tag
    style = "".join(text for tag, _, text in Elements(html).found if tag == "style")
    assert "url(" not in style and "@import" not in style
    assert "default-src 'none'" in html


def test_vega_is_in_the_page_once(html):
    assert html.count("window.vegaEmbed=") == 1


def test_names_of_a_model_are_text(found):
    shown = Elements(render(found | {"name": "<b id=evil>"})).found
    assert not [tag for tag, given, _ in shown if given.get("id") == "evil"]


def test_all_modes_are_in_the_table(found, html):
    bare = [text.strip() for _, _, text in Elements(html).found]
    for case in found["cases"]:
        assert all(mode["mode"] in bare for mode in case["modes"])


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"runner": "compile", "workers": 8}, "model = torch.compile(model)"),
        (
            {"runner": "compile", "mode": "reduce-overhead", "dynamic": True, "devices": ["cuda"]},
            'model = torch.compile(model, mode="reduce-overhead", dynamic=True)',
        ),
        ({"runner": "eager"}, ""),
        ({"runner": "onnx"}, ""),
    ],
)
def test_the_line_that_brings_a_model_into_a_mode(options, line):
    assert code(options, False) == line


@pytest.mark.parametrize(
    "options", [{"runner": "compile", "regional": True, "fullgraph": True}, {"runner": "cuda_graph"}]
)
def test_code_to_paste_is_python(options):
    compile(code(options, False), "pasted", "exec")


@pytest.mark.parametrize(
    ("estimate", "unit", "text"),
    [(0.00112, "s", "1.12 ms"), (10.31, "s", "10.3 s"), (5267.4, "µs", "5.27 ms"), (37.98, "MiB", "38.0 MiB")],
)
def test_quantities_have_units_that_fit(estimate, unit, text):
    assert measured({"estimate": estimate, "unit": unit}).replace("\u00a0", " ") == text


def test_a_missing_quantity_is_empty():
    assert measured(None) == "" and measured({"ci_low": None, "unit": "µs"}, "ci_low") == ""


def test_the_terminal_shows_every_mode_in_80_columns(found):
    console = Console(width=80, record=True, file=StringIO(), highlight=False, markup=False)
    for piece in format_recommendation(found):
        console.print(piece)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    for case in found["cases"]:
        assert re.search(rf"^{case['case']}: {case['mode']},", text, re.MULTILINE)
        assert all(mode["mode"] in text for mode in case["modes"])


def test_the_scripts_write_and_show_it(tmp_path, monkeypatch, capsys):
    paths = {name: tmp_path / name for name in ("summary.json", "recommendation.json", "report.html")}
    paths["summary.json"].write_text(json.dumps(document(over_eager(compile="faster"))), encoding="utf-8")
    given = ["--recommendation", str(paths["recommendation.json"])]
    monkeypatch.setattr(
        "sys.argv", ["", "--document", str(paths["summary.json"]), *given, "--output", str(paths["report.html"])]
    )
    runpy.run_path(str(SCRIPTS / "write_page.py"))["main"]()
    assert json.loads(paths["recommendation.json"].read_text(encoding="utf-8"))["cases"][0]["mode"] == "compile"
    assert paths["report.html"].read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    monkeypatch.setattr("sys.argv", ["", *given, "--page", "report.html"])
    runpy.run_path(str(SCRIPTS / "show_recommendation.py"))["main"]()
    assert capsys.readouterr().out.rstrip().endswith("report.html")


def test_the_readme_shows_what_the_recorded_model_gave():
    found = recommend(summarize(RECORDED / "h200-resnet")[2])
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for case in found["cases"]:
        answer = f"{case['case']}: {case['mode']}, {headline(case, found)}\n    {case['reason']}\n"
        assert answer.replace(NBSP, " ") in readme
