"""The supplement: each study with all that it found, within the page, without a sentence of its own."""

import copy
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pypdf
import pytest
from recorded import rebuilt
from written import (
    CLAIMS,
    EARLIER,
    FEW,
    ROOT,
    SECTIONS,
    a_supplement,
    few,
    of,
    require_no_sentences,
    require_tables_that_fit,
    tables,
)

from kernelbench import figures, numbers
from kernelbench.paper import judgements, markdown, provenance
from kernelbench.paper.results import TIMED
from kernelbench.paper.typeset import typeset

PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="90pt" height="90pt"><rect width="9" height="9"/></svg>'


@pytest.fixture(scope="module")
def text() -> str:
    return a_supplement(few())


def section(text: str, label: str) -> str:
    return text.split(f"{{#study-{label}}}")[1].split("\n# ")[0]


@pytest.mark.parametrize("name", FEW)
def test_every_study_has_its_section_with_its_question_and_every_repeat(name, text):
    own, document = section(text, name), rebuilt(name)
    assert f"question | {markdown.escape(provenance.question(document['study']))}" in own
    for repeat in document["jobs"]["repeats"]:
        assert repeat["ended"] > repeat["started"] and repeat["minutes"] > 0
        assert all(repeat[moment][:16].replace("T", " ") in own for moment in ("started", "ended"))


def test_the_question_of_a_study_is_that_of_its_file():
    assert provenance.question({"study": "timers"}).startswith("Timers: do_bench of Triton")
    assert provenance.question({}).startswith("Four single operations")
    assert provenance.question({"study": "of somebody else"}) == ""


@pytest.mark.parametrize("name", FEW)
def test_every_interval_over_every_baseline_is_in_the_section(name, text):
    document, own = rebuilt(name), section(text, name).replace(numbers.NBSP, " ")
    baselines, shown = document["study"]["baselines"], 0
    for row in document["speedups"]:
        inverse = row["mode"] in baselines[: baselines.index(row["baseline"])]
        control = row["mode"] == "eager-control" and row["baseline"] != baselines[0]
        if row["metric"] in TIMED and row["speedup"] is not None and not inverse and not control:
            assert numbers.ci(row).replace(numbers.NBSP, " ") in own
            shown += 1
    assert shown > 50 and all(f"Speedups over `{baseline}`" in own for baseline in baselines)


def test_what_the_compiler_counts_is_beside_the_times():
    document = rebuilt("h200-timers")
    row = next(row for row in document["compilation"] if "graph_breaks" in row)
    row |= {"graphs": 71, "graph_breaks": 72, "recompiles": 73}
    assert "71, 72, 73" in a_supplement(of(document))


def test_what_could_not_run_is_told_with_its_reason():
    document = rebuilt("h200-timers")
    for row in document["summary"]:
        if (row["op"], row["mode"]) == ("softmax", "triton"):
            row |= {"estimate": None, "status": "crashed", "reason": "it | fell over"}
    rows = next(rows for rows in tables(a_supplement(of(document))) if rows[0][0] == "mode" and rows[0][-1] == "why")
    (row,) = (row for row in rows if row[0] == "`triton`")
    assert row[1].startswith("`softmax` 1024") and row[3:] == ["crashed", r"it \| fell over"]


def test_claims_stand_under_the_section_of_the_article_that_makes_them(text):
    for claim in CLAIMS:
        table = text.split(f"`{claim['id']}`")[1].split("\n\n: ")[1]
        assert table.startswith(f"Claims of “{SECTIONS[claim['id']]}”")
        assert claim["sentence"] in text


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ({"op": ["a", "b"], "mode": "compile", "metric": "host", "most": "slower"},
         "every study of a GPU; a, b; compile over eager; host; most slower"),
        ({"study": "kernels", "op": "a", "size": [1, 2], "mode": "x", "baseline": "y", "metric": "host",
          "every": {"above": 3}}, "kernels; a (1, 2); x over y; host; every above 3"),
        ({"table": "compilation", "cells": ["a 1"], "mode": "x", "none": {"of": "graphs", "below": 2}},
         "every study of a GPU; table compilation; a 1; x; none graphs below 2"),
    ],
)  # fmt: skip
def test_a_rule_is_one_line(rule, line):
    assert judgements.rule(rule) == line


def test_every_published_claim_has_our_verdicts_or_an_answer(text):
    assert all(claim["says"] in text for work in EARLIER["works"] for claim in work["claims"])
    rows = [row for table in tables(text) if table[0][:3] == ["said", "figure", "study"] for row in table[1:]]
    untested = [row for table in tables(text) if table[0] == ["said", "figure", "answer"] for row in table[1:]]
    assert len(untested) > 10 and all(answer for *_, answer in untested)
    assert {"`h100-architectures`", "`cpu-amd-epyc-elementwise`"} <= {row[2] for row in rows} and all(
        r[4] for r in rows
    )


def test_all_is_headings_tables_and_captions_that_fit(text):
    require_tables_that_fit(text)
    require_no_sentences(text)


def test_a_table_too_wide_shares_the_page_and_another_has_no_widths():
    long, short = [["op", "why"], ["a_b", "many words " * 40]], [["op", "why"], ["a_b", "few"]]
    for rows, shared in ((long, True), (short, False)):
        line = markdown.table(rows[0], rows[1:], "lr", room=100).splitlines()[1]
        assert (line.count("-") >= markdown.WHOLE) is shared
        first, second = (part.count("-") for part in line.split("|")[1:3])
        assert (second > 10 * first) is shared


def test_a_word_is_never_broken():
    rows = [["`an_op_with_a_long_name`", *["many words " * 40] * 3]]
    dashes = [
        part.count("-") for part in markdown.table(["op", *"abc"], rows, "llll", room=60).split("\n")[1].split("|")
    ]
    assert dashes[1] / sum(dashes) * 60 > len("an_op_with_a_long_name") > 60 / 4


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder of the checkout for a test, since typst reads nothing outside of it."""
    with TemporaryDirectory(dir=ROOT / "tests") as name:
        yield Path(name)


def test_the_same_supplement_is_the_same_pdf(folder):
    one = of(copy.deepcopy(few().documents[0]))
    (folder / "picture.svg").write_text(PICTURE, encoding="utf-8")
    pictures = {"h200-timers": dict.fromkeys(figures.FIGURES, f"/tests/{folder.name}/picture.svg")}
    outputs = []
    for name in ("first", "second"):
        (folder / f"{name}.md").write_text(a_supplement(one, shown=pictures), encoding="utf-8")
        typeset(folder / f"{name}.md", Path("paper/pandoc.yaml"), Path("paper/supplement.typ"), folder / f"{name}.pdf")
        outputs.append((folder / f"{name}.pdf").read_bytes())
    assert outputs[0] == outputs[1]


def test_no_text_is_too_small_to_read(folder):
    (folder / "small.md").write_text(a_supplement(of(rebuilt("h200-timers"))), encoding="utf-8")
    typeset(folder / "small.md", Path("paper/pandoc.yaml"), Path("paper/supplement.typ"), folder / "small.pdf")
    sizes = set()

    def note(text, outer, inner, _, size) -> None:
        sizes.update({round(size * abs(inner[0] * outer[0]), 2)} if text.strip() else ())

    for page in pypdf.PdfReader(folder / "small.pdf").pages:
        page.extract_text(visitor_text=note)
    assert min(sizes) >= 7, "code too, which typst makes smaller than the text around it"
