"""Write the text of the supplement."""

import argparse
from pathlib import Path

from kernelbench.analysis import host_law
from kernelbench.analysis.studies import Studies
from kernelbench.claims.published import load as load_published
from kernelbench.errors import run
from kernelbench.paper.files import read, shown
from kernelbench.paper.supplement import supplement


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=Path, nargs="*", required=True, help="summary.json of each recorded study")
    parser.add_argument("--figures", type=Path, nargs="*", required=True, help="the folder of each one's figures")
    parser.add_argument("--claims", type=Path, required=True, help="claims.json, as write_article.py writes it")
    parser.add_argument("--published", type=Path, required=True, help="published.yaml")
    parser.add_argument("--coverage", type=Path, required=True, help="coverage.json")
    parser.add_argument("--output", type=Path, required=True, help="the text to write")
    arguments = parser.parse_args()
    documents = [read(path) for path in arguments.documents]
    studies = Studies(documents)
    host_law.apply(studies)
    published = load_published(arguments.published, *(document["study"] for document in documents))
    figures = {
        document["study"]["machine"]: shown(folder)
        for document, folder in zip(documents, arguments.figures, strict=True)
    }
    claims = read(arguments.claims)["claims"]
    text = supplement(studies, claims, published, read(arguments.coverage), figures)
    arguments.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run(main)
