"""Earlier work as data: its claims are judged by the rows that a study has, and mistakes are refused."""

from pathlib import Path

import pytest

from kernelbench.claims import published
from kernelbench.errors import InputError
from kernelbench.notes import SizesNotMeasured, TwoPeaks

PUBLISHED = Path(__file__).parents[1] / "paper" / "published.yaml"
RULE = {"op": ["a", "b"], "dtype": ["float16", "float32"], "mode": "compile", "metric": ["device", "latency"]}
FASTER, SLOWER, OPEN = ("faster", 2.0, 1.9, 2.1), ("slower", 0.5, 0.4, 0.6), ("inconclusive", 1.0, 0.8, 1.3)


def document(*rows: tuple, gpu=None, notes=()) -> dict:
    """Return what a study of `a` in float32 by latency says, a row for each size from 1 on, and no mean."""
    cell = {"op": "a", "dtype": "float32", "mode": "compile", "baseline": "eager", "metric": "latency"}
    names = ("verdict", "speedup", "ci_low", "ci_high")
    speedups = [
        {**cell, "size": str(size), "notes": list(notes), **dict(zip(names, row, strict=True))}
        for size, row in enumerate(rows, 1)
    ]
    modes = {mode: {"runner": mode} for mode in ("eager", "compile")}
    ops = {"a": {"workload": "softmax", "sizes": [*range(1, 1 + len(rows))]}}
    study = {"machine": "x", "dtypes": ["float32"], "ops": ops, "modes": modes, "baselines": ["eager"]}
    return {"study": study, "environment": {"gpu": gpu}, "speedups": speedups}


def outcome(rule: dict, *documents: dict, **claim) -> list[tuple]:
    found = published.judge({"rule": RULE | rule, **claim}, documents)
    return [(label, told.outcome, told.met, told.of) for label, told, _ in found]


def test_a_study_judges_by_the_rows_that_it_has():
    assert outcome({"every": "faster"}, document(FASTER, FASTER)) == [("x", "holds", 2, 2)]
    assert outcome({"every": "faster"}, document(FASTER, SLOWER)) == [("x", "does not hold", 1, 2)]
    assert outcome({"every": "faster"}, document(FASTER, OPEN)) == [("x", "cannot be told", 1, 2)]
    assert outcome({"every": "faster", "size": 1}, document(FASTER, SLOWER)) == [("x", "holds", 1, 1)]
    assert outcome({"some": {"above": 1.5}}, document(FASTER), document(SLOWER)) == [
        ("x", "holds", 1, 1),
        ("x", "does not hold", 0, 1),
    ]
    assert outcome({"every": "faster"}, document(), document(("", None, None, None))) == []


def test_the_mean_over_sizes_counts_only_where_it_is_asked_for():
    found = document(FASTER, SLOWER)
    found["speedups"][1]["size"] = "all"
    assert outcome({"every": "faster"}, found) == [("x", "holds", 1, 1)]
    assert outcome({"every": "slower", "size": "all"}, found) == [("x", "holds", 1, 1)]
    found["speedups"][1]["notes"] = [SizesNotMeasured(["4"], 2).to_json()]
    assert outcome({"every": "slower", "size": "all"}, found) == [("x", "cannot be told", 0, 1)]


def test_a_claim_about_a_gpu_is_not_judged_on_a_cpu():
    assert outcome({"every": "faster"}, document(FASTER), device="cuda") == []
    assert outcome({"every": "faster"}, document(FASTER, gpu={"name": "X"}), device="cuda")[0][1] == "holds"


@pytest.mark.parametrize(
    ("condition", "row", "told"),
    [
        ({"above": 1.7}, FASTER, "cannot be told"),  # from 1.9 to 2.1 becomes from 1.58 to 2.52
        ({"above": 1.5}, FASTER, "holds"),
        ({"below": 1.55}, FASTER, "does not hold"),
        ({"within": 0.4}, OPEN, "cannot be told"),
    ],
)
def test_an_interval_of_repeats_in_two_groups_is_widened(condition, row, told):
    flagged = document(row, notes=[TwoPeaks(5, 5, 20).to_json()])
    assert outcome({"every": condition}, flagged)[0][1] == told


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("mode: compile\n", "mode: compile\nmode: jit\n", "mode is given twice; allowed: each key once"),
        ("\nmode: compile\n", "\nmode: complie\n", "yaml: mode: complie is not known .did you mean compile"),
        ("[device, latency]", "[devcie]", "t4-layer-norm: rule.metric: devcie is not known .did you mean device"),
        ("size: all", "size: al", "t4-layer-norm: rule.size: al is not known .did you mean all"),
        ("within: 0.1", "within: 1", r"rule\.every\.within: 1 is not allowed; it should be less than 1"),
        ("says: compiled a", "sais: compiled a", "sais is not a known key .did you mean says"),
        ("mean: 2.12", "mean: two", "mean: .two. is not allowed"),
        ("id: t4-attention", "id: t4-matmul", "t4-matmul: is given twice; allowed: each id once"),
    ],
)
def test_what_would_be_judged_by_mistake_is_refused(tmp_path, old, new, line):
    text = PUBLISHED.read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "published.yaml").write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError, match=line):
        published.load(tmp_path / "published.yaml")


def test_a_rule_may_name_what_the_study_at_hand_has(tmp_path):
    text = PUBLISHED.read_text(encoding="utf-8").replace("op: attention", "op: silu", 1)
    (tmp_path / "published.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"rule\.op: silu is not known"):
        published.load(tmp_path / "published.yaml")
    assert published.load(tmp_path / "published.yaml", {"ops": {"silu": {"sizes": [4]}}})
