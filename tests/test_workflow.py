"""The workflow end to end on a CPU: a tiny study, its growth, its paper."""

import json
import os
import re
import shutil
import subprocess
import sys
import time

import pandas as pd
import pypdf
import pytest
import yaml
from checkout import ROOT, TINY, Checkout, wait_for

from kernelbench.numbers import NBSP, ci
from kernelbench.records import restore
from kernelbench.study.study import Study

pytestmark = pytest.mark.slow

SUMMARY = "machine,op,dtype,size,mode,metric,unit,n,boots,estimate,ci_low,ci_high,status,reason,compared"
SPEEDUPS = (
    "machine,op,dtype,size,mode,baseline,metric,n,boots,speedup,ci_low,ci_high,p,p_holm,verdict,cause,status,reason,"
    "hl,hl_low,hl_high,delta,compared"
)
SAMPLES = ["machine", "op", "dtype", "size", "mode", "repeat", "timer", "index", "value", "flag"]
RESULTS = "results/cpu-test"
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
# Recorded studies of a GPU and of a CPU, of the main kind and of one topic.
FEW = ["h200", "cpu-amd-epyc-dtypes"]


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Checkout:
    """A tiny study that has run to its end, with more cores than a measurement takes."""
    checkout = Checkout(tmp_path_factory.mktemp("a study"), TINY)
    checkout.run(cores=3)
    return checkout


@pytest.fixture
def grown(study):
    """The finished study, whose files a test may change; its config and sources are put back."""
    sources = ["config.yaml", "kernels/softmax.py", "workflow/kernelbench/harness/timers.py"]
    before = {name: ((study.path / name).read_bytes(), (study.path / name).stat()) for name in sources}
    yield study
    for name, (content, stat) in before.items():
        (study.path / name).write_bytes(content)
        os.utime(study.path / name, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_the_contract_files_are_there(study):
    results = study.path / RESULTS
    assert (results / "summary.csv").read_text().splitlines()[0] == SUMMARY
    assert (results / "speedups.csv").read_text().splitlines()[0] == SPEEDUPS
    samples = pd.read_parquet(results / "samples.parquet")
    assert list(samples.columns) == SAMPLES
    jobs = pd.read_parquet(results / "jobs.parquet")
    assert len(jobs) == 2 * (4 + 1)
    assert set(jobs[jobs["mode"] == "triton"].status) == {"unsupported"}
    document = json.loads((results / "summary.json").read_text())
    assert {"study", "environment", "summary", "speedups"} <= set(document)
    assert (results / "study.yaml").exists() and (results / "environment.json").exists()


def test_unsupported_modes_are_rows_with_their_reason(study):
    summary = pd.read_csv(study.path / RESULTS / "summary.csv")
    rows = summary[summary["mode"] == "triton"]
    assert set(rows.metric) == {"latency", "throughput", "first_call"}
    assert set(rows.status) == {"unsupported"}
    assert set(rows.reason) == {"needs cuda, this machine is cpu"}
    assert rows.estimate.isna().all()


def test_jobs_ran_in_the_planned_order(study):
    jobs = pd.read_parquet(study.path / RESULTS / "jobs.parquet").sort_values("started")
    assert list(jobs.place) == list(range(len(jobs)))


def test_the_report_says_what_was_measured(study):
    pdf = pypdf.PdfReader(study.path / RESULTS / "report.pdf")
    text = " ".join(" ".join(page.extract_text() for page in pdf.pages).split())
    speedups = pd.read_csv(study.path / RESULTS / "speedups.csv")
    row = speedups[(speedups["mode"] == "compile") & (speedups.metric == "latency")].iloc[0]
    assert "Claims of the article" in text
    assert ci(row.to_dict()).replace(NBSP, " ") in text
    assert "needs cuda, this machine is cpu" in text
    assert "{{" not in text and "undefined" not in text.lower()


def test_nothing_of_the_workflow_runs_beside_a_measurement(study):
    spans = []
    for path in (study.path / ".snakemake" / "metadata").iterdir():
        noted = json.loads(path.read_text())
        spans.append((noted["rule"], noted["starttime"], noted["endtime"]))
    measured = [span for span in spans if span[0] == "measure"]
    others = [span for span in spans if span[0] != "measure"]
    assert len(measured) == 10 and len(others) > 10
    beside = [other for other in others for one in measured if other[1] < one[2] and one[1] < other[2]]
    assert beside == []
    assert any(a[1] < b[2] and b[1] < a[2] for a in others for b in others if a[0] < b[0]), "what else could be"


def test_a_second_run_does_nothing(study):
    before = study.records()
    assert "Nothing to be done" in study.run()
    assert study.records() == before


def planned(checkout: Checkout) -> set[str]:
    """Return the records that a run would measure, which are as many as `snakemake plan` says."""
    names = checkout.planned("--until", "measure")
    assert left(checkout) == len(set(names)) == len(names)
    return set(names)


def left(checkout: Checkout) -> int:
    """Return how many jobs `snakemake plan` says are left."""
    return int(re.search(r"jobs, \d+ done, (\d+) left", checkout.run("plan"))[1])


def test_a_grown_study_measures_only_what_is_new(grown):
    ops = {"softmax": {"rows": 64, "sizes": [128, 256]}, "layer_norm": {"rows": 8, "sizes": [64]}}
    dynamic = {"compile-dynamic": {"runner": "compile", "dynamic": True}}
    config = {**TINY, "ops": {**TINY["ops"], **ops}, "modes": {**TINY["modes"], **dynamic}, "repeats": 3}
    grown.configure(config)
    wanted, there = set(Study(config).records()), set(grown.records())
    assert len(there) == 10 and there < wanted and len(wanted) == 3 * (3 * 5 + 1)
    assert planned(grown) == wanted - there


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"sampling": {**TINY["sampling"], "samples": 6}}, "/"),
        pytest.param(
            {"modes": {**TINY["modes"], "compile": {"runner": "compile", "fullgraph": True}}},
            "/compile/",
            marks=pytest.mark.nightly,
        ),
        ({"equivalence": {"default": 0.05}, "baselines": ["eager", "compile"]}, "nothing"),
    ],
    ids=["sampling", "a mode", "what is only shown"],
)
def test_a_changed_study_measures_what_the_change_is_about(grown, change, part):
    grown.configure({**TINY, **change})
    assert planned(grown) == {path for path in grown.records() if part in path}


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("kernels/softmax.py", "/softmax/float32/128/triton/"),
        pytest.param("workflow/kernelbench/harness/timers.py", "/", marks=pytest.mark.nightly),
    ],
    ids=["kernel", "harness"],
)
def test_a_changed_source_measures_the_jobs_that_use_it(grown, source, part):
    path = grown.path / source
    before = path.read_bytes()
    path.write_bytes(before + b"CHANGED = 1\n")
    os.utime(path, (1e9, 1e9))  # Older than all records.
    assert planned(grown) == {path for path in grown.records() if part in path}
    path.write_bytes(before)
    assert grown.planned() == []


def test_code_that_changes_during_a_run_ends_it_in_a_line_and_comments_do_not(tmp_path):
    checkout = Checkout(tmp_path / "clone", TINY)
    checkout.hold()
    process, name = checkout.start("--until", "measure"), "workflow/kernelbench/harness/timers.py"
    for line in ("# changed\n", "CHANGED = 1\n"):
        before = len(checkout.records())
        (checkout.path / "ticket").touch()
        wait_for(lambda before=before: len(checkout.records()) > before, process)
        with (checkout.path / name).open("a") as file:
            file.write(line)
    (checkout.path / "open").touch()
    output = process.communicate()[0]
    assert process.returncode == 1 and f"{name}: changed during the run; run snakemake again" in output
    assert output.count("changed during the run") < 4, "the first one ends it: eight jobs were left"
    assert len(checkout.records()) == 2 and len(checkout.planned()) == len(Study(TINY).jobs), "none counts for the rest"


def test_code_that_is_no_python_is_refused_in_a_line(grown):
    with (grown.path / "kernels" / "softmax.py").open("a") as file:
        file.write("def (\n")
    assert grown.refuse().startswith("kernels/softmax.py: line ")


def date(checkout: Checkout, moment: float) -> None:
    """Date all sources of a checkout to a moment (s), as a copy, an archive or a git checkout does."""
    for folder in ("workflow", "kernels", "envs"):
        for path in (checkout.path / folder).rglob("*.*"):
            os.utime(path, (moment, moment))


def test_dates_and_line_ends_of_sources_measure_nothing(grown):
    changed = [*(grown.path / "workflow/kernelbench/harness").rglob("*.py"), *(grown.path / "kernels").glob("*.py")]
    before = {path: path.read_bytes() for path in changed}
    try:
        for path, content in before.items():
            path.write_bytes(content.replace(b"\n", b"\r\n"))
        date(grown, time.time())
        assert planned(grown) == set()
    finally:
        for path, content in before.items():
            path.write_bytes(content)


@pytest.mark.parametrize(
    "name",
    [
        "kernels/softmax.py",
        pytest.param("workflow/scripts/summarize.py", marks=pytest.mark.nightly),
        pytest.param("paper/paper.md", marks=pytest.mark.nightly),
        pytest.param(f"{RESULTS}/samples.parquet", marks=pytest.mark.nightly),
        f"{RESULTS}/records/softmax/float32/128/eager/0.json",
    ],
)
def test_a_date_in_the_future_is_refused_in_a_line_and_nothing_is_measured_or_lost(grown, name):
    path, before = grown.path / name, grown.records()
    stat = path.stat()
    os.utime(path, (time.time() + 86_400,) * 2)
    said = grown.refuse()
    dated = grown.records()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert said.startswith(f"{name}: ") and "touch" in said
    assert dated.keys() == before.keys() and grown.records() == before


def test_touching_what_is_not_measured_is_refused_in_a_line(grown, tmp_path):
    assert "Nothing to be done" in grown.run("--touch")
    name = next(iter(grown.records()))
    (grown.path / name).rename(tmp_path / "kept.json")
    said = grown.refuse("--touch")
    (tmp_path / "kept.json").rename(grown.path / name)
    assert said.startswith(f"--touch: {name} is not there")
    kernel = grown.path / "kernels" / "softmax.py"
    with kernel.open("a") as file:
        file.write("CHANGED = 1\n")
    assert "is outdated" in grown.refuse("--touch")


def test_another_folder_is_told_what_to_run_instead(grown, tmp_path):
    (tmp_path / "mine.yaml").write_text("machine: cpu\n")
    command = [sys.executable, "-m", "snakemake", "-s", grown.path / "Snakefile", "--configfile", "mine.yaml", "-n"]
    done = subprocess.run(command, cwd=tmp_path, env=grown.variables, capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    said = done.stderr.splitlines()[-1]
    assert said.startswith(f"{tmp_path}: ") and str(tmp_path / "mine.yaml") in said and f"cd '{grown.path}'" in said


NAMELESS = r"""
#include <pwd.h>
#include <stddef.h>
int getpwuid_r(uid_t id, struct passwd *entry, char *text, size_t size, struct passwd **found) {
    *found = NULL;
    return 0;
}
"""


def test_a_user_id_without_a_name_will_do(grown, tmp_path):
    """As in a container that is started for any user id: the system knows no name for it, and no variable has one."""
    (tmp_path / "nameless.c").write_text(NAMELESS)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "nameless.so", "nameless.c"], cwd=tmp_path, check=True)
    environment = {k: v for k, v in grown.variables.items() if k not in ("USER", "LOGNAME", "LNAME", "USERNAME")}
    environment |= {"LD_PRELOAD": str(tmp_path / "nameless.so"), "HOME": "/"}
    for command in (
        [sys.executable, "-m", "snakemake", "--cores", "1", "--resources", "gpu=1"],
        [sys.executable, "-c", "from kernelbench.harness import environment as e; print(e.build(e.os.environ, {}))"],
    ):
        done = subprocess.run(command, cwd=grown.path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert f"'LOGNAME': '{os.getuid()}'" in done.stdout


def test_the_repair_names_all_config_files(grown, tmp_path):
    more = tmp_path / "more.yaml"
    more.write_text("threads: 1\n")
    output = grown.run("check", "--dry-run", "--printshellcmds", "--configfile", "config.yaml", str(more))
    assert f"--configfile config.yaml {os.path.relpath(more, grown.path)}" in output


def test_an_environment_that_nobody_activated_serves_its_own_snakemake(grown):
    process = subprocess.run(
        [sys.executable, "-m", "snakemake", "plan", "--cores", "1"],
        cwd=grown.path,
        env={**grown.variables, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    assert "time: " in process.stdout, process.stdout


def test_a_deleted_record_is_measured_again_and_no_other(grown, tmp_path):
    """Tables that are made already would not miss it: the run itself asks for all records."""
    name = next(iter(grown.records()))
    (grown.path / name).rename(tmp_path / "kept.json")
    assert grown.planned() == [name]
    (tmp_path / "kept.json").rename(grown.path / name)
    assert grown.planned() == []


def test_records_from_before_repeats_were_bundled_stay(grown):
    shutil.rmtree(grown.path / RESULTS / "repeats")
    assert grown.planned() == []


def test_a_recorded_study_grows_from_restored_records(grown, tmp_path):
    results, recorded = grown.path / RESULTS, grown.path / "results" / "recorded" / "mine"
    recorded.mkdir(parents=True)
    for name in restore.FILES:
        shutil.copyfile(results / name, recorded / name)
    before, kept = grown.records(), tmp_path / "records"
    (results / "records").rename(kept)
    command = [sys.executable, "workflow/scripts/restore.py", "results/recorded/mine"]
    done = subprocess.run(command, cwd=grown.path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{RESULTS}: {len(before)} records of results/recorded/mine"
    # Snakemake has noted nothing of these records; sources get other dates, and one of them other contents.
    shutil.rmtree(grown.path / ".snakemake" / "metadata")
    date(grown, time.time())
    assert planned(grown) == set()
    with (grown.path / "kernels" / "softmax.py").open("a") as kernel:
        kernel.write("CHANGED = 1\n")
    os.utime(grown.path / "kernels" / "softmax.py", (1e9, 1e9))
    assert left(grown) == 2
    (grown.path / "kernels" / "softmax.py").write_bytes((ROOT / "kernels" / "softmax.py").read_bytes())
    grown.configure({**TINY, "repeats": 3})
    assert set(grown.planned()) == set(Study({**TINY, "repeats": 3}).records()) - before.keys()
    shutil.rmtree(results / "records")
    shutil.rmtree(recorded)
    kept.rename(results / "records")


def test_one_job_can_be_measured_by_hand(tmp_path):
    checkout = Checkout(tmp_path / "clone", TINY)
    command = [sys.executable, "workflow/scripts/measure.py", "--op", "softmax", "--size", "128", "--mode", "eager"]
    done = subprocess.run([*command, "--output", "r.json"], cwd=checkout.path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # After a line on who has the device, where another job does.
    assert re.search(r"^ok latency [0-9.]+ µs; [0-9.]+ s = ", done.stdout, re.MULTILINE)
    assert json.loads((checkout.path / "r.json").read_text())["samples"]["latency"]["values"]
    wrong = subprocess.run([*command[:-1], "eagle", "--output", "r"], cwd=checkout.path, capture_output=True, text=True)
    assert wrong.returncode == 1
    assert (
        wrong.stderr
        == "mode: eagle is not known (did you mean eager?); allowed: eager, eager-control, compile, triton\n"
    )


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("measure.py --settings {bad --output r", "argument --settings: invalid _settings value: '{bad'"),
        pytest.param(
            "measure.py --settings [1] --output r",
            "[1] has no machine; allowed: machine, device, op",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            "measure.py --op softmax --size 1024 --mode eager --output /proc/r",
            "No such file or directory",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            "measure.py --config none.yaml --output r",
            "none.yaml: No such file or directory",
            marks=pytest.mark.nightly,
        ),
        ("promote.py results/none", "results/none: no such directory; allowed: results/<machine>"),
        pytest.param("promote.py results/recorded/h200", "is the recorded study itself", marks=pytest.mark.nightly),
        ("restore.py results/none", "results/none: no such directory; allowed: results/recorded/"),
        ("summarize.py --data none --output none", "none/study.yaml: No such file or directory"),
        ("collect.py --study README.md --results none", "README.md: not valid YAML"),
    ],
)
def test_scripts_name_what_is_wrong_in_one_line(command, line):
    script, *arguments = command.split()
    command = [sys.executable, f"workflow/scripts/{script}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert line in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("studies", "targets", "most"),
    [
        (FEW, [f"results/rebuilt/{name}/speedups.csv" for name in FEW], 40e6),
        # Counting its calls would take as long again.
        pytest.param(CONFIG["recorded"], ["paper", "site"], None, marks=pytest.mark.nightly),
    ],
    ids=["tables of two", "paper and site of all"],
)
def test_what_is_recorded_is_rebuilt_in_a_fresh_clone_and_never_measured(studies, targets, most, tmp_path):
    config = {**CONFIG, "recorded": studies, "verify": {**CONFIG["verify"], "study": studies[0]}}
    checkout = Checkout(tmp_path / "clone", config, recorded=tuple(studies))
    for path in (checkout.path / "results" / "recorded").rglob("*"):
        os.utime(path, (1e9, 1e9))  # A clone gives files any times: here older than everything.
    assert checkout.planned(*targets) == []
    if most:
        assert checkout.work(lambda: checkout.run(*targets, cores=2)).calls < most, "21 million were counted"
    else:
        checkout.run(*targets, cores=2)
    if "paper" in targets:
        for name in ("paper.pdf", "build/figures/map.svg"):
            kept = ROOT / "results" / "recorded" / studies[0] / name.split("/")[-1]
            assert (checkout.path / "paper" / name).read_bytes() == kept.read_bytes(), "make record keeps it"
        pages = pypdf.PdfReader(checkout.path / "paper" / "paper.pdf").pages
        references = next(n for n, page in enumerate(pages) if "References" in page.extract_text())
        assert references < 12 and pypdf.PdfReader(checkout.path / "paper" / "supplement.pdf").pages
        site = checkout.path / "results" / "site"
        assert (site / "index.html").stat().st_size < 6e6, "small enough to be mailed"
        for name in ("paper.pdf", "supplement.pdf"):
            assert (site / name).read_bytes() == (checkout.path / "paper" / name).read_bytes()
    assert not checkout.records()
    for name in studies:
        recorded, rebuilt = (checkout.path / "results" / where / name for where in ("recorded", "rebuilt"))
        for table in ("summary.csv", "speedups.csv"):
            tables = pd.read_csv(recorded / table), pd.read_csv(rebuilt / table)
            pd.testing.assert_frame_equal(*tables, rtol=1e-5)
