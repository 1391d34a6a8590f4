"""Write the page of all recorded results."""

import argparse
from pathlib import Path

from kernelbench.analysis import host_law
from kernelbench.analysis.studies import Studies
from kernelbench.errors import InputError, run
from kernelbench.paper.files import read
from kernelbench.site.site import render

# In bytes: a page that can still be mailed.
LIMIT = 6_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=Path, nargs="*", default=[], help="summary.json of each recorded study")
    parser.add_argument("--data", type=Path, nargs="*", default=[], help="the directory of each recorded study")
    parser.add_argument("--claims", type=Path, required=True, help="claims.json, as write_article.py writes it")
    parser.add_argument("--defects", type=Path, required=True, help="defects.json of the recorded studies")
    parser.add_argument("--coverage", type=Path, required=True, help="coverage.json")
    parser.add_argument("--output", type=Path, required=True, help="the page to write")
    arguments = parser.parse_args()
    if not arguments.documents:
        raise InputError("config: recorded: [] names no study to show; allowed: see results/recorded")
    studies = Studies([read(path) for path in arguments.documents])
    host_law.apply(studies)
    labels = [document["study"]["machine"] for document in studies.documents]
    data = dict(zip(labels, arguments.data, strict=True))
    judged = read(arguments.claims)["claims"]
    page = render(studies, judged, data, read(arguments.defects), read(arguments.coverage))
    if (size := len(page.encode())) > LIMIT:
        raise InputError(
            f"the page has {size / 1e6:.1f} MB; allowed: {LIMIT / 1e6:g} MB; name fewer studies as recorded"
        )
    arguments.output.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    run(main)
