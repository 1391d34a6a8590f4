"""The supplement: all that the article leaves out, by one loop over the studies, as tables and figures.

There is no sentence here that depends on the data: headings, captions and tables only.
"""

from collections.abc import Iterator

from kernelbench import prior
from kernelbench.documents import law, words
from kernelbench.documents.markdown import escape, figure, table
from kernelbench.documents.studies import CELL, Studies, order, topic
from kernelbench.documents.tables import BLANK, SIGNS
from kernelbench.notes import FLAGS, find
from kernelbench.targets import met

# What beside a verdict says that repeats fall into two peaks, or are far off.
FLAGGED = "‡"
TIMED = ("device", "latency", "throughput")
TIMES = ("device", "latency", "host", "first_call", "peak_memory")
# What the compiler says of itself, by its key in summary.json.
COMPILED = {"graphs": "graphs", "breaks": "breaks", "recompiles": "recompiles", "launched": "kernels launched"}
CAPTIONS = {
    "speedups": "Speedup over the first baseline of every cell and mode",
    "times": "Time of a call against the size",
    "timers": "Speedup by each timer against the size",
    "split": "Time of a call on the host and on the device",
    "trace": "Time of a call, clock and power during a load without a pause",
    "rates": "Rates against the size, and the ceilings of the machine",
    "roofline": "Rates against the operations for each byte, and the share of what the machine allows",
    "first_call": "First call, from empty caches",
    "published": "Published mean speedups beside those measured here",
}


def supplement(
    studies: Studies, claims: list[dict], published: dict, coverage: dict, again: list, figures: dict
) -> str:
    """Return the supplement's Markdown.

    claims: with their outcomes; published: the content of published.yaml; coverage: that of coverage.json; again: what
    was measured again, an again.json each; figures: by label of a study the paths of its figures, by name.
    """
    pieces = [_head(), *_across(studies, claims, published, coverage, again)]
    for document in studies.documents:
        label = document["study"]["machine"]
        pieces += study(document, figures.get(label, {}))
    return "\n".join(pieces)


def _head() -> str:
    title = "Does `torch.compile` pay? Supplement"
    lines = ["---", f'title: "{title}"', f'title-text: "{title.replace("`", "")}"', "author: KernelBench contributors"]
    return "\n".join([*lines, "contents: true", "---", ""])


def study(document: dict, figures: dict[str, str]) -> Iterator[str]:
    """Yield the pieces of one study: what ran, what came out, and where it comes from."""
    label = document["study"]["machine"]
    yield f"# {_title(document)} {{#study-{label}}}\n"
    yield from _what_ran(document)
    yield "## Speedups\n"
    yield speedups(document)
    for name, path in figures.items():
        yield figure(path, f"{CAPTIONS[name]}.", f"fig-{label}-{name}")
    yield "## Times, memory and the compiler\n"
    yield times(document)
    yield from _quality(document)


def _title(document: dict) -> str:
    return f"{topic(document['study']).capitalize()}: `{document['study']['machine']}`"


def _what_ran(document: dict) -> Iterator[str]:
    yield "## What ran\n"
    yield table(["", ""], [[name, escape(value)] for name, value in provenance(document)], "ll", "Machine and software")
    rows = [[f"`{op}`", _listed(entry["sizes"]), _parameters(entry)] for op, entry in document["study"]["ops"].items()]
    yield table(["op", "sizes", "parameters"], rows, "lll", "Operations")
    rows = [[f"`{mode}`", _parameters(entry)] for mode, entry in document["study"]["modes"].items()]
    yield table(["mode", "passes"], rows, "ll", "Modes")
    header = ["repeat", "started", "GPU", "jobs", "measured again"]
    rows = [
        [str(row["repeat"]), row["started"][:16].replace("T", " "), ", ".join(g[4:12] for g in row["gpus"]) or BLANK,
         words.number(row["jobs"]), words.number(row["again"])]
        for row in document["jobs"]["repeats"]
    ]  # fmt: skip
    yield table(header, rows, "rllrr", "Repeats")


def provenance(document: dict) -> list[tuple[str, str]]:
    """Return what a study ran on, as (name, value)."""
    environment, software = document["environment"], document["environment"]["software"]
    gpu = environment["gpu"]
    device = f"{len(environment['gpu_uuids'])} × {gpu['name']}, driver {gpu['driver']}" if gpu else "none"
    versions = [f"PyTorch {software['torch']}", f"Triton {software['triton']}", f"CUDA {software['cuda']}"]
    versions += [f"cuDNN {software['cudnn']}", f"Python {software['python']}"]
    versions += [f"{name} {version}" for name, version in document["packages"].items()]
    first, last = (environment[name][:16].replace("T", " ") for name in ("first_started", "last_started"))
    return [
        ("GPUs", device),
        ("CPU", f"{environment['host']['cpu']}, {_listed(environment['host']['cores'])} cores"),
        ("software", ", ".join(versions)),
        ("repeats, jobs", f"{document['study']['repeats']}, {words.number(environment['jobs'])}"),
        ("time of all jobs", f"{environment['job_seconds'] / 60:,.0f} minutes"),
        ("measured", f"{first} to {last} UTC"),
        ("sources", f"commit {environment.get('commit', BLANK)[:12]}, digest {software['sources']}"),
    ]


def _listed(values) -> str:
    return ", ".join(map(str, values))


def _parameters(entry: dict) -> str:
    shown = {key: value for key, value in entry.items() if key not in ("sizes", "only", "timeout", "devices")}
    text = ", ".join(f"{key} {_short(value)}" for key, value in shown.items())
    return escape(text) or BLANK


def _short(value) -> str:
    if isinstance(value, dict):
        return (
            "(" + ", ".join(f"{key} {_short(inner)}" for key, inner in value.items()) + ")" if value else "as published"
        )
    return _listed(value) if isinstance(value, list) else str(value)


def speedups(document: dict) -> str:
    """Return the speedups over the first baseline of each cell and mode, with their causes and paybacks."""
    baseline = document["study"]["baselines"][0]
    by_key = {}
    for row in document["speedups"]:
        if row["baseline"] == baseline and row["metric"] in TIMED:
            by_key.setdefault(tuple(row[key] for key in (*CELL, "mode")), {})[row["metric"]] = row
    paid = {
        tuple(row[key] for key in (*CELL, "mode")): row for row in document["payback"] if row["metric"] == "latency"
    }
    metrics = [metric for metric in TIMED if any(metric in found for found in by_key.values())]
    rows = []
    for key in sorted(by_key, key=order(document["study"])):
        found = by_key[key]
        causes = ", ".join(dict.fromkeys(row["cause"] for row in found.values() if row["cause"]))
        reason = next((row["reason"] for row in found.values() if row["status"] != "ok" and row["reason"]), "")
        cells = [speedup(found[metric]) if metric in found else BLANK for metric in metrics]
        rows.append(
            [
                *_cell(key),
                f"`{key[3]}`",
                *cells,
                words.calls(paid[key]) if key in paid else BLANK,
                escape(causes or reason),
            ]
        )
    header = ["op", "size", "mode", *metrics, "paid after", "cause, or why not"]
    return table(header, rows, "lrl" + "r" * len(metrics) + "rl", f"Speedups over `{baseline}`, with 95 % intervals")


def _cell(key: tuple) -> list[str]:
    op, dtype, size = key[:3]
    return [f"`{op}` {dtype}", escape(size)]


def speedup(row: dict) -> str:
    """Return a speedup with its interval, the sign of its verdict, and a mark where the interval promises too much."""
    if row["speedup"] is None:
        return BLANK
    flag = FLAGGED if find(row["notes"], *FLAGS) else ""
    return f"{words.ci(row)} {SIGNS.get(row['verdict'], '')}{flag}".strip()


def times(document: dict) -> str:
    """Return the times and memory of each cell in each mode, with what the compiler made of it."""
    by_key = {}
    for row in document["summary"]:
        by_key.setdefault(tuple(row[key] for key in (*CELL, "mode")), {})[row["metric"]] = row
    compiled = {tuple(row[key] for key in (*CELL, "mode")): row for row in document["compilation"]}
    metrics = [metric for metric in TIMES if any(metric in found for found in by_key.values())]
    counts = [key for key in COMPILED if any(row.get(key) is not None for row in compiled.values())]
    header = [
        "op",
        "size",
        "mode",
        *(_unit(document, metric) for metric in metrics),
        *(COMPILED[key] for key in counts),
    ]
    rows = []
    for key in sorted(by_key, key=order(document["study"])):
        found = by_key[key]
        values = [words.value(found[metric]["estimate"]) if metric in found else BLANK for metric in metrics]
        own = [compiled.get(key, {}).get(count) for count in counts]
        if any(value != BLANK for value in values):
            rows.append(
                [
                    *_cell(key),
                    f"`{key[3]}`",
                    *values,
                    *(BLANK if value is None else words.number(value) for value in own),
                ]
            )
    return table(
        header, rows, "lrl" + "r" * (len(metrics) + len(counts)), "Times of a call, memory, and what was compiled"
    )


def _unit(document: dict, metric: str) -> str:
    unit = next(row["unit"] for row in document["summary"] if row["metric"] == metric)
    return f"{metric.replace('_', ' ')}, {unit}"


def _quality(document: dict) -> Iterator[str]:
    """Yield the tables that say how far the data can be trusted."""
    control, by_gpu = document["control"], document["by_gpu"]
    first = {row["metric"]: row for row in document["first_repeats"]}
    header = [
        "metric",
        "A/A cells",
        "95 % of A/A within",
        "GPU means differ",
        "typically by",
        "verdicts of the first repeats",
    ]
    rows = []
    for metric in dict.fromkeys([*control, *by_gpu, *first]):
        aa, gpu, early = control.get(metric), by_gpu.get(metric), first.get(metric)
        differ = gpu and gpu["of"]
        rows.append([
            metric.replace("_", " "),
            words.number(aa["cells"]) if aa else BLANK,
            words.percent(aa["p95"]) if aa else BLANK,
            f"{gpu['apart']} of {gpu['of']}" if differ else BLANK,
            words.percent(gpu["median"]) if differ and gpu["median"] is not None else BLANK,
            f"{early['same']} of {early['decided']} the same, {early['opposite']} opposite" if early else BLANK,
        ])  # fmt: skip
    if rows:
        yield "## Quality\n"
        yield table(header, rows, "lrrrrl", "A/A comparison, dependence on the GPU, and the first repeats alone")
    if document["targets"]:
        yield _targets(document)


def _targets(document: dict) -> str:
    header = ["op", "sizes", "mode", "over", "goal", "hoped for", "reached", "at", ""]
    rows = [
        [f"`{row['op']}`", _listed(row["sizes"]), f"`{row['mode']}`", f"`{row['of']}`", words.value(row["must"]),
         words.value(row["aim"]), words.value(row["reached"]), row["worst"] or "mean", met(row)]
        for row in document["targets"]
    ]  # fmt: skip
    return table(header, rows, "lllrrrrrl", "Goals of the kernels, set before they were tuned")


def _across(studies: Studies, claims: list, published: dict, coverage: dict, again: list) -> Iterator[str]:
    """Yield what is about all studies."""
    yield "# Claims of the article {#claims}\n"
    rows = [
        [
            str(claim["number"]),
            f"`{claim['id']}`",
            claim["sentence"],
            escape(rule(claim["rule"])),
            claim["outcome"],
            escape(claim["found"]),
        ]
        for claim in claims
    ]
    yield table(
        ["", "id", "claim", "rule", "outcome", "found"], rows, "rlllll", "Claims, their rules and what was found"
    )
    yield "# The law {#law}\n"
    yield from _law(studies)
    yield "# Earlier work {#earlier}\n"
    yield from _earlier(studies, published)
    yield "# Coverage of the intervals {#coverage}\n"
    yield _coverage(coverage)
    if again:
        yield "# Measured again {#again}\n"
        yield from map(_again, again)


def rule(of: dict) -> str:
    """Return a claim's rule as one line: what it selects, and what holds of it."""
    word = next(word for word in ("every", "some", "most", "none") if word in of)
    selected = "; ".join(f"{key} {_short(value)}" for key, value in of.items() if key != word)
    return f"{selected}; {word} {_short(of[word])}"


def _law(studies: Studies) -> Iterator[str]:
    rows = [[f"`{mode}`", words.value(own.call), words.value(own.each)] for mode, own in studies.laws.items()]
    if rows:
        yield table(["mode", "a call, µs", "each launch or copied input, µs"], rows, "lrr", "Constants of the law")
    header = ["study", "op", "size", "mode", "metric", "predicted", "measured", "verdict"]
    wrong = [row for row in studies.predictions if row.right is False]
    rows = [
        [f"`{row.study}`", f"`{row.op}`", escape(row.size), f"`{row.mode}`", row.metric, words.factor(row.predicted),
         words.ci({"speedup": row.measured, "ci_low": row.ci_low, "ci_high": row.ci_high}), row.verdict]
        for row in wrong
    ]  # fmt: skip
    if rows:
        yield table(header, rows, "llrllrrl", "Verdicts that the law misses")
    header = ["study", "mode", "metric", "predictions", "decided", "right", "median error"]
    rows = [
        [f"`{document['study']['machine']}`", f"`{row['mode']}`", row["metric"], str(row["rows"]), str(row["decided"]),
         str(row["right"]), words.percent(row["error"])]
        for document in studies.documents
        for row in document["law"]
    ]  # fmt: skip
    if rows:
        yield table(header, rows, "lllrrrr", f"Predictions by study, mode ({law.COMPILED} or replayed) and metric")


def _earlier(studies: Studies, published: dict) -> Iterator[str]:
    """Yield a table for each earlier work: what it said, and what each study of ours says to it."""
    claims = published["claims"]
    found = {document["study"]["machine"]: prior.judged(claims, document) for document in studies.documents}
    for work in published["works"]:
        rows = [
            [claim["says"], escape(claim.get("figure", "")), escape(_ours(claim, found))]
            for claim in claims
            if claim["work"] == work["id"]
        ]
        yield table(["said", "figure", "ours"], rows, "lll", f"{work['title'].capitalize()} ({work['machine']})")


def _ours(claim: dict, found: dict[str, dict]) -> str:
    """Return the verdict of each study that has rows of a claim, the studies together by verdict."""
    by_verdict = {}
    for label, own in found.items():
        if own[claim["id"]]["rows"]:
            by_verdict.setdefault(own[claim["id"]]["verdict"], []).append(f"{label}{_range(own[claim['id']]['rows'])}")
    text = "; ".join(f"{verdict}: {', '.join(labels)}" for verdict, labels in by_verdict.items())
    return text or claim.get("answer", "not tested")


def _range(rows: list[dict]) -> str:
    speedups = [row["speedup"] for row in rows if row.get("speedup") is not None]
    return f" ({words.between(min(speedups), max(speedups))})" if speedups else ""


def _coverage(coverage: dict) -> str:
    rows = [[escape(name), *map(words.percent, row["held"].values())] for name, row in coverage["coverage"].items()]
    repeats = next(iter(coverage["coverage"].values()))["held"]
    caption = (
        f"Share of 95 % intervals that hold the true speedup, of {words.number(coverage['draws'])} simulated studies"
    )
    return table(["simulated", *(f"{n} repeats" for n in repeats)], rows, "l" + "r" * len(repeats), caption)


def _again(found: dict) -> str:
    rows = [
        [metric, *(str(row[name]) for name in ("figures", "confirmed", "contradicted", "open"))]
        for metric, row in found["metrics"].items()
    ]
    return table(
        ["metric", "speedups", "confirmed", "contradicted", "open"],
        rows,
        "lrrrr",
        f"{found['cells']} of {found['of']} cells, measured again",
    )
