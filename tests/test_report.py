"""The report of a machine: what becomes of each claim there, and its results beside the recorded ones."""

import pytest
from recorded import rebuilt
from written import CLAIMS, a_report, few, require_no_sentences, require_tables_that_fit, tables

from kernelbench import numbers
from kernelbench.analysis.studies import Studies
from kernelbench.paper.markdown import BREAK
from kernelbench.paper.provenance import find_differences


def of_claim(text: str, identity: str) -> list[str]:
    """Return the row of a claim on the first page."""
    claim = next(claim for claim in CLAIMS if claim["id"] == identity)
    (row,) = (row for row in tables(text)[1] if row[0] == str(claim["number"]))
    assert row[1] == claim["sentence"]
    return row[2:]


def denied() -> dict:
    """Return a study that says the opposite of a claim."""
    document = rebuilt("h200-timers")
    for row in document["speedups"]:
        if (row["op"], row["mode"], row["metric"]) == ("layer_norm", "compile", "kernels"):
            row["speedup"] = 0.9
    return document


def test_the_first_page_lists_every_claim_and_counts_them():
    counts, rows = tables(a_report(rebuilt("h200-timers"), few()))[:2]
    assert len(rows) - 1 == len(CLAIMS) == sum(map(int, counts[2][1:]))
    for line, column in ((counts[1], 2), (counts[2], 3)):
        outcomes = [row[column].strip("*") for row in rows[1:]]
        assert list(map(int, line[1:])) == [outcomes.count(name) for name in counts[0][1:]]


def test_a_claim_that_a_machine_denies_does_not_hold_in_its_report():
    assert of_claim(a_report(rebuilt("h200-timers"), few()), "timers-kernels") == ["holds", "**holds**"]
    text = a_report(denied(), few())
    assert of_claim(text, "timers-kernels") == ["holds", f"**does not hold**{numbers.NBSP}≠"]
    assert of_claim(text, "models-graph") == ["holds", "cannot be told"]
    assert "`timers-kernels`" in text and "`models-graph`" not in text, "what was found only where something was"


def test_a_cpu_says_what_becomes_of_the_claims_about_cpus():
    document = rebuilt("cpu-amd-epyc-elementwise")
    assert of_claim(a_report(document, few()), "cpu-chain") == ["holds", "**holds**"]
    for row in document["speedups"]:
        row["verdict"] = "slower"
    assert of_claim(a_report(document, few()), "cpu-chain") == ["holds", f"**does not hold**{numbers.NBSP}≠"]


def test_its_own_results_are_above_the_recorded_ones():
    document = rebuilt("h200-timers")
    at = {"op": "softmax", "size": "1024", "mode": "compile", "baseline": "eager", "metric": "latency"}
    own, other = (next(r for r in d["speedups"] if at.items() <= r.items()) for d in (document, few().of("timers")))
    own |= {"speedup": 7.77, "ci_low": 7.7, "ci_high": 7.85, "verdict": "faster"}
    (cell,) = (cell for rows in tables(a_report(document, few())) for row in rows for cell in row if "7.770" in cell)
    here, then = (side.replace(numbers.NBSP, " ") for side in cell.split(BREAK))
    assert here == "7.770 [7.700, 7.850] ↑ ≠" and then.startswith(numbers.ci(other).replace(numbers.NBSP, " "))


def test_it_says_what_differs_from_the_recorded_machine():
    title = "What differs from the machine of"
    same = rebuilt("h100-architectures")
    assert title not in a_report(same, few()), "nothing does"
    software = same["environment"]["software"] | {"torch": "2.13.0"}
    other = same | {"environment": same["environment"] | {"software": software}}
    other["packages"] = {**same["packages"], "transformers": "5.17.0"}
    text = a_report(other, few())
    before, _, _ = text.partition(f": {title} `h100-architectures`")
    assert tables(before)[-1][1:] == [["PyTorch", "2.13.0", "2.11.0+cu130"], ["transformers", "5.17.0", "5.24.0"]]


def by_code(document: dict, **digests: str) -> dict:
    """Return a study that files with these digests measured, and one that all studies share."""
    files = {f"workflow/kernelbench/harness/{name}.py": [digest] for name, digest in digests.items()}
    code = {"scheme": [3], "protocol": [1], "files": {"kernels/launch.py": ["a"], **files}}
    software = {key: value for key, value in document["environment"]["software"].items() if key != "sources"}
    environment = {**document["environment"], "software": software, "code": code}
    return {**document, "environment": {key: value for key, value in environment.items() if key != "sources"}}


def test_it_says_which_code_differs_from_what_was_recorded():
    older = rebuilt("h200-timers")
    recorded = by_code(older, timers="a", eager="a")
    assert [part["differs"] for part in find_differences(recorded, older)] == ["code"], "nobody can tell by file"
    assert find_differences(by_code(older, timers="a", jit="b"), recorded) == [], "each has a file of its own"
    (part,) = find_differences(by_code(older, timers="b", eager="a"), recorded)
    assert part["differs"] == "code (harness/timers.py)" and part["here"] != part["recorded"]
    text = a_report(by_code(older, timers="b"), Studies([recorded]))
    assert "code (harness/timers.py)" in text


@pytest.mark.parametrize("name", ["cpu-amd-epyc-elementwise", "h200-timers"])
def test_a_report_needs_no_recorded_study(name):
    text = a_report(rebuilt(name), Studies([]))
    assert "recorded" not in text.split("# Speedups")[1]
    row = next(row for row in rebuilt(name)["speedups"] if row["speedup"] and row["metric"] == "latency")
    assert numbers.ci(row).replace(" ", numbers.NBSP) in text


def test_a_report_of_one_repeat_has_no_intervals_and_of_failures_their_reasons():
    document = rebuilt("h200-timers")
    for row in document["speedups"]:
        row |= {"ci_low": None, "ci_high": None, "p": None, "verdict": ""}
        if row["mode"] == "triton":
            row |= {"speedup": None}
    for row in document["summary"]:
        if row["mode"] == "triton":
            row |= {"estimate": None, "status": "crashed", "reason": "it | fell over"}
    text = a_report(document, few(), ("no | repeat",))
    assert r"it \| fell over" in text and r"no \| repeat" in text and "draft: true" in text
    assert "None" not in text and "nan" not in text


def test_all_is_headings_tables_and_captions_that_fit():
    text = a_report(denied(), few(), ("missing: softmax; repair: " + "snakemake --forcerun " * 20,))
    require_tables_that_fit(text)
    require_no_sentences(text)
    assert "draft" not in a_report(denied(), few())
