"""The figures and tables of the article, and what its documents share: the same bytes each time, for any study."""

import copy
import json
from pathlib import Path

import pytest
import written
import yaml
from recorded import rebuilt
from written import EARLIER, ROOT

from kernelbench import figures
from kernelbench.analysis import host_law
from kernelbench.analysis.studies import NoData, Studies, order
from kernelbench.errors import InputError
from kernelbench.figures.article import ARTICLE
from kernelbench.figures.style import NARROW, WIDE
from kernelbench.paper import tables
from kernelbench.paper.markdown import escape, table
from kernelbench.paper.typeset import typeset


@pytest.fixture(scope="module")
def few() -> Studies:
    return written.few()


# The article's figures and tables


@pytest.mark.parametrize("name", ARTICLE)
def test_a_figure_of_the_article_is_the_same_each_time_and_fits(name, few, tmp_path):
    for file in ("first.svg", "second.svg"):
        drawn = ARTICLE[name](few)
        figures.save(drawn, tmp_path / file)
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()
    assert drawn.get_figwidth() in (NARROW, WIDE) and drawn.get_figheight() < 5


@pytest.mark.parametrize("name", ARTICLE)
@pytest.mark.parametrize("studies", [Studies([]), Studies([rebuilt("cpu-amd-epyc-elementwise")])], ids=["none", "one"])
def test_a_figure_of_what_no_study_has_says_so(name, studies):
    host_law.apply(studies)
    assert ARTICLE[name](studies).get_figwidth() in (NARROW, WIDE)


def test_a_figure_follows_the_data(few, tmp_path):
    other = Studies(copy.deepcopy(few.documents))
    for row in other.of("architectures")["speedups"]:
        row["speedup"] = row["speedup"] and row["speedup"] * 1.5
    host_law.apply(other, few.laws)
    for name in ("map", "models"):
        figures.save(ARTICLE[name](few), tmp_path / "before.svg")
        figures.save(ARTICLE[name](other), tmp_path / "after.svg")
        assert (tmp_path / "before.svg").read_bytes() != (tmp_path / "after.svg").read_bytes()


@pytest.mark.parametrize("name", tables.TABLES)
def test_a_table_of_what_no_study_has_is_no_data(name):
    if name != "studies":
        with pytest.raises(NoData):
            tables.table(name, Studies([]), EARLIER)


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
    assert table(["a", "b"], [["1", "2"]], "lr", "What").splitlines() == [
        "| a | b |", "| :-- | --: |", "| 1 | 2 |", "", ": What",
    ]  # fmt: skip


def test_a_text_that_pandoc_refuses_is_refused_in_one_line(tmp_path):
    (tmp_path / "text.md").write_text("---\ntitle: [\n---\n", encoding="utf-8")
    with pytest.raises(InputError) as error:
        typeset(tmp_path / "text.md", Path("paper/pandoc.yaml"), Path("paper/template.typ"), tmp_path / "out.pdf")
    assert "pandoc" in str(error.value) and "\n" not in str(error.value)


def test_documents_are_json_that_any_tool_reads(few):
    assert json.loads(json.dumps(few.documents[0]))["study"]["study"] == "timers"
