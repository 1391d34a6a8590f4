"""Verify: what is chosen, what a second study confirms of a first, what is refused, and a run inside a run."""

import contextlib
import copy
import os
import re
import shutil
import signal

import numpy as np
import pandas as pd
import pytest
import yaml
from checkout import ROOT, TINY, Checkout, wait_for
from recorded import rebuilt
from records import CONFIG, TIMES, tables, write_records
from scale import template

from kernelbench.analysis.measurements import Measurements
from kernelbench.analysis.studies import Studies
from kernelbench.claims import comparison, remeasure, rules
from kernelbench.errors import InputError
from kernelbench.notes import Raised
from kernelbench.records.job_table import FLOOR
from kernelbench.records.job_table import read as read_jobs
from kernelbench.records.promote import FILES
from kernelbench.study import machine
from kernelbench.study.cells import cells_of, find_diagnosed, modes_of
from kernelbench.study.config import RECORDED
from kernelbench.study.metrics import LESS_FLOOR
from kernelbench.study.study import Study

STUDY = yaml.safe_load((RECORDED / "h200" / "study.yaml").read_text(encoding="utf-8"))
JOBS = read_jobs(RECORDED / "h200" / "jobs.parquet")
COMPARED = [mode for mode in STUDY["modes"] if not find_diagnosed(STUDY, mode)]
WANTED = {"study": "h200", "minutes": 10, "repeats": 5, "seed": 1}
CLAIMS = rules.load(ROOT / "paper" / "claims.yaml")
TIMED = ("device", "latency", "throughput")


def cells(part: remeasure.Part) -> set[tuple]:
    return {(cell.op, cell.size) for cell in cells_of(part.config)}


def seconds(part: remeasure.Part) -> float:
    """Return what the part took when it was recorded, counted job by job."""
    total = 0
    for cell in cells_of(part.config):
        own = JOBS[(JOBS.op == cell.op) & (JOBS["size"] == cell.size) & JOBS["mode"].isin(COMPARED)]
        total += own.groupby("mode")["seconds.wall"].median().sum()
    return WANTED["repeats"] * total


@pytest.mark.parametrize("minutes", [3, 10, 60])
def test_what_is_chosen_fits_into_the_minutes(minutes):
    part = remeasure.choose(STUDY, JOBS, {**WANTED, "minutes": minutes})
    # Starting a repeat takes some seconds besides.
    assert seconds(part) + 25 < part.seconds < seconds(part) + 75
    assert part.seconds <= 60 * minutes
    assert (part.cells, part.of) == (len(cells(part)), 19)
    assert (part.cells == 19) == (minutes == 60)


def test_a_chosen_cell_has_all_of_its_modes_and_the_rest_is_as_recorded():
    part = remeasure.choose(STUDY, JOBS, WANTED)
    assert {tuple(modes_of(part.config, cell)) for cell in cells_of(part.config)} == {tuple(COMPARED)}
    assert part.jobs == 5 * 6 * part.cells
    changed = {"machine", "study", "repeats", "ops", "modes", "recorded"}
    assert {key: part.config[key] for key in part.config if key not in changed} == {
        key: STUDY[key] for key in STUDY if key not in {*changed, "note", "looks"}
    }
    assert {"note", "looks"} <= {*STUDY}  # What is told of that recording is not of this one.
    assert (part.config["machine"], part.config["study"], part.config["repeats"]) == ("auto", "verify", 5)
    softmax = part.config["ops"]["softmax"]
    assert softmax["rows"] == 8192 and set(softmax["sizes"]) < set(STUDY["ops"]["softmax"]["sizes"])


def test_the_seed_draws_and_nothing_else():
    drawn = [remeasure.choose(STUDY, JOBS, {**WANTED, "seed": seed}) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1]
    assert cells(drawn[0]) != cells(drawn[2])


def test_one_claim_draws_its_own_cells():
    part = remeasure.choose(STUDY, JOBS, WANTED, remeasure.find_claim(CLAIMS, "softmax-narrow")["rule"])
    assert cells(part) == {("softmax", "1024"), ("softmax", "4096")} and part.of == 2


def test_a_claim_is_measured_whole_however_few_the_minutes():
    rule = {**remeasure.find_claim(CLAIMS, "first-call")["rule"]}
    part = remeasure.choose(STUDY, JOBS, {**WANTED, "minutes": 1}, rule)
    assert part.seconds > 60 and (part.cells, part.of) == (19, 19)


def test_the_study_of_a_claim_is_the_first_recorded_one_that_has_a_row_of_it():
    assert remeasure.find_study(remeasure.find_claim(CLAIMS, "ops-latency"), ["h200-modes", "h200"]) == "h200"
    assert remeasure.find_study(remeasure.find_claim(CLAIMS, "softmax-narrow"), ["h200-models", "h200"]) == "h200"
    assert (
        remeasure.find_study(remeasure.find_claim(CLAIMS, "models-graph"), ["h200", "h100-architectures"])
        == "h100-architectures"
    )
    with pytest.raises(InputError, match="models-graph is about architectures, and none of "):
        remeasure.find_study(remeasure.find_claim(CLAIMS, "models-graph"), ["h200"])


def test_of_two_recorded_studies_on_one_topic_the_first_is_reproduced():
    recorded = ["h200", "h100-architectures", "cpu-amd-epyc-modes", "h200-architectures", "h200-modes"]
    assert remeasure.list_topics_once(recorded, on_cpu=False) == ["h200", "h100-architectures", "h200-modes"]
    assert remeasure.list_topics_once(recorded, on_cpu=True) == ["cpu-amd-epyc-modes"]


def test_modes_for_diagnosis_and_for_other_cells_are_left_out(monkeypatch):
    monkeypatch.setattr(machine, "present", lambda: ("h200", "cuda", "NVIDIA H200"))
    study = copy.deepcopy(STUDY)
    own = cells(remeasure.choose(STUDY, JOBS, WANTED))
    here = next(int(size) for op, size in sorted(own) if op == "softmax")
    other = next(size for size in STUDY["ops"]["softmax"]["sizes"] if ("softmax", str(size)) not in own)
    study["modes"] |= {
        "arm": {"runner": "compile", "diagnoses": "compile"},
        "both": {"runner": "eager", "only": {"softmax": [here, other]}},
        "elsewhere": {"runner": "eager", "only": {"softmax": [other]}},
    }
    part = remeasure.choose(study, JOBS, WANTED)
    assert set(part.config["modes"]) == {*COMPARED, "both"}
    assert part.config["modes"]["both"]["only"] == {"softmax": [here]}
    assert Study(part.config).results == "results/h200-verify"


def test_what_fits_into_no_minutes_is_refused_with_what_the_least_takes():
    with pytest.raises(InputError) as error:
        remeasure.choose(STUDY, JOBS, {**WANTED, "minutes": 0.5})
    line = re.fullmatch(
        r"config: verify.minutes: 0.5 is too little, \w+ \d+ alone takes (\d\.\d) with 5 repeats; "
        r"allowed: from (\d(?:\.\d)?) on",
        str(error.value),
    )
    assert line
    assert remeasure.choose(STUDY, JOBS, {**WANTED, "minutes": float(line[2])}).cells == 1


def test_a_claim_that_the_study_has_no_cell_of_is_refused():
    with pytest.raises(InputError, match=r"verify\.study: h200 has no cell that is wanted; allowed: "):
        remeasure.choose(STUDY, JOBS, WANTED, {**CLAIMS[0]["rule"], "size": 7})


@pytest.mark.parametrize("name", ["h200-kernels", "h200-modes", "h200-dtypes", "cpu-amd-epyc-modes"])
def test_any_part_of_a_recorded_study_is_a_study(name, monkeypatch):
    here = ("cpu-amd-epyc", "cpu", "AMD EPYC") if name.startswith("cpu") else ("h200", "cuda", "NVIDIA H200")
    monkeypatch.setattr(machine, "present", lambda: here)
    study = yaml.safe_load((RECORDED / name / "study.yaml").read_text(encoding="utf-8"))
    jobs = pd.read_parquet(RECORDED / name / "jobs.parquet")
    for seed in range(12):
        part = remeasure.choose(study, jobs, {**WANTED, "minutes": 10, "seed": seed})
        config = Study(part.config).config
        assert {mode for cell in cells_of(config) for mode in modes_of(config, cell)} == set(config["modes"])
        assert "targets" not in config and set(config["baselines"]) <= set(config["modes"])


def test_a_claim_about_nothing_that_a_study_measured_is_refused():
    claim = remeasure.find_claim(CLAIMS, "softmax-narrow")
    line = r"verify\.claim: softmax-narrow is about nothing that {} measured; allowed: a claim with a row"
    for name, told in (("h200", True), ("cpu-amd-epyc-modes", False)):
        with contextlib.nullcontext() if told else pytest.raises(InputError, match=line.format(name)):
            remeasure.require_rows(claim, name, rebuilt(name))


def test_what_is_judged_by_another_study_that_has_other_operations_is_open():
    about = [claim for claim in CLAIMS if not {"study", "table"} & set(claim["rule"])]
    judged = comparison.judge(about, rebuilt("h200"), rebuilt("h200-modes"))
    assert {told[3] for told in judged} == {"cannot be told"}


@pytest.mark.parametrize(
    ("recorded", "here", "line"),
    [
        ("h200", ("h200", "cuda", "NVIDIA H200"), None),
        ("h200-start", ("h200", "cuda", "NVIDIA H200"), None),
        ("cpu-amd-epyc", ("cpu-intel-xeon", "cpu", "Intel Xeon"), None),
        ("a100", ("h200", "cuda", "NVIDIA H200"), "; allowed here: a study recorded on NVIDIA H200"),
        ("h200", ("h200", "cuda", "NVIDIA H200 NVL"), "(h200: NVIDIA H200 NVL), but on NVIDIA H200; allowed here: "),
        ("cpu-x", ("h200", "cuda", "NVIDIA H200"), "cpu-x was not measured on what this machine has"),
        (
            "h200",
            ("cpu-intel", "cpu", "Intel"),
            "(cpu-intel: Intel), but on NVIDIA H200; allowed here: a study recorded on a CPU",
        ),
    ],
)
def test_another_machine_is_refused(recorded, here, line, monkeypatch):
    monkeypatch.setattr(machine, "present", lambda: here)
    names = {"h200": "NVIDIA H200", "a100": "NVIDIA A100-SXM4-80GB"}
    gpu = None if recorded.startswith("cpu") else {"name": names[recorded.split("-")[0]]}
    if line is None:
        assert remeasure.require_same({"machine": recorded}, {"gpu": gpu}) == here[0]
        return
    with pytest.raises(InputError) as error:
        remeasure.require_same({"machine": recorded}, {"gpu": gpu})
    assert line in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"study": "h20"}, "config: verify.study: h20 is not known (did you mean h200?); allowed: "),
        ({"minutes": 0}, "config: verify.minutes: 0 is not allowed; it should be greater than 0"),
        ({"repeats": 1}, "config: verify.repeats: 1 is not allowed; it should be greater than or equal to 2"),
        ({"sead": 1}, "config: verify: sead is not a known key (did you mean seed?)"),
    ],
)
def test_a_wrong_verify_is_refused_in_one_line(change, line):
    with pytest.raises(InputError) as error:
        Study({**CONFIG, "verify": {**CONFIG["verify"], **change}})
    assert str(error.value).startswith(line)


def test_an_unknown_claim_is_refused():
    with pytest.raises(InputError, match=re.escape("verify.claim: softmax-narow is not known (did you mean softmax-")):
        remeasure.find_claim(CLAIMS, "softmax-narow")


@pytest.mark.parametrize("claim", ["law-latency", "guards", "first-repeats"])
def test_a_claim_about_a_whole_study_is_refused(claim):
    with pytest.raises(InputError, match=f"verify.claim: {claim} is about a whole study"):
        remeasure.find_claim(CLAIMS, claim)
    commands = {row["id"]: row["command"] for row in rules.judge(CLAIMS, Studies([]))}
    assert commands[claim] == "snakemake reproduce" and "claim: softmax-narrow" in commands["softmax-narrow"]


def test_what_is_verified_is_no_part_of_the_study():
    assert "verify" not in Study(CONFIG).config
    assert Study({key: value for key, value in CONFIG.items() if key != "verify"}).verify is None


# Two studies of the same or of another truth.


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Return a function that measures a study of 30 sizes: each time with noise of the seed's, some modes changed."""
    monkeypatch.setattr(machine, "present", lambda: ("h200", "cuda", "NVIDIA H200"))

    def measure(name: str, repeats: int, seed: int, spread: float, sizes: int = 30, **factors: float):
        ops = {"softmax": {"rows": 8, "sizes": [64 * (1 + place) for place in range(sizes)]}}
        modes = {mode: CONFIG["modes"][mode] for mode in TIMES if mode in CONFIG["modes"]}
        study = Study({**CONFIG, "ops": ops, "modes": modes, "repeats": repeats, "recorded": []})
        rng = np.random.default_rng(seed)

        def change(job, entry):
            entry["started"] = f"2026-01-01T00:00:00.{entry['place']:06d}+00:00"
            factor = factors.get(job.mode, 1) * np.exp(rng.normal(0, spread))
            for timer in TIMED:
                entry["samples"][timer] = {
                    **entry["samples"][timer],
                    "values": [value * factor for value in entry["samples"][timer]["values"]],
                }

        write_records(study, tmp_path / name, change)
        document = tables(study, tmp_path / name)[2]
        return Measurements(tmp_path / name), document

    return measure


def test_a_study_of_the_same_truth_covers_no_difference_as_often_as_it_should(measured):
    recorded, _ = measured("recorded", 10, 1, 0.01)
    again, _ = measured("again", 5, 2, 0.02)
    found = comparison.compare(recorded, again)
    device = found[found.metric == "device"]
    assert len(device) == 30 * 6 and set(found.n_recorded) == {10} and set(found.n) == {5}
    assert 0.9 <= device.covers_zero.mean() <= 1
    assert (device.outcome == "contradicted").mean() < 0.03
    memory = found[found.metric == "peak_memory"]
    assert set(memory.outcome) == {"confirmed"} and memory.covers_zero.all()


def test_a_mode_that_is_slower_by_5_percent_is_contradicted(measured):
    recorded, _ = measured("recorded", 10, 1, 0.002, sizes=4)
    again, _ = measured("again", 5, 2, 0.002, sizes=4, compile=1.05)
    found = comparison.compare(recorded, again)
    device = found[found.metric == "device"].set_index(["mode", "baseline"])
    assert set(device.loc[("compile", "eager")].outcome) == {"contradicted"}
    assert set(device.loc[("triton", "compile")].outcome) == {"contradicted"}
    assert device.loc[("compile", "eager")].ratio.to_numpy() == pytest.approx(1 / 1.05, rel=0.01)
    assert "contradicted" not in set(device.loc[[("triton", "eager"), ("eager-control", "eager")]].outcome)
    told = [piece for piece in comparison.report(found, []) if str(piece).startswith("contradicted")]
    assert len(told) == (found.outcome == "contradicted").sum()
    assert re.fullmatch(
        r"contradicted: softmax 64 float16 compile over eager by device: recorded 2\.0\d\d, measured 1\.9\d\d, "
        r"ratio 0\.95\d \[0\.9\d\d, 0\.9\d\d\]",
        told[0],
    )


def test_what_failed_or_is_missing_in_either_study_is_not_compared(measured):
    recorded, _ = measured("recorded", 5, 1, 0.002, sizes=2)
    again, _ = measured("again", 5, 2, 0.002, sizes=3)
    recorded.status["softmax", "float16", "64", "triton"] = ("oom", Raised("MemoryError", ""))
    found = comparison.compare(recorded, again)
    assert set(found["size"]) == {"64", "128"}
    assert "triton" not in set(found[found["size"] == "64"]["mode"])
    assert "triton" in set(found[found["size"] == "128"]["mode"])


def floor(study: Measurements, microseconds: float) -> None:
    """Let each device time of a study hold so much more, which is what an empty pair of events takes in each job."""
    study.jobs[FLOOR] = microseconds
    device = study.logs.index.get_level_values("metric") == "device"
    study.logs.loc[device] = np.log(np.exp(study.logs.loc[device]) + microseconds)


def test_a_difference_that_is_all_the_timers_is_told_apart(measured):
    """Compiled code takes 20 µs and eager 40: 3 µs more or less of both is another speedup."""
    recorded, _ = measured("recorded", 10, 1, 0.001, sizes=4)
    again, _ = measured("again", 5, 2, 0.001, sizes=4)
    floor(recorded, 3.0)
    floor(again, 0.5)
    found = comparison.compare(recorded, again).set_index(["metric", "mode", "baseline"])
    assert set(found.loc[("device", "compile", "eager")].outcome) == {"contradicted"}
    assert set(found.loc[(LESS_FLOOR, "compile", "eager")].outcome) == {"confirmed"}
    printed = [str(piece) for piece in comparison.report(found.reset_index(), [])]
    assert f"{LESS_FLOOR}: without what an empty pair of CUDA events takes in the same job." in printed
    assert not (found.loc[LESS_FLOOR].outcome == "contradicted").any()


def test_without_the_floors_of_both_studies_device_times_are_compared_as_they_are(measured):
    recorded, _ = measured("recorded", 10, 1, 0.001, sizes=2)
    again, _ = measured("again", 5, 2, 0.001, sizes=2, compile=1.05)
    differ = comparison.compare(recorded, again)
    differ = differ[(differ.metric == LESS_FLOOR) & (differ.outcome == "contradicted") & (differ.baseline == "eager")]
    assert list(differ["size"].unique()) == ["64", "128"]
    again.jobs = again.jobs.drop(columns=FLOOR)
    assert LESS_FLOOR not in set(comparison.compare(recorded, again).metric)


def a_claim(**rule) -> dict:
    return {
        "id": "one",
        "sentence": "It is so.",
        "rule": {
            "op": "softmax",
            "dtype": "float16",
            "mode": "compile",
            "baseline": "eager",
            "metric": "device",
            **rule,
        },
    }


def test_claims_are_judged_by_what_was_measured_again(measured):
    _, recorded = measured("recorded", 5, 1, 0.002, sizes=3)
    _, part = measured("part", 5, 2, 0.002, sizes=2)
    _, slow = measured("slow", 5, 2, 0.002, sizes=3, compile=4)
    judged = [
        (a_claim(size=[64, 128], every="faster"), part, ("holds", "holds", "confirms")),
        (a_claim(every="faster"), part, ("holds", "cannot be told", "cannot be told")),
        (a_claim(every="slower"), part, ("does not hold", "does not hold", "refutes again")),
        (a_claim(some="faster"), slow, ("holds", "does not hold", "contradicts")),
        (a_claim(size="all", every="faster"), slow, ("holds", "does not hold", "contradicts")),
        # A mean over two of three sizes is another mean.
        (a_claim(size="all", every="faster"), part, ("holds", "cannot be told", "cannot be told")),
        (a_claim(size=4096, every="faster"), slow, ("cannot be told", "cannot be told", "cannot be told")),
    ]
    for claim, again, outcome in judged:
        ((sentence, old, new, follows),) = comparison.judge([claim], recorded, again)
        assert (sentence, old.outcome, new.outcome, follows) == ("It is so.", *outcome)


# The run inside a run.

CLAIM = {
    "rule": {
        **{"op": "softmax", "dtype": "float32", "mode": "compile", "baseline": "eager", "metric": "peak_memory"},
        "none": ["faster", "slower"],
    },
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Checkout:
    """A checkout with a recorded study of a CPU, none of whose jobs is really measured."""
    study = {**TINY, "ops": {"softmax": {"rows": 64, "sizes": [128, 256]}, "copy": TINY["ops"]["copy"]}}
    checkout = Checkout(tmp_path_factory.mktemp("verify"), study, recorded=("h200",))
    shutil.copyfile(ROOT / "tests" / "standin.py", checkout.path / "workflow" / "scripts" / "measure.py")
    # A repeat goes on only on the device that it was begun on.
    text = re.sub('"uuid": "GPU-[^"]*"', '"uuid": "cpu"', template())
    (checkout.path / "record.template").write_text(text, encoding="utf-8")
    checkout.run("results/cpu-test/summary.csv")
    recorded = checkout.path / "results" / "recorded" / "cpu-test"
    recorded.mkdir()
    for name in FILES:
        shutil.copyfile(checkout.path / "results" / "cpu-test" / name, recorded / name)
    wanted = [
        {**CLAIM, "id": f"of-{size}", "sentence": f"Of {size}.", "rule": {**CLAIM["rule"], "size": size}}
        for size in (128, 256)
    ]
    (checkout.path / "paper" / "claims.yaml").write_text(yaml.safe_dump(wanted), encoding="utf-8")
    checkout.hold()
    # A job's wall time is a second: a size in four modes and two repeats takes eight.
    checkout.configure({**study, "verify": {"study": "cpu-test", "minutes": 0.2, "repeats": 2, "seed": 1}})
    return checkout


def own(checkout: Checkout) -> dict[str, float]:
    return {name: written for name, written in checkout.records().items() if "-verify/" in name}


def measured_until_a_kill(checkout: Checkout) -> dict[str, float]:
    """Kill a run of `verify` in its third job, and return what it had measured when all was quiet."""
    (checkout.path / "open").unlink(missing_ok=True)
    process = checkout.start("verify")
    for count in (1, 2):
        (checkout.path / "ticket").touch()
        wait_for(lambda count=count: len(own(checkout)) == count, process)
    os.kill(process.pid, signal.SIGKILL)  # What it started ends by itself, the run inside with the job that it is at.
    log = checkout.path / "results" / "cpu-test" / "logs" / "verify.log"
    wait_for(lambda: "Will exit after finishing currently running jobs" in log.read_text())
    (checkout.path / "open").touch()
    checkout.assert_nothing_is_alive()
    process.communicate()
    begun = own(checkout)
    assert 2 <= len(begun) <= 3
    checkout.run("--unlock")
    return begun


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("killed", [False, True])
def test_verify_compares_and_goes_on_after_a_kill_with_what_is_left(checkout, killed):
    for results in checkout.path.glob("results/cpu-*-verify"):
        shutil.rmtree(results)
    begun = measured_until_a_kill(checkout) if killed else {}
    (checkout.path / "open").touch()

    output = checkout.run("verify")
    assert re.search(r"cpu-test: .*1 of 2 cells .*2 repeats: 8 jobs, 8 s ", output)
    assert re.search(r"metric +figures +confirmed +contradicted +open +no difference\n", output)
    assert re.search(r"peak_memory +3 ", output)
    assert "cannot be told: Of 128. (recorded: holds; measured: cannot be told, 0 of 1 rows)" in output
    assert "confirms: Of 256. (recorded: holds; measured: holds, 1 of 1 rows)" in output
    records = own(checkout)
    assert len(records) == 8 and begun.items() <= records.items()
    (results,) = checkout.path.glob("results/cpu-*-verify")
    found = pd.read_csv(results / "verify.csv")
    assert list(found.columns) == comparison.COLUMNS
    # Nine metrics, and device time less its floor.
    assert len(found) == 3 * 10 and set(found.n) == {2}
    assert not list(checkout.path.glob("results/recorded/cpu-test/records"))

    assert checkout.run("verify").endswith(output[output.index("metric ") :])
    assert own(checkout) == records


@pytest.mark.nightly
@pytest.mark.slow
def test_verify_of_what_the_config_does_not_have_is_refused_in_one_line(checkout):
    process = checkout.start("verify", "--config", "verify={study: h200}")
    output = process.communicate()[0]
    assert process.returncode != 0 and "Traceback" not in output
    assert "config: verify.study: h200 was not measured on what this machine has (cpu-" in output
