"""Notes: what stages tell one another is codes, whatever their texts for people say."""

import dataclasses
import json
import re

import pandas as pd
import pytest
from checkout import ROOT, TINY
from records import small_study, tables, write_records

from kernelbench import notes, old_records
from kernelbench.analysis.studies import Studies
from kernelbench.analysis.summary import summarize
from kernelbench.claims import published, rules
from kernelbench.harness.measure import measure
from kernelbench.planning.estimate import average_recorded
from kernelbench.records import job_table
from kernelbench.records.quality_gate import Gate
from kernelbench.running import job_process, retries
from kernelbench.study.config import RECORDED
from kernelbench.study.study import Study

# A field in a template, with how it is shown.
SHOWN = re.compile(r"\{(\w+)(![a-z])?(:[^}]*)?\}")


def example(kind: type[notes.Note]) -> notes.Note:
    """Return a note with a list, a number or a text in each field, as the template asks; its other note in `note`."""
    of = {
        name: ["a", "b"] if joined else 0.5 if number else "a {word}"
        for name, joined, number in SHOWN.findall(kind.text)
    }
    names = [field.name for field in dataclasses.fields(kind)]
    return kind(**{name: notes.ZeroValue() if name == "note" else of.get(name, False) for name in names})


@pytest.mark.parametrize("kind", notes.CODES.values(), ids=notes.CODES)
def test_a_note_is_json_and_back_and_one_line_for_people(kind):
    note = example(kind)
    assert notes.load(json.loads(json.dumps(notes.dump([note])))) == [note]
    assert str(note) and "\n" not in str(note)


def test_an_unknown_code_is_refused_with_the_known_ones():
    for unknown in ({"code": "Nonsense"}, {"code": "NearFloor"}, {"floor_us": 1.0}):
        with pytest.raises(ValueError, match=r"is no note; allowed codes: .*NearFloor"):
            notes.load(unknown)


def test_a_note_is_found_by_its_class_and_those_below_it():
    told = [notes.ZeroValue(), notes.PowerCap(2.0)]
    for given in (told, notes.dump(told)):
        assert notes.find(given, notes.Throttled) == notes.PowerCap(2.0)
        assert notes.find(given, notes.Heat, notes.Uncovered) is None


# What was recorded before there were codes


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*/jobs.parquet")), ids=lambda path: path.parent.name)
def test_each_sentence_of_a_recorded_study_has_a_code(path):
    table = job_table.read(path)
    columns = [column for column in ("reason", "graph.reason") if column in table]
    said = [note for column in columns for note in table[column].dropna()]
    said += [note for some in table.get("suspect", pd.Series(dtype=object)).dropna() for note in some]
    tries = table.get("process.again", pd.Series(dtype=object)).dropna()
    said += [note for some in tries for out in some for note in out["doubts"]]
    assert not [note for note in said if not isinstance(note, notes.Note) or isinstance(note, notes.Unclassified)]


@pytest.mark.parametrize(
    ("sentence", "note"),
    [
        ("", None),
        ("tf32 needs cuda, this machine is cpu", notes.NeedsDevice("tf32", ["cuda"], "cpu")),
        ("needs cuda or cpu, this machine is xpu", notes.NeedsDevice("", ["cuda", "cpu"], "xpu")),
        ("liger takes rows of at most 65536 elements", notes.RowsTooWide("liger", 65536)),
        ("throttled: power cap for 2.5 ms", notes.PowerCap(2.5)),
        ("throttled: hardware thermal slowdown", notes.HardwareThermalSlowdown(None)),
        ("2 other processes on the GPU", notes.OtherProcesses(2)),
        ("NVML is missing: nobody watched the GPU", notes.NotMonitored()),
        ("RuntimeError: of another kind", notes.Unclassified("RuntimeError: of another kind")),
    ],
)
def test_a_sentence_of_an_older_record_is_read_as_its_code(sentence, note):
    assert old_records.note_of(sentence) == note


def test_an_older_record_is_read_as_one_of_today():
    old = {
        "version": 3,
        "reason": "liger takes rows of at most 65536 elements",
        "suspect": ["throttled: heat for 1.0 ms"],
        "graph": {"calls": 0, "reason": "the mode replays CUDA graphs of its own"},
        "process": {"again": [{"reason": "its warm-up did not settle", "seconds": 1.0, "medians": {}}]},
    }
    assert old_records.upgraded(old) == {
        "version": 4,
        "reason": {"code": "RowsTooWide", "library": "liger", "widest": 65536},
        "suspect": [{"code": "Heat", "ms": 1.0}],
        "graph": {"calls": 0, "reason": {"code": "OwnGraphs"}},
        "process": {"again": [{"doubts": [{"code": "Unsettled"}], "seconds": 1.0, "medians": {}}]},
    }


# Whatever the messages say


@pytest.fixture
def reword(monkeypatch):
    """Return a function that gives each kind of note another text."""

    def reword() -> None:
        for kind in (notes.Note, *notes.CODES.values()):
            monkeypatch.setattr(kind, "text", "reworded")
            monkeypatch.setattr(kind, "title", "reworded")
            monkeypatch.setattr(kind, "__str__", lambda self: "reworded")

    return reword


def unworded(value):
    """Return a document without what is text for people."""
    if isinstance(value, dict):
        return {name: unworded(of) for name, of in value.items() if name not in ("reason", "title", "unsupported")}
    return [unworded(each) for each in value] if isinstance(value, list | tuple) else value


def decided(name: str) -> dict:
    """Return what all that follows makes of a recorded study: tables, claims, gate, plan."""
    summary, speedups, document = summarize(RECORDED / name)
    works = published.load(ROOT / "paper" / "published.yaml")["works"]
    own = rules.load(ROOT / "paper" / "claims.yaml")
    study = Study({**document["study"], "recorded": []}, here=False)
    earlier = [list(published.judge(claim, [document])) for work in works for claim in work["claims"]]
    return {
        "summary": summary.drop(columns="notes").to_csv(),
        "speedups": speedups.drop(columns="notes").to_csv(),
        "document": unworded(document),
        "published": [(label, outcome.outcome) for found in earlier for label, outcome, _ in found],
        "claims": [claim["outcome"] for claim in rules.judge(own, Studies([document]))],
        "gate": [(defect.what, defect.jobs) for defect in Gate(RECORDED / name).find_defects()],
        "plan": [(source.name, source.by_op) for source in average_recorded(RECORDED, study)],
    }


@pytest.mark.parametrize("name", ["h200-timers", "cpu-amd-epyc-modes"])
def test_no_word_of_a_message_changes_what_is_made_of_a_recorded_study(name, reword):
    before = decided(name)
    reword()
    after = decided(name)
    for what, found in before.items():
        assert after[what] == found, what


def test_no_word_of_a_message_changes_what_the_gate_refuses(monkeypatch, tmp_path, reword):
    study = small_study(monkeypatch)
    said = [notes.OtherProcesses(1), notes.NotMonitored(), notes.Heat(3.0), notes.PowerCap(9.0), notes.PowerBrake(None)]

    def spoil(job, entry):
        if job.mode == "compile":
            entry["suspect"] = notes.dump([said[job.repeat]])

    write_records(study, tmp_path, spoil)
    tables(study, tmp_path)[1].drop(columns="notes").to_csv(tmp_path / "speedups.csv")
    before = [(defect.what, defect.jobs) for defect in Gate(tmp_path).find_defects()]
    assert {"another process was on the GPU", "nobody watched the GPU", "clocks were held back"} <= {
        what for what, _ in before
    }
    reword()
    assert [(defect.what, defect.jobs) for defect in Gate(tmp_path).find_defects()] == before


@pytest.mark.parametrize("said", [[], [notes.PowerCap(9.0)], [notes.Heat(9.0)], [notes.OtherProcesses(2)]])
@pytest.mark.parametrize("settled", [True, False])
def test_no_word_of_a_message_changes_which_job_is_tried_again(monkeypatch, reword, said, settled):
    entry = {"status": "ok", "suspect": notes.dump(said), "warm_up": {"settled": settled}, "samples": {}}
    tries = []
    monkeypatch.setattr(job_process, "measure", lambda *arguments: tries.append(1) or (entry, {}))
    before = retries.measure({}, "cpu", 0, 60)[1]["again"], len(tries)
    tries.clear()
    reword()
    after = retries.measure({}, "cpu", 0, 60)[1]["again"], len(tries)
    assert [out["doubts"] for out in after[0]] == [out["doubts"] for out in before[0]]
    fine = retries.UNSETTLED_ATTEMPTS if not settled else 1
    assert after[1] == before[1] == (fine if said in ([], [notes.PowerCap(9.0)]) else retries.ATTEMPTS)


def test_no_word_of_a_message_changes_the_record_of_a_job(reword):
    study = Study({**TINY, "modes": {"eager": {"runner": "eager"}, "gpu": {"runner": "eager", "devices": ["cuda"]}}})
    settings = study.settings(study.job("softmax", "float32", "128", "gpu", 0))
    reword()
    entry = measure(settings)
    assert (entry["status"], notes.load(entry["reason"])) == ("unsupported", notes.NeedsDevice("", ["cuda"], "cpu"))
