"""Cost is linear in the number of jobs. Bounds are twice to thrice what was measured, in CPU time."""

import shutil
import subprocess
import time
from contextlib import suppress

import psutil
import pytest
from checkout import ROOT
from scale import RESULTS, Scale, config

from kernelbench.study import Study

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Scale:
    return Scale(tmp_path_factory.mktemp("small"), 200)


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Scale:
    return Scale(tmp_path_factory.mktemp("large"), 600)


def in_order(scale: Scale) -> list[str]:
    """Return the records that are there in the order in which they were written."""
    records = scale.records()
    return sorted(records, key=lambda path: (scale.path / path).stat().st_mtime_ns)


def test_what_snakemake_asks_for_each_job_is_a_look_up():
    def of_a_job(jobs: int) -> float:
        study = Study(config(jobs))
        start = time.process_time()
        for job in study.jobs:
            asked = study.job(*vars(job.cell).values(), job.mode, job.repeat)
            answers = study.sources(asked), study.settings_json(asked), study.place(asked), study.priority(asked)
        assert len(answers) == 4
        return (time.process_time() - start) / jobs

    assert of_a_job(20_000) < 3 * of_a_job(1000)


def test_planning_grows_with_the_study(large, tmp_path):
    assert Scale(tmp_path, 2400).plan().seconds < 1.5 * 4 * large.plan().seconds


def test_running_grows_with_the_study_and_keeps_the_order(small, large):
    first, many = small.measure().seconds, large.measure().seconds
    # A host that turned busy in between takes more CPU seconds for the same.
    shutil.rmtree(small.path / RESULTS)
    few = max(first, small.measure().seconds)
    assert many < 1.5 * 3 * few
    # 0.05 on an idle host, and half as much again and more where other tests share its cores.
    assert (many - few) / 400 < 0.12, "CPU seconds of a job, start of two processes included"
    assert in_order(large) == large.study.records()


def test_snakemake_keeps_no_timer_for_each_job_that_has_ended(small):
    """Its limit of job starts does; each looks at all ready jobs every second, on a core beside what is measured."""
    shutil.rmtree(small.path / RESULTS, ignore_errors=True)
    process, most = small.start("--until", "measure", "--quiet", "all"), 0
    while process.poll() is None:
        with suppress(psutil.Error):
            most = max(most, psutil.Process(process.pid).num_threads())
        time.sleep(0.05)
    assert process.returncode == 0, process.stdout.read()
    assert 1 < most < 20


def test_a_study_is_measured_in_slices_as_the_readme_says(small):
    line = "python workflow/scripts/list_records.py | xargs -n 1000 snakemake"
    assert line in (ROOT / "README.md").read_text(encoding="utf-8")
    shutil.rmtree(small.path / RESULTS, ignore_errors=True)
    subprocess.run(line.replace("1000", "80"), shell=True, cwd=small.path, env=small.variables, check=True)
    assert in_order(small) == small.study.records()
    assert small.planned() == []


def test_collecting_grows_with_the_study(tmp_path):
    few, many = (Scale(tmp_path / str(jobs), jobs) for jobs in (400, 2000))
    few.write_records()
    many.write_records()
    least, most = few.collect(), many.collect()
    assert (most.seconds - least.seconds) / 1600 < 0.003
    assert (most.memory - least.memory) / 1600 < 0.15, "MiB of a record of 1,500 samples"
