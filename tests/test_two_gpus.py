"""Speedups on two GPU models are paired where the calls are the same, and only there."""

import pytest
from recorded import studied

from kernelbench.analysis.studies import Studies
from kernelbench.analysis.two_gpus import compare_speedups, name_gpus, pair_rows
from kernelbench.errors import InputError
from kernelbench.paper.values import Values


def document(
    gpu: str | None, speedup=2.0, verdict="faster", rows=8192, modes=None, study=None, torch="2.11", package="5", **row
):
    """A study of one speedup, of softmax compiled over eager by latency; package: the version of what it is from."""
    own = {"op": "softmax", "dtype": "float16", "size": "1024", "mode": "compile", "metric": "latency", **row}
    modes = modes or {"eager": {"runner": "eager"}, "compile": {"runner": "compile"}}
    machine = (gpu or "cpu").lower().split()[-1] + (f"-{study}" if study else "")
    ops = {"softmax": {"workload": "transformers", "rows": rows, "sizes": [1024]}}
    estimate = own | {"estimate": 10 * speedup}
    interval = {"speedup": speedup, "ci_low": speedup, "ci_high": speedup, "verdict": verdict, "baseline": "eager"}
    return {
        "study": {"machine": machine, "study": study, "baselines": ["eager"], "ops": ops, "modes": modes},
        "environment": {
            "gpu": gpu and {"name": gpu},
            "host": {"cpu": "a CPU"},
            "software": {"torch": torch, "triton": "3.6"},
        },
        "packages": {"transformers": package, "torchvision": f"{gpu} only"},
        "speedups": [own | interval],
        "summary": [estimate],
    }


FIRST = document("NVIDIA H200")
DYNAMIC = {"eager": {"runner": "eager"}, "compile": {"runner": "compile", "dynamic": True}}


def pairs(*others, table="speedups"):
    return pair_rows(Studies([FIRST, *others]), table)


def test_the_same_call_on_two_gpu_models_is_a_pair():
    (pair,) = pairs(document("NVIDIA H100 80GB HBM3", 3.0))
    assert pair[:5] == ("softmax", "float16", "1024", "compile", "latency")
    assert (pair.first["speedup"], pair.second["speedup"]) == (2.0, 3.0)
    assert name_gpus(Studies([FIRST, document("NVIDIA H100 80GB HBM3")])) == ["H200", "H100"]


def test_studies_on_one_topic_are_told_apart_by_their_gpu():
    studies = Studies([FIRST, document("NVIDIA H100"), document("NVIDIA H100", study="modes")])
    assert [studies.title(one) for one in studies.documents] == ["ops (H200)", "ops (H100)", "modes"]
    assert [studies.of(name) for name in ("ops", "ops 2", "modes")] == studies.documents


def test_times_are_paired_as_speedups_are():
    (pair,) = pairs(document("NVIDIA H100", 3.0), table="summary")
    assert (pair.first["estimate"], pair.second["estimate"]) == (20.0, 30.0)


@pytest.mark.parametrize(
    "other",
    [
        document(None),
        document("NVIDIA H200", study="again"),
        document("NVIDIA H100", rows=4096),
        document("NVIDIA H100", size="2048"),
        document("NVIDIA H100", dtype="bfloat16"),
        document("NVIDIA H100", metric="device"),
        document("NVIDIA H100", size="all"),
        document("NVIDIA H100", torch="2.13"),
        document("NVIDIA H100", package="4"),
        document("NVIDIA H100", speedup=0) | {"speedups": []},
        document(
            "NVIDIA H100", modes={"eager": {"runner": "eager"}, "compile": {"runner": "compile", "dynamic": True}}
        ),
    ],
    ids=[
        *("cpu", "same-gpu", "parameters", "size", "dtype", "metric", "mean", "torch", "package", "nothing"),
        "options",
    ],
)
def test_other_calls_are_no_pair(other):
    assert pairs(other) == []


def test_where_and_by_how_many_a_mode_compiles_makes_no_other_call():
    mode = {"runner": "compile", "workers": 8, "only": {"softmax": [1024]}}
    assert len(pairs(document("NVIDIA H100", modes={"eager": {"runner": "eager"}, "compile": mode}))) == 1


def test_of_several_studies_on_a_gpu_model_the_first_counts():
    (pair,) = pairs(document("NVIDIA H100", 3.0), document("NVIDIA H100", 4.0, study="again"))
    assert pair.second["speedup"] == 3.0


@pytest.mark.parametrize(
    ("verdict", "found"),
    [("faster", (1, 1)), ("slower", (1, 0)), ("equivalent", (0, 0)), ("inconclusive", (0, 0))],
)
def test_decided_verdicts_agree_or_not(verdict, found):
    said = compare_speedups(pairs(document("NVIDIA H100", 3.0, verdict)))
    assert (said["decided"], said["same"]) == found
    assert said["median"] == pytest.approx(0.5)


def test_the_article_may_ask_for_what_two_gpus_have_in_common():
    functions = Values(studied("h200", "h100-architectures"), {"numbers": {}, "groups": {}}, {}).functions()
    assert int(functions["both_gpus"]("latency", "of")) >= 12
    low, high = map(float, functions["slowed"]("eager", "host").split("–"))
    assert 0.5 < low < high < 2
    with pytest.raises(InputError):
        functions["both_gpus"]("latency", "nothing")
