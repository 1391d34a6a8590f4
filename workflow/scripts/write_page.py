"""Write which mode to run a model in, from the summary.json of its study: as JSON and as one HTML page."""

import argparse
import json
from pathlib import Path

from kernelbench.analysis.payback import PAID_BY
from kernelbench.analysis.recommendation import recommend
from kernelbench.errors import run
from kernelbench.page.page import render


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--document", type=Path, required=True, help="summary.json of the study of one model")
    parser.add_argument("--metric", choices=PAID_BY, default="latency", help="the time that a mode shall make shorter")
    parser.add_argument("--recommendation", type=Path, required=True, help="the JSON to write")
    parser.add_argument("--output", type=Path, required=True, help="the page to write")
    arguments = parser.parse_args()
    found = recommend(json.loads(arguments.document.read_text(encoding="utf-8")), arguments.metric)
    text = json.dumps(found, indent=2, ensure_ascii=False)
    arguments.recommendation.write_text(f"{text}\n", encoding="utf-8")
    arguments.output.write_text(render(found), encoding="utf-8")


if __name__ == "__main__":
    run(main)
