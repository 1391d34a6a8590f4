"""The report of a machine: which of the article's claims hold on it, and its results beside the recorded ones."""

from collections.abc import Iterator

from kernelbench.claims import OPEN
from kernelbench.documents import words
from kernelbench.documents.markdown import escape, figure, table
from kernelbench.documents.studies import CELL, Studies, order, topic
from kernelbench.documents.supplement import CAPTIONS, TIMED, provenance, speedup, times
from kernelbench.documents.tables import BLANK

# What marks a verdict that is not the recorded one.
DIFFERS = "≠"


def report(
    document: dict, studies: Studies, claims: list[dict], here: list[dict], defects: list[str], figures: dict
) -> str:
    """Return the report's Markdown.

    document: the machine's own summary.json; studies: the recorded ones; claims, here: the article's, with their
    outcomes on the recorded data and on the machine's own; defects: what the gate finds; figures: {"here" |
    "recorded": {name: path}}, the recorded ones of the study of the same topic.
    """
    recorded = studies.get(topic(document["study"]))
    return "\n".join([
        _head(document, defects),
        *_claims(claims, here),
        "# Speedups\n",
        _beside(document, recorded),
        *_figures(document["study"]["machine"], figures),
        "# Times, memory and the compiler\n",
        times(document),
        *_jobs(document, defects),
    ])  # fmt: skip


def _head(document: dict, defects: list[str]) -> str:
    title = f"What {document['study']['machine']} measured"
    lines = [
        "---",
        f'title: "{title}"',
        f'title-text: "{title}"',
        "author: KernelBench",
        *(["draft: true"] if defects else []),
    ]
    rows = [[name, escape(value)] for name, value in provenance(document)]
    return "\n".join([*lines, "---", "", table(["", ""], rows, "ll")])


def _claims(claims: list[dict], here: list[dict]) -> Iterator[str]:
    """Yield what becomes of the article's claims: those that this machine can tell first."""
    pairs = list(zip(claims, here, strict=True))
    told = [(then, now) for then, now in pairs if now["outcome"] != OPEN or now["rows"]]
    rest = [now for then, now in pairs if now["outcome"] == OPEN and not now["rows"]]
    rows = [
        [str(now["number"]), now["sentence"], then["outcome"], f"**{now['outcome']}**", escape(now["found"])]
        for then, now in told
    ]
    yield "# Claims of the article\n"
    if rows:
        header = ["", "claim", "recorded", "here", "found here"]
        yield table(header, rows, "rllll", "Claims that this machine's study is about")
    if rest:
        rows = [[str(now["number"]), now["sentence"], now["outcome"], escape(now["found"])] for now in rest]
        yield table(["", "claim", "here", "why"], rows, "rlll", "Claims that need another study")


def _beside(document: dict, recorded: dict | None) -> str:
    """Return the machine's speedups over its first baseline, each beside the recorded one where there is one."""
    baseline = document["study"]["baselines"][0]
    own, other = _by_key(document, baseline), _by_key(recorded, baseline) if recorded else {}
    metrics = [metric for metric in TIMED if any(metric in found for found in own.values())]
    rows = []
    for at in sorted(own, key=order(document["study"])):
        cells = []
        for metric in metrics:
            row, then = own[at].get(metric), other.get(at, {}).get(metric)
            mark = f" {DIFFERS}" if row and then and row["verdict"] != then["verdict"] else ""
            cells += [
                (speedup(row) if row else BLANK) + mark,
                *([speedup(then) if then else BLANK] if recorded else []),
            ]
        reason = next((row["reason"] for row in own[at].values() if row["status"] != "ok" and row["reason"]), "")
        rows.append([f"`{at[0]}` {at[1]}", escape(at[2]), f"`{at[3]}`", *cells, escape(reason)])
    header = ["op", "size", "mode"]
    for metric in metrics:
        header += [metric, *(["recorded"] if recorded else [])]
    beside = f", beside those of `{recorded['study']['machine']}`; {DIFFERS}: another verdict" if recorded else ""
    return table(
        [*header, "why not"],
        rows,
        "lrl" + "r" * (len(header) - 3) + "l",
        f"Speedups over `{baseline}`{beside}",
    )


def _by_key(document: dict, baseline: str) -> dict[tuple, dict[str, dict]]:
    found = {}
    for row in document["speedups"]:
        if row["baseline"] == baseline and row["metric"] in TIMED:
            found.setdefault(tuple(row[key] for key in (*CELL, "mode")), {})[row["metric"]] = row
    return found


def _figures(label: str, figures: dict[str, dict[str, str]]) -> Iterator[str]:
    yield "# Figures\n"
    for name, path in figures["here"].items():
        yield figure(path, f"{CAPTIONS[name]}.", f"fig-{label}-{name}")
        if name in figures["recorded"]:
            yield figure(figures["recorded"][name], f"{CAPTIONS[name]}, as recorded.", f"fig-recorded-{name}")


def _jobs(document: dict, defects: list[str]) -> Iterator[str]:
    """Yield what is wrong with the data, and which jobs are in doubt."""
    if defects:
        yield "# Defects\n"
        yield table(["defect"], [[escape(defect)] for defect in defects], "l")
    suspects = document["jobs"]["suspects"]
    if suspects and suspects["kinds"]:
        yield "# Jobs in doubt\n"
        rows = [
            [
                kind,
                words.number(found["jobs"]),
                escape("; ".join(f"{c['op']} {c['size']}: {c['jobs']}" for c in found["cells"])),
            ]
            for kind, found in suspects["kinds"].items()
        ]
        yield table(["why", "jobs", "cells"], rows, "lrl", f"{suspects['jobs']} of {suspects['of']} jobs")
