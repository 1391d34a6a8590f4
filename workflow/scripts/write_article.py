"""Write the article's text: fill in its values, judge its claims, and mark what the data do not say, in README, too."""

import argparse
import json
from dataclasses import asdict
from functools import partial
from pathlib import Path

import yaml

from kernelbench.analysis import host_law
from kernelbench.analysis.studies import Studies
from kernelbench.claims import published, rules
from kernelbench.errors import InputError, run
from kernelbench.paper import article, readme, tables
from kernelbench.paper.values import Values
from kernelbench.records.quality_gate import Defect


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True, help="paper.md")
    parser.add_argument("--readme", type=Path, nargs=2, required=True, help="README.md, and paper/readme.md")
    parser.add_argument("--claims", type=Path, required=True, help="claims.yaml")
    parser.add_argument("--constants", type=Path, required=True, help="constants.yaml")
    parser.add_argument("--published", type=Path, required=True, help="published.yaml")
    parser.add_argument("--documents", type=Path, nargs="*", default=[], help="summary.json of each recorded study")
    parser.add_argument("--defects", type=Path, nargs="*", default=[], help="defects.json of each recorded study")
    parser.add_argument("--figures", type=Path, required=True, help="the folder of the article's figures")
    parser.add_argument("--outcomes", type=Path, required=True, help="what becomes of the claims: a JSON file to write")
    parser.add_argument("--output", type=Path, required=True, help="the text to write")
    arguments = parser.parse_args()
    if not arguments.documents:
        raise InputError("config: recorded: [] names no study to build the paper from; allowed: see results/recorded")
    studies = Studies([json.loads(path.read_text(encoding="utf-8")) for path in arguments.documents])
    host_law.apply(studies)
    given = [document["study"] for document in studies.documents]
    judged = rules.judge(rules.load(arguments.claims, *given), studies)
    earlier = published.load(arguments.published, *given)
    constants = yaml.safe_load(arguments.constants.read_text(encoding="utf-8"))
    functions = Values(studies, constants, earlier).functions() | {
        "table": partial(tables.table, studies=studies, earlier=earlier),
        "figure": partial(article.figure, folder=arguments.figures),
    }
    text = arguments.text.read_text(encoding="utf-8")
    rendered, marks = article.render(text, arguments.text.name, functions, judged)
    marks += readme.check(*(path.read_text(encoding="utf-8") for path in arguments.readme), functions, judged)
    defects = [defect for path in arguments.defects for defect in json.loads(path.read_text(encoding="utf-8"))]
    reasons = [f"{defect.pop('study')}: {Defect(**defect).where}" for defect in defects]
    arguments.output.write_text(article.head(marks, reasons) + rendered, encoding="utf-8")
    sections = article.sections(text)
    judged = [{**claim, "section": sections.get(claim["id"], "Abstract")} for claim in judged]
    found = {"claims": judged, "marks": [asdict(mark) for mark in marks]}
    arguments.outcomes.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main)
