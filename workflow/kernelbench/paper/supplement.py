"""The supplement: all that the article leaves out, by one loop over the studies, as tables and figures.

There is no sentence here that depends on the data: headings, captions and tables only.
"""

import json
from collections.abc import Iterator

from kernelbench.analysis.studies import Studies, topic
from kernelbench.paper import checks, judgements, results
from kernelbench.paper.provenance import what_ran


def supplement(studies: Studies, claims: list[dict], published: dict, coverage: dict, figures: dict) -> str:
    """Return the supplement's Markdown.

    claims: with their outcomes and the sections of the article that make them; published: the content of
    published.yaml; coverage: that of coverage.json; figures: by label of a study the paths of its figures, by name.
    """
    pieces = [head("Does `torch.compile` pay? Supplement", author="KernelBench contributors", contents=True)]
    pieces += _section("Claims of the article", "claims", judgements.claims(claims, studies))
    tables = [table for work in published["works"] for table in judgements.earlier(studies, work)]
    pieces += _section("Earlier work", "earlier", tables)
    about_all = [*checks.predictions(studies), *checks.coverage(coverage)]
    pieces += _section("The law and the intervals", "checks", about_all)
    for document in studies.documents:
        label = document["study"]["machine"]
        title = f"{topic(document['study']).capitalize()}: `{label}`"
        pieces += _section(title, f"study-{label}", study(document, figures.get(label, {})))
    return "\n".join(pieces)


def head(title: str, **metadata) -> str:
    """Return the metadata of a document: its title, with and without Markdown, and what else the template reads."""
    given = {"title": title, "title-text": title.replace("`", ""), **metadata}
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in given.items()]
    return "\n".join(["---", *lines, "---", ""])


def _section(title: str, label: str, pieces) -> list[str]:
    """Return a heading with its pieces; nothing where all of them are empty."""
    own = list(filter(None, pieces))
    return [f"# {title} {{#{label}}}\n", *own] if own else []


def study(document: dict, figures: dict[str, str]) -> Iterator[str]:
    """Yield the pieces of one study: what ran, what came out, and how far it can be trusted."""
    yield "## What ran\n"
    yield from what_ran(document)
    yield "## Speedups\n"
    yield from results.speedups(document)
    yield results.missing(document)
    yield from results.figures(document["study"]["machine"], figures)
    yield "## Times, memory and the compiler\n"
    yield results.times(document)
    yield results.series(document)
    yield "## Quality\n"
    yield from checks.quality(document)
