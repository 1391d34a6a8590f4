"""The recommendation: the rule on small documents, and what it says of recorded studies."""

import json

import pytest
from recorded import rebuilt

from kernelbench.analysis.recommendation import recommend
from kernelbench.errors import InputError

MODES = {
    "eager": {"runner": "eager"},
    "eager-control": {"runner": "eager"},
    "compile": {"runner": "compile"},
    "compile-one-worker": {"runner": "compile", "diagnoses": "compile"},
    "compile-regional": {"runner": "compile", "regional": True},
    "cuda-graph": {"runner": "cuda_graph"},
}
CELL = {"op": "mymodel", "dtype": "own", "size": "batch-1"}
FIRST_CALLS = {"eager": 0.1, "compile": 20.0, "compile-regional": 5.0, "cuda-graph": 0.2}
PLACE = {"place": "mymodel.py:41", "code": "n = x.item()", "count": 17}


def document(verdicts=(), failed=(), latencies=None, kernels=None, **tables):
    """A study of one case; verdicts: {(mode, baseline): verdict}; failed: {mode: status}; the others: µs by mode."""
    verdicts, failed, latencies = dict(verdicts), dict(failed), latencies or {}
    summary, speedups = [], []
    for mode in MODES:
        values = {"latency": latencies.get(mode, 100.0), "first_call": FIRST_CALLS.get(mode, 1.0)}
        values |= {"kernels": kernels[mode]} if mode in (kernels or {}) else {}
        for metric, value in values.items():
            value = None if mode in failed else value
            row = {
                "estimate": value,
                "ci_low": value,
                "ci_high": value,
                "unit": "s" if metric == "first_call" else "µs",
            }
            state = {"status": failed.get(mode, "ok"), "reason": "why" if mode in failed else ""}
            summary.append(CELL | {"mode": mode, "metric": metric} | row | state)
    for (mode, baseline), verdict in verdicts.items():
        estimate = {"faster": 2.0, "slower": 0.5}.get(verdict, 1.0)
        found = {"speedup": estimate, "ci_low": estimate / 1.1, "ci_high": estimate * 1.1, "verdict": verdict}
        speedups.append(CELL | {"mode": mode, "baseline": baseline, "metric": "latency"} | found)
    return {
        "study": {
            "machine": "cpu-test",
            "repeats": 3,
            "dtypes": ["own"],
            "baselines": ["eager", "compile", "compile-regional", "cuda-graph"],
            "ops": {"mymodel": {"sizes": ["batch-1"]}},
            "modes": MODES,
        },
        "environment": {"gpu": None, "host": {"cpu": "a CPU"}, "software": {"torch": "2.13.0"}},
        "jobs": {"suspects": None},
        "boots": None,
        "control": {},
        "causes": [],
        "compilation": [],
        "payback": [],
        "summary": summary,
        "speedups": speedups,
    } | tables


def said(**fields):
    """Rows of `compilation` by mode."""
    return [CELL | {"mode": mode.replace("_", "-")} | own for mode, own in fields.items()]


def case(*arguments, **named):
    (found,) = recommend(document(*arguments, **named))["cases"]
    return found


def over_eager(**verdicts):
    return {(mode.replace("_", "-"), "eager"): verdict for mode, verdict in verdicts.items()}


def test_the_only_faster_mode_is_recommended():
    found = case(over_eager(compile="faster", cuda_graph="inconclusive"))
    assert (found["mode"], found["speedup"], found["ties"]) == ("compile", 2.0, [])


def test_of_modes_that_tie_the_one_with_the_shortest_first_call_is_recommended():
    found = case(over_eager(compile="faster", compile_regional="faster", cuda_graph="faster"))
    assert (found["mode"], found["ties"]) == ("cuda-graph", ["compile", "compile-regional"])


@pytest.mark.parametrize("shown", [{("compile", "cuda-graph"): "faster"}, {("cuda-graph", "compile"): "slower"}])
def test_a_mode_that_another_candidate_beats_is_no_tie(shown):
    found = case(over_eager(compile="faster", cuda_graph="faster") | shown)
    assert (found["mode"], found["ties"]) == ("compile", [])


def test_a_mode_that_only_a_failed_one_beats_stays():
    found = case(
        over_eager(compile="faster", cuda_graph="faster") | {("cuda-graph", "compile"): "faster"},
        failed={"cuda-graph": "incorrect"},
    )
    assert found["mode"] == "compile"


@pytest.mark.parametrize("verdict", ["slower", "inconclusive", "equivalent"])
def test_where_nothing_is_faster_it_is_eager(verdict):
    found = case(over_eager(compile=verdict))
    assert (found["mode"], found["speedup"], found["ties"]) == ("eager", None, [])
    assert "compile" in found["reason"]


def uncompared(*modes: str) -> dict:
    """Return a document in which two modes are faster, and the outputs of these modes were not compared."""
    found = document(over_eager(compile="faster", cuda_graph="faster") | {("cuda-graph", "compile"): "faster"})
    for row in found["summary"]:
        row["compared"] = row["mode"] not in modes
    return found


def test_a_mode_whose_output_was_not_compared_is_named_and_not_recommended():
    (found,) = recommend(uncompared("cuda-graph"))["cases"]
    assert (found["mode"], found["uncompared"]) == ("compile", ["cuda-graph"])
    (found,) = recommend(uncompared("cuda-graph", "compile", "eager"))["cases"]
    assert (found["mode"], found["uncompared"]) == ("eager", ["compile", "cuda-graph"])


def test_a_case_goes_by_its_name_and_not_by_its_key():
    labelled = document()
    labelled["study"]["ops"]["mymodel"]["labels"] = {"batch-1": "1/2"}
    assert recommend(labelled)["cases"][0]["case"] == "1/2"


def test_where_all_others_failed_it_is_eager():
    found = case(failed={"compile": "crashed", "compile-regional": "unsupported", "cuda-graph": "oom"})
    assert found["mode"] == "eager"
    assert {mode["mode"]: mode["note"] for mode in found["modes"]}["compile"] == "why"
    assert {mode["mode"]: mode["latency"] for mode in found["modes"]}["compile"] is None


def test_where_eager_failed_there_is_no_recommendation():
    found = case(failed={"eager": "oom"})
    assert found["mode"] is None and found["reason"]


def test_where_eager_was_not_measured_there_is_no_recommendation():
    others = document()
    others["study"]["ops"]["mymodel"]["modes"] = ["compile", "compile-regional"]
    others["summary"] = [row for row in others["summary"] if row["mode"] != "eager"]
    (found,) = recommend(others)["cases"]
    assert found["mode"] is None and found["ties"] == [] and found["reason"]
    assert [mode["mode"] for mode in found["modes"]] == ["compile", "compile-regional"]


def test_control_and_diagnostic_arms_are_no_modes():
    assert [mode["mode"] for mode in case()["modes"]] == ["eager", "compile", "compile-regional", "cuda-graph"]


@pytest.mark.parametrize("verdict", ["faster", "slower"])
def test_the_first_graph_break_is_named(verdict):
    compilation = said(compile={"graphs": 18, "breaks": [PLACE]})
    reason = case(over_eager(compile=verdict), compilation=compilation)["reason"]
    assert all(part in reason for part in ("17", PLACE["place"], PLACE["code"]))


def test_breaks_of_others_are_not_named_where_a_compiled_mode_wins():
    compilation = said(compile={"graphs": 18, "breaks": [PLACE]}, compile_regional={"graphs": 1})
    assert "17" not in case(over_eager(compile_regional="faster"), compilation=compilation)["reason"]


PROFILES = {
    # What the host saves, what kernels save, and both.
    "host": ({"launched": 313, "launches": 1}, 99.0, ["312", "1 "], ["99.0"]),
    "kernels": ({"launched": 61, "launches": 61}, 20.0, ["61", "20.0"], []),
}


@pytest.mark.parametrize("kind", PROFILES)
def test_a_profile_tells_what_saves_the_time(kind):
    own, took, named, not_named = PROFILES[kind]
    latency = {"host": {"eager": 1000.0, "compile": 120.0}, "kernels": {"eager": 110.0, "compile": 28.0}}[kind]
    given = {"latencies": latency, "kernels": {"eager": 100.0, "compile": took}}
    compilation = said(eager={"launched": 312, "launches": 312}, compile=own)
    reason = case(over_eager(compile="faster"), compilation=compilation, **given)["reason"]
    assert all(text in reason for text in named) and not any(text in reason for text in not_named)


def test_a_profile_that_does_not_count_launches_tells_what_the_host_takes():
    given = {"latencies": {"eager": 1000.0, "compile": 120.0}, "kernels": {"eager": 100.0, "compile": 99.0}}
    compilation = said(eager={"launched": 312}, compile={"launched": 313})
    reason = case(over_eager(compile="faster"), compilation=compilation, **given)["reason"]
    assert reason.startswith("host-bound: ") and "launches" not in reason


def test_without_a_profile_the_fusion_is_told():
    compilation = said(compile={"graphs": 1, "nodes": 170, "kernels": 61})
    reason = case(over_eager(compile="faster"), compilation=compilation)["reason"]
    assert "170" in reason and "61" in reason


@pytest.mark.parametrize("cause", ["clocks", "autotune", "unexplained"])
def test_a_cause_that_is_no_merit_of_the_mode_goes_before_its_profile(cause):
    causes = [CELL | {"mode": "compile", "baseline": "eager", "metric": "latency", "cause": cause}]
    compilation = said(eager={"launched": 312, "launches": 312}, compile={"launched": 61, "launches": 61})
    given = {"latencies": {"eager": 110.0, "compile": 28.0}, "kernels": {"eager": 100.0, "compile": 20.0}}
    given["compilation"] = compilation
    assert "312" in case(over_eager(compile="faster"), **given)["reason"]
    assert "312" not in case(over_eager(compile="faster"), causes=causes, **given)["reason"]


def test_a_metric_that_was_not_measured_is_refused():
    with pytest.raises(InputError, match="allowed: latency"):
        recommend(document(), "device")


def only(name, op):
    """A recorded study cut to one of its ops."""
    found = rebuilt(name)
    found["study"]["ops"] = {op: found["study"]["ops"][op]}
    return found


def test_resnet50_on_an_h100():
    found = recommend(only("h100-architectures", "resnet50"))
    assert [case["mode"] for case in found["cases"]] == ["compile-reduce-overhead"] * 2
    assert [case["case"] for case in found["cases"]] == ["1", "64"]
    # At batch 1 a call waits for the host, at 64 for its kernels.
    assert [case["reason"].partition(":")[0] for case in found["cases"]] == ["host-bound", "GPU-bound"]
    assert found["doubtful"]["jobs"] < found["doubtful"]["of"]
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize("metric", ["latency", "throughput", "device"])
def test_every_op_of_a_recorded_study_has_an_answer_that_its_table_supports(metric):
    document = rebuilt("h100-architectures")
    for op, entry in document["study"]["ops"].items():
        cut = document | {"study": document["study"] | {"ops": {op: entry}}}
        for found in recommend(cut, metric)["cases"]:
            modes = {mode["mode"]: mode for mode in found["modes"]}
            faster = {name for name, own in modes.items() if own["speedup"] and own["speedup"]["verdict"] == "faster"}
            # Eager language models have no device time: no delay hides their launches.
            nothing = "eager" if modes["eager"][metric] else None
            assert {found["mode"], *found["ties"]} <= (faster or {nothing}) and found["reason"]
            assert found["speedup"] is None or found["speedup"] > 1


def test_modes_that_cannot_run_on_a_cpu_say_why():
    (found,) = recommend(only("cpu-amd-epyc-models", "conv"))["cases"]
    graphs = next(mode for mode in found["modes"] if mode["mode"] == "compile-reduce-overhead")
    assert graphs["status"] == "unsupported" and graphs["note"] and graphs["latency"] is None
    assert all(mode["device"] is None for mode in found["modes"])
