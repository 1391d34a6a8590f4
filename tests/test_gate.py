"""The gate: each defect that it knows is planted in a copy of good data, and found with its repair."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml
from records import small_study, tables, write_records

from kernelbench.notes import HardwareSlowdown, Heat, Note, NotMonitored, OtherProcesses, PowerCap
from kernelbench.records.quality_gate import Gate

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    """A recorded study without a defect."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        study = small_study(monkeypatch)
    directory = tmp_path_factory.mktemp("gate") / "results" / "recorded" / "h200"
    write_records(study, directory)
    tables(study, directory)[1].to_csv(directory / "speedups.csv", index=False)
    change_environment(directory, commit="abc")
    return directory


@pytest.fixture
def data(good, tmp_path) -> Path:
    """A copy of it to break."""
    return Path(shutil.copytree(good, tmp_path / "results" / "recorded" / "h200"))


def change_environment(directory: Path, **keys) -> None:
    path = directory / "environment.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))


def change_jobs(directory: Path, change) -> None:
    """Replace the jobs by what `change` makes of them."""
    path = directory / "jobs.parquet"
    change(pd.read_parquet(path)).to_parquet(path)


def is_job(jobs: pd.DataFrame, **wanted) -> pd.Series:
    return (jobs[list(wanted)] == list(wanted.values())).all(axis=1)


def put(column: str, value, **wanted):
    """Return a change that gives some jobs, by default one, another value."""

    def change(jobs: pd.DataFrame) -> pd.DataFrame:
        which = is_job(jobs, **(wanted or {"op": "softmax", "size": "512", "mode": "compile", "repeat": 3}))
        assert which.any()
        column_now = jobs[column] if column in jobs else pd.Series(None, jobs.index, dtype=object)
        return jobs.assign(**{column: column_now.mask(which, value)})

    return change


def said(note: Note) -> str:
    """Return a note as jobs.parquet has it among those that speak against a job."""
    return json.dumps([note.to_json()])


def without(**wanted):
    return lambda jobs: jobs[~is_job(jobs, **wanted)]


def apart(jobs: pd.DataFrame) -> pd.DataFrame:
    """One job measured again alone, at the end of its repeat."""
    which = is_job(jobs, op="softmax", size="512", mode="compile", repeat=3)
    return jobs.assign(ran=jobs.ran.mask(which, 99))


def swapped(jobs: pd.DataFrame) -> pd.DataFrame:
    """The modes of one cell in another order than that of the plan."""
    which = is_job(jobs, op="softmax", size="512", repeat=3)
    return jobs.assign(ran=jobs.ran.mask(which, jobs.ran[which].max() + jobs.ran[which].min() - jobs.ran))


def test_good_data_passes(good):
    assert Gate(good).find_defects() == []


def capped(jobs: pd.DataFrame, only: str) -> pd.DataFrame:
    """Return the jobs with one mode of a cell alone at the power cap, and at a lower clock."""
    arm = {"op": "softmax", "size": "512", "mode": only}
    return put("clocks.single", 1900.0, **arm)(put("suspect", said(PowerCap(9)), **arm)(jobs))


CLOCKS = {"clocks.single": 1980.0, "clocks.throughput": 1980.0, "gpu_after.sm_clock": 1980.0}
ONE = "softmax/float16/512/compile/3"
VERIFY = "/results/recorded/h200; rm results/h200/records/softmax/float16/512/*/3.json; snakemake --resources gpu=1 "


@pytest.mark.parametrize(
    ("change", "what", "job", "repair"),
    [
        (without(op="softmax", size="512", mode="compile", repeat=3), "missing", ONE, "snakemake --res"),
        (without(repeat=4), "missing", "copy/float16/1MiB/eager/4", "snakemake --resources"),
        (lambda jobs: pd.concat([jobs, jobs.iloc[:1]]), "not of the study, or there twice", "", "rm results/h200"),
        (put("status", "incorrect"), "incorrect", ONE, VERIFY),
        (put("status", "crashed"), "crashed", ONE, VERIFY),
        (put("suspect", said(OtherProcesses(1))), "another process was on the GPU", ONE, VERIFY),
        (put("suspect", said(NotMonitored())), "nobody watched the GPU", ONE, VERIFY),
        (put("suspect", said(Heat(3))), "clocks were held back", ONE, VERIFY),
        (put("suspect", said(HardwareSlowdown(None))), "clocks were held back", ONE, VERIFY),
        (
            put("clocks.single", 1900.0, op="softmax", size="512", mode="compile"),
            "the SM clock was lower than in other modes",
            "softmax/float16/512/compile/0",
            "rm results/h200/records/softmax/float16/512/*/0.json",
        ),
        (put("settled", False), "warm-up did not settle", ONE, VERIFY),
        (apart, "pairs did not run as planned", "softmax/float16/512/", VERIFY),
        (swapped, "pairs did not run as planned", "softmax/float16/512/", VERIFY),
        (put("environment.software.torch", "9"), "two kinds of torch (2, 9)", ONE, VERIFY),
        (put("environment.gpu.name", "NVIDIA T4"), "two kinds of GPU (NVIDIA H200, NVIDIA T4)", ONE, VERIFY),
        (put("environment.host.cpu", "Y"), "two kinds of CPU (X, Y)", ONE, VERIFY),
    ],
)
def test_a_planted_defect_is_found(data, change, what, job, repair):
    change_jobs(data, lambda jobs: change(jobs.assign(**CLOCKS)))
    (defect,) = Gate(data).find_defects()
    assert defect.what.startswith(what)
    assert any(name.startswith(job) for name in defect.jobs)
    assert defect.repair.startswith(f"python workflow/scripts/restore.py {data}; ") and repair in defect.repair
    assert defect.repair.endswith("/study.yaml; python workflow/scripts/promote.py results/h200")


def test_a_recorded_study_of_no_commit_is_found(data):
    change_environment(data, commit=None)
    (defect,) = Gate(data).find_defects()
    assert defect.what == "no commit has the code that measured it"


@pytest.mark.parametrize(("column", "runs"), [("process.parent", (7.0, 8.0)), ("process.run", ("7:100", "8:200"))])
def test_pairs_of_two_runs_are_apart_also_where_nothing_ran_between_them(data, column, runs):
    """Only eager of one cell and repeat has another run: what is compared with it is torn from it."""
    cell = {"op": "softmax", "size": "1024", "repeat": 0}

    def change(jobs):
        torn = (jobs[list(cell)] == list(cell.values())).all(axis=1) & (jobs["mode"] == "eager")
        known = torn.map({False: runs[0], True: runs[1]}).mask(jobs.repeat == 1)
        return jobs.drop(columns="process.parent", errors="ignore").assign(**{column: known})

    change_jobs(data, change)
    (defect,) = Gate(data).find_defects()
    assert defect.what == "pairs did not run as planned"
    assert defect.jobs and all(
        job.startswith("softmax/") and "/1024/" in job and job.endswith("/0") for job in defect.jobs
    )
    assert {job.split("/")[3] for job in defect.jobs} >= {"compile", "triton"}


TIMERS = "workflow/kernelbench/harness/timers.py"


def test_what_other_code_measured_is_named_with_what_measures_it_again(data):
    code = json.loads((data / "environment.json").read_text())["code"]
    code["files"][TIMERS].append("0123456789abcdef")
    change_environment(data, code=code)

    def by_other_code(jobs: pd.DataFrame) -> pd.DataFrame:
        other = jobs["code.files"].map(lambda text: json.dumps({**json.loads(text), TIMERS: "0123456789abcdef"}))
        return jobs.assign(**{"code.files": jobs["code.files"].mask(jobs.repeat == 0, other)})

    change_jobs(data, by_other_code)
    (defect,) = Gate(data).find_defects()
    assert defect.what == f"measured by 2 states of {TIMERS}"
    assert defect.jobs and all(job.endswith("/0") for job in defect.jobs)
    assert "/*/0.json" in defect.repair and "/*/1.json" not in defect.repair


def test_records_of_an_older_scheme_beside_those_of_today_are_to_be_measured_again(data):
    change_environment(data, sources=["v2-0123456789abcdef"])
    change_jobs(data, put("environment.software.sources", "v2-0123456789abcdef", repeat=0))
    (defect,) = Gate(data).find_defects()
    assert defect.what == "measured by 2 states of the code"
    assert defect.jobs and all(job.endswith("/0") for job in defect.jobs)


def test_a_mode_that_was_added_later_is_apart_from_its_baselines_and_they_are_not_from_each_other(data):
    change_jobs(data, lambda jobs: jobs.assign(ran=jobs.ran.mask(jobs["mode"] == "triton", jobs.ran + 1000)))
    (defect,) = Gate(data).find_defects()
    assert defect.what == "pairs did not run as planned"
    assert len(defect.jobs) == 10 and all("/triton/" in job for job in defect.jobs)


def test_a_repair_brings_back_only_what_is_not_here_and_names_the_configuration(data, monkeypatch):
    change_jobs(data, put("settled", False))
    monkeypatch.chdir(data.parents[2])
    Path("results", "h200", "records").mkdir(parents=True)
    (recorded,) = Gate(data).find_defects()
    assert recorded.repair.startswith("rm results/h200/records/")
    own = Path(shutil.copytree(data, Path("results", "h200"), dirs_exist_ok=True))
    mine = " --configfile mine.yaml --config study=tiny 'ops={\"copy\": 1}'"
    for configfile, given, named in (
        (["config.yaml"], (), ""),
        (["mine.yaml"], (), " --configfile mine.yaml"),
        (["config.yaml", "more.yaml"], (), " --configfile config.yaml more.yaml"),
        (["mine.yaml"], ("study=tiny", 'ops={"copy": 1}'), mine),
    ):
        (defect,) = Gate(own, configfile, given).find_defects()
        assert (
            defect.repair == f"rm results/h200/records/softmax/float16/512/*/3.json; snakemake --resources gpu=1{named}"
        )


@pytest.mark.parametrize("status", ["incorrect", "crashed"])
@pytest.mark.parametrize("runner, repeats, defects", [("library", 5, 0), ("library", 4, 1), ("compile", 5, 1)])
def test_what_a_library_fails_at_in_every_repeat_is_no_defect(data, status, runner, repeats, defects):
    path = data / "study.yaml"
    study = yaml.safe_load(path.read_text())
    study["modes"]["compile"]["runner"] = runner
    path.write_text(yaml.safe_dump(study, sort_keys=False))
    for repeat in range(repeats):
        change_jobs(data, put("status", status, op="softmax", size="512", mode="compile", repeat=repeat))
    assert len([*Gate(data).find_wrong()]) == defects


def test_a_repair_measures_on_as_many_gpus_at_once_as_the_study_did(data, monkeypatch):
    change_jobs(data, put("settled", False))
    started = pd.to_datetime(pd.read_parquet(data / "jobs.parquet").started.min())
    change_jobs(data, lambda jobs: jobs.assign(started=started.isoformat(), **{"seconds.total": 9.0}))
    (defect,) = Gate(data).find_defects()
    repeats = pd.read_parquet(data / "jobs.parquet").repeat.nunique()
    assert f"snakemake --cores {repeats} --resources gpu={repeats} " in defect.repair


def test_older_records_are_judged_by_the_clock_that_they_have(data):
    change_jobs(data, lambda jobs: jobs.assign(**{"gpu_after.sm_clock": 1980.0}))
    change_jobs(data, put("gpu_after.sm_clock", 1900.0, op="softmax", size="512", mode="compile"))
    (defect,) = Gate(data).find_defects()
    assert defect.what == "the SM clock was lower than in other modes"


def test_clocks_that_are_lower_by_less_than_a_verdict_sees_or_in_all_arms_or_once_are_no_defect(data):
    change_jobs(data, lambda jobs: jobs.assign(**CLOCKS))
    change_jobs(data, put("clocks.single", 1965.0, op="softmax", size="512", mode="compile"))
    change_jobs(data, put("clocks.single", 1700.0, op="softmax", size="1024"))
    change_jobs(data, put("clocks.single", 1200.0, op="softmax", size="1024", mode="triton", repeat=2))
    # All modes of a cell at the power cap: the one that draws the most has the lowest clock.
    change_jobs(data, put("suspect", said(PowerCap(9)), op="softmax", size="1024"))
    change_jobs(data, put("clocks.single", 1400.0, op="softmax", size="1024", mode="triton"))
    # Nor is what calls back to back make of it.
    change_jobs(data, put("clocks.throughput", 1400.0, op="softmax", size="512", mode="eager"))
    assert Gate(data).find_defects() == []


@pytest.mark.parametrize(
    ("mode", "verdict", "interval", "hangs"),
    [
        # Time that goes with a clock of 1900 in place of 1980 MHz is 4 % too long.
        ("triton", "slower", (0.50, 0.51), False),
        ("triton", "slower", (0.96, 0.97), True),
        ("triton", "faster", (1.01, 1.02), False),
        ("triton", "equivalent", (0.995, 1.005), True),
        ("triton", "inconclusive", (0.98, 1.02), False),
        ("eager", "faster", (1.03, 1.04), True),
        ("eager", "faster", (1.05, 1.06), False),
        ("eager", "slower", (0.98, 0.99), False),
    ],
)
def test_one_mode_alone_at_the_power_cap_is_a_defect_where_a_verdict_hangs_on_it(data, mode, verdict, interval, hangs):
    change_jobs(data, lambda jobs: capped(jobs.assign(**CLOCKS), only=mode))
    decide(data, verdict, interval)
    found = [defect.what for defect in Gate(data).find_defects()]
    assert found == (["the SM clock was lower than in other modes"] if hangs else [])


def test_a_verdict_on_two_modes_at_the_power_cap_does_not_hang_on_what_each_makes_of_it(data):
    change_jobs(data, lambda jobs: capped(jobs.assign(**CLOCKS), only="triton"))
    decide(data, "equivalent", (0.995, 1.005))
    assert Gate(data).find_defects()
    change_jobs(data, put("suspect", said(PowerCap(9)), op="softmax", size="512", mode="eager"))
    assert Gate(data).find_defects() == []


def decide(data, verdict: str, interval: tuple[float, float]) -> None:
    """Put into a study's speedups that this is known of triton over eager, and nothing of other pairs of the cell."""
    speedups = pd.read_csv(data / "speedups.csv", dtype={"size": str})
    cell = is_job(speedups, op="softmax", size="512") & speedups.metric.isin(["device", "latency", "event"])
    mine = cell & is_job(speedups, mode="triton", baseline="eager")
    assert mine.any()
    speedups.loc[cell, "verdict"] = "inconclusive"
    speedups.loc[mine, ["verdict", "ci_low", "ci_high"]] = [verdict, *interval]
    speedups.to_csv(data / "speedups.csv", index=False)


def check(*arguments) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "workflow" / "scripts" / "check.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_command_lists_defects_and_fails_unless_a_draft_is_wanted(good, data, tmp_path):
    assert check("--data", good).returncode == 0
    change_jobs(data, put("settled", False))
    refused = check("--data", good, data)
    assert refused.returncode != 0
    assert f"{data}: warm-up did not settle: {ONE}; repair: python" in refused.stdout
    assert "--config draft=True" in refused.stderr and "Traceback" not in refused.stderr
    output = tmp_path / "defects.json"
    assert check("--data", data, "--draft", "--output", output).returncode == 0
    (found,) = json.loads(output.read_text())
    assert found | {"study": str(data), "jobs": [ONE]} == found
    assert "nothing measured here" in check("--data", tmp_path / "none").stdout
    (data / "speedups.csv").unlink()
    torn = check("--data", data)
    assert (
        torn.returncode != 0 and f"{data}: its tables are not there" in torn.stderr and "Traceback" not in torn.stderr
    )


def test_recorded_studies_pass():
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    for name in config["recorded"]:
        assert Gate(ROOT / "results" / "recorded" / name).find_defects() == []
