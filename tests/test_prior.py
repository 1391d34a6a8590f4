"""Earlier work as data: every work has claims, and the stated rule gives the verdict, from planted rows."""

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

from kernelbench import compilation, jobs, prior
from kernelbench.errors import InputError
from kernelbench.notes import ExactIntervalDisagrees, FarOff, SizesNotMeasured, TwoPeaks, dump
from kernelbench.study import RECORDED

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "paper" / "published.yaml"
RULE = {"op": "a", "dtype": "float32", "size": [1, 2], "mode": "compile", "baseline": "eager", "metric": "latency"}


def document(*rows, compiled=(), gpu=None):
    names = ("size", "verdict", "speedup", "ci_low", "ci_high")
    cell = {"op": "a", "dtype": "float32", "mode": "compile", "baseline": "eager", "metric": "latency"}
    fixed = cell | {"status": "ok", "reason": "", "notes": []}
    speedups = [fixed | dict(zip(names, row, strict=True)) for row in rows]
    study = {"ops": {"a": {"sizes": [1, 2]}}}
    return {"study": study, "environment": {"gpu": gpu}, "speedups": speedups, "compilation": list(compiled)}


def verdict(rule, found, **claim):
    return prior.judged([{"id": "x", "rule": rule, **claim}], found)["x"]["verdict"]


FASTER, SLOWER, OPEN = ("faster", 2.0, 1.9, 2.1), ("slower", 0.5, 0.4, 0.6), ("inconclusive", 1.0, 0.8, 1.3)


@pytest.mark.parametrize(
    ("expected", "rows", "wanted"),
    [
        ({"speedup": "faster"}, [FASTER, FASTER], "holds"),
        ({"speedup": "faster"}, [FASTER, OPEN], "holds in part"),
        ({"speedup": "faster"}, [FASTER, SLOWER], "holds in part"),
        ({"speedup": "faster", "any": True}, [FASTER, SLOWER], "holds"),
        ({"speedup": "faster", "most": True, "size": "each"}, [FASTER, FASTER, SLOWER], "holds"),
        ({"speedup": "faster", "most": True, "size": "each"}, [FASTER, SLOWER], "does not hold"),
        ({"speedup": "faster", "most": True, "size": "each"}, [FASTER, FASTER, OPEN, OPEN], "open"),
        ({"speedup": "faster", "most": True, "size": "each"}, [], "not tested"),
        ({"speedup": "faster"}, [OPEN, SLOWER], "does not hold"),
        ({"speedup": "faster"}, [OPEN, OPEN], "open"),
        ({"speedup": "faster"}, [], "not tested"),
        ({"above": 1.5}, [FASTER], "holds"),
        ({"above": 2}, [FASTER], "open"),
        ({"above": 3}, [FASTER], "does not hold"),
        ({"below": 2.5}, [FASTER, SLOWER], "holds"),
        ({"below": 2}, [FASTER], "open"),
        ({"below": 1.5}, [FASTER], "does not hold"),
        ({"within": 0.4}, [OPEN], "holds"),
        ({"within": 0.1}, [OPEN], "open"),
        ({"within": 0.1}, [SLOWER], "does not hold"),
        ({"published": 2.05}, [FASTER], "holds"),
        ({"published": 4.36}, [FASTER], "holds in part"),
        ({"published": 0.9}, [FASTER], "does not hold"),
        ({"published": 0.3}, [SLOWER], "holds in part"),
        ({"published": 4.36}, [OPEN], "does not hold"),
        ({"published": 1.2}, [OPEN], "open"),
        ({"published": 4.36}, [FASTER, OPEN], "holds in part"),
    ],
)
def test_the_verdict_follows_from_the_rows(expected, rows, wanted):
    found = document(*((str(size), *row) for size, row in enumerate(rows, 1)))
    assert verdict(RULE | expected, found) == wanted


def test_each_size_is_all_but_the_mean_over_them():
    found = document(("1", *FASTER), ("2", *FASTER), ("all", *SLOWER))
    assert verdict(RULE | {"size": "each", "speedup": "faster"}, found) == "holds"
    assert verdict(RULE | {"size": "all", "speedup": "faster"}, found) == "does not hold"
    told = prior.judged([{"id": "x", "rule": RULE | {"size": "each", "speedup": "faster"}}], found)["x"]["rows"]
    assert [row["label"] for row in told] == ["1", "2"]
    (mean,) = prior.judged([{"id": "x", "rule": RULE | {"size": "all", "speedup": "faster"}}], found)["x"]["rows"]
    assert mean["label"] == "over 2 sizes"


@pytest.mark.parametrize(
    ("expected", "row", "wanted"),
    [
        ({"above": 2.3}, FASTER, "open"),  # from 1.9 to 2.1 becomes from 1.58 to 2.52
        ({"above": 2.6}, FASTER, "does not hold"),
        ({"above": 1.7}, FASTER, "holds"),
        ({"published": 2.2}, FASTER, "holds in part"),
        ({"published": 1.5}, OPEN, "open"),  # from 0.8 to 1.3 becomes from 0.67 to 1.56
        ({"published": 1.6}, OPEN, "does not hold"),
        ({"speedup": "slower"}, FASTER, "does not hold"),  # which goes by the verdict
    ],
)
def test_an_interval_that_promises_too_much_says_no_only_if_a_wider_one_does(expected, row, wanted):
    found = document(("1", *row))
    found["speedups"][0]["notes"] = [TwoPeaks(5, 5, 20).to_json()]
    assert verdict(RULE | expected, found) == wanted


@pytest.mark.parametrize("expected", [{"above": 1.5}, {"published": 2.0}, {"within": 0.1}, {"speedup": "faster"}])
@pytest.mark.parametrize(
    ("size", "lacking"), [("1", {"verdict": ""}), ("all", {"notes": [SizesNotMeasured(["4", "5"], 2).to_json()]})]
)
def test_a_row_without_a_verdict_or_a_mean_over_some_of_the_sizes_is_open(size, lacking, expected):
    found = document((size, *FASTER))
    found["speedups"][0].update(lacking)
    assert verdict(RULE | {"size": size} | expected, found) == "open"


@pytest.mark.parametrize(
    ("notes", "flagged"),
    [([], False), ([ExactIntervalDisagrees()], False), ([FarOff(2, 10, 1.2)], True), ([TwoPeaks(5, 5, 20)], True)],
)
def test_rows_of_repeats_in_two_peaks_or_far_off_are_flagged(notes, flagged):
    found = document(("1", *FASTER))
    found["speedups"][0]["notes"] = dump(notes)
    (row,) = prior.judged([{"id": "x", "rule": RULE | {"speedup": "faster"}}], found)["x"]["rows"]
    assert row["flagged"] == flagged


def test_of_a_claim_without_rows_it_is_told_why_they_could_not_be_run():
    missing = {"status": "unsupported", "reason": "needs a package"}
    found = document(("1", None, None, None, None), ("2", None, None, None, None), ("1", *FASTER))
    for row in found["speedups"][:2]:
        row.update(missing)
    claim = [{"id": "x", "rule": RULE | {"speedup": "faster"}}]
    assert prior.judged(claim, found)["x"]["unsupported"] == []  # one row is there
    found["speedups"].pop()
    assert prior.judged(claim, found)["x"] == {
        "verdict": "not tested",
        "rows": [],
        "unsupported": ["needs a package"],
    }


def test_a_claim_about_a_gpu_is_not_tested_on_a_cpu():
    rows = [("1", *FASTER)]
    assert verdict(RULE | {"speedup": "faster"}, document(*rows), device="cuda") == "not tested"
    assert verdict(RULE | {"speedup": "faster"}, document(*rows, gpu={"name": "X"}), device="cuda") == "holds"


@pytest.mark.parametrize(("wanted", "outcome"), [(6, "holds"), (5, "does not hold")])
def test_counts_are_compared(wanted, outcome):
    row = {"op": "a", "dtype": "float32", "size": "1", "mode": "eager", "launched": 6.0}
    count = {"of": "launched", "is": wanted}
    rule = {"op": "a", "dtype": "float32", "size": 1, "mode": "eager", "count": count}
    assert verdict(rule, document(compiled=[row])) == outcome


@pytest.mark.parametrize(("eager", "outcome"), [(6.0, "holds"), (1.0, "does not hold"), (None, "not tested")])
def test_counts_are_compared_with_those_of_another_mode(eager, outcome):
    row = {"op": "a", "dtype": "float32", "size": "1", "mode": "compile", "launched": 1.0}
    elsewhere = row | {"mode": "eager", "size": "2", "launched": 9.0}
    rule = {key: row[key] for key in prior.COUNTED} | {"count": {"of": "launched", "fewer_than": "eager"}}
    found = document(compiled=[row, elsewhere, row | {"mode": "eager", "launched": eager}])
    (claim,) = prior.judged([{"id": "x", "rule": rule}], found).values()
    assert claim["verdict"] == outcome
    assert [told["than"] for told in claim["rows"]] == ([] if eager is None else [eager])


@pytest.mark.parametrize(
    ("eager", "told"),
    [(4.0, [(4.0, 1.0, "µs"), (2.0, 1.0, "µs"), (7.0, 1.0, "s")]),
     (4000.0, [(4.0, 0.001, "ms"), (0.002, 0.001, "ms"), (7.0, 1.0, "s")])],
)  # fmt: skip
def test_times_that_were_published_are_told_of_ours(eager, told):
    cell = {"op": "a", "dtype": "float32", "size": "1"}
    number = {"ci_low": 1.0, "ci_high": 3.0, "unit": "µs"}
    rows = [("eager", "latency", eager), ("compile", "latency", 2.0), ("compile", "first_call", 7.0)]
    summary = [cell | number | {"mode": mode, "metric": what, "estimate": time} for mode, what, time in rows]
    summary[2]["unit"] = "s"
    found = document(("1", *FASTER)) | {"summary": [row | {"size": "2", "estimate": 0.0} for row in summary] + summary}
    (claim,) = prior.judged([{"id": "x", "rule": RULE | {"speedup": "faster", "times": True}}], found).values()
    (row,) = claim["rows"]
    times = row["times"]
    assert [(*(times[name][key] for key in ("estimate", "ci_low", "unit")),) for name in times] == told
    assert list(times) == ["baseline", "mode", "first_call"]


@pytest.mark.parametrize(
    ("kind", "low", "high", "outcome"),
    [
        ("never", None, None, "holds"),
        ("after", 1100.0, 1300.0, "holds"),
        ("after", 900.0, 1300.0, "open"),
        ("after", 10.0, 900.0, "does not hold"),
        ("open", 1100.0, None, "holds"),
        ("open", 10.0, None, "open"),
        ("open", None, None, "open"),
    ],
)
def test_what_compiling_costs_is_unpaid_until_the_interval_says_so(kind, low, high, outcome):
    row = {"op": "a", "dtype": "float32", "size": "1", "mode": "compile", "metric": "latency"}
    row |= {"kind": kind, "calls": low, "low": low, "high": high}
    rule = {key: row[key] for key in prior.PAID} | {"unpaid": 1000}
    assert verdict(rule, document() | {"payback": [row]}) == outcome


def test_every_work_has_claims_and_every_claim_can_be_tested_by_some_study():
    published = prior.load(PUBLISHED)
    assert {claim["work"] for claim in published["claims"]} == {1, 2, 3, 4, 5}
    for claim in published["claims"]:
        if "rule" not in claim:
            continue
        rule = {key: prior.values(value) for key, value in claim["rule"].items() if key in prior.COUNTED}
        raw = [yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))]
        raw += [
            yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / "workflow" / "studies").glob("*.yaml")
        ]
        layers = [*raw, *(study["presets"]["cpu"] for study in raw if "presets" in study)]
        ops, modes = ({name for layer in layers for name in layer.get(key, {})} for key in ("ops", "modes"))
        others = set(prior.values(claim["rule"].get("count", {}).get("fewer_than", rule["mode"])))
        assert set(rule["op"]) - {prior.EACH} <= ops and {*rule["mode"], *others} <= modes, claim["id"]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "claim: faster, w",
            "claim: fastr, w",
            "claim: .fastr. is not allowed .did you mean faster",
        ),
        ("mode: compile\n", "mode: compile\nmode: jit\n", "mode is given twice; allowed: each key once"),
        ("\nmode: compile\n", "\nmode: complie\n", "yaml: mode: complie is not known .did you mean compile"),
        (
            "metric: [device, latency]",
            "metric: [devcie]",
            "t4-layer-norm: rule.metric: devcie is not known .did you mean",
        ),
        ("size: all", "size: al", "t4-layer-norm: rule.size: al is not known .did you mean all"),
        ("baseline: eager\n      metric", "baseline: egaer\n      metric", "rule.baseline: egaer is not known"),
        (
            "op: attention",
            "op: [each, attention]",
            "t4-attention: rule.op: each is not allowed beside others; allowed:",
        ),
        ("published: 0.39", "published: 1", "published: 1 is not allowed; allowed: a number above 0 but 1"),
        ("mean: 2.12", "mean: two", "mean: .two. is not allowed; allowed: a number above 0"),
    ],
)
def test_what_would_be_judged_by_mistake_is_refused(tmp_path, old, new, line):
    text = PUBLISHED.read_text(encoding="utf-8")
    (tmp_path / "published.yaml").write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError, match=line):
        prior.load(tmp_path / "published.yaml")


def test_a_rule_may_name_what_the_study_at_hand_has(tmp_path):
    text = PUBLISHED.read_text(encoding="utf-8").replace("op: attention", "op: silu", 1)
    (tmp_path / "published.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"rule\.op: silu is not known"):
        prior.load(tmp_path / "published.yaml")
    assert prior.load(tmp_path / "published.yaml", {"ops": {"silu": {"sizes": [4]}}})


def test_a_claim_of_a_work_that_is_not_there_is_refused(tmp_path):
    published = yaml.safe_load(PUBLISHED.read_text(encoding="utf-8"))
    published["claims"][0]["work"] = 9
    (tmp_path / "published.yaml").write_text(yaml.safe_dump(published))
    with pytest.raises(InputError, match="t4-layer-norm: work: 9 is not known; allowed:"):
        prior.load(tmp_path / "published.yaml")


def test_packages_are_told_with_their_versions():
    rows = pd.DataFrame({"mode": ["eager", "onnx", "jax"], "library.onnxruntime": [None, "1.2", None], "x": [1, 2, 3]})
    assert jobs.packages(rows.assign(**{"library.jax": [None, None, "0.3"]})) == {"onnxruntime": "1.2", "jax": "0.3"}
    assert jobs.packages(rows[["mode"]]) == {}


def test_what_jobs_say_of_their_compilation():
    point = {"size": "3", "first_call": 1.0, "latency": 5.0, "graphs": 2, "recompiles": 1}
    text = '[{"name": "a", "count": 2.0, "time": 1.0}, {"name": "b", "count": 1.0, "time": 1.0}]'
    row = {
        "op": "a", "dtype": "float32", "size": "1", "mode": "compile", "status": "ok", "compile.graphs": 1.0,
        "compile.kernels": 1.0, "compile.inductor": '{"fxgraph_cache_miss": 1, "extern_calls": 2}',
        "compile.seconds": '{"_compile.compile_inner": 2.0}',
    }  # fmt: skip
    jobs = [
        row | {"repeat": repeat, "series": json.dumps([point | {"first_call": seconds}]), "profile.kernels": profile}
        for repeat, seconds, profile in ((0, 1.0, text), (1, 3.0, None))
    ]
    jobs = [job | {"profile.checked": True} for job in jobs]
    rows = [tuple(row[name] for name in compilation.KEY)]
    (found,) = compilation.about(pd.DataFrame(jobs), rows)
    unsure = [job | {"profile.checked": False} for job in jobs]
    assert "launched" not in compilation.about(pd.DataFrame(unsure), rows)[0]
    assert not {"launches", "busy"} & set(found), "older records do not say"
    counted = [job | {"profile.launches": 2.0, "compile.workers": 8.0} for job in jobs]
    (counted,) = compilation.about(pd.DataFrame(counted), rows)
    assert (counted["launches"], counted["busy"], counted["workers"]) == (2.0, 2.0, 8)
    assert (found["graphs"], found["kernels"], found["launched"]) == (1, 1, 3.0)
    assert (found["hits"], found["misses"], found["seconds"]) == (0, 1, {"dynamo": 2.0})
    assert found["series"] == [point | {"first_call": 2.0}]


def test_what_is_answered_of_graphs_and_their_breaks_is_so_in_every_recorded_compilation():
    """Two answers say it in words: one graph with fullgraph=True, and no break in any program."""
    tables = [pd.read_parquet(path) for path in RECORDED.glob("*/jobs.parquet")]
    rows = [[*table[compilation.KEY].drop_duplicates().itertuples(index=False, name=None)] for table in tables]
    found = [row for table, own in zip(tables, rows, strict=True) for row in compilation.about(table, own)]
    compiled = [row for row in found if "graph_breaks" in row]
    assert {row["graph_breaks"] for row in compiled} == {0}
    assert {row["graphs"] for row in compiled if row["mode"] == "compile-fullgraph"} == {1}
