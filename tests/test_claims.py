"""Claims: each rule word on planted tables, and what is refused."""

from pathlib import Path

import pytest
import yaml

from kernelbench.analysis.studies import Studies
from kernelbench.claims.rules import evaluate, judge, load
from kernelbench.errors import InputError
from kernelbench.notes import NearFloor, OfBaseline, ProfileIncomplete, Uncovered

ROOT = Path(__file__).parents[1]
CLAIMS = ROOT / "paper" / "claims.yaml"
MODES = {"eager": {"runner": "eager"}, "compile": {"runner": "compile"}}
OPS = {"softmax": {"sizes": [512, 1024, 2048]}}
STUDY = {"machine": "t4", "dtypes": ["float16"], "ops": OPS, "modes": MODES, "baselines": ["eager"]}
RULE = {"op": "softmax", "dtype": "float16", "mode": "compile", "baseline": "eager", "metric": "device"}
SIZES = ("512", "1024", "2048")


def rows(*verdicts: str | None) -> list[dict]:
    """Return rows of speedups with these verdicts, one for each size; None: there is no such row."""
    found = zip(SIZES, verdicts, strict=True)
    return [{**RULE, "size": size, "verdict": verdict} for size, verdict in found if verdict is not None]


@pytest.mark.parametrize(
    ("rule", "verdicts", "outcome", "looked_at", "deciding"),
    [
        ({"every": "slower"}, ("slower", "slower", "slower"), "holds", 3, SIZES),
        ({"every": "slower"}, ("slower", "faster", "inconclusive"), "does not hold", 3, ["1024"]),
        ({"every": "slower"}, ("slower", "slower", "equivalent"), "does not hold", 3, ["2048"]),
        ({"every": "slower"}, ("slower", "inconclusive", "slower"), "cannot be told", 3, ["1024"]),
        ({"every": "slower"}, ("slower", "", "slower"), "cannot be told", 2, ["1024"]),
        ({"every": "slower"}, ("slower", "slower", None), "cannot be told", 2, ["2048"]),
        ({"every": "slower", "size": [512, 1024]}, ("slower", "slower", "faster"), "holds", 2, SIZES[:2]),
        ({"every": "slower", "size": 4096}, ("slower", "slower", "slower"), "cannot be told", 0, ["4096"]),
        ({"some": "faster"}, ("slower", None, "faster"), "holds", 2, ["2048"]),
        ({"some": "faster"}, ("slower", "equivalent", "slower"), "does not hold", 3, SIZES),
        ({"some": "faster"}, ("slower", "inconclusive", "slower"), "cannot be told", 3, ["1024"]),
        ({"some": "faster"}, ("slower", None, "slower"), "cannot be told", 2, ["1024"]),
        ({"none": ["faster", "slower"]}, ("equivalent", "inconclusive", "equivalent"), "holds", 3, SIZES),
        ({"none": ["faster", "slower"]}, ("equivalent", None, "slower"), "does not hold", 2, ["2048"]),
        ({"none": ["faster", "slower"]}, ("equivalent", None, "inconclusive"), "cannot be told", 2, ["1024"]),
        ({"none": ["faster", "slower"]}, ("equivalent", "", "inconclusive"), "cannot be told", 2, ["1024"]),
    ],
)
def test_a_rule_on_planted_rows(rule, verdicts, outcome, looked_at, deciding):
    found = evaluate({**RULE, **rule}, [{"study": STUDY, "speedups": rows(*verdicts)}])
    assert (found.outcome, found.rows) == (outcome, looked_at)
    # What no study has is named as the rule names it, which is without a dtype.
    names = [f"softmax/{'float16/' if size in SIZES else ''}{size}/compile/eager/device" for size in deciding]
    assert found.deciding == names


def test_an_op_that_a_study_does_not_have_is_missing_and_not_forgotten():
    document = {"study": STUDY, "speedups": rows(*["slower"] * 3)}
    found = evaluate({**RULE, "op": ["softmax", "matmul"], "every": "slower"}, [document])
    assert (found.outcome, found.rows, found.of) == ("cannot be told", 3, 4)


NUMBERS = {"512": (1.1, 1.2), "1024": (1.3, 1.5), "2048": (1.6, 1.8)}


@pytest.mark.parametrize(
    ("condition", "outcome"),
    [
        ({"every": {"above": 1.05}}, "holds"),
        ({"every": {"above": 1.4}}, "does not hold"),
        ({"every": {"above": 1.15}}, "cannot be told"),
        ({"every": {"below": 2}}, "holds"),
        ({"some": {"above": 1.55}}, "holds"),
        ({"some": {"above": 1.7}}, "cannot be told"),
        ({"some": {"below": 1}}, "does not hold"),
        ({"most": {"above": 1.25}}, "holds"),
        ({"most": {"above": 1.55}}, "does not hold"),
        ({"most": {"above": 1.35}}, "cannot be told"),
        ({"none": {"above": 2}}, "holds"),
        ({"none": {"above": 1.55}}, "does not hold"),
        ({"every": {"above": 0.5, "of": "n"}}, "holds"),
        ({"every": {"below": 0.5, "of": "n"}}, "does not hold"),
        ({"most": "faster"}, "holds"),
        ({"most": ["slower", "equivalent"]}, "does not hold"),
    ],
)
def test_a_rule_on_planted_numbers(condition, outcome):
    table = [
        {**row, "speedup": sum(NUMBERS[row["size"]]) / 2, "ci_low": low, "ci_high": high, "n": 10}
        for row in rows("faster", "faster", "faster")
        for low, high in [NUMBERS[row["size"]]]
    ]
    assert evaluate({**RULE, **condition}, [{"study": STUDY, "speedups": table}]).outcome == outcome


def test_payback_is_never_before_any_number_of_calls():
    at = {key: RULE[key] for key in ("op", "dtype", "mode", "metric")}
    kinds = (("never", None, None), ("after", 10.0, 20.0), ("open", 15.0, None))
    table = [
        {**at, "size": size, "kind": kind, "low": low, "high": high}
        for size, (kind, low, high) in zip(SIZES, kinds, strict=True)
    ]
    document = {"study": STUDY, "payback": table}
    rule = {"table": "payback", **at}
    assert evaluate({**rule, "size": 512, "every": {"above": 1e9}}, [document]).outcome == "holds"
    assert evaluate({**rule, "size": 1024, "every": {"below": 30}}, [document]).outcome == "holds"
    assert evaluate({**rule, "size": 2048, "every": {"above": 12}}, [document]).outcome == "holds"
    assert evaluate({**rule, "size": 2048, "every": {"above": 16}}, [document]).outcome == "cannot be told"


def test_sizes_that_differ_by_op_are_cells():
    rule = {**{key: RULE[key] for key in ("mode", "metric")}, "cells": ["softmax 1024"], "every": "faster"}
    document = {"study": STUDY, "speedups": rows("slower", "faster", "slower")}
    assert evaluate(rule, [document]).deciding == ["softmax/float16/1024/compile/eager/device"]


def test_a_claim_about_two_studies_needs_both():
    other = {**STUDY, "machine": "t4-more", "study": "more"}
    rule = {**RULE, "study": ["ops", "more"], "every": "slower"}
    claim = {"number": 1, "id": "both", "sentence": "Both.", "rule": rule}
    slower = [{"study": study, "speedups": rows(*["slower"] * 3)} for study in (STUDY, other)]
    (found,) = judge([claim], Studies(slower))
    assert (found["outcome"], found["rows"], found["of"], found["study"]) == ("holds", 6, 6, "ops and more")
    (found,) = judge([claim], Studies(slower[:1]))
    assert (found["outcome"], found["found"]) == ("cannot be told", "not measured: more")
    slower[1]["speedups"] = rows("slower", "faster", "slower")
    (found,) = judge([claim], Studies(slower))
    assert (found["outcome"], found["deciding"]) == (
        "does not hold",
        ["t4-more/softmax/float16/1024/compile/eager/device"],
    )


def test_a_claim_that_names_no_study_is_about_every_recorded_row_of_a_gpu():
    """Held-out shapes and users' models included: a study with another name cannot be left out."""
    held_out = {**STUDY, "machine": "t4-heldout", "study": "heldout"}
    held_out["ops"] = {"odd_rows": {"workload": "softmax", "sizes": [77]}}
    on_cpu = {**STUDY, "machine": "cpu-x"}
    odd = {**RULE, "op": "odd_rows", "size": "77", "verdict": "faster"}
    studies = Studies([
        {"study": STUDY, "speedups": rows(*["slower"] * 3)},
        {"study": held_out, "speedups": [odd]},
        {"study": on_cpu, "speedups": rows(*["faster"] * 3)},
    ])  # fmt: skip
    rule = {"workload": "softmax", "mode": "compile", "metric": "device", "every": "slower"}
    claim = {"number": 1, "id": "wide", "sentence": "Wide.", "rule": rule}
    (found,) = judge([claim], studies)
    assert (found["outcome"], found["rows"]) == ("does not hold", 4)
    assert found["deciding"] == ["t4-heldout/odd_rows/float16/77/compile/eager/device"]
    (found,) = judge([{**claim, "rule": {**rule, "study": "ops"}}], studies)
    assert (found["outcome"], found["rows"]) == ("holds", 3)
    (found,) = judge([{**claim, "rule": {**rule, "device": "cpu", "every": "faster"}}], studies)
    assert (found["outcome"], found["rows"]) == ("holds", 3)
    (found,) = judge([{**claim, "rule": {**rule, "workload": ["softmax", "matmul"], "none": "equivalent"}}], studies)
    assert found["outcome"] == "does not hold", "but nothing was measured of one of the two"


def test_what_a_mode_cannot_run_or_a_study_does_not_plan_is_no_missing_row():
    unsupported = {**RULE, "size": "512", "verdict": "", "status": "unsupported"}
    document = {"study": STUDY, "speedups": [unsupported, *rows(None, "slower", "slower")]}
    rule = {"workload": "softmax", "mode": "compile", "metric": ["device", "latency"], "every": "slower"}
    (found,) = judge(
        [{"number": 1, "id": "x", "sentence": "X.", "rule": {**rule, "metric": "device"}}], Studies([document])
    )
    assert (found["outcome"], found["rows"], found["of"]) == ("holds", 2, 2)
    assert evaluate(rule, [document]).outcome == "cannot be told", "a metric that no study has is one"


@pytest.mark.parametrize("note", [Uncovered(1.0), OfBaseline("eager", Uncovered(1.0)), ProfileIncomplete()])
def test_a_time_that_does_not_count_is_a_missing_row(note):
    lost = {**RULE, "size": "512", "verdict": "", "status": "unsupported", "notes": [note.to_json()]}
    found = evaluate(
        {**RULE, "every": "slower"}, [{"study": STUDY, "speedups": [lost, *rows(None, "slower", "slower")]}]
    )
    assert (found.outcome, found.rows, found.of) == ("cannot be told", 2, 3)


@pytest.mark.parametrize("note", [NearFloor(1.0, 10), OfBaseline("eager", NearFloor(1.0, 10))])
@pytest.mark.parametrize("condition", ["faster", {"above": 1}])
def test_nothing_rests_on_a_device_time_near_the_floor(note, condition):
    values = {"speedup": 2.0, "ci_low": 1.9, "ci_high": 2.1}
    table = [{**row, **values, "notes": []} for row in rows("faster", "faster", "faster")]
    assert evaluate({**RULE, "every": condition}, [{"study": STUDY, "speedups": table}]).outcome == "holds"
    table[0] |= {"verdict": "", "notes": [note.to_json()]}
    found = evaluate({**RULE, "every": condition}, [{"study": STUDY, "speedups": table}])
    assert (found.outcome, found.rows) == ("cannot be told", 2)


@pytest.mark.parametrize(
    "sentence", ["Softmax gains.", "In the ops of ours, softmax gains.", "The studies of oops gain."]
)
def test_a_claim_about_one_study_says_so_in_its_sentence(sentence, tmp_path):
    path = tmp_path / "claims.yaml"
    rule = {"study": "ops", "op": "softmax", "mode": "compile", "metric": "device", "every": "faster"}
    path.write_text(yaml.safe_dump([{"id": "x", "sentence": sentence, "rule": rule}]))
    with pytest.raises(InputError, match=r"claims\.yaml: x: the sentence does not name the ops study"):
        load(path)
    path.write_text(yaml.safe_dump([{"id": "x", "sentence": "In the ops study, softmax gains.", "rule": rule}]))
    assert load(path)[0]["number"] == 1


def changed(text: str, *, claim: int = 1, **keys) -> str:
    """Return claims.yaml with keys of one claim set; rule__op sets the rule's op, and None takes a key away."""
    claims = yaml.safe_load(text)
    for name, value in keys.items():
        *parents, last = name.split("__")
        inner = claims[claim]
        for parent in parents:
            inner = inner[parent]
        inner[last] = value
        if value is None:
            del inner[last]
    return yaml.safe_dump(claims)


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"sentense": "x."}, "one-kernel-latency: sentense is not a known key (did you mean sentence?)"),
        ({"sentence": None}, "one-kernel-latency: sentence is missing"),
        ({"rule__every": {"above": "high"}}, "one-kernel-latency.rule.every.above: "),
        ({"rule__table": "tables"}, 'rule.table: "tables" is not allowed'),
        ({"rule__cells": ["softmax"]}, "allowed: an op and a size, as in resnet50 64"),
        ({"rule__cells": ["sofmax 1024"]}, "rule.op: sofmax is not known (did you mean softmax?)"),
        ({"sentence": "One. Two."}, "allowed: one sentence that ends with a full stop"),
        ({"rule__evry": "slower"}, "one-kernel-latency.rule: evry is not a known key (did you mean every?)"),
        ({"rule__every": "slow"}, 'rule.every.0: "slow" is not allowed (did you mean slower?)'),
        ({"rule__some": "faster"}, "allowed: one of every, some, most, none"),
        ({"rule__op": "sofmax"}, "one-kernel-latency: rule.op: sofmax is not known (did you mean softmax?); allowed: "),
        (
            {"rule__mode": ["eager", "triten"]},
            "one-kernel-latency: rule.mode: triten is not known (did you mean triton?)",
        ),
        ({"rule__dtype": "float61"}, "one-kernel-latency: rule.dtype: float61 is not known (did you mean float16?)"),
        ({"rule__size": [1024, 65563]}, "one-kernel-latency: rule.size: 65563 is not known (did you mean 65536?)"),
        ({"rule__baseline": "none"}, "rule.baseline: none is not known"),
        ({"rule__metric": "devices"}, "one-kernel-latency: rule.metric: devices is not known (did you mean device?)"),
        ({"id": "ops-latency"}, "ops-latency: is given twice; allowed: each id once"),
    ],
)
def test_what_is_wrong_is_refused_in_one_line(keys, line, tmp_path):
    path = tmp_path / "claims.yaml"
    path.write_text(changed(CLAIMS.read_text(encoding="utf-8"), **keys), encoding="utf-8")
    with pytest.raises(InputError) as error:
        load(path)
    assert str(error.value).startswith("claims.yaml: ") and line in str(error.value)
    assert "\n" not in str(error.value)
