"""Progress: what a person sees of a run in a terminal, elsewhere and in the log file, and when it is said to end."""

import os
import pty
import re
import select
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from checkout import PATIENCE, ROOT, TINY, Checkout

from kernelbench.notes import OtherProcesses, Unsettled
from kernelbench.numbers import duration
from kernelbench.running.snakemake_progress import LINE_EVERY, LogHandler
from kernelbench.running.tally import Job, Tally

# In place of a measurement: a record, a record of a crash, or none, by mode.
FAKE = """
import json, sys
from pathlib import Path
settings, output = json.loads(sys.argv[2]), Path(sys.argv[-1])
if settings["mode"] == "eager-control":
    sys.exit("first line\\nno such [thing]")
error = {"code": "Raised", "error": "RuntimeError: [here]", "where": ""}
reason = error if settings["mode"] == "compile" else None
doubts = {"suspect": [{"code": "PowerCap", "ms": 9.0}]}
if settings["mode"] == "eager" and settings["repeat"]:
    doubts = {"suspect": [{"code": "OtherProcesses", "count": 1}], "warm_up": {"settled": False}}
known = {"settings": settings, "environment": {"software": {"sources": "of nothing"}}}
output.write_text(json.dumps({**known, "status": "crashed" if reason else "ok", "reason": reason, **doubts}))
"""
RECORDS = [
    f"results/cpu-test/records/softmax/float32/128/{mode}/{repeat}.json"
    for mode in ("eager", "eager-control", "compile")
    for repeat in (0, 1)
]
CRASHED = "softmax 128 compile float32 repeat 0: crashed: RuntimeError: [here] (log: results/cpu-test/logs/softmax/"
FAILED = "softmax 128 eager-control float32 repeat 0: failed with exit status 1: no such [thing] (log: results/cpu-test"
DOUBTFUL = f"softmax 128 eager float32 repeat 1: {OtherProcesses(1)}; {Unsettled()} (log: results/"
LAST = "6 of 6 jobs done in "
# When a run will end: a time of day, with the weekday where it is not today, and in how long.
ENDS = r"ends (\w+ )?\d\d:\d\d \(in [^)]+\)"


def job(kind: str, started: float) -> Job:
    return Job(f"job {kind}", kind, None, "", started)


def tally(kinds: dict[str, int], ended: list[tuple[str, float, float]]) -> Tally:
    """A tally of so many jobs by kind, after those of (kind, started, ended)."""
    result = Tally([kind for kind, count in kinds.items() for _ in range(count)], 0)
    for jobid, (kind, started, now) in enumerate(ended):
        result.start(jobid, job(kind, started))
        result.end(jobid, "ok", now)
    return result


def test_the_end_is_unknown_before_a_job_has_ended():
    assert tally({"eager": 5}, []).expect_end(10) is None
    assert "ends" not in tally({"eager": 5}, []).summarize(10)


def test_the_end_follows_from_the_jobs_of_each_mode():
    several = tally({"eager": 11, "max-autotune": 3, "paper": 1}, [("eager", 0, 1), ("max-autotune", 1, 21)])
    assert several.expect_end(21) == pytest.approx(10 * 1 + 2 * 20 + (1 + 20) / 2)


def test_what_a_job_has_already_run_is_not_expected_again():
    running = tally({"eager": 1, "max-autotune": 2}, [("eager", 0, 1), ("max-autotune", 1, 21)])
    running.start(9, job("max-autotune", 21))
    assert running.expect_end(36) == pytest.approx(5)
    assert running.expect_end(99) == pytest.approx(0), "a job that takes longer than expected ends any moment"


def test_a_mode_that_takes_longer_than_all_before_it_is_expected_to_go_on_so():
    slow = tally({"eager": 1, "max-autotune": 3}, [("eager", 0, 1)])
    slow.start(9, job("max-autotune", 1))
    assert slow.expect_end(21) == pytest.approx(2 * 20)


def test_jobs_that_run_at_once_end_sooner():
    two_lanes = tally({"compile": 6}, [("compile", 0, 10), ("compile", 0, 10)])
    assert two_lanes.expect_end(10) == pytest.approx(4 * 10 / 2)


def test_failures_are_counted_and_the_unsupported_are_none():
    mixed = Tally(["a"] * 4, 0)
    for jobid, status in enumerate(["ok", "unsupported", "oom", "failed"]):
        mixed.start(jobid, job("a", 0))
        mixed.end(jobid, status, 1)
    assert mixed.summarize(1) == "4 of 4 jobs done, 0 left, 2 failed"


def test_what_the_gate_will_refuse_is_said_while_it_can_be_repaired():
    one = Tally(["a"] * 2, 0)
    for jobid in range(2):
        one.start(jobid, job("a", 0))
        one.end(jobid, "ok", 1, doubtful=jobid == 1)
    assert one.summarize(1) == "2 of 2 jobs done, 0 left, 0 failed, 1 in doubt"


@pytest.mark.parametrize(
    ("seconds", "said"), [(3.2, "3 s"), (59.7, "1 min"), (3599, "1 h 00 min"), (3660, "1 h 01 min")]
)
def test_durations_are_said_as_people_do(seconds, said):
    assert duration(seconds) == said


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Checkout:
    """A study whose measurements are fakes of a moment."""
    made = Checkout(tmp_path_factory.mktemp("a study"), TINY)
    (made.path / "workflow" / "scripts" / "measure.py").write_text(FAKE)
    made.hold()
    (made.path / "open").touch()
    return made


@pytest.fixture
def unmeasured(checkout) -> Checkout:
    for path in [*checkout.path.glob("results/*/records/**/*.json"), *checkout.path.glob("results/*/logs/*.log")]:
        path.unlink()
    return checkout


def printed(checkout: Checkout, *arguments: str) -> str:
    """Return what a run that fails prints where there is no terminal."""
    process = checkout.start(*RECORDS, *arguments)
    output = process.communicate()[0]
    assert process.returncode == 1, output
    return output


def test_without_a_terminal_lines_come_at_a_bearable_rate(capsys):
    settings = {"stdout": False, "nocolor": True, "quiet": None, "dryrun": False, "verbose": False}
    handler = LogHandler(SimpleNamespace(**settings), None)
    handler.begin(["a"], None, 0)
    for now in (100, 101, 99 + LINE_EVERY, 100 + LINE_EVERY, 101 + LINE_EVERY):
        handler.note(f"at {now}", now)
    assert re.findall("at (.*)", capsys.readouterr().err) == ["100", str(100 + LINE_EVERY)]


def test_without_a_terminal_failures_say_why(unmeasured):
    output = printed(unmeasured)
    assert CRASHED in output and FAILED in output and DOUBTFUL in output
    assert output.count("power cap") == 0, "the gate takes it for a defect only beside modes that do not have it"
    assert "0 of 6 jobs done, 6 left, 0 failed; now softmax 128" in output
    counts, doubtful = output.splitlines()[-1].split("; ")
    assert re.fullmatch(LAST + r"[^:]+: 2 \w+, 2 \w+, 2 \w+", counts)
    assert doubtful.startswith("1 in doubt: snakemake check ")
    assert "first line" in output, "a log of more than a line is shown"
    for noise in ("rule measure", "Job stats", "Finished job", "steps (", "python workflow/scripts", "\x1b"):
        assert noise not in output


def test_the_log_file_has_a_line_for_each_job_and_failure(unmeasured):
    printed(unmeasured)
    log = (unmeasured.path / "results/cpu-test/logs/progress.log").read_text()
    assert len([line for line in log.splitlines() if "; now " in line]) == 6
    assert re.search(rf"\d of 6 jobs done, \d left, \d failed, {ENDS}; now softmax 128", log)
    assert CRASHED in log and FAILED in log and DOUBTFUL in log and LAST in log
    assert log.count("failed with exit status 1") == 2


def test_a_terminal_shows_the_bar_and_the_job(unmeasured):
    (unmeasured.path / "open").unlink()
    leader, follower = pty.openpty()
    library = os.pathsep.join([str(unmeasured.path / "workflow"), str(unmeasured.path)])
    process = subprocess.Popen(
        [sys.executable, "-m", "snakemake", RECORDS[2], RECORDS[4], "--cores", "1"],
        cwd=unmeasured.path,
        env={**os.environ, "PYTHONPATH": library, "TERM": "xterm", "COLUMNS": "120"},
        stdin=follower,
        stdout=follower,
        stderr=follower,
    )
    os.close(follower)
    drawn, deadline = b"", time.monotonic() + PATIENCE

    def screen(until: str = "$ never") -> str:
        """Return what was drawn so far, once that has `until`, or at the end."""
        nonlocal drawn
        while not re.search(until, text := re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn.decode(errors="ignore"))):
            assert time.monotonic() < deadline and select.select([leader], [], [], PATIENCE)[0], text
            try:
                drawn += os.read(leader, 65536)
            except OSError:  # How Linux says that the other end is closed.
                break
        return text

    try:
        for pattern in (
            r"━ 0 of 2 jobs done, 2 left, 0 failed\s+now softmax 128 [a-z-]+ float32 repeat \d, for \d",
            rf"━ 1 of 2 jobs done, 1 left, 1 failed, {ENDS}",
        ):
            assert re.search(pattern, screen(until=pattern)), pattern
            (unmeasured.path / "ticket").touch()
        screen = screen()
        assert process.wait() == 1
    finally:
        (unmeasured.path / "open").touch()
        os.close(leader)
        process.wait()
    assert CRASHED in screen and FAILED in screen and "2 of 2 jobs done in " in screen
    assert "\x1b[?25h" in drawn.decode(), "the cursor is shown again"


@pytest.mark.nightly
def test_quiet_is_obeyed(unmeasured):
    assert "jobs done" not in printed(unmeasured, "--quiet", "progress")
    assert "cpu-test" not in printed(unmeasured, "--quiet", "all")


@pytest.mark.nightly
def test_verbose_prints_what_snakemake_prints(unmeasured):
    assert "rule measure:" in printed(unmeasured, "--verbose")


def test_a_run_that_measures_nothing_leaves_no_log(checkout):
    (checkout.path / "results/cpu-test/logs/progress.log").unlink(missing_ok=True)
    assert "1 of 1 jobs done" in checkout.run("results/cpu-test/study.yaml", "--force")
    assert not (checkout.path / "results/cpu-test/logs/progress.log").exists()


def test_snakemake_finds_the_plugin_from_anywhere(tmp_path):
    code = "import snakemake_interface_logger_plugins.registry as r; print(r.LoggerPluginRegistry().plugins.keys())"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert "'kernelbench'" in done.stdout, f"the project is not installed here; run make {done.stderr}"


def test_the_editable_install_is_folders_that_have_the_plugin():
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    for package in wheel["packages"]:
        assert str(Path(package).parent) in wheel["dev-mode-dirs"]
        assert (ROOT / package / "__init__.py").exists()
