"""On a cluster: a real SLURM of one node, whose GPU is a fake, runs CPU jobs."""

import json
import math
import os
import re
from datetime import datetime, timedelta

import pytest
from checkout import TINY, Checkout, wait_for
from cluster import Cluster, missing

from kernelbench.study.study import Study

pytestmark = pytest.mark.slow

# What a test adds: the private SLURM has no accounting, and need not be asked as rarely as one that others use.
PROFILE = ["--profile", "profiles/slurm"]
ARGUMENTS = [*PROFILE, "--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "2"]
EAGER_ONLY = {**TINY, "repeats": 1, "modes": {"eager": {"runner": "eager"}, "eager-control": {"runner": "eager"}}}


@pytest.fixture(scope="module")
def cluster():
    """A SLURM that sbatch and the like talk to."""
    if missing() and not os.environ.get("NEEDS_SLURM"):
        pytest.skip(f"SLURM is not installed: no {', '.join(missing())}")
    with Cluster() as cluster, pytest.MonkeyPatch.context() as patch:
        for name, value in cluster.environment.items():
            patch.setenv(name, value)
        yield cluster


@pytest.fixture
def submitted(cluster):
    """Return a function that gives what SLURM knows of each job that the test submitted."""
    before = set(cluster.jobs())
    return lambda: [job for number, job in cluster.jobs().items() if number not in before]


def records(checkout: Checkout) -> list[dict]:
    """Return the records that are there, as they were measured."""
    there = [json.loads((checkout.path / path).read_text()) for path in checkout.records()]
    return sorted(there, key=lambda record: record["started"])


def time_limit(study: Study, paths) -> str:
    """Return the summed time limit of the jobs whose records these are, as SLURM writes it."""
    jobs = [job for job in study.jobs if f"{study.results}/{job.path}" in paths]
    minutes = sum(math.ceil(study.timeout(job) / 60) for job in jobs)
    return f"{minutes // 60:02}:{minutes % 60:02}:00"


@pytest.mark.nightly
def test_each_repeat_is_one_allocation_of_one_gpu_and_the_summed_time(tmp_path, submitted):
    checkout = Checkout(tmp_path / "a clone", TINY)
    checkout.run("results/cpu-test/summary.csv", *ARGUMENTS)
    allocations = submitted()
    assert [job["JobState"] for job in allocations] == ["COMPLETED", "COMPLETED"]
    assert [job["TresPerJob"] for job in allocations] == ["gres:gpu:1"] * 2
    study = Study(TINY)
    assert {job["TimeLimit"] for job in allocations} == {time_limit(study, study.records(r)) for r in range(2)}
    assert {(job["NumCPUs"], job["MinMemoryNode"]) for job in allocations} == {("8", "32000M")}

    measured = records(checkout)
    assert {record["status"] for record in measured if record["mode"] != "triton"} == {"ok"}
    for repeat in range(2):
        in_repeat = [record for record in measured if record["repeat"] == repeat]
        assert [record["place"] for record in in_repeat] == sorted(record["place"] for record in in_repeat)
    starts = [datetime.fromisoformat(record["started"]) for record in measured]
    ends = [start + timedelta(seconds=r["seconds"]["total"]) for start, r in zip(starts, measured, strict=True)]
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False)), "two jobs ran at once"
    runs = {(r["repeat"], r["process"]["run"]) for r in measured}
    assert len(runs) == len({run for _, run in runs}) == 2, "a run for each repeat, which the gate asks its pairs for"


@pytest.mark.nightly
def test_a_cancelled_repeat_keeps_its_records_and_goes_on(tmp_path, cluster, submitted):
    checkout = Checkout(tmp_path / "clone", EAGER_ONLY)
    checkout.hold()
    (checkout.path / "ticket").touch()
    process = checkout.start("results/cpu-test/summary.csv", *ARGUMENTS)
    wait_for(checkout.records, process)
    cluster.command("scancel", submitted()[0]["JobId"])
    output = process.communicate()[0]
    assert process.returncode != 0, output
    first = checkout.records()
    assert len(first) == 1
    (checkout.path / "open").touch()
    checkout.run("results/cpu-test/summary.csv", *ARGUMENTS)
    last = checkout.records()
    assert len(last) == 3
    assert {path: last[path] for path in first} == first, "a record was measured again"
    assert submitted()[1]["TimeLimit"] == time_limit(Study(EAGER_ONLY), last.keys() - first.keys())


@pytest.mark.nightly
def test_a_gpu_study_asks_for_its_model_and_is_refused_only_where_it_would_run(tmp_path, submitted):
    checkout = Checkout(tmp_path / "clone", {**EAGER_ONLY, "machine": "h200-test"})
    process = checkout.start("results/h200-test/summary.csv", *ARGUMENTS)
    process.communicate()
    assert process.returncode != 0
    (job,) = submitted()
    assert job["TresPerJob"] == "gres:gpu:h200:1"
    (log,) = checkout.path.glob(".snakemake/slurm_logs/*/*.log")
    assert "config: machine: h200-test is not what this machine has" in log.read_text()
    assert not checkout.records()


@pytest.mark.parametrize("label", [pytest.param("h200", marks=pytest.mark.nightly), "h200-mine"])
def test_a_login_node_needs_no_gpu(tmp_path, label):
    checkout = Checkout(tmp_path / "clone", {**TINY, "machine": label})
    assert len(checkout.planned(*PROFILE)) == 10


def test_a_cluster_needs_a_named_machine(tmp_path):
    checkout = Checkout(tmp_path / "clone", {**TINY, "machine": "auto"})
    process = checkout.start("--dry-run", *PROFILE)
    output = process.communicate()[0]
    assert process.returncode != 0
    assert re.search("^config: machine: auto .*; allowed: .*h200$", output, re.MULTILINE)
    assert "Traceback" not in output
