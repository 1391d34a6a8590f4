"""The supplement and the report of a few studies, as the tests of both write them."""

import re
from functools import cache
from pathlib import Path

from recorded import rebuilt

from kernelbench.analysis import host_law
from kernelbench.analysis.studies import Studies
from kernelbench.claims import published, rules
from kernelbench.paper import article
from kernelbench.paper.markdown import ROOM, widths_of
from kernelbench.paper.report import report
from kernelbench.paper.supplement import supplement

ROOT = Path(__file__).parents[1]
CLAIMS = rules.load(ROOT / "paper" / "claims.yaml")
SECTIONS = article.sections((ROOT / "paper" / "paper.md").read_text(encoding="utf-8"))
EARLIER = published.load(ROOT / "paper" / "published.yaml")
COVERAGE = {"draws": 100, "coverage": {"normal": {"peak": 0, "held": {"3": 0.951, "10": 0.9525}}}}
COVERAGE["hosts"] = [
    {"ratio": 0.3, "boots": 5, "repeats": 10, "design": design, "covered": 0.95, "power": 0.5, "false": 0.04}
    for design in ("over repeats", "over boots")
]
# Studies that are quick to rebuild: of a GPU with and without models, and of a CPU.
FEW = ("h200-timers", "h100-architectures", "cpu-amd-epyc-elementwise")


@cache
def few() -> Studies:
    return of(*map(rebuilt, FEW))


def of(*documents: dict) -> Studies:
    found = Studies(list(documents))
    host_law.apply(found)
    return found


def a_supplement(studies: Studies, shown: dict | None = None) -> str:
    judged = [{**claim, "section": SECTIONS[claim["id"]]} for claim in rules.judge(CLAIMS, studies)]
    return supplement(studies, judged, EARLIER, COVERAGE, shown or {})


def a_report(document: dict, studies: Studies, defects: tuple = ()) -> str:
    own = rules.file_by_topic(document)
    host_law.apply(own, studies.laws or None)
    judged = [rules.judge(CLAIMS, one) for one in (studies, own)]
    return report(document, studies, *judged, list(defects), {"here": {}, "recorded": {}})


def tables(text: str) -> list[list[list[str]]]:
    """Return the cells of each table, without the line below its header."""
    blocks = [block.splitlines() for block in re.findall(r"(?:^\|.*\n)+", text, re.M)]
    lines = [[block[0], *block[2:]] for block in blocks]
    return [[[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in own] for own in lines]


def require_tables_that_fit(text: str) -> None:
    """Fail where a table has rows of different lengths, or a word for which its page has no room."""
    found = tables(text)
    assert len(found) > 3
    for rows in found:
        assert len(set(map(len, rows))) == 1
        assert sum(word for _, word in widths_of(rows)) <= ROOM, rows[0]


def require_no_sentences(text: str) -> None:
    """Fail where a line is no heading, table, caption or figure, nor metadata."""
    _, _, body = text.split("---\n", 2)
    assert [line for line in body.splitlines() if line and not line.startswith(("#", "|", ": ", "!["))] == []
