"""Cost is linear in the number of jobs: calls of functions are counted, which other load of the host does not move."""

import cProfile
import shutil
import subprocess

import pytest
from checkout import ROOT, Work
from scale import RESULTS, Scale, config

from kernelbench import code_digest
from kernelbench.study.study import Study

pytestmark = [pytest.mark.slow, pytest.mark.nightly]


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Scale:
    return Scale(tmp_path_factory.mktemp("small"), 200)


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Scale:
    return Scale(tmp_path_factory.mktemp("large"), 600)


@pytest.fixture(scope="module")
def ran(small, large) -> tuple[Work, Work]:
    """What it takes to run all jobs of both studies."""

    def work(scale: Scale) -> Work:
        shutil.rmtree(scale.path / RESULTS, ignore_errors=True)
        return scale.work(scale.measure)

    return work(small), work(large)


def in_order(scale: Scale) -> list[str]:
    """Return the records that are there in the order in which they were written."""
    records = scale.records()
    return sorted(records, key=lambda path: (scale.path / path).stat().st_mtime_ns)


def test_what_snakemake_asks_for_each_job_is_a_look_up():
    def calls_of_a_job(jobs: int) -> float:
        study = Study(config(jobs))
        code_digest.of_job(study.settings(study.jobs[0]))  # The first one reads files.
        with cProfile.Profile() as profile:
            for job in study.jobs:
                asked = study.job(*vars(job.cell).values(), job.mode, job.repeat)
                answers = study.settings_json(asked), study.place(asked), study.priority(asked)
                assert len(answers) == 3 and code_digest.of_job(study.settings(asked))
        return sum(entry.callcount for entry in profile.getstats()) / jobs

    assert calls_of_a_job(20_000) < 1.1 * calls_of_a_job(1000)


def test_planning_grows_with_the_study(large, tmp_path):
    many = Scale(tmp_path, 2400)
    assert many.work(many.plan).calls < 4 * large.work(large.plan).calls


def test_running_grows_with_the_study_and_keeps_the_order(ran, large):
    few, many = (work.calls for work in ran)
    assert many < 1.5 * 3 * few
    assert (many - few) / 400 < 200_000, "95,000 for a job, the start of its Python included"
    assert in_order(large) == large.study.records()


def test_snakemake_keeps_no_timer_for_each_job_that_has_ended(ran):
    """Its limit of job starts does; each looks at all ready jobs every second, on a core beside what is measured."""
    assert [work.threads < 20 for work in ran] == [True, True]


def test_a_study_is_measured_in_slices_as_the_page_says(small):
    line = "python workflow/scripts/list_records.py | xargs -n 1000 snakemake"
    assert line in (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    shutil.rmtree(small.path / RESULTS, ignore_errors=True)
    subprocess.run(line.replace("1000", "80"), shell=True, cwd=small.path, env=small.variables, check=True)
    assert in_order(small) == small.study.records()
    assert small.planned() == []


def test_collecting_grows_with_the_study(tmp_path):
    few, many = (Scale(tmp_path / str(jobs), jobs) for jobs in (400, 2000))
    few.write_records()
    many.write_records()
    costs = []
    least, most = (scale.work(lambda scale=scale: costs.append(scale.collect())).calls for scale in (few, many))
    assert (most - least) / 1600 < 13_000, "6,400 for a record"
    assert (costs[1].memory - costs[0].memory) / 1600 < 0.15, "MiB of a record of 1,500 samples"
