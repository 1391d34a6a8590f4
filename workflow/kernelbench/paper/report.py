"""The report of a machine: which of the article's claims hold on it, and its results beside the recorded ones."""

from collections.abc import Iterator

from kernelbench.analysis.boots import describe
from kernelbench.analysis.studies import Studies, topic
from kernelbench.claims.rules import FAILS, HOLDS, OPEN
from kernelbench.numbers import NBSP
from kernelbench.paper import results
from kernelbench.paper.checks import quality
from kernelbench.paper.markdown import BREAK, code, escape, sheet
from kernelbench.paper.provenance import find_differences, what_ran
from kernelbench.paper.results import TIMED, over, speedup
from kernelbench.paper.supplement import head

# What marks an outcome or a verdict that is not the recorded one.
DIFFERS = "≠"


def report(
    document: dict, studies: Studies, claims: list[dict], here: list[dict], defects: list[str], figures: dict
) -> str:
    """Return the report's Markdown.

    document: the machine's own summary.json; studies: the recorded ones; claims, here: the article's, with their
    outcomes on the recorded data and on the machine's own; defects: what the gate finds; figures: {"here" |
    "recorded": {name: path}}, the recorded ones of the study of the same topic.
    """
    environment = document["environment"]
    device = environment["gpu"]["name"] if environment["gpu"] else environment["host"]["cpu"]
    label, draft = document["study"]["machine"], {"draft": True} if defects else {}
    recorded = studies.get(topic(document["study"]))
    subtitle = f"{device}, {environment['first_started'][:10]}"
    pieces = [
        head(f"What {label} measured", subtitle=subtitle, author="KernelBench", **draft),
        _differences(document, recorded) if recorded else "",
        *_claims(claims, here),
        sheet([{"defect": escape(defect)} for defect in defects], "l", "Defects, and what repairs them"),
        "# What ran\n",
        *what_ran(document),
        "# Speedups\n",
        _beside(document, recorded),
        results.missing(document),
        "# Times, memory and the compiler\n",
        results.times(document),
        "# Quality\n",
        *quality(document),
        *_figures(label, figures),
    ]
    return "\n".join(filter(None, pieces))


def _claims(claims: list[dict], here: list[dict]) -> Iterator[str]:
    """Yield how many of the article's claims hold, each of them, and what those are judged by that can be told."""
    kinds, counts = (HOLDS, FAILS, OPEN), []
    for where, own in (("recorded", claims), ("here", here)):
        counts.append({"claims": where, **{kind: sum(claim["outcome"] == kind for claim in own) for kind in kinds}})
    yield sheet(counts, "lrrr", "")
    rows = [
        {**now, "then": then["outcome"], "found then": escape(then["found"]), "here": _outcome(then, now)}
        for then, now in zip(claims, here, strict=True)
    ]
    columns = {"": "number", "claim": "sentence", "recorded": "then", "here": "here"}
    yield sheet(rows, "rlll", f"Claims of the article; {DIFFERS} other than recorded", columns)
    columns = {
        "": "number", "id": code("id"), "here": "here", "found here": lambda row: escape(row["found"]),
        "found in the recorded studies": "found then",
    }  # fmt: skip
    told = [row for row in rows if row["rows"]]
    yield sheet(told, "rllll", "What this machine's study says to the claims that it is about", columns)


def _differences(document: dict, recorded: dict) -> str:
    rows = [{name: escape(text) for name, text in row.items()} for row in find_differences(document, recorded)]
    return sheet(rows, "lll", f"What differs from the machine of `{recorded['study']['machine']}`")


def _outcome(then: dict, now: dict) -> str:
    """Return a claim's outcome here: what can be told is bold, and has a mark where it is not the recorded one."""
    if now["outcome"] == OPEN:
        return OPEN
    return f"**{now['outcome']}**" + (f"{NBSP}{DIFFERS}" if now["outcome"] != then["outcome"] else "")


def _beside(document: dict, recorded: dict | None) -> str:
    """Return the machine's speedups over its first baseline, each above the recorded one where there is one."""
    baseline = document["study"]["baselines"][0]
    own, other = over(document, baseline), over(recorded, baseline) if recorded else {}
    metrics, rows = results.metrics_of(own, TIMED), {}
    for key, found in own.items():
        then = other.get(key, {})
        shown = {metric: _marked(found.get(metric), then.get(metric)) for metric in metrics}
        rows[key] = {"": "here", **shown} if recorded else shown
        if then:
            below = ["recorded", *(speedup(then.get(metric)) for metric in metrics)]
            rows[key] = {
                name: f"{shown}{BREAK}{text}" for (name, shown), text in zip(rows[key].items(), below, strict=True)
            }
    beside = f", above those of `{recorded['study']['machine']}`; {DIFFERS} another verdict" if recorded else ""
    over_what = describe(document["study"]["repeats"], document["boots"])
    caption = f"Speedups over `{baseline}`, with 95 % intervals over {over_what}{beside} ({results.LEGEND})"
    return results.cell_sheet(rows, ("l" if recorded else "") + "r" * len(metrics), caption)


def _marked(row: dict | None, then: dict | None) -> str:
    differs = row and then and row["verdict"] != then["verdict"]
    return speedup(row) + (f"{NBSP}{DIFFERS}" if differs else "")


def _figures(label: str, figures: dict[str, dict[str, str]]) -> Iterator[str]:
    yield "# Figures\n" if figures["here"] else ""
    for name, path in figures["here"].items():
        yield from results.figures(label, {name: path})
        if name in figures["recorded"]:
            yield from results.figures("recorded", {name: figures["recorded"][name]}, ", as recorded")
