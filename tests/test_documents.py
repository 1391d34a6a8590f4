"""The supplement, the reports and the article's figures: complete, the same bytes each time, for any study."""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from recorded import rebuilt

from kernelbench import claims, figures, prior
from kernelbench.documents import law, words
from kernelbench.documents.markdown import escape, table
from kernelbench.documents.report import report
from kernelbench.documents.studies import NoData, Studies, order
from kernelbench.documents.supplement import supplement
from kernelbench.documents.tables import TABLES
from kernelbench.documents.typeset import typeset
from kernelbench.errors import InputError
from kernelbench.figures.article import ARTICLE
from kernelbench.figures.style import NARROW, WIDE

ROOT = Path(__file__).parents[1]
CLAIMS = claims.load(ROOT / "paper" / "claims.yaml")
EARLIER = prior.load(ROOT / "paper" / "published.yaml")
COVERAGE = {"draws": 100, "coverage": {"normal": {"peak": 0, "held": {"3": 0.951, "10": 0.9525}}}}
# Studies that are quick to rebuild: of a GPU with and without models, and of a CPU.
FEW = ("h200-timers", "h100-architectures", "cpu-amd-epyc-elementwise")
PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="90pt" height="90pt"><rect width="9" height="9"/></svg>'


@pytest.fixture(scope="module")
def few() -> Studies:
    found = Studies([rebuilt(name) for name in FEW])
    law.apply(found)
    return found


def a_supplement(studies: Studies, shown: dict | None = None) -> str:
    return supplement(studies, claims.judged(CLAIMS, studies), EARLIER, COVERAGE, [], shown or {})


def a_report(document: dict, studies: Studies, defects: tuple = ()) -> str:
    own = claims.local(document)
    law.apply(own, studies.laws or None)
    judged = [claims.judged(CLAIMS, one) for one in (studies, own)]
    return report(document, studies, *judged, list(defects), {"here": {}, "recorded": {}})


# The supplement


def test_every_speedup_over_the_first_baseline_is_in_the_supplement(few):
    text = a_supplement(few)
    for document in few.documents:
        assert f"`{document['study']['machine']}`" in text
        for row in document["speedups"]:
            if row["baseline"] == "eager" and row["metric"] == "latency" and row["speedup"] is not None:
                assert words.ci(row) in text


def test_every_claim_and_published_claim_is_in_the_supplement(few):
    text = a_supplement(few)
    assert all(f"`{claim['id']}`" in text and claim["sentence"] in text for claim in CLAIMS)
    assert all(claim["says"] in text for claim in EARLIER["claims"])
    assert all(
        repeat["started"][:16].replace("T", " ") in text for d in few.documents for repeat in d["jobs"]["repeats"]
    )


def test_tables_keep_to_their_columns(few):
    for text in (a_supplement(few), a_report(rebuilt("h200-timers"), few)):
        blocks = re.findall(r"(?:^\|.*\n)+", text, re.M)
        assert len(blocks) > 3
        for block in blocks:
            assert len({line.count("|") - line.count("\\|") for line in block.splitlines()}) == 1


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder of the checkout for a test, since typst reads nothing outside of it."""
    with TemporaryDirectory(dir=ROOT / "tests") as name:
        yield Path(name)


def test_the_same_supplement_is_the_same_pdf(few, folder):
    one = Studies([few.documents[0]])
    law.apply(one)
    (folder / "picture.svg").write_text(PICTURE, encoding="utf-8")
    pictures = dict.fromkeys(figures.FIGURES, f"/tests/{folder.name}/picture.svg")
    outputs = []
    for name in ("first", "second"):
        (folder / f"{name}.md").write_text(a_supplement(one, {"h200-timers": pictures}), encoding="utf-8")
        typeset(folder / f"{name}.md", Path("paper/pandoc.yaml"), Path("paper/supplement.typ"), folder / f"{name}.pdf")
        outputs.append((folder / f"{name}.pdf").read_bytes())
    assert outputs[0] == outputs[1]


# The report


def test_a_report_sets_its_own_results_beside_the_recorded_ones(few):
    document = rebuilt("h200-timers")
    for row in document["speedups"]:
        if (row["op"], row["mode"], row["metric"]) == ("softmax", "compile", "latency") and row["size"] == "1024":
            row |= {"speedup": 7.77, "ci_low": 7.7, "ci_high": 7.85, "verdict": "faster"}
    text = a_report(document, few)
    (line,) = (line for line in text.splitlines() if "7.770 [7.700" in line and "`compile`" in line)
    (row,) = (
        row
        for row in few.of("timers")["speedups"]
        if [row[k] for k in ("op", "size", "mode", "baseline", "metric")]
        == ["softmax", "1024", "compile", "eager", "latency"]
    )
    assert words.ci(row) in line and "≠" in line, "beside the recorded one, which says otherwise"


def test_a_claim_that_a_machine_denies_does_not_hold_in_its_report(few):
    document = rebuilt("h200-timers")
    claim = next(claim for claim in CLAIMS if claim["id"] == "timers-device")
    assert f"| {claim['sentence']} | holds | **holds** |" in a_report(document, few)
    for row in document["speedups"]:
        if (row["op"], row["mode"], row["metric"]) == ("layer_norm", "compile", "device"):
            row["verdict"] = "slower"
    text = a_report(document, few)
    assert f"| {claim['sentence']} | holds | **does not hold** |" in text
    other = next(claim for claim in CLAIMS if claim["id"] == "models-graph")
    assert f"| {other['sentence']} | cannot be told | not measured: architectures |" in text


@pytest.mark.parametrize("name", ["cpu-amd-epyc-elementwise", "h200-timers"])
def test_a_report_needs_no_recorded_study(name):
    text = a_report(rebuilt(name), Studies([]))
    assert "recorded |" not in text.split("# Speedups")[1]
    assert words.ci(next(r for r in rebuilt(name)["speedups"] if r["speedup"] and r["metric"] == "latency")) in text


def test_a_report_of_one_repeat_has_no_intervals_and_of_failures_their_reasons(few):
    document = rebuilt("h200-timers")
    for row in document["speedups"]:
        row |= {"ci_low": None, "ci_high": None, "p": None, "verdict": ""}
        if row["mode"] == "triton":
            row |= {"speedup": None, "status": "crashed", "reason": "it | fell over", "n": 0}
    text = a_report(document, few, ["no | repeat"])
    assert r"it \| fell over" in text and r"no \| repeat" in text and "draft: true" in text
    assert "None" not in text and "nan" not in text


# The article's figures and tables


@pytest.mark.parametrize("name", ARTICLE)
def test_a_figure_of_the_article_is_the_same_each_time_and_fits(name, few, tmp_path):
    for file in ("first.svg", "second.svg"):
        drawn = figures.styled(ARTICLE[name])(few)
        figures.save(drawn, tmp_path / file)
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()
    assert drawn.get_figwidth() in (NARROW, WIDE) and drawn.get_figheight() < 5


@pytest.mark.parametrize("name", ARTICLE)
@pytest.mark.parametrize("studies", [Studies([]), Studies([rebuilt("cpu-amd-epyc-elementwise")])], ids=["none", "one"])
def test_a_figure_of_what_no_study_has_says_so(name, studies):
    law.apply(studies)
    assert figures.styled(ARTICLE[name])(studies).get_figwidth() in (NARROW, WIDE)


def test_a_figure_follows_the_data(few, tmp_path):
    other = Studies(copy.deepcopy(few.documents))
    for row in other.of("architectures")["speedups"]:
        row["speedup"] = row["speedup"] and row["speedup"] * 1.5
    law.apply(other, few.laws)
    for name in ("map", "models"):
        figures.save(figures.styled(ARTICLE[name])(few), tmp_path / "before.svg")
        figures.save(figures.styled(ARTICLE[name])(other), tmp_path / "after.svg")
        assert (tmp_path / "before.svg").read_bytes() != (tmp_path / "after.svg").read_bytes()


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_what_no_study_has_is_no_data(name):
    if name != "studies":
        with pytest.raises(NoData):
            TABLES[name](Studies([]), EARLIER)


# What they share


def test_cells_come_in_the_order_of_the_config():
    study = yaml.safe_load((ROOT / "results/recorded/h200/study.yaml").read_text(encoding="utf-8"))
    cells = [
        ("softmax", "float16", "4096", "eager"),
        ("matmul", "float16", "512", "triton"),
        ("matmul", "float16", "512", "eager"),
    ]
    cells += [("softmax", "float16", "1024", "eager"), ("softmax", "float16", "all", "eager")]
    ordered = sorted(cells, key=order(study))
    assert [f"{op} {size} {mode}" for op, _, size, mode in ordered] == [
        "matmul 512 eager", "matmul 512 triton", "softmax 1024 eager", "softmax 4096 eager", "softmax all eager",
    ]  # fmt: skip


def test_what_markdown_would_read_is_escaped():
    assert escape("a|b_c*d#1 <x> $y$") == r"a\|b\_c\*d\#1 \<x\> \$y\$"
    assert table(["a", "b"], [["1", "2"]], "lr", "What", "tbl-x").splitlines() == [
        "| a | b |", "| :-- | --: |", "| 1 | 2 |", "", ": What {#tbl-x}",
    ]  # fmt: skip


def test_a_text_that_pandoc_refuses_is_refused_in_one_line(tmp_path):
    (tmp_path / "text.md").write_text("---\ntitle: [\n---\n", encoding="utf-8")
    with pytest.raises(InputError) as error:
        typeset(tmp_path / "text.md", Path("paper/pandoc.yaml"), Path("paper/template.typ"), tmp_path / "out.pdf")
    assert "pandoc" in str(error.value) and "\n" not in str(error.value)


def test_documents_are_json_that_any_tool_reads(few):
    assert json.loads(json.dumps(few.documents[0]))["study"]["study"] == "timers"
