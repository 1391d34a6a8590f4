"""The page of all recorded results, in a browser: it answers by the tables, keeps its state, and anybody can use it."""

import base64
import csv
import io
import json
import re
import runpy
import subprocess
import zipfile
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import browser  # noqa: F401, a fixture
from checkout import ROOT
from recorded import studied
from written import CLAIMS, COVERAGE, FEW, SECTIONS, few

from kernelbench import numbers
from kernelbench.claims import rules
from kernelbench.errors import InputError
from kernelbench.op_names import name
from kernelbench.site import claims
from kernelbench.site.site import FILES, render
from kernelbench.study.config import RECORDED

VIEWS = ("compile", "compare", "claims", "trust", "download")
RESNET = "#view=compile&machine=h100&workload=resnet50/float16&size=64&metric=latency"
STATES = {
    "a ranking": RESNET,
    "a comparison": "#view=compare&machine=h200&workload=softmax/float16&metric=device&modes=compile",
    "two machines": "#view=compare&machine=h200&workload=softmax/float16&beside=h100",
    "a claim": "#view=claims&claim=timers-kernels",
}

# Whether all charts of the view are drawn.
DRAWN = "[...document.querySelectorAll('section:not([hidden]) .chart')].every(chart => chart.querySelector('svg'))"


def judge() -> list[dict]:
    return [{**claim, "section": SECTIONS[claim["id"]]} for claim in rules.judge(CLAIMS, few())]


def write(path: Path, defects: tuple = ()) -> str:
    data = {label: RECORDED / label for label in FEW}
    path.write_text(render(few(), judge(), data, list(defects), COVERAGE), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    """The address of the page of a few studies."""
    return write(tmp_path_factory.mktemp("site") / "index.html")


@pytest.fixture
def page(browser, address):  # noqa: F811
    """The page, with what went wrong in it and what it asked the network for as `wrong` and `asked`."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    opened = context.new_page()
    opened.wrong, opened.asked = [], []
    opened.on("console", lambda message: message.type == "error" and opened.wrong.append(message.text))
    opened.on("pageerror", lambda error: opened.wrong.append(str(error)))
    opened.on("request", lambda request: opened.asked.append(request.url))
    yield opened
    context.close()


def go(page, address: str, state: str = "") -> None:
    """Open the page anew at a state, and wait for its charts."""
    page.goto("about:blank")
    page.goto(address + state)
    page.wait_for_function(DRAWN)


def rank(page) -> list[tuple[str, str]]:
    """Return (mode, speedup with its interval) of the ranking in its order."""
    rows = page.locator("#ranking tbody tr")
    cells = [(row.get_attribute("data-row"), row.locator("td").first.locator("span")) for row in rows.all()]
    return [(mode, cell.evaluate("cell => cell.firstChild.textContent")) for mode, cell in cells]


def read_table(label: str, **where: str) -> dict[str, dict]:
    """Return the rows of a recorded speedups.csv over eager by mode, the greatest speedup first."""
    with (RECORDED / label / "speedups.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if (where | {"baseline": "eager"}).items() <= row.items()]
    rows = [row | {key: float(row[key]) for key in ("speedup", "ci_low", "ci_high")} for row in rows if row["speedup"]]
    return {row["mode"]: row for row in sorted(rows, key=lambda row: -row["speedup"])}


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_loads_without_an_error_and_asks_nobody(view, page, address):
    go(page, address, f"#view={view}")
    assert page.locator("section.view:visible").evaluate_all("all => all.map(one => one.id)") == [view]
    assert page.wrong == []
    assert [url for url in page.asked if not url.startswith((address, "data:", "about:"))] == []


def test_a_cell_without_eager_has_no_ranking_over_it(page, tmp_path):
    path, label = tmp_path / "index.html", "h200-heldout"
    path.write_text(render(studied(label), [], {label: RECORDED / label}, [], COVERAGE), encoding="utf-8")
    for workload, ranked in (("attention_bert/float16", False), ("softmax_scores/float16", True)):
        go(page, path.as_uri(), f"#workload={workload}&size=512&metric=device")
        assert bool(rank(page)) is ranked and page.wrong == []
        assert (page.locator("#answer").get_attribute("data-mode") in dict(rank(page))) is ranked


def test_choosing_a_case_ranks_what_its_table_says(page, address):
    go(page, address)
    before = rank(page)
    page.get_by_label("Workload").select_option(label="BERT-base, bfloat16")
    page.get_by_role("radio", name="32x128").check()
    page.get_by_role("radio", name="queued calls").check()
    where = {"op": "bert_base", "dtype": "bfloat16", "size": "32x128", "metric": "throughput"}
    wanted = read_table("h100-architectures", **where)
    shown = [pair for pair in rank(page) if pair[0] in wanted]
    offered = [mode for mode in wanted if mode in dict(shown)]
    assert shown == [(mode, numbers.ci(wanted[mode])) for mode in offered] and len(shown) > 2
    assert rank(page) != before
    assert name("bert_base", "32x128") in page.locator("#answer").inner_text()


@pytest.mark.parametrize("metric", ["latency", "device", "first_call", "peak_memory"])
def test_the_answer_is_faster_by_its_table_or_eager(metric, page, address):
    for size in ("1", "32"):
        go(page, address, f"#view=compile&machine=h100&workload=vit_b_16/float16&size={size}&metric={metric}")
        mode = page.locator("#answer").get_attribute("data-mode")
        table = read_table("h100-architectures", op="vit_b_16", size=size, metric=metric)
        assert mode == "eager" or table[mode]["verdict"] == "faster"
        # Whichever mode it is, the answer says what compiling does.
        assert numbers.ci(table["compile"]) in page.locator("#answer").inner_text()


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_a_link_restores_its_state(state, page, address):
    go(page, address, state)
    link = page.locator("#link").get_attribute("href")
    seen = page.locator("main").inner_text()
    go(page, address, link)
    assert page.locator("#link").get_attribute("href") == link
    assert page.locator("main").inner_text() == seen
    given, kept = (dict(part.split("=") for part in text[1:].replace("%2F", "/").split("&")) for text in (state, link))
    assert given.items() <= kept.items()


def test_a_choice_changes_the_link_and_a_view_keeps_the_choice(page, address):
    go(page, address, RESNET)
    page.get_by_role("radio", name="GPU time").check()
    assert "metric=device" in page.url
    page.get_by_role("link", name="Compare").click()
    assert page.get_by_role("radio", name="GPU time").is_checked()
    assert page.get_by_label("Workload").locator("option:checked").inner_text() == "ResNet-50, float16"


@pytest.mark.parametrize(
    "state", ["#view=nowhere", "#machine=a100&size=-1&metric=<b>", "#view=compare&modes=,,&over=x", "#=&&"]
)
def test_a_link_to_nothing_shows_what_there_is(state, page, address):
    go(page, address, state)
    assert page.wrong == [] and page.locator("section.view:visible").count() == 1
    assert page.locator("table:visible").count() >= 1


def test_a_comparison_shows_two_machines_and_how_to_measure_a_point_again(page, address):
    go(page, address, STATES["two machines"])
    assert page.locator("#panels svg").count() == 2
    assert page.locator("#panels svg .mark-symbol path").count() == page.locator("#compared tbody tr").count() > 2
    page.get_by_role("button", name="command for compile at 16,384").first.click()
    command = page.locator("#point pre").inner_text()
    ran = subprocess.run(["bash", "-c", f"echo {command}"], capture_output=True, text=True, check=True).stdout.split()
    study = ran[ran.index("--configfile") + 1]
    assert (ROOT / study).is_file()
    records = [word for word in ran if word.startswith(f"results/{Path(study).parent.name}/records/softmax/")]
    assert {Path(record).parent.name for record in records} == {"eager", "compile"} and len(records) > 2


def test_claims_have_an_outcome_for_each_machine_and_a_figure(page, address):
    go(page, address, STATES["a claim"])
    claim = page.locator("details[data-claim='timers-kernels']")
    claim.locator("svg").wait_for()
    assert claim.locator("svg .mark-symbol path").count() > 2
    row = claim.locator("xpath=ancestor::tr")
    assert row.locator("td").all_inner_texts() == ["holds", "holds", "not measured", "not measured"]
    assert page.locator("#claims tbody tr").count() == len(CLAIMS)


def test_rows_of_a_claims_figure_are_told_apart():
    for claim in claims.describe(judge(), few()):
        labels = [row["label"] for row in claim["rows"]]
        assert len(set(labels)) == len(labels), claim["id"]
        assert all(row["low"] <= row["value"] <= row["high"] for row in claim["rows"])


def test_a_table_is_sorted_by_keyboard(page, address):
    go(page, address, RESNET)
    before = rank(page)
    page.locator("#ranking th").nth(1).get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert rank(page) == before[::-1]
    assert page.locator("#ranking th").nth(1).get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Enter")
    assert rank(page) == before


def test_choices_are_made_by_keyboard(page, address):
    go(page, address, RESNET)
    page.get_by_role("radio", name="a call I wait for").focus()
    page.keyboard.press("ArrowRight")
    assert "metric=throughput" in page.url
    page.keyboard.press("ArrowRight")
    assert "metric=device" in page.url, "the focus stays with the choice"


@pytest.mark.parametrize("width", [360, 720])
@pytest.mark.parametrize("view", VIEWS)
def test_no_view_scrolls_sideways_on_a_phone_or_a_tablet(view, width, page, address):
    page.set_viewport_size({"width": width, "height": 740})
    for state in (f"#view={view}", *(state for state in STATES.values() if f"view={view}" in state)):
        go(page, address, state)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_serious(view, scheme, page, address):
    page.emulate_media(color_scheme=scheme)
    go(page, address, next((state for state in STATES.values() if f"view={view}" in state), f"#view={view}"))
    found = Axe().run(page).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    assert [(one["id"], one["nodes"][0]["html"][:200]) for one in serious] == []


def test_a_printed_page_is_light(page, address):
    page.emulate_media(media="print", color_scheme="dark")
    go(page, address, RESNET)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("#choices").is_visible() and page.locator("#ranking").is_visible()


def test_the_archives_are_the_recorded_files(address):
    html = Path(address.removeprefix("file://")).read_text(encoding="utf-8")
    found = dict(re.findall(r'download="([\w-]+)\.zip" href="data:application/zip;base64,([^"]+)"', html))
    assert set(found) == set(FEW)
    for label, content in found.items():
        archive = zipfile.ZipFile(io.BytesIO(base64.b64decode(content)))
        assert {file: archive.read(f"{label}/{file}") for file in FILES} == {
            file: (RECORDED / label / file).read_bytes() for file in FILES
        }


def test_a_defect_is_the_word_of_the_gate(tmp_path, browser):  # noqa: F811
    defect = {"study": "results/recorded/h200-timers", "what": "</script><b id=evil>", "jobs": [], "repair": ""}
    page = browser.new_page()
    page.goto(write(tmp_path / "index.html", (defect,)) + "#view=trust")
    assert page.locator("#trust").get_by_text("<b id=evil>").count() == 1 and page.locator("#evil").count() == 0


def test_the_script_refuses_to_show_nothing(tmp_path, monkeypatch):
    given = {name: tmp_path / f"{name}.json" for name in ("claims", "defects", "coverage")}
    for path in given.values():
        path.write_text(json.dumps([]), encoding="utf-8")
    options = [word for option, path in given.items() for word in (f"--{option}", str(path))]
    monkeypatch.setattr("sys.argv", ["", *options, "--output", str(tmp_path / "index.html")])
    with pytest.raises(InputError, match="recorded"):
        runpy.run_path(str(ROOT / "workflow/scripts/write_site.py"))["main"]()
