"""What is claimed, as tables: by the article, with rules and outcomes, and by earlier work, with our verdicts."""

from collections.abc import Iterator

from kernelbench import prior
from kernelbench.claims import WORDS, topics, values
from kernelbench.documents import words
from kernelbench.documents.markdown import escape
from kernelbench.documents.results import sheet
from kernelbench.documents.studies import Studies


def claims(judged: list[dict]) -> Iterator[str]:
    """Yield the claims of each section of the article, with their rules and outcomes."""
    header = ["", "id", "claim", "rule", "outcome", "found"]
    for section in dict.fromkeys(claim["section"] for claim in judged):
        rows = [
            [str(claim["number"]), f"`{claim['id']}`", claim["sentence"], escape(rule(claim["rule"])), claim["outcome"],
             escape(claim["found"])]
            for claim in judged
            if claim["section"] == section
        ]  # fmt: skip
        yield sheet(header, rows, "rlllll", f"Claims of “{section}”")


def rule(of: dict) -> str:
    """Return a claim's rule as one line: which rows of which study, and what holds of how many of them."""
    word = next(word for word in WORDS if word in of)
    table = of.get("table", "speedups")
    sizes = [f"({_listed(of['size'])})"] if "size" in of else []
    cells = _listed(of.get("cells", of.get("op", [])))
    baseline = of.get("baseline", "eager" if table in ("speedups", "arms") else None)
    compared = " over ".join(_listed(part) for part in (of.get("mode"), baseline) if part)
    parts = [
        " and ".join(topics(of)),
        *([] if table == "speedups" else [f"table {table}"]),
        " ".join(part for part in (cells, *sizes, _listed(of.get("dtype", []))) if part),
        compared,
        _listed(of.get("metric", [])),
        f"{word} {_condition(of[word])}",
    ]
    return "; ".join(part for part in parts if part)


def _condition(condition) -> str:
    if not isinstance(condition, dict):
        return " or ".join(values(condition))
    limits = " and ".join(f"{name} {limit}" for name, limit in condition.items() if name != "of")
    return f"{condition['of']} {limits}" if "of" in condition else limits


def _listed(given) -> str:
    return ", ".join(values(given))


def earlier(studies: Studies, published: dict) -> Iterator[str]:
    """Yield two tables for each earlier work: what each study of ours says to what it said, and what none can say."""
    found = {one["study"]["machine"]: prior.judged(published["claims"], one) for one in studies.documents}
    for work in published["works"]:
        title = f"{work['title'][0].upper()}{work['title'][1:]} ({work['machine']})"
        tested, rest = [], []
        for claim in (claim for claim in published["claims"] if claim["work"] == work["id"]):
            said = [claim["says"], escape(claim.get("figure", ""))]
            ours = {label: own[claim["id"]] for label, own in found.items() if own[claim["id"]]["rows"]}
            if not ours:
                rest.append([*said, claim.get("answer", "")])
            for label, own in ours.items():
                tested.append([*said, f"`{label}`", escape(_range(own["rows"])), own["verdict"]])
                said = ["", ""]
        yield sheet(["said", "figure", "study", "ours", "verdict"], tested, "lllll", title)
        yield sheet(["said", "figure", "answer"], rest, "lll", f"{title}: not tested")


def _range(rows: list[dict]) -> str:
    """Return from where to where our rows go: speedups, counts, or calls until compiling has paid."""
    if "count" in rows[0]:
        counts = sorted({row["count"] for row in rows})
        return (
            f"{'–'.join(dict.fromkeys(map(words.number, (counts[0], counts[-1]))))} {rows[0]['of'].replace('_', ' ')}"
        )
    if "kind" in rows[0]:
        return f"paid after {', '.join(dict.fromkeys(map(words.calls, rows)))}"
    speedups = [row["speedup"] for row in rows if row.get("speedup") is not None]
    return words.between(min(speedups), max(speedups)) if speedups else ""
