"""Write the text of a machine's report."""

import argparse
from pathlib import Path

from kernelbench.analysis import host_law
from kernelbench.analysis.studies import Studies, topic
from kernelbench.claims import rules
from kernelbench.errors import run
from kernelbench.paper.files import read, shown
from kernelbench.paper.report import report
from kernelbench.records.quality_gate import Defect


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--document", type=Path, required=True, help="the machine's summary.json")
    parser.add_argument("--defects", type=Path, required=True, help="the machine's defects.json")
    parser.add_argument("--figures", type=Path, required=True, help="the folder of the machine's figures")
    parser.add_argument("--claims", type=Path, required=True, help="claims.yaml")
    parser.add_argument("--recorded", type=Path, nargs="*", default=[], help="summary.json of each recorded study")
    parser.add_argument("--recorded-figures", type=Path, nargs="*", default=[], help="the folder of each one's figures")
    parser.add_argument("--output", type=Path, required=True, help="the text to write")
    arguments = parser.parse_args()
    studies = Studies([read(path) for path in arguments.recorded])
    host_law.apply(studies)
    document = read(arguments.document)
    own = rules.file_by_topic(document)
    host_law.apply(own, studies.laws or None)
    # Without the recorded studies nobody knows the names of what the claims are about.
    given = [one["study"] for one in (*studies.documents, document)]
    known = rules.load(arguments.claims, *given, names_known=bool(studies.documents))
    figures = {"here": shown(arguments.figures), "recorded": {}}
    for one, folder in zip(studies.documents, arguments.recorded_figures, strict=True):
        if one is studies.get(topic(document["study"])):
            figures["recorded"] = shown(folder)
    defects = [Defect(**{k: v for k, v in found.items() if k != "study"}) for found in read(arguments.defects)]
    judged = [rules.judge(known, one) for one in (studies, own)]
    text = report(document, studies, *judged, [str(defect) for defect in defects], figures)
    arguments.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run(main)
