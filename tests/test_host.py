"""The host's speed: jobs on a slow host are found by what an empty kernel took to launch, and so is what follows it."""

import json

import numpy as np
import pytest
from records import small_study, tables, write_records

from kernelbench.study import Study


@pytest.fixture
def study(monkeypatch):
    return small_study(monkeypatch)


@pytest.fixture
def longer(study):
    """The same in seven repeats."""
    return Study({**study.config, "repeats": 7})


def measured(study, directory, launch, **by_timer) -> dict:
    """Return what is told of a host that takes `launch(job)` times as long, and each timer a power of that."""

    def change(job, entry):
        entry["floors"]["launch"] = 10.0 * launch(job)
        entry["profile"] = {"kernels": [], "checked": True}
        entry["memory"] = {"inputs": 0, "peak": 0, "between_calls": 0, "graph_pools": 0}
        entry["generated_code"] = "a"
        for timer, power in by_timer.items():
            values = [value * launch(job) ** power for value in entry["samples"]["latency"]["values"]]
            entry["samples"][timer] = {"unit": "us", "values": values, "flags": entry["samples"]["latency"]["flags"]}

    write_records(study, directory, change)
    return tables(study, directory)[2]["host"]


def jolted(job) -> float:
    """In two of seven repeats the host takes half as long again for eager, and only for eager."""
    return 1.5 if job.mode == "eager" and job.repeat in (1, 4) else 1.0


def test_what_follows_the_host_is_told_by_its_slope(longer, tmp_path):
    rng = np.random.default_rng(1)
    speeds = {}
    found = measured(
        longer, tmp_path, lambda job: speeds.setdefault(job.path, np.exp(rng.normal(0, 0.5))), host=1, latency=0.5
    )
    assert found["follows"]["host"]["slope"] == pytest.approx(1, abs=0.25)
    assert found["follows"]["latency"]["slope"] == pytest.approx(0.5, abs=0.25)
    assert found["follows"]["device"]["slope"] == pytest.approx(0, abs=0.25)
    assert found["follows"]["host"]["correlation"] > 0.8 > abs(found["follows"]["device"]["correlation"])


def test_without_jobs_on_a_slow_host_the_interval_is_as_narrow_as_without_the_slow_host(longer, tmp_path):
    found = measured(longer, tmp_path, jolted, latency=1)
    cells = 3  # two sizes of softmax and the copy
    assert found["slow"] == {"jobs": 2 * cells, "of": 7 * (2 * 4 + 1)}
    assert found["launch"]["low"] == found["launch"]["median"] == 10
    widths = found["widths"]["compile"]
    assert widths["latency"]["all"] > 0.1 and widths["latency"]["quiet"] < 0.01
    assert widths["latency"]["repeats"] == 5
    assert widths["device"]["all"] < 0.01
    assert set(found["widths"]) == {"compile", "triton"}, "the baseline and its control are no modes of interest"


def test_too_few_quiet_repeats_tell_no_width(study, tmp_path):
    found = measured(study, tmp_path, jolted, latency=1)
    assert found["widths"] == {}, "three of five repeats are left"
    assert json.dumps(found, allow_nan=False)


def test_turns_that_were_taken_again_are_counted(study, tmp_path):
    def change(job, entry):
        entry["floors"]["launch"] = 10.0
        if job.mode == "compile":
            entry["core"] = {"loop": 90.0, "again": 3, "slow": 1}

    write_records(study, tmp_path, change)
    assert tables(study, tmp_path)[2]["host"]["turns"] == {"again": 30, "slow": 10}


def test_records_that_do_not_say_tell_nothing(study, tmp_path):
    write_records(study, tmp_path)
    assert tables(study, tmp_path)[2]["host"] is None


def test_a_host_without_a_change_is_followed_by_nothing(study, tmp_path):
    assert measured(study, tmp_path, lambda job: 1.0)["follows"] == {}
