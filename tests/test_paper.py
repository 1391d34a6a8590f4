"""The paper: numbers and words come from the data, any study typesets, and the same data are the same bytes."""

import copy
import json
import math
import re
import shutil
import statistics
from itertools import pairwise, product
from pathlib import Path

import jinja2
import numpy as np
import pandas as pd
import pypdf
import pytest
import scipy.stats
import yaml
from recorded import rebuilt
from records import kernel_study, small_study, tables, write_records

from kernelbench import coverage, jobs, paper
from kernelbench.claims import evaluated, load
from kernelbench.errors import InputError
from kernelbench.figures import FIGURES
from kernelbench.notes import (
    FLAGS,
    ExactIntervalDisagrees,
    FarOff,
    Heat,
    NearFloor,
    Note,
    OtherProcesses,
    PowerCap,
    TwoPeaks,
    find,
)
from kernelbench.numbers import numbers
from kernelbench.study import CONTROL, Study
from kernelbench.summarize import summarize
from kernelbench.words import DERIVED

ROOT = Path(__file__).parents[1]
PUBLISHED = yaml.safe_load((ROOT / "paper" / "published.yaml").read_text(encoding="utf-8"))
CLAIMS = load(ROOT / "paper" / "claims.yaml")
RECORDED = ROOT / "results" / "recorded" / "h200"
STUDY = yaml.safe_load((RECORDED / "study.yaml").read_text(encoding="utf-8"))
REPEATS = STUDY["repeats"]
COVERAGE = coverage.table(STUDY, draws=100)
GPUS = len(json.loads((RECORDED / "environment.json").read_text(encoding="utf-8"))["gpu_uuids"])
SPANS = jobs.about(jobs.read(RECORDED / "jobs.parquet"))
AT_ONCE, BLOCKS = SPANS["at_once"], SPANS["blocks"]
ON_MORE = f", on {GPUS} GPUs in all" if GPUS > AT_ONCE else ""
WINDOW = STUDY["sampling"]["warmup_window"]
PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="{0}pt" height="{1}pt"><rect width="9" height="9"/></svg>'
# Width and height of each figure, in points, as large as they come.
FRAMES = {"speedups": (504, 560), "times": (504, 300), "rates": (504, 150), "first_call": (240, 300)}
# What a number or a name that is missing would leave in the text.
LEFTOVERS = r"\{\{|\{%|\bnan\b|\bNone\b|\bundefined\b|\[\]|  \."


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    """A recorded study whose samples a test may change."""
    copied = tmp_path_factory.mktemp("data") / "h200"
    shutil.copytree(RECORDED, copied)
    return copied


@pytest.fixture(scope="module")
def whole() -> dict:
    return rebuilt("h200")


@pytest.fixture(scope="module")
def recorded(whole) -> dict:
    """The recorded study by device time and latency, without the modes that `six_modes` adds."""
    return default_mode(two_timers(copy.deepcopy(whole)))


@pytest.fixture
def document(recorded) -> dict:
    return copy.deepcopy(recorded)


@pytest.fixture(scope="module")
def start_study(directory, tmp_path_factory) -> dict:
    return of_start(directory, tmp_path_factory.mktemp("start") / "h200-start")


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Path:
    """A root for typst with the paper's files and a picture for each figure."""
    shutil.copytree(ROOT / "paper", tmp_path / "paper", ignore=shutil.ignore_patterns("build", "*.pdf"))
    (tmp_path / "figures").mkdir()
    for name in FIGURES:
        (tmp_path / "figures" / f"{name}.svg").write_text(PICTURE.format(*FRAMES.get(name, (240, 230))))
    monkeypatch.setattr(paper, "ROOT", tmp_path)
    return tmp_path


def machine(document: dict, local: bool = False) -> dict:
    found = {**numbers(document, PUBLISHED, local), "own_claims": evaluated(CLAIMS, document), "again": None}
    return {**found, "figures": "/figures"}


def render(*documents: dict) -> str:
    machines = [machine(document, local=place > 0) for place, document in enumerate(documents)]
    return paper.render(ROOT / "paper" / "paper.md", machines, PUBLISHED, COVERAGE, [])


def section(text: str, title: str) -> str:
    """Return the text of one section, up to the next heading of any level."""
    return re.split(r"^#+ ", text.split(f" {title}", 1)[1].split("\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def typeset(checkout: Path, text: str, name: str = "paper") -> Path:
    source, output = checkout / f"{name}.md", checkout / f"{name}.pdf"
    source.write_text(text, encoding="utf-8")
    paper.typeset(source, checkout / "paper" / "pandoc.yaml", output)
    return output


def rows(document: dict, **wanted) -> list[dict]:
    """Return the rows of both tables that have the wanted values, a set standing for any of its members."""
    both = [*document["summary"], *document["speedups"]]
    return [r for r in both if all(r.get(k) in v if isinstance(v, set) else r.get(k) == v for k, v in wanted.items())]


# Other studies, made of the recorded one.


def started(default: str | None, **modes: str):
    """A study whose processes start so by default (None: from before there was a choice), and those of `modes` so."""

    def change(document: dict) -> dict:
        document["study"].pop("start", None)
        document["study"].update({"start": default} if default else {})
        for mode, start in modes.items():
            document["study"]["modes"][mode]["start"] = start
        return document

    return change


def without(document: dict, **wanted) -> None:
    """Drop the rows that have the wanted values."""
    gone = {id(row) for row in rows(document, **wanted)}
    for table in ("summary", "speedups"):
        document[table] = [row for row in document[table] if id(row) not in gone]


def fail(document: dict, status: str, reason: str, **wanted) -> None:
    """Take the numbers of the rows that have the wanted values."""
    for row in rows(document, **wanted):
        numbers_of = [k for k, v in row.items() if isinstance(v, float) and k != "delta"]
        row.update(dict.fromkeys(numbers_of), n=0, status=status, reason=reason)
        if "verdict" in row:
            row["verdict"] = ""


def cpu(document: dict) -> dict:
    """A machine without GPU: latency and first call, 3 repeats, no kernels."""
    document["environment"].update(gpu=None, gpu_uuids=[])
    document["environment"]["host"]["cpu"] = "Some CPU"
    document["environment"]["software"].update(cuda=None, cudnn=None, triton=None)
    document["study"].update(machine="cpu-some", repeats=3)
    document["jobs"]["at_once"] = 1
    without(document, metric={"device", "peak_memory", *DERIVED})
    fail(document, "unsupported", "needs cuda, this machine is cpu", mode="triton")
    document["control"] = {k: v for k, v in document["control"].items() if k in ("latency", "first_call")}
    return document


def once(document: dict) -> dict:
    """One repeat: no interval, no p, no verdict but inconclusive."""
    document["study"]["repeats"] = 1
    document["payback"] = []
    for row in [*rows(document, status="ok"), *document["means"]]:
        row.update(n=1, ci_low=None, ci_high=None)
        if "verdict" in row:
            row.update(p=None, p_holm=None, hl_low=None, hl_high=None, verdict="inconclusive")
    return document


def unsupported(document: dict) -> dict:
    fail(document, "unsupported", "no such compiler", mode="compile")
    fail(document, "oom", "out of memory at 16 GiB", mode="triton", op="softmax", size={"65536", "all"})
    return document


def eager_gone(document: dict) -> dict:
    """The baseline itself has no number at one size, so that nothing is compared there."""
    fail(document, "oom", "out of memory", mode="eager", op="attention", size="2048")
    fail(document, "oom", "out of memory", op="attention", size={"2048", "all"}, baseline="eager")
    return document


def default_mode(document: dict) -> dict:
    """No other mode of torch.compile than its default, and no variant of one for diagnosis."""
    others = {mode for mode in document["study"]["modes"] if mode.startswith("compile-")}
    without(document, mode=others)
    for of_modes in (document["study"]["modes"], document["jobs"]["costs"]):
        for mode in others & set(of_modes):
            del of_modes[mode]
    return document


def two_timers(document: dict) -> dict:
    """Nothing but device time and latency, which tell no causes."""
    apart = {"host", "event", "throughput", "graph"}
    without(document, metric=apart)
    for table in ("payback", "peaks"):
        document[table] = [row for row in document[table] if row["metric"] not in apart]
    document["control"] = {metric: found for metric, found in document["control"].items() if metric not in apart}
    document["jobs"]["clocks"] = []
    return {**document, "causes": [], "host": None}


def six_modes(document: dict) -> dict:
    modes = document["study"]["modes"]
    for name in ("reduce-overhead", "max-autotune"):
        modes[f"compile-{name}"] = {"runner": "compile", "mode": name, "devices": ["cuda"]}
        for table in ("summary", "speedups"):
            own = [row for row in document[table] if row["mode"] == "compile"]
            document[table] += [{**row, "mode": f"compile-{name}"} for row in own]
    return document


def other_op(document: dict) -> dict:
    """An op that the text has never heard of, with sizes that are no numbers, and two dtypes of another."""
    document["study"]["ops"]["my_op"] = {"workload": "softmax", "rows": 3, "sizes": ["4x4", "8x8"]}
    for table in ("summary", "speedups"):
        own = [row for row in document[table] if row["op"] == "softmax" and row["size"] in ("1024", "4096", "all")]
        names = {"1024": "4x4", "4096": "8x8", "all": "all"}
        document[table] += [{**row, "op": "my_op", "size": names[row["size"]]} for row in own]
        document[table] += [{**row, "dtype": "bfloat16"} for row in document[table] if row["op"] == "matmul"]
    return document


def bare(document: dict) -> dict:
    """Only one size of one op, no second baseline, no A/A."""
    document["study"].update(ops={"softmax": {"rows": 8192, "sizes": [4096]}}, baselines=["eager"])
    document["study"]["modes"].pop(CONTROL)
    document.update(control={}, ceilings={})
    keep = {id(row) for row in rows(document, op="softmax", size="4096") if row["mode"] != CONTROL}
    for table in ("summary", "speedups"):
        document[table] = [r for r in document[table] if id(r) in keep and r.get("baseline", "eager") == "eager"]
    return document


def control_alone(document: dict) -> dict:
    """Only eager and A/A, which are compared with nothing else; the copy ran at a lower clock."""
    without(document, mode=set(document["study"]["modes"]) - {"eager", CONTROL})
    document["study"].update(modes={m: document["study"]["modes"][m] for m in ("eager", CONTROL)}, baselines=["eager"])
    document.update(payback=[], causes=[], peaks=[])
    document["speedups"] = [row for row in document["speedups"] if row["baseline"] == "eager"]
    low, high = {"low": 1500.0, "high": 1500.0}, {"low": 1980.0, "high": 1980.0}
    clocks = [{"op": "copy", "dtype": "float16", "size": "1GiB", "single": low, "many": low}]
    clocks += [{"op": "matmul", "dtype": "float16", "size": "512", "single": high, "many": high}]
    document["jobs"].update(clocks=clocks, costs={})
    return document


def of_start(directory: Path, made: Path) -> dict:
    """A study of how processes start, made of the recorded samples: each mode and a fresh twin that is as long.

    By device time compiled softmax 1024 is half as long again in a fresh process; by latency the twins differ by
    10 % to and fro between repeats; every fresh first call takes 2 % longer.
    """
    study = yaml.safe_load((ROOT / "workflow" / "studies" / "start.yaml").read_text(encoding="utf-8"))
    recorded = yaml.safe_load((directory / "study.yaml").read_text(encoding="utf-8"))
    study.update(machine="h200-start", repeats=recorded["repeats"])
    made.mkdir()
    (made / "study.yaml").write_text(yaml.safe_dump(study, sort_keys=False), encoding="utf-8")
    shutil.copyfile(directory / "environment.json", made / "environment.json")
    for name in ("samples", "jobs"):
        table = pd.read_parquet(directory / f"{name}.parquet").astype({"mode": str})
        table = table[table["mode"].isin(["eager", "compile", "triton"])]
        fresh = table.assign(mode=table["mode"] + "-fresh")
        if name == "samples":
            slow = fresh.op.eq("softmax") & fresh["size"].eq("1024") & fresh["mode"].eq("compile-fresh")
            fresh.loc[slow & fresh.timer.eq("device"), "value"] *= 1.5
            fresh.loc[fresh.timer.eq("latency"), "value"] *= np.exp(0.1 * (-1.0) ** fresh.repeat)
            fresh.loc[fresh.timer.eq("first_call"), "value"] *= 1.02
        pd.concat([table, fresh]).to_parquet(made / f"{name}.parquet")
    return summarize(made)[2]


def verdict(word: str):
    def every(document: dict) -> dict:
        for row in rows(document, baseline="eager", status="ok"):
            row["verdict"] = word
        return document

    return every


STUDIES = {
    "as recorded": lambda document: document,
    "cpu": cpu,
    "one repeat": once,
    "one repeat on a cpu": lambda document: once(cpu(document)),
    "unsupported": unsupported,
    "eager gone": eager_gone,
    "six modes": six_modes,
    "other op": other_op,
    "bare": bare,
    "control alone": control_alone,
    "bare on a cpu": lambda document: bare(cpu(document)),
    **{f"all {word}": verdict(word) for word in ("faster", "slower", "equivalent", "inconclusive")},
}


def by_day(names, chosen: set[str]) -> list:
    """Return parameters of which only the `chosen` ones are tested by day."""
    assert chosen <= set(names)
    return [pytest.param(name, marks=() if name in chosen else pytest.mark.nightly) for name in names]


@pytest.mark.parametrize("study", by_day(STUDIES, {"as recorded", "bare on a cpu"}))
def test_paper_typesets_for_any_study(study, document, recorded, checkout):
    document = STUDIES[study](document)
    for documents in [[document], [recorded, document]]:
        text = render(*documents)
        assert not re.search(LEFTOVERS, text), re.search(f".*({LEFTOVERS}).*", text)[0]
    read = " ".join(page.extract_text() for page in pypdf.PdfReader(typeset(checkout, text)).pages)
    assert "a free speedup?" in read[:200]
    assert not re.search(LEFTOVERS, read), re.search(f".{{30}}({LEFTOVERS}).*", read)[0]
    assert "References" in read and "All cells" in read


@pytest.mark.nightly
@pytest.mark.parametrize("study", ["as recorded", "six modes", "one repeat"])
def test_nothing_stands_below_the_page_number(study, document, whole, checkout):
    """A figure that does not fit its column would run over the foot of the page."""
    for page in pypdf.PdfReader(typeset(checkout, render(whole, STUDIES[study](document)))).pages:
        found = []
        page.extract_text(visitor_text=lambda text, cm, *_, found=found: text.strip() and found.append((cm[5], text)))
        number, lowest, *_ = sorted(found)
        assert number[1].strip().isdigit()
        # The margin is 64.8 points; a letter may reach below its line.
        assert lowest[0] > 60, lowest


def test_same_data_same_bytes(recorded, checkout):
    first, second = (typeset(checkout, render(recorded), name).read_bytes() for name in ("one", "two"))
    assert first == second


def test_another_number_is_another_paper(document, recorded, checkout):
    rows(document, op="softmax", mode="compile", metric="device", size="1024", baseline="eager")[0]["speedup"] *= 1.1
    first, second = (typeset(checkout, render(d), "paper").read_bytes() for d in (recorded, document))
    assert first != second


def test_numbers_and_words_follow_the_samples(directory, recorded):
    """Compiled softmax, made slow on the device at each size, is slow in the text as well."""
    path = directory / "samples.parquet"
    samples = pd.read_parquet(path)
    hit = samples.op.eq("softmax") & samples["mode"].eq("compile") & samples.timer.eq("device")
    samples.loc[hit, "value"] *= 4
    changed = directory.parent / "changed"
    shutil.copytree(directory, changed, dirs_exist_ok=True)
    samples.to_parquet(changed / "samples.parquet")
    before, after = render(recorded), render(default_mode(two_timers(summarize(changed)[2])))
    mean = next(r for r in recorded["speedups"] if is_mean(r))["speedup"]
    assert f"mean {mean:.3f} [" in section(before, "Softmax")
    assert f"mean {mean / 4:.3f} [" in section(after, "Softmax")
    assert "compiled code" in section(before, "Softmax").split("faster")[0]
    assert "is slower at all 5 sizes" in section(after, "Softmax")
    assert "is slower at all 5 sizes" not in section(before, "Softmax")
    assert "a gain or a loss by size for softmax" in section(before, "Conclusion").split("By latency")[0]
    assert "a loss for softmax" in section(after, "Conclusion").split("By latency")[0]
    assert section(before, "The published figures {") != section(after, "The published figures {")


def is_mean(row: dict) -> bool:
    wanted = {"op": "softmax", "mode": "compile", "metric": "device", "size": "all", "baseline": "eager"}
    return all(row[key] == value for key, value in wanted.items())


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("study", "words"),
    [
        ("as recorded", f"On the NVIDIA H200 {AT_ONCE} repeats ran at the same time{ON_MORE}; each kept to one GPU"),
        (
            "as recorded",
            f"up to {AT_ONCE} repeats ran at the same time, so that at most {BLOCKS} of its {REPEATS} followed one",
        ),
        ("as recorded", "`torch.compile` in its default mode is a free speedup for none of the 4 operations"),
        ("as recorded", "No other mode of `torch.compile` was measured on the NVIDIA H200."),
        ("as recorded", "The study of the NVIDIA H200 is repeated on such a machine by"),
        ("as recorded", f"three windows of {WINDOW} calls, or of fewer slow ones, agree within 2\u00a0%"),
        ("all faster", "`torch.compile` in its default mode is a free speedup for all 4 operations"),
        (
            "six modes",
            "`torch.compile` in the modes `compile`, `compile-reduce-overhead` and `compile-max-autotune` is a",
        ),
        ("cpu", "On the Some CPU each repeat is a block in time"),
        ("all inconclusive", "do not decide whether"),
        ("all equivalent", "no change for matrix product, softmax, layer normalization and attention"),
        ("one repeat", "gives no interval, and no verdict"),
        ("one repeat", "1 repeat cannot show whether `torch.compile` in its default mode is a free speedup"),
        ("cpu", "3 repeats cannot show whether `torch.compile` in its default mode is a free speedup"),
        ("cpu", "has no device time"),
        ("cpu", "`triton` is not run: needs cuda"),
        ("unsupported", "whether `torch.compile` is a free speedup was not tested"),
        ("unsupported", "`triton` is out of memory in 1 of 19 cells: softmax 65536"),
        ("unsupported", "not decided for softmax, for want of a verdict at some size"),
        ("six modes", "`compile-max-autotune` is `torch.compile` with mode `max-autotune`"),
        ("other op", "`my_op`"),
    ],
)
def test_words_follow_the_study(study, words, document, recorded):
    assert words in render(STUDIES[study](document))
    if study != "as recorded":
        assert words not in render(recorded)


@pytest.mark.parametrize(
    ("study", "words"),
    [
        (started(None), "On the NVIDIA H200 each is a new Python process."),
        (
            started("warm"),
            "On the NVIDIA H200 each is forked from a process of its repeat that has imported PyTorch, its",
        ),
        (started("warm"), "All modes of a repeat share the memory layout and the hash seed of the process"),
        (started("warm", triton="fresh"), "There a process of `triton` is a new Python process."),
        (started("warm", triton="fresh"), "All forked modes of a repeat share the memory layout"),
        (lambda document: started("warm")(cpu(document)), "its compiler, but has run no tensor operation."),
    ],
)
def test_the_start_of_processes_is_that_of_the_study(study, words, document):
    text = section(render(study(document)), "What is measured")
    assert words in text
    assert ("Nothing is compiled before the fork" in text) == ("start" in document["study"])


def test_what_data_do_not_tell_is_told_of_a_machine(document):
    document["study"].pop("note", None)
    without = section(render(document), "What is measured")
    document["study"]["note"] = "Repeat 2 was measured twice."
    told = section(render(document), "What is measured")
    assert "host cores of its own.\nRepeat 2 was measured twice.\nA mode's output" in told
    assert told.replace("Repeat 2 was measured twice.\n", "") == without


def test_threads_that_compile_what_tuning_tries_are_told_where_there_were_several(document):
    for mode in document["compilation"]:
        mode.pop("tuning_threads", None)
    assert "and one compile worker: " in render(document)
    document["compilation"][0]["tuning_threads"] = 8
    assert (
        "one compile worker (what `max-autotune` tries is compiled by 8 threads of that process, which end"
        in render(document)
    )


@pytest.mark.nightly
def test_the_study_of_starts_is_a_paragraph_and_no_machine(document, start_study):
    machines = [machine(started("warm")(document)), machine(start_study)]
    alone = render(document)
    text = paper.render(ROOT / "paper" / "paper.md", machines, PUBLISHED, COVERAGE, [])
    assert section(text, "Machines").startswith(section(alone, "Machines").rstrip())
    for title in ("The question", "Overview", "Softmax", "The published figures {", "Conclusion"):
        assert section(text, title) == section(alone, title)
    assert "h200-start" not in alone and text.count("(study `h200-start`)") == 1
    commit = start_study["environment"]["commit"][:10]
    assert f"Of the other studies, `h200-start` at `{commit}`: each ran the kernels of its own commit" in text
    limits = section(text, "Limits").replace("\u00a0", " ")
    half = 0.1 / math.sqrt(REPEATS - 1) * scipy.stats.t.ppf(0.975, REPEATS - 1)
    for line in (
        f"18 pairs of cell and mode ran in forked and in new processes next to each other, in {REPEATS} repeats.",
        "By device time, with δ = 1 %, 17 are equivalent and 1 differs; a new process takes 1.000 to 1.500 times",
        "The one that differs is `compile` at softmax 1024 (1.50",
        "By latency, with δ = 3 %, all 18 are not told apart; a new process takes 1.000 to 1.000 times",
        f"not told apart, within {math.exp(-half):.3f} to {math.exp(half):.3f}, are too wide to say.",
        "By the first call, with δ = 3 %, all 18 are equivalent; a new process takes 1.020 to 1.020 times",
        "no A/A arm",
    ):
        assert line in limits
    assert "was tested ([@sec-limits])" in section(text, "What is measured")
    assert "forked and in new" not in alone and "sec-limits])" not in alone


@pytest.mark.nightly
def test_first_calls_say_how_those_of_new_processes_differ(document, start_study):
    def first_calls(other: dict) -> str:
        machines = [machine(started("warm")(document)), machine(other)]
        text = paper.render(ROOT / "paper" / "paper.md", machines, PUBLISHED, COVERAGE, [])
        return section(text, "What the first call costs").replace("\u00a0", " ")

    assert "forked" not in first_calls(start_study)
    other = copy.deepcopy(start_study)
    pair = rows(other, mode="compile", baseline="compile-fresh", metric="first_call")
    pair[0].update(verdict="faster", speedup=1.08)
    assert "differ from them in 1 of 18 pairs of cell and mode, where they take 1.08 times as long" in first_calls(
        other
    )
    pair[1].update(verdict="slower", speedup=0.95)
    assert "in 2 of 18 pairs of cell and mode, where they take 0.95–1.08 times as long ([@sec-" in first_calls(other)


@pytest.mark.nightly
def test_the_study_of_starts_stands_for_its_machine_where_there_is_no_other(start_study, checkout):
    document = copy.deepcopy(start_study)
    fail(document, "oom", "out of memory", mode="triton", op="softmax", size="1024")
    rows(document, mode="eager", op="matmul", metric="latency", baseline="eager-fresh")[0].update(n=7)
    text = paper.render(ROOT / "paper" / "paper.md", [machine(document, local=True)], PUBLISHED, COVERAGE, [])
    line = next(line for line in section(text, "Limits").splitlines() if line.startswith("By latency, "))
    assert "17 are not told apart and 1 has no verdict" in line
    assert line.endswith(f"as a forked one (n = 7 to {REPEATS}).")
    assert "Speedup over eager-fresh on the NVIDIA H200 (this machine)" in section(text, "Overview")
    assert not re.search(LEFTOVERS, text), re.search(f".*({LEFTOVERS}).*", text)[0]
    typeset(checkout, text)
    fail(document, "crashed", "exit code 1", mode={"eager", "compile", "triton"})
    text = paper.render(ROOT / "paper" / "paper.md", [machine(document), machine(document)], PUBLISHED, COVERAGE, [])
    assert "By device time, with δ = 1\u00a0%, all 18 have no verdict." in section(text, "Limits")


def test_only_modes_that_differ_in_their_start_make_a_study_of_starts(document):
    modes = document["study"]["modes"]
    modes["triton"] = dict(modes["compile"])
    for mine, other, pairs in ((None, None, False), ("fresh", "warm", False), ("warm", "fresh", True)):
        change = started(None, triton=mine, compile=other) if mine else started("warm")
        assert bool(numbers(change(document), PUBLISHED, False)["start_pairs"]) == pairs
    modes["triton"]["dynamic"] = True
    assert not numbers(document, PUBLISHED, False)["start_pairs"]


DEFECT = {
    "study": "results/recorded/h200",
    "what": "warm-up did not settle",
    "jobs": ["softmax/float16/512/compile/3"],
    "repair": "rm x",
}
TWO_PEAKS = TwoPeaks(4, 6, 5.0).to_json()
# When the jobs of each repeat started: those of the first two side by side.
AT = [f"2026-01-01T00:0{minute}:00+00:00" for minute in (0, 0, 5)]


def a_job(mode: str, repeat: int, *suspect: Note, **others) -> dict:
    """A row of jobs.read: a second of overhead, none of compilation, two of measurement."""
    seconds = {"seconds.overhead": 1.0, "seconds.compilation": 0.0, "seconds.measurement": 2.0, "seconds.wall": 3.0}
    cell = {"op": "softmax", "dtype": "float16", "size": "4096", "mode": mode, "repeat": repeat, "status": "ok"}
    return {**cell, **seconds, "suspect": list(suspect), "process.parent": 7, "started": AT[repeat], **others}


# What older records do not say of their jobs.
APART = [
    {"op": "softmax", "dtype": "float16", "size": "1024", "repeats": [0, 2]},
    {"op": "attention", "dtype": "float16", "size": "512", "repeats": [1]},
]
UNTOLD = {"costs": {}, "suspects": None, "clocks": [], "floors": []}


def test_jobs_are_counted_as_their_records_say():
    table = pd.DataFrame(
        [
            a_job("eager", 0, PowerCap(3.5), PowerCap(None)),
            a_job("eager", 1, OtherProcesses(1)),
            a_job("triton", 0, **{"seconds.compilation": 3.0, "seconds.wall": 6.0}),
            a_job("triton", 1, OtherProcesses(2), **{"process.parent": 8}),
            a_job("triton", 2, OtherProcesses(1), status="oom"),
        ]
    )
    found = jobs.about(table)
    assert found["apart"] == [{"op": "softmax", "dtype": "float16", "size": "4096", "repeats": [1]}]
    assert found["costs"]["triton"] == {
        "jobs": 3,
        "median": {"overhead": 1, "compilation": 0, "measurement": 2, "wall": 3},
        "minutes": {"overhead": 0.05, "compilation": 0.05, "measurement": 0.1, "wall": 0.2},
    }
    suspects, cell = found["suspects"], {"op": "softmax", "dtype": "float16", "size": "4096", "of": 4}
    assert (suspects["jobs"], suspects["of"]) == (3, 4)
    assert suspects["kinds"] == {
        "OtherProcesses": {"jobs": 2, "cells": [{**cell, "jobs": 2, "modes": None}]},
        "PowerCap": {"jobs": 1, "cells": [{**cell, "jobs": 1, "modes": ["eager"]}]},
    }
    old = table.drop(columns=["suspect", "process.parent", "seconds.overhead"])
    assert jobs.about(old) == {**UNTOLD, "apart": [], "at_once": 2, "blocks": 2}


@pytest.mark.parametrize(
    ("hours", "blocks"),
    [
        ({0: [0, 1], 1: [0, 1], 2: [2, 3], 3: [2, 3]}, 2),  # two GPUs
        ({0: [0, 1], 1: [2, 3], 2: [4, 5]}, 3),
        ({0: [0, 2], 1: [1, 3], 2: [2.5, 4]}, 2),  # the second overlaps both others
        ({0: [0, 0.1, *[1] * 18, 99], 1: [2, 3]}, 2),  # one job measured again
    ],
)
def test_repeats_that_follow_one_another_are_blocks(hours, blocks):
    began = [(repeat, pd.Timestamp("2026-01-01") + pd.Timedelta(hours=h)) for repeat, of in hours.items() for h in of]
    table = pd.DataFrame([{**a_job("eager", 0), "repeat": repeat, "started": at.isoformat()} for repeat, at in began])
    assert jobs.about(table)["blocks"] == blocks


def test_clocks_are_told_by_cell_and_kind_of_timer(document):
    """At 4096 calls back to back ran at a lower clock in one mode; nowhere did single ones."""
    table = pd.DataFrame(
        [
            a_job(mode, repeat, size=size, **{"clocks.single": 1980.0, "clocks.throughput": many})
            for repeat in range(3)
            for mode, size, many in (
                ("eager", "1024", 1975.0), ("triton", "1024", 1980.0),
                ("eager", "4096", 1600.0), ("triton", "4096", 1980.0),
            )
        ]
    )  # fmt: skip
    found = jobs.about(table)["clocks"]
    assert [(c["size"], c["single"]["low"], c["many"]["low"], c["many"]["high"]) for c in found] == [
        ("1024", 1980, 1975, 1980),
        ("4096", 1980, 1600, 1980),
    ]
    document["jobs"]["clocks"] = found
    told = numbers(document, PUBLISHED, False)["clocks"]
    assert told == {"single": [], "many": [{"label": "softmax", "size": "4096", "low": 1600.0, "high": 1980.0}]}
    found[0]["single"]["low"] = 1900.0
    words = "by the lowest that a mode has in the median over its repeats, at softmax 1024 (1900&nbsp;MHz)"
    assert f"{words}; each verdict on a mode that ran into the power cap" in section(render(document), "Limits")
    draft = paper.render(ROOT / "paper" / "paper.md", [machine(document)], PUBLISHED, COVERAGE, [DEFECT])
    assert f"{words}." in section(draft, "Limits")


@pytest.mark.parametrize("cause", ["unexplained", "clocks"])
def test_a_difference_in_device_time_of_the_same_kernels_is_no_gain(cause, document):
    """Attention is the same kernel in both: faster at one size, for a clock or for nothing that tells why."""
    for row in rows(document, op="attention", mode="compile", baseline="eager", metric="device"):
        row["verdict"] = "faster" if row["size"] == "2048" else "equivalent"
    document["causes"] = [because("kernel", op="attention", size="2048", mode="compile", metric="device")]
    assert "attention" in numbers(document, PUBLISHED, False)["answers"]["compile"]["by"]["device"]["gain"]
    document["causes"] = [because(cause, op="attention", size="2048", mode="compile", metric="device")]
    assert "attention" in numbers(document, PUBLISHED, False)["answers"]["compile"]["by"]["device"]["open"]
    told = "By device time, compiled code at attention 2048 ran the kernels of eager at another SM clock"
    assert (told in render(document)) == (cause == "clocks")


def test_speedups_near_the_floor_are_set_beside_graph_time(document):
    key = {"op": "softmax", "size": "1024", "mode": "triton"}
    (time,) = [r for r in rows(document, **key, metric="device") if "estimate" in r]
    time["notes"] = [NearFloor(4.5, 10).to_json()]
    (device,) = rows(document, **key, metric="device", baseline="eager")
    document["speedups"].append({**device, "metric": "graph", "verdict": "slower", "speedup": 0.5})
    found = numbers(document, PUBLISHED, False)["near_floor"]["graph"]
    others = found["of"] - 1
    assert others == 0 and found["changed"][0] | key == found["changed"][0] | {"label": "softmax", **key}
    text = section(render(document), "Limits")
    graph = "By graph time, which has no such floor but a warm L2 cache, 1 of their 1 speedups has another verdict"
    assert f"{graph}: `triton` at softmax" in text
    assert "What is said of such cells elsewhere is by device time" in text


def test_suspect_jobs_and_costs_in_words(document):
    document["jobs"] = jobs.about(pd.DataFrame([a_job("eager", 0), a_job("eager", 1, Heat(3.5)), a_job("triton", 0)]))
    text = render(document)
    assert "is 1 of the 3 jobs of the study of the NVIDIA H200: throttling by heat at softmax 4096 (1 of 3," in text
    assert "| `eager` | 1.00 | – | 2.00 | 0.100 |" in text
    document["jobs"] = jobs.about(pd.DataFrame([a_job("eager", 0)]))
    assert "In none of the 1 job of the study" in section(render(document), "Limits")
    document["jobs"] = jobs.about(pd.DataFrame([a_job("eager", 0, status="oom")]))
    assert "of the study of the NVIDIA H200" not in section(render(document), "Limits")
    document["jobs"] = {**UNTOLD, "apart": APART, "at_once": 1, "blocks": 3}
    text = render(document)
    assert "are recorded and not judged" in section(text, "Limits") and "tbl-cost" not in text
    text = render(started("warm")(document))
    assert "Apart from the rest of their repeats, in another run from another process, of the same seed" in text
    cells = "were measured softmax 1024 (repeats 0 and 2) and attention 512 (repeat 1)."
    assert cells in text and f"in another run, {cells}" in render(started("fresh")(document))


def test_claims_are_shown_as_they_are_told_on_each_machine(whole, document):
    """The second machine is a CPU without kernels and graphs, one of whose first calls is as long as eager's."""
    fail(cpu(document), "unsupported", "needs cuda", mode="triton")
    for row in rows(document, metric="first_call", mode="compile", baseline="eager", op="softmax", size="1024"):
        row["verdict"] = "equivalent"
    text = section(render(whole, document), "Claims").replace("\u00a0", " ")
    for claim in CLAIMS:
        assert f"1. {claim['sentence']}" in text and f"`{claim['command']}`, {claim['minutes']}&nbsp;min." in text
    lines = [line for line in text.splitlines() if line.startswith(("Holds", "Does not", "Cannot", "Not tested"))]
    told = dict(zip([claim["id"] for claim in CLAIMS], lines, strict=True))
    here = "not tested on the Some CPU (this machine)."
    assert told["softmax-narrow"] == f"Holds on the NVIDIA H200 (2 rows; [@fig-speedups-h200]); {here}"
    assert told["graphs-latency"].endswith(here)
    assert "; does not hold on the Some CPU (this machine) (19 of 76 rows; [@fig-first-" in told["first-call"]


def test_one_repeat_has_no_interval(document):
    text = render(once(document))
    assert not re.search(r"\d \[\d", text)
    assert "with intervals" not in text
    assert "95&nbsp;% intervals over" not in text


def test_local_machine_is_marked(recorded, document):
    text = render(recorded, cpu(document))
    assert "| | NVIDIA H200 | Some CPU (this machine) |" in text
    assert "| Driver; CUDA | 580.159.04; 13.0 | – |" in text


def test_same_machine_measured_again_is_told_apart(recorded, document, checkout):
    text = render(recorded, document)
    assert "NVIDIA H200 (this machine)" in text
    typeset(checkout, text)


@pytest.mark.parametrize("name", ["machines[0].missing", "published.missing", "missing"])
def test_unknown_name_fails_with_one_line(name, recorded, tmp_path):
    text = tmp_path / "paper.md"
    text.write_text("Fine.\n{{ " + name + " }}\n", encoding="utf-8")
    with pytest.raises(InputError) as error:
        paper.render(text, [machine(recorded)], PUBLISHED, COVERAGE, [])
    assert str(error.value).startswith("paper.md: ") and "missing" in str(error.value)
    assert "\n" not in str(error.value)


def test_wrong_syntax_fails_with_one_line(recorded, tmp_path):
    (tmp_path / "paper.md").write_text("Fine.\n{% if %}\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 2"):
        paper.render(tmp_path / "paper.md", [machine(recorded)], PUBLISHED, COVERAGE, [])


def test_source_has_one_sentence_per_line():
    for line in (ROOT / "paper" / "paper.md").read_text(encoding="utf-8").splitlines():
        plain = re.sub(r"\{%.*?%\}|\{\{.*?\}\}|^!\[.*|^: .*|et al\.", "", line)
        assert not re.search(r"[a-z]\. [A-Z]", plain), line


@pytest.mark.parametrize(
    ("low", "estimate", "high", "text"),
    [
        (1.8629, 1.8654, 1.8679, "1.865 [1.863, 1.868]"),
        (1.205, 1.2526, 1.302, "1.253 [1.205, 1.302]"),
        (0.545, 0.6617, 0.803, "0.66 [0.55, 0.80]"),
        (0.03, 0.27, 2.11, "0.27 [0.03, 2.11]"),
        (0.00536, 0.005609, 0.00588, "0.0056 [0.0054, 0.0059]"),
        (None, 1.5, None, "1.50"),
        (None, None, None, "–"),
    ],
)
def test_interval_as_text(low, estimate, high, text):
    assert paper.ci({"speedup": estimate, "ci_low": low, "ci_high": high}).replace("\u00a0", " ") == text


def test_interval_breaks_only_before_its_bracket():
    assert paper.ci({"speedup": 1.5, "ci_low": 1.4, "ci_high": 1.6}) == "1.50 [1.40,\u00a01.60]"


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        ("ffff", "faster at all 4 sizes"),
        ("ee", "equivalent to eager at both sizes"),
        ("f", "faster at 1"),
        ("ffss", "faster up to 2 and slower from 4 on"),
        ("sffi", "slower at 1, faster from 2 to 4 and not told apart at 8"),
        ("sfss", "slower at all sizes but 2, where it is faster"),
        ("siss", "slower at all sizes but 2, where the two are not told apart"),
        ("fsfi", "faster at 1 and 4, slower at 2, and not told apart at 8"),
        ("fsfs", "faster at 1 and 4, and slower at 2 and 8"),
        ("-fff", "faster at 2, 4 and 8 (no verdict at 1)"),
        ("----", "without a verdict"),
    ],
)
def test_outcome_in_words(verdicts, words, document):
    names = {"f": "faster", "s": "slower", "e": "equivalent", "i": "inconclusive", "-": ""}
    sizes = ["1024", "4096", "16384", "32768"][: len(verdicts)]
    document["study"]["ops"] = {"softmax": {"rows": 8192, "sizes": [2**k for k in range(len(sizes))]}}
    for table in ("summary", "speedups"):
        own = [row for row in document[table] if row["op"] == "softmax" and row["size"] in sizes]
        document[table] = [{**row, "size": str(2 ** sizes.index(row["size"]))} for row in own]
    for row in rows(document, mode="compile", metric="device", baseline="eager"):
        row["verdict"] = names[verdicts[int(row["size"]).bit_length() - 1]]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ROOT / "paper"), comment_start_string="{*", comment_end_string="*}"
    )
    for name in ("words", "runs", "ci", "value", "span", "percent", "plural", "sentence", "round_to"):
        environment.filters[name] = getattr(paper, name)
    say = environment.get_template("macros.md").module
    mode = numbers(document, PUBLISHED, False)["ops"]["softmax"]["modes"]["compile"]["device"]
    assert str(say.outcome(mode, "eager")) == words


def test_sizes_that_follow_each_other_are_told_as_a_range():
    of = [256, 512, 1024, 2048, "16x4096x4096"]
    assert paper.runs(["256", "512", "1024", "16x4096x4096"], of) == "256 to 1024 and 16x4096x4096"
    assert paper.runs([256, 512, 2048], of) == "256, 512 and 2048"
    assert paper.runs(of, of) == "256 to 16x4096x4096"


@pytest.mark.parametrize(
    ("share", "text"), [(0.0123, "1.2 %"), (0.98, "98 %"), (0.997, "100 %"), (1.013, "101 %"), (2.346, "235 %")]
)
def test_shares_are_told_apart_above_the_whole_too(share, text):
    assert paper.percent(share).replace(paper.NBSP, " ") == text


def test_host_cost_is_that_of_its_timer(document):
    """One cell, by hand: eager takes 9 µs on the host and 110 in all, compile 30 µs on the host."""
    document = bare(document)
    for row in rows(document, metric="latency", mode="eager"):
        row["estimate"] = 110.0
    for row in [row for row in document["summary"] if row["metric"] == "latency"]:
        document["summary"].append(
            {**row, "metric": "host", "estimate": {"eager": 9.0, "compile": 30.0}.get(row["mode"], 1.0)}
        )
    document["means"] = []
    assert numbers(document, PUBLISHED, False)["host"] == {}, "without a mean there is nothing to tell"
    of = {"cells": 1, "n": 3, "estimate": 21.0, "ci_low": 19.0, "ci_high": 23.0}
    document["means"] = [
        {**of, "mode": mode, "metric": metric, "over": over}
        for mode, metric, over in [("eager", "host", ""), ("compile", "host", ""), ("compile", "excess", "eager")]
    ]
    found = numbers(document, PUBLISHED, False)["host"]
    excess = found["compile"]["excess"]
    assert (excess["mean"]["estimate"], excess["low"], excess["high"], found["compile"]["longer"]) == (21, 21, 21, 0)
    assert "excess" not in found["eager"]
    for row in rows(document, metric="host", mode="compile"):
        row["estimate"] = 111.0
    assert numbers(document, PUBLISHED, False)["host"]["compile"]["longer"] == 1, "than 110 of the whole call"


def test_means_over_the_cells_are_told_with_their_intervals(whole):
    text = render(whole)
    means = {(of["mode"], of["metric"], of["over"]): paper.ci(of, "estimate") for of in whole["means"]}
    more = f"keeps the host {means['compile', 'excess', 'eager']}&nbsp;µs longer"
    calls = f"{means['compile', 'first_call', '']}&nbsp;s in the geometric mean over the cells, against"
    for part in (text.split("# The question")[0], section(text, "Conclusion")):
        assert more in part and f"{calls} {means['eager', 'first_call', '']}&nbsp;s for eager" in part
    assert f"{means['triton', 'host', '']}&nbsp;µs for the Triton kernel." in text
    assert f"{means['eager', 'first_call', '']}&nbsp;s (" in section(text, "What the first call costs {")


def test_a_mean_over_some_of_the_sizes_is_not_what_was_published(document):
    assert numbers(document, PUBLISHED, False)["claims"]["softmax"]["verdict"] == "holds in part"
    without(document, op="softmax", mode="compile", size="65536")
    assert numbers(document, PUBLISHED, False)["claims"]["softmax"]["verdict"] == "not tested"


def test_margins_of_equivalence_are_those_of_the_study(recorded, document):
    def margins(text: str) -> str:
        return re.search(r"δ is (.*)\.\n", text)[1].replace(f"{paper.NBSP}%", " %")

    assert margins(render(recorded)) == "1 % for device time and 3 % for any other metric"
    document["study"]["equivalence"] = {"device": 0.01, "first_call": 0.2, "default": 0.05}
    assert margins(render(document)) == "1 % for device time, 20 % for the first call and 5 % for any other metric"


def test_a_mode_without_the_first_timer_stands_in_the_table_of_timers(whole):
    some = copy.deepcopy(whole)
    for row in rows(some, mode="triton", metric="device"):
        row["verdict"] = ""
    (cells,) = table_rows(render(some).split("{#tbl-timers")[0].split("| Mode | Device time |")[-1], "| `triton` |")
    assert cells[2] == "–" and "↑" in cells[3]


def test_published_regression_by_latency_only_is_said_so(document):
    text = section(render(document), "The published figures {")
    assert "both by latency and not by device time" in text
    for row in rows(document, op="matmul", mode="compile", size="all", baseline="eager", metric="device"):
        row.update(speedup=0.8, ci_low=0.79, ci_high=0.81)
    text = section(render(document), "The published figures {")
    assert "1 by latency and not by device time, 1 in the kernels' own time" in text


def eager_time(document: dict, op: str, size: str, metric: str) -> float:
    return next(r for r in rows(document, op=op, size=size, metric=metric, mode="eager") if "estimate" in r)["estimate"]


def set_speedup(document: dict, op: str, size: str, metric: str, speedup: float, word: str) -> None:
    """Make compiled code of one cell so much faster than eager, with its verdict."""
    cell = {"op": op, "size": size, "metric": metric}
    eager = eager_time(document, op, size, metric)
    for row in rows(document, **cell, mode="compile"):
        if "estimate" in row:
            row["estimate"] = eager / speedup
        elif row["baseline"] == "eager":
            row.update(speedup=speedup, ci_low=speedup * 0.99, ci_high=speedup * 1.01, verdict=word)


def test_loss_is_outside_the_kernels_only_where_no_kernel_is_slower(document):
    text = section(render(document), "The published figures {")
    assert "For matrix product no size is shown slower by device time: the loss lies outside the kernels" in text
    found = numbers(document, PUBLISHED, False)["loss"]["ops"]["softmax"]
    shares = [paper.percent(found["shares"][size]) for size in ("16384", "32768", "65536")]
    assert f"For softmax the kernels carry {paper.words(shares)} of the µs lost by latency at 16384, " in text
    assert f"and {paper.percent(found['total'])} of their sum over all sizes" in text
    for size in ("16384", "32768", "65536"):
        set_speedup(document, "softmax", size, "device", 1.0, "equivalent")
    set_speedup(document, "matmul", "2048", "device", 0.5, "slower")
    set_speedup(document, "matmul", "2048", "latency", 0.4, "slower")
    device, latency = (eager_time(document, "matmul", "2048", metric) for metric in ("device", "latency"))
    text = section(render(document), "The published figures {")
    assert "For softmax no size is shown slower by device time: the loss lies outside the kernels" in text
    share = paper.percent(device / (1.5 * latency))
    assert f"For matrix product the kernels carry {share} of the µs lost by latency at 2048" in text
    set_speedup(document, "matmul", "2048", "latency", 1.1, "faster")
    text = section(render(document), "The published figures {")
    assert "For matrix product the kernels are slower at 2048, where the call is not." in text


def test_share_of_the_loss_is_plain_arithmetic(document):
    document = bare(document)
    set_speedup(document, "softmax", "4096", "device", 0.5, "slower")
    set_speedup(document, "softmax", "4096", "latency", 0.4, "slower")
    time = {m: rows(document, metric=m, mode="eager", unit="µs")[0]["estimate"] for m in ("device", "latency")}
    found = numbers(document, PUBLISHED, False)["loss"]
    share = pytest.approx(time["device"] / (1.5 * time["latency"]))
    assert found == {"cells": 1, "both": 1, "ops": {"softmax": {**found["ops"]["softmax"], "total": share}}}
    assert found["ops"]["softmax"]["shares"] == {"4096": share}
    assert numbers(cpu(document), PUBLISHED, False)["loss"]["ops"] == {}


def test_spread_between_repeats_is_that_of_the_samples(directory, document):
    samples = pd.read_parquet(directory / "samples.parquet")
    own = samples[samples["mode"].eq("triton") & samples.timer.eq("latency")]
    logs = np.log(own.groupby(["op", "size", "repeat"], observed=True).value.median())
    spreads = logs.groupby(level=["op", "size"], observed=True).std()
    found = numbers(document, PUBLISHED, False)["noise"]["triton"]["latency"]
    assert found["median"] == pytest.approx(spreads.median(), rel=1e-3)
    assert found["high"] == pytest.approx(spreads.max(), rel=1e-3)
    assert (found["label"], found["size"]) == spreads.idxmax()


def test_noise_in_words_follows_the_data(document):
    assert "not that of other modes" in section(render(document), "What eager against eager shows {")
    for row in rows(document, metric={"device", "latency"}, status="ok"):
        if row.get("estimate"):
            row.update(ci_low=row["estimate"] * 0.99, ci_high=row["estimate"] * 1.01)
    wide = next(r for r in rows(document, op="attention", size="512", mode="compile", metric="device", unit="µs"))
    text = section(render(document), "What eager against eager shows {")
    assert "No cell spreads beyond 5 times the median of its mode and timer." in text
    wide.update(ci_low=wide["estimate"] * 0.5, ci_high=wide["estimate"] * 2)
    text = section(render(document), "What eager against eager shows {")
    assert "timer, is `compile` by device time at attention 512." in text
    assert numbers(once(document), PUBLISHED, False)["noise"] == {}


def test_default_mode_is_said_where_no_other_was_measured(recorded, document):
    text = render(recorded)
    for part in (text.split("# The question")[0], section(text, "Conclusion")):
        assert "`torch.compile` in its default mode is" in part
    text = render(six_modes(document))
    assert "in its default mode" not in text and "No other mode of" not in text
    document["study"]["modes"]["compile"]["dynamic"] = True
    without(document, mode={"compile-reduce-overhead", "compile-max-autotune"})
    text = render(document)
    assert "in its default mode" not in text and "`torch.compile` in the mode `compile` is" in text


def test_what_is_shown_neither_faster_nor_slower_is_no_answer(document):
    """Softmax is a loss; of the others nothing is known, or of all but layer normalization, which is faster."""
    for row in rows(document, mode="compile", baseline="eager"):
        row["verdict"] = "slower" if row["op"] == "softmax" else "inconclusive"
    document["causes"] = []
    words = (
        "`torch.compile` in its default mode is no free speedup for softmax, and the measurements do not decide it for"
    )
    assert f"{words} matrix product, layer normalization and attention" in section(render(document), "Conclusion")
    for row in rows(document, mode="compile", baseline="eager", op="layer_norm"):
        row["verdict"] = "faster"
    words = "is a free speedup for layer normalization, and the measurements do not decide it for matrix product and"
    assert words in section(render(document), "Conclusion")


def test_that_p_values_take_no_account_of_added_repeats_is_said_where_a_note_may_say_so(document):
    told = "Where repeats were added to a study, or measured again, it says so"
    document["study"]["note"] = "Two repeats were added."
    text = render(document)
    assert told in text and "Two repeats were added." in section(text, "What is measured")
    del document["study"]["note"]
    assert told not in render(document)


def test_modes_that_differ_have_answers_of_their_own(document):
    document = six_modes(document)
    for row in rows(document, mode="compile-max-autotune", baseline="eager"):
        row["verdict"] = "faster"
    assert (
        "`torch.compile` in the modes `compile` and `compile-reduce-overhead` is a free speedup for none of the 4"
        " operations; `torch.compile` in the mode `compile-max-autotune` is a free speedup for all 4 operations"
    ) in section(render(document), "Conclusion")


def paid(document: dict, **calls: str) -> None:
    """Make the compiled cells of softmax (sizes in order) pay back so by latency: a number of calls, open or never."""
    found = [
        row
        for row in document["payback"]
        if (row["op"], row["mode"], row["metric"]) == ("softmax", "compile", "latency")
    ]
    for row, said in zip(found, calls["softmax"].split(), strict=True):
        row.update(kind=said, calls=None, low=None, high=None)
        if said.isdigit():
            row.update(kind="after", calls=int(said), low=int(said) * 0.9, high=int(said) * 1.1)
        elif said == "open":
            row.update(low=5000.0)


def test_when_compiling_pays_back_is_said_by_metric_cell_and_op(document):
    paid(document, softmax="1000 2000 open never never")
    found = numbers(document, PUBLISHED, False)["payback"]["latency"]
    counted = {"after": 2, "open": 1, "never": 2}
    others = [row for row in found["rows"] if row["op"] != "softmax"]
    assert {kind: found[kind] - sum(row["kind"] == kind for row in others) for kind in counted} == counted
    text = render(document)
    trial = section(text, "The published figures {")
    assert (
        "by latency paid after 1,000 to 2,000 calls at 1024 and 4096, never paid at 32768 and 65536 and open at 16384"
        in trial
    )
    assert "≥&nbsp;5,000 |" in text and "1,000 [900,&nbsp;1,100] |" in text and "| never |" in text
    next(row for row in document["payback"] if row["kind"] == "after").update(calls=84000.0, low=0.0, high=190000.0)
    assert "84,000, ≤&nbsp;190,000 |" in render(document)
    paid(document, softmax="never never never never never")
    assert "by latency never paid at any size" in section(render(document), "The published figures {")


def test_a_study_in_which_nothing_compiles_says_nothing_of_paying_back(document):
    without(document, mode="compile")
    assert "pays back" not in render(document).lower()


def test_times_near_the_floor_are_marked(document):
    text = render(document)
    floors = sorted(
        note.floor_us
        for row in rows(document, metric="device", status="ok")
        if "estimate" in row and (note := find(row["notes"], NearFloor))
    )
    assert f", {floors[0]:.2f}–{floors[-1]:.2f}&nbsp;µs in these jobs" in text
    assert len(re.findall(r"\]&nbsp;†", text)) == len(
        [r for r in document["summary"] if find(r["notes"], NearFloor) and r["mode"] != CONTROL]
    )
    for row in document["summary"]:
        row["notes"] = []
    assert "†" not in render(document)


def test_repeats_in_two_peaks_or_far_off_are_marked_and_counted(document):
    for row in document["speedups"] + document["summary"]:
        row["notes"] = []
    rows = [
        row
        for row in document["speedups"]
        if (row["baseline"], row["metric"]) == ("eager", "latency") and row["size"] != "all" and row["mode"] != CONTROL
    ]
    plain = render(document)
    assert "‡ repeats" not in plain and "&nbsp;‡ |" not in plain
    rows[0]["notes"], rows[1]["notes"] = [TWO_PEAKS], [FarOff(2, 10, 1.2).to_json()]
    text = render(document)
    assert f"They are 2 of {len(rows)} by latency on the NVIDIA H200." in text
    assert text.count("&nbsp;‡ |") == 2
    rows[0]["notes"] = rows[1]["notes"] = []
    time = next(row for row in document["summary"] if row["metric"] == "latency")
    time["notes"] = [TWO_PEAKS]
    text = render(document)
    assert text.count("&nbsp;‡ |") == 1 and "‡ repeats" in text


def test_no_word_of_a_reason_changes_the_paper(recorded):
    text = render(recorded)
    reworded = copy.deepcopy(recorded)
    for row in reworded["summary"] + reworded["speedups"]:
        row["reason"] = "reworded"
    assert render(reworded) == text


@pytest.mark.nightly
def test_a_paper_on_data_with_defects_is_a_draft_on_each_page(recorded, checkout):
    text = paper.render(ROOT / "paper" / "paper.md", [machine(recorded)], PUBLISHED, COVERAGE, [DEFECT])
    assert "**This is a draft.** The gate (`snakemake check`) finds 1 defect in its data" in text
    assert "- results/recorded/h200: warm-up did not settle: softmax/float16/512/compile/3.\n" in text
    pages = pypdf.PdfReader(typeset(checkout, text)).pages
    assert all("DRAFT" in page.extract_text() for page in pages)
    assert not any(
        "DRAFT" in page.extract_text() for page in pypdf.PdfReader(typeset(checkout, render(recorded))).pages
    )


@pytest.mark.nightly
def test_speedups_of_which_the_exact_interval_says_otherwise_are_listed(recorded, chain_study):
    document = copy.deepcopy(recorded)
    for row in document["speedups"]:
        row["notes"] = []
    assert "either both intervals hold the value 1 or neither does, for all" in render(document)
    (row,) = rows(document, op="softmax", mode="compile", metric="device", size="1024", baseline="eager")
    row["notes"] = [ExactIntervalDisagrees().to_json()]
    assert "has the value 1 in one of the two intervals and not in the other: `compile` at softmax 1024" in render(
        document
    )
    other = copy.deepcopy(chain_study)
    (row,) = rows(other, op="matmul_softmax", mode="compile", metric="device", size="100", baseline="eager")
    row["notes"] = [ExactIntervalDisagrees().to_json()]
    assert re.search(r"not in the other for [1-9]\d* of \d+ in `h200-elementwise`", render(recorded, other))


def because(cause: str, **where: str) -> dict:
    where = {"dtype": "float16", "baseline": "eager", "metric": "latency"} | where
    return {**where, "cause": cause, "evidence": "device 10 and 20 µs; old_kernel 9 µs and triton_red 19 µs"}


def test_causes_are_told_by_op_mode_and_metric(recorded):
    assert "No causes are assigned to the differences on the NVIDIA H200" in render(recorded)
    found = [
        because("host", op="softmax", size="1024", mode="compile"),
        because("kernel", op="softmax", size="16384", mode="compile"),
        because("kernel", op="softmax", size="16384", mode="compile", metric="device"),
        because("unexplained", op="matmul", size="512", mode="triton"),
        because("host", op="matmul", size="512", mode="triton", metric="host"),
        because("host", op="matmul", size="512", mode=CONTROL),
    ]
    text = render({**recorded, "causes": found})
    assert "No causes are assigned" not in text
    why = section(text, "Why {")
    assert "causes of the 4 differences from eager by device time and latency, of which 1 is unexplained;" in why
    assert "| softmax | `compile` | kernel: 16384 | host: 1024; kernel: 16384 |" in why
    assert "| matrix product | `triton` | – | unexplained: 512 |" in why
    assert r"- softmax 16384: device 10 and 20 µs; old\_&#8203;kernel 9 µs and triton\_&#8203;red 19 µs." in why


def with_arm(document: dict, verdict: str) -> dict:
    """Add a diagnostic arm of compile at one cell, twice as fast, with this verdict by latency."""
    document["study"]["modes"]["compile-arm"] = {"runner": "compile", "skip_guards": True, "diagnoses": "compile"}
    for row in rows(document, op="softmax", size="1024", mode="compile", metric={"latency", "device"}):
        if "estimate" in row:
            document["summary"].append({**row, "mode": "compile-arm", "estimate": row["estimate"] / 2})
        elif row["baseline"] == "eager":
            own = {"mode": "compile-arm", "baseline": "compile", "speedup": 2.0, "ci_low": 1.9, "ci_high": 2.1}
            word = verdict if row["metric"] == "latency" else "equivalent"
            document["speedups"].append({**row, **own, "verdict": word})
    return document


def test_a_diagnostic_arm_has_a_table_of_its_own_and_is_no_mode_elsewhere(recorded, document):
    known = render(recorded)
    text = render(with_arm(copy.deepcopy(document), "faster"))
    found = section(text, "What guards and input copies cost {")
    assert "`compile-arm` is shown to differ from `compile` by latency in 1 of 1 cell." in found
    row = next(r for r in rows(document, op="softmax", size="1024", mode="compile", metric="latency") if "unit" in r)
    assert f"{paper.value(row['estimate'])} → {paper.value(row['estimate'] / 2)} | 2.00 [1.90,\u00a02.10]" in found
    assert "compile-arm" not in text.replace(found, "") and "compile-arm" not in known
    assert "is shown to differ from `compile` by no timer in any of 1 cell" in render(
        with_arm(document, "inconclusive")
    )
    fail(document, "unsupported", "needs cuda, this machine is cpu", mode="compile-arm")
    assert "What guards and input copies cost" not in render(document)


def speedups_of(document: dict, metric: str) -> dict[str, str]:
    wanted = {"mode": "compile", "baseline": "eager", "metric": metric}
    return {row["op"] + row["size"]: row["verdict"] for row in rows(document, **wanted) if row["size"] != "all"}


def test_a_conclusion_that_turns_with_the_timer_is_counted(recorded, document):
    assert "The same cells by each timer" not in render(recorded)
    for row in rows(document, metric="latency"):
        table = document["summary" if "unit" in row else "speedups"]
        table.append({**row, "metric": "throughput", **({"verdict": "faster"} if row.get("verdict") else {})})
    found = numbers(document, PUBLISHED, False)["turned"]["modes"]["compile"]
    device, latency = (speedups_of(document, metric) for metric in ("device", "latency"))
    assert found["of"] == 19 and found["all_slower"] == 0
    assert found["cells"] == sum("slower" in (device[cell], latency[cell]) for cell in device)
    assert f"in {found['cells']} of 19 cells" in section(render(document), "The same cells by each timer {")


@pytest.fixture(scope="module")
def protocol_study() -> dict:
    return rebuilt("h200-protocol")


@pytest.mark.nightly
@pytest.mark.parametrize("left", [["read", "none"], ["read", "write"], ["read"]])
def test_only_what_was_done_to_the_cache_is_told(recorded, protocol_study, left):
    some = copy.deepcopy(protocol_study)
    gone = {m for m, entry in some["study"]["modes"].items() if entry.get("flush", "read") not in left}
    for table in ("summary", "speedups", "causes", "compilation", "traces", "means"):
        some[table] = [row for row in some[table] if not {row["mode"], row.get("baseline"), row.get("over")} & gone]
    some["jobs"]["costs"] = {m: of for m, of in some["jobs"]["costs"].items() if m not in gone}
    some["study"]["baselines"] = [m for m in some["study"]["baselines"] if m not in gone]
    some["study"]["modes"] = {m: entry for m, entry in some["study"]["modes"].items() if m not in gone}
    found = section(render(recorded, some), "What the protocol does {")
    assert ("by writing one" in found) == ("write" in left) and ("left as it was (" in found) == ("none" in left)
    assert "The other two give" not in found and ("The other gives" in found) == (len(left) == 2)


@pytest.mark.nightly
def test_a_study_of_the_protocol_is_told_in_a_section_of_its_own(recorded, protocol_study):
    text = render(recorded, protocol_study)
    found = section(text, "What the protocol does {")
    assert text.count("#tbl-glance-") == 1, "it is no machine"
    cell = {"op": "softmax", "size": "1024", "metric": "device", "unit": "µs"}
    times = {row["mode"]: row["estimate"] for row in rows(protocol_study, **cell)}
    modes = [f"{mode}{flush}" for mode in ("eager", "compile", "triton") for flush in ("", "-written", "-warm")]
    assert f"| softmax 1024 | {' | '.join(paper.value(times[mode]) for mode in modes)} |" in found
    assert "calls without a pause for 5&nbsp;s" in found
    load = next(t for t in protocol_study["traces"] if (t["op"], t["mode"]) == ("matmul", "eager-long"))
    assert f"Matrix product 4096 in `eager-long` takes {load['slowdown']['estimate']:.3f} [" in found
    assert f"{load['ends']['power']:.0f}&nbsp;W and {load['ends']['sm_clock']:.0f}&nbsp;MHz" in found
    assert "What the protocol does" not in render(recorded)


def test_peaks_and_eager_told_apart_from_itself_are_told_of_every_study(recorded):
    document = rebuilt("cpu-amd-epyc-modes")
    text = render(recorded, document)
    own = {"baseline": "eager", "metric": "latency"}
    timed = [row for row in rows(document, **own) if row["size"] != "all" and row["n"] and row["mode"] != CONTROL]
    flagged = [row for row in timed if find(row["notes"], *FLAGS)]
    assert f"{len(flagged)} of {len(timed)} by latency in `cpu-amd-epyc-modes`." in text
    (odd,) = (
        row
        for row in rows(document, mode=CONTROL, baseline="eager")
        if row["metric"] != "latency" and row["size"] != "all" and row["verdict"] in ("faster", "slower")
    )
    assert f"by {odd['metric']} at `{odd['op']}` {odd['size']} ({paper.ci(odd)}): there a difference that is" in text


@pytest.fixture(scope="module")
def chain_study() -> dict:
    return rebuilt("h200-elementwise")


@pytest.fixture(scope="module")
def recorded_modes() -> dict:
    return rebuilt("h200-modes")


@pytest.fixture(scope="module")
def recorded_models() -> dict:
    return rebuilt("h200-models")


@pytest.fixture(scope="module")
def recorded_dtypes() -> dict:
    return rebuilt("h200-dtypes")


@pytest.mark.nightly
def test_a_study_of_many_modes_has_a_line_for_each(recorded, recorded_modes, chain_study):
    text = render(recorded, recorded_modes)
    assert "[@tbl-tally-h200-modes-local] has how often each mode is faster or slower, and for which" in text
    assert "- tbl-tally-h200-modes-local" in text and "{#tbl-tally-h200-modes-local}" in text
    found = section(text, "Other operations, models, modes and dtypes {").split("{#tbl-tally")[0]
    bullet = next(line for line in found.splitlines() if line.startswith("- By device time"))
    assert "`compile` is" in bullet and "`compile-static`" not in bullet
    for mode in ("compile", "compile-iteration", "compile-auto-dynamic"):
        of = {"mode": mode, "metric": "latency", "baseline": "eager"}
        own = [row for row in recorded_modes["speedups"] if of.items() <= row.items() and row["size"] != "all"]
        marks = {"faster": "↑", "slower": "↓", "equivalent": "=", "inconclusive": "?"}
        count = {mark: sum(row["verdict"] == verdict for row in own) for verdict, mark in marks.items()}
        low, high = (end(row["speedup"] for row in own) for end in (min, max))
        ((_, _, cells, _, _, verdicts, span, *_),) = table_rows(found, f"| `{mode}` | ")
        assert (cells, verdicts.split("&nbsp; ")) == (str(len(own)), [f"{n}{mark}" for mark, n in count.items() if n])
        assert span == (paper.span(low, high) if len(own) > 1 else paper.value(high))
    assert "tbl-tally-h200-elementwise-local}" not in render(recorded, chain_study)


@pytest.mark.nightly
def test_modes_of_the_compiler_are_set_beside_its_default(recorded, recorded_modes):
    text = section(render(recorded, recorded_modes), "Other operations, models, modes and dtypes {")
    table = text.split("not decide it. {#tbl-tally")[1].split("{#tbl-beside")[0]
    assert not table_rows(table, "| `compile` |", "| `eager") and "[@tbl-beside-h200-modes-local] compares them" in text
    mode, marks = "compile-dynamic", {"faster": "↑", "slower": "↓", "equivalent": "=", "inconclusive": "?"}
    ((_, _, cells, device, _, causes, _, _, first, span, _),) = table_rows(table, f"| `{mode}` | ")
    for metric, found in {"device": device, "first_call": first}.items():
        of = {"mode": mode, "metric": metric, "baseline": "compile"}
        own = [row for row in recorded_modes["speedups"] if of.items() <= row.items() and row["size"] != "all"]
        count = {mark: sum(row["verdict"] == verdict for row in own) for verdict, mark in marks.items()}
        assert (cells, found.split("&nbsp; ")) == (str(len(own)), [f"{n}{mark}" for mark, n in count.items() if n])
    assert span == paper.span(*(end(row["speedup"] for row in own) for end in (min, max)))
    of = {"mode": mode, "metric": "device", "baseline": "compile", "cause": "kernel"}
    kernels = [row for row in recorded_modes["causes"] if of.items() <= row.items()]
    assert causes == f"kernel {len(kernels)}"
    (most,) = (row["evidence"] for row in kernels if row["op"] == "layer_norm")
    told = "`compile-dynamic` loses most at layer normalization 1024, where `compile` and it take, as timed and as"
    assert f"{told} profiled: {most}." in text.replace("\\_&#8203;", "_")
    alone = copy.deepcopy(recorded_modes)
    alone["study"]["baselines"] = ["eager"]
    assert "tbl-beside-h200-modes-local}" not in render(recorded, alone)
    alone = copy.deepcopy(recorded_modes)
    alone["causes"] = []
    assert told not in render(recorded, alone) and "put down to ([@sec-causes]), and in" not in render(recorded, alone)


@pytest.mark.nightly
def test_a_dtype_that_gains_by_what_another_loses_by_is_told(recorded, recorded_dtypes):
    told = "By device time, `compile` is faster in `float32` and slower in `float16` and `bfloat16` at softmax"
    assert f"{told} 16384." in render(recorded, recorded_dtypes)
    alike = copy.deepcopy(recorded_dtypes)
    for row in rows(alike, mode="compile", baseline="eager", metric="device", size="16384"):
        row["verdict"] = "slower"
    assert "`compile` is faster in `" not in render(recorded, alike)


@pytest.mark.nightly
def test_of_two_cells_both_or_either_is_said(recorded, chain_study):
    two = copy.deepcopy(chain_study)
    without(two, mode="jit", size={"100", "65536", "1024", "1048576", "all"})
    without(two, mode="jit", op="linear_relu")
    for verdict, words in {
        "faster": "faster in both cells, from",
        "inconclusive": "not told apart in either cell,",
    }.items():
        for row in rows(two, mode="jit", baseline="eager", metric="device"):
            row["verdict"] = verdict
        assert f"`jit` is {words}" in section(render(recorded, two), "Other operations, models, modes and dtypes {")


def test_parameters_of_another_machine_are_named_where_they_differ(recorded, document):
    other = cpu(document)
    same = section(render(recorded, other), "What is measured")
    assert same.count("softmax (rows 8192)") == 1 and same.count("layer normalization (rows 16384)") == 1
    other["study"]["ops"]["softmax"]["rows"] = 2048
    found = section(render(recorded, other), "What is measured")
    assert found.count("softmax (rows 8192)") == 1 and found.count("softmax (rows 2048)") == 1
    assert found.count("layer normalization (rows 16384)") == 1


@pytest.mark.nightly
def test_dtypes_of_the_same_cells_share_a_clause_and_each_is_named(recorded, recorded_dtypes, chain_study):
    found = section(render(recorded, recorded_dtypes), "Other operations, models, modes and dtypes {")
    assert "measures matrix product in `float16`, `bfloat16`, `float32` and `tf32` at 1024 and 4096; `scaled" in found
    assert "softmax in `float16`, `bfloat16` and `float32` (rows 8192) at 1024 and 16384;" in found
    assert "`scaled_matmul` in `float8` at 1024 and 4096;" in found and "and `transformer` in `float32` (batch" in found
    assert "where no dtype is named" not in found


@pytest.mark.nightly
def test_what_the_machines_own_study_answers_is_not_concluded_from_a_topic(recorded, recorded_modes, recorded_dtypes):
    """In both, softmax at one size is faster, which the study of the machine knows to be slower at others."""
    for topic, name in ((recorded_modes, "softmax"), (recorded_dtypes, "softmax in `float16`")):
        fast = copy.deepcopy(topic)
        for row in rows(fast, baseline="eager", mode="compile"):
            row["verdict"] = "faster" if row["op"] in ("softmax", "transformer", "conv_wide") else "slower"
        fast["causes"] = []
        text = render(recorded, fast)
        last = next(line for line in section(text, "Conclusion").splitlines() if "more combinations of" in line)
        abstract = text.split("# The question")[0]
        assert last.split("; in ")[0] in abstract and last[last.index("; in `compile` it is not") :] in abstract
        assert name in section(text, "Other operations, models, modes and dtypes {") and f"{name} " not in last
        kept = "`transformer` in `float32`" if topic is recorded_dtypes else "`conv_wide` in `float16`"
        assert f"{kept} at 128" in last.split("; in ")[0]
        count = {(row["op"], row["dtype"]) for row in rows(topic, baseline="eager", mode="compile", metric="latency")}
        count -= {(row["op"], row["dtype"]) for row in recorded["speedups"]}
        assert f"Of {len(count)} more combinations of operation and dtype it is free in `compile` for" in last
        freed = last.split("; in ")[0].split("in `compile` for ")[1].count(" in `")
        assert f"; in `compile` it is not free for {len(count) - freed}." in last
        unfused = "Eager runs `transformer` without PyTorch's fused layer for inference here."
        assert (unfused in last) == (topic is recorded_dtypes)


@pytest.mark.nightly
def test_free_names_the_sizes_of_a_mode_that_ran_at_fewer_than_others(recorded, recorded_models, recorded_dtypes):
    fast = copy.deepcopy(recorded_models)
    ran = [row for row in rows(fast, baseline="eager", op="transformer") if row["verdict"]]
    for row in ran:
        row["verdict"] = "faster"
    own = "in the mode `compile-max-autotune` is a free speedup for `transformer` in `float32` at 128"
    text = render(recorded, fast, recorded_dtypes)
    assert own in section(text, "Other operations, models, modes and dtypes {")
    # h200-dtypes has the transformer at 128 only, which is among the sizes at which h200-models found it free.
    alone = section(render(recorded, recorded_dtypes), "Conclusion")
    assert "in `compile` for `transformer` in `float32` at 128; in" in alone

    def free_in(text: str) -> dict[str, str]:
        last = next(line for line in section(text, "Conclusion").splitlines() if "more combinations of" in line)
        parts = last.split("it is free ")[1].split("; in `compile` it is")[0].split("; ")
        return {mode: part for part in parts for mode in re.findall("`(compile[a-z-]*)`", part.split(" for ")[0])}

    found = free_in(text)
    assert all("`transformer` in `float32`" in of for of in (found["compile"], found["compile-reduce-overhead"]))
    assert "at 128" not in found["compile"] + found["compile-reduce-overhead"]
    assert "`transformer` in `float32` at 128" in found["compile-max-autotune"]
    for row in ran:
        row["verdict"] = "slower" if row["size"] == "1024" else "faster"
    found = free_in(render(recorded, fast, recorded_dtypes))
    assert all("`transformer` in `float32` at 128" in found[mode] for mode in ("compile", "compile-max-autotune"))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("there", "repeats", "kept", "told"),
    [
        ({"128": "faster", "1024": "slower"}, 7, True, False),
        ({"128": "inconclusive", "1024": "faster"}, 7, True, False),
        ({"128": "inconclusive", "1024": "inconclusive"}, 7, False, True),
        ({"128": "inconclusive", "1024": "inconclusive"}, 3, True, False),
        ({"128": "slower", "1024": "faster"}, 7, False, False),
    ],
)
def test_what_is_free_in_one_study_and_not_on_the_same_cells_of_another_is_not_decided(
    recorded, recorded_models, recorded_dtypes, there, repeats, kept, told
):
    free, other = (copy.deepcopy(topic) for topic in (recorded_dtypes, recorded_models))
    for row in rows(free, baseline="eager", mode="compile", op="transformer"):
        row["verdict"] = "faster"
    for row in rows(other, baseline="eager", op="transformer"):
        row["verdict"] = there.get(row["size"], "inconclusive") if row["verdict"] else row["verdict"]
    other["study"]["repeats"] = repeats
    found = conclusion(free, other, recorded)
    said = "counts as not decided: `compile` for `transformer` in `float32` at 128 (`h200-dtypes`; not in `h200-models"
    assert (f"{said}`)." in found) == told
    freed, rest = found.split("it is free ")[1].split("; in `compile` it is")
    assert ("`transformer`" in freed) == kept
    assert ("`transformer` in `float32` at 128" in rest.split("\n")[0]) == told
    other["study"]["ops"]["transformer"]["heads"] = 8  # Another cell by that name.
    assert "counts as not decided" not in conclusion(free, other, recorded)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("verdict", "low", "free"), [("inconclusive", 0.9, False), ("inconclusive", 0.98, True), ("equivalent", 0.9, True)]
)
def test_what_may_be_slower_at_a_size_is_not_free(recorded, recorded_models, verdict, low, free):
    topic = copy.deepcopy(recorded_models)
    for row in rows(topic, baseline="eager", mode="compile", op="transformer", metric="latency"):
        row["verdict"], row["ci_low"] = ("faster", 1.1) if row["size"] == "1024" else (verdict, low)
    text = section(render(recorded, topic), "Conclusion").split("it is free ")[1]
    freed, rest = text.split("; in `compile` it is", 1)
    in_default = [clause for clause in freed.split(";") if "`compile`" in clause and "`transformer`" in clause]
    assert bool(in_default) == free
    assert ("not decided for `transformer` in `float32`" in rest.split("\n")[0]) != free


@pytest.mark.nightly
def test_what_was_measured_here_denies_nothing_that_is_recorded(recorded, recorded_dtypes):
    free, here = (copy.deepcopy(recorded_dtypes) for _ in range(2))
    for topic, verdict in ((free, "faster"), (here, "inconclusive")):
        for row in rows(topic, baseline="eager", mode="compile", op="transformer"):
            row["verdict"] = verdict
    machines = [machine(recorded), machine(free), machine(here, local=True)]
    text = paper.render(ROOT / "paper" / "paper.md", machines, PUBLISHED, COVERAGE, [])
    assert "counts as not decided" not in text


def conclusion(free: dict, other: dict, recorded: dict) -> str:
    """The conclusion from a machine's study and two topics, all of them recorded."""
    machines = [machine(document) for document in (recorded, free, other)]
    return section(paper.render(ROOT / "paper" / "paper.md", machines, PUBLISHED, COVERAGE, []), "Conclusion")


@pytest.mark.nightly
def test_modes_in_which_compiling_is_free_are_concluded_beside_the_default(recorded, recorded_modes):
    graphs = (
        "in `compile-reduce-overhead`, `compile-max-autotune` and `compile-iteration` for `conv` in `float16` at 128;"
    )
    text = render(recorded, recorded_modes)
    rest = "in `compile` it is not free for 1 and not decided for `conv` in `float16` at 128."
    assert f"{graphs} {rest}" in section(text, "Conclusion")
    assert f"; in another mode for `conv` in `float16` at 128; {rest}" in text.split("# The question")[0]
    none = copy.deepcopy(recorded_modes)
    for row in rows(none, baseline="eager", op="conv", metric="latency"):
        row["verdict"] = "slower"
    assert "for `conv` in `float16` at 128;" not in render(recorded, none)


@pytest.mark.nightly
def test_a_topic_of_few_repeats_adds_nothing_to_the_answer_and_says_so(recorded, recorded_modes):
    few = copy.deepcopy(recorded_modes)
    few["study"]["repeats"] = 2
    last = section(render(recorded, few), "Conclusion")
    assert "more combinations" not in last and "The 2 repeats of `h200-modes` cannot show it for the others." in last


@pytest.mark.nightly
def test_what_each_layer_of_the_compiler_adds_to_a_call_is_told(whole, recorded_modes):
    order = ["eager", "compile-eager", "compile-aot-eager", "compile"]
    times = {}
    for row in recorded_modes["summary"]:
        if row["metric"] == "host" and row["mode"] in order and row["estimate"] is not None:
            times.setdefault((row["op"], row["size"]), {})[row["mode"]] = row["estimate"]
    cells = [by for by in times.values() if len(by) == len(order)]
    means = {(of["mode"], of["over"]): of for of in recorded_modes["means"] if of["metric"] == "excess"}
    told = []
    for before, after in pairwise(order):
        more, mean = [by[after] - by[before] for by in cells], means[after, before]
        # A mean over the cells of geometric means over the repeats, beside one over the repeats of arithmetic ones.
        assert mean["estimate"] == pytest.approx(statistics.fmean(more), rel=0.02) and mean["cells"] == len(cells)
        middle = paper.value(statistics.median(more))
        ends = f"({paper.value(min(more))} to {paper.value(max(more))}, in the median {middle})"
        told.append(f"adds {paper.ci(mean, 'estimate')}&nbsp;µs {ends}")
    text = render(whole, recorded_modes)
    named = "Dynamo (`compile-eager`) {}, AOTAutograd (`compile-aot-eager`) {} and Inductor (`compile`) {}, in the mean"
    found = section(text, "Other operations, models, modes and dtypes {")
    assert f"{named.format(*told)} over {len(cells)} cells." in found
    assert "Dynamo {}, AOTAutograd {} and Inductor {} ([".format(*told) in section(text, "Conclusion")
    assert "splits it by the layers" in text and "layers of the compiler" not in render(whole)


def test_verdicts_are_counted_by_each_timer(whole):
    text = render(whole)
    table = text.split("| Mode | Device time | Latency | CUDA events | Host time | Throughput | Graph time |")[1]
    (cells,) = table_rows(table.split("{#tbl-timers")[0], "| `compile` |")
    own = [row["verdict"] for row in rows(whole, mode="compile", baseline="eager", metric="throughput")]
    sizes = [row["size"] for row in rows(whole, mode="compile", baseline="eager", metric="throughput")]
    own = [verdict for verdict, size in zip(own, sizes, strict=True) if size != "all"]
    assert f"{own.count('faster')}↑" in cells[6] and f"{own.count('slower')}↓" in cells[6]
    assert (
        f"faster in {own.count('faster')} and slower in {own.count('slower')} by throughput"
        in text.split("# The question")[0]
    )


def test_a_sign_that_turns_between_a_cold_and_a_warm_cache_is_told_where_we_conclude(whole):
    told = "The Triton kernel is slower by device time and faster by graph time at attention 128 and 256: so close to"
    text = render(whole)
    assert all(told in section(text, heading) for heading in ("Limits", "Conclusion"))
    settled = copy.deepcopy(whole)
    for row in rows(settled, mode="triton", op="attention", metric="graph", baseline="eager"):
        row["verdict"] = "slower"
    assert "so close to the floor" not in render(settled)


@pytest.mark.nightly
def test_jobs_that_were_measured_again_at_once_are_told_where_there_are_any(whole, recorded_modes):
    assert "measured again at once" not in render(whole)
    modes = {"compile": {"jobs": 2, "least": 0.9, "most": 1.25}, "eager": {"jobs": 1, "least": None, "most": None}}
    of = whole["study"]["repeats"] * 124
    some = {**whole, "tries": {"jobs": 3, "of": of, "modes": modes}}
    told = section(render(some), "What eager against eager shows")
    assert "A job is measured again at once, at most twice, while its times are in doubt" in told
    told_of = (
        f"In the study of the NVIDIA H200 these were 3 of {of} jobs: 2 of `compile` (0.900 to 1.25), 1 of `eager`, in"
    )
    assert told_of in told
    topic = {**recorded_modes, "tries": {"jobs": 1, "of": 89, "modes": {"jit": {"jobs": 1, "least": 1.0, "most": 1.0}}}}
    told = section(render(whole, topic), "What eager against eager shows")
    assert "In `h200-modes` this was 1 of 89 jobs that say so: 1 of `jit` (1.00), in" in told
    none = {**whole, "tries": {"jobs": 0, "of": of, "modes": {}}}
    assert "measured again at once" not in render(none)


def test_what_a_graph_costs_without_its_copies_is_told_by_both_timers(whole):
    arm, found = "compile-reduce-overhead-static", {}
    times = {(r["op"], r["size"], r["mode"], r["metric"]): r["estimate"] for r in whole["summary"]}
    for op, size, mode, metric in times:
        if mode == arm and metric in ("device", "latency"):
            for other in ("compile", "eager"):
                ratio = times[op, size, arm, metric] / times[op, size, other, metric]
                found.setdefault((metric, other), []).append(ratio)
    spans = {key: paper.span(min(ratios), max(ratios)) for key, ratios in found.items()}
    device, latency = (
        f"{spans[metric, 'compile']} times as long as `compile` and {spans[metric, 'eager']} times as long as eager"
        for metric in ("device", "latency")
    )
    told = f"`compile-reduce-overhead` takes by device time {device}, and by latency {latency}"
    text = render(whole)
    assert all(told in section(text, heading) for heading in ("What guards and input copies cost {", "Conclusion"))


@pytest.mark.nightly
def test_other_runtimes_stand_beside_compile(recorded, chain_study):
    own = rows(chain_study, mode="jit", baseline="compile", metric="latency")
    faster = sum(row["verdict"] == "faster" for row in own if row["size"] != "all")
    found = section(render(recorded, chain_study), "Other operations, models, modes and dtypes {")
    assert re.search(rf"Over `compile`, `jit` is by device time .*; by latency faster in {faster} of 8 cells", found)


@pytest.mark.nightly
def test_what_the_clock_makes_of_a_topic_is_no_gain_and_not_paid(recorded, recorded_dtypes):
    text = render(recorded, recorded_dtypes)
    where = "`compile` at matrix product in `float16` 4096 ran the kernels of eager at another SM clock"
    assert where in section(text, "Other operations, models, modes and dtypes {")
    clocks = re.search(r"in the study `h200-dtypes` the clock was lower at (.*): a mode", section(text, "Limits"))[1]
    assert re.search(r"matrix product in `float16` 4096 \(1\d\d\d&nbsp;MHz\)", clocks)
    cell = {"op": "matmul", "dtype": "float16", "size": "4096", "mode": "compile", "metric": "device"}
    (paid,) = (row for row in recorded_dtypes["payback"] if cell.items() <= row.items())
    table = text.split("| Operation | Size | First call, s more |")[-1]
    line = table.split("| matrix product in `float16` |")[1].splitlines()[1]
    assert paid["kind"] == "after" and f"| ≥&nbsp;{paper.round_to(paid['low'], 2)} |" in line


@pytest.mark.nightly
def test_a_difference_of_the_host_that_is_not_told_apart_is_marked(recorded, recorded_modes):
    text = render(recorded, recorded_modes)
    table = text.split("| Operation | Size | First call, s more |")[-1]
    for op in ("conv_wide", "linear_relu"):
        of = {"op": op, "mode": "compile", "baseline": "eager", "metric": "host"}
        (verdict,) = {row["verdict"] for row in recorded_modes["speedups"] if of.items() <= row.items()}
        ((_, _, _, _, host, *_),) = table_rows(table, f"| `{op}` |")
        assert host.endswith("&nbsp;?") == (verdict == "inconclusive") == (op == "conv_wide")


@pytest.mark.nightly
def test_what_differs_by_latency_alone_is_told_with_its_cause(whole, recorded_modes):
    found = section(render(whole, recorded_modes), "Other operations, models, modes and dtypes {")
    cells = rows(recorded_modes, mode="compile-fullgraph", baseline="compile", metric="latency")
    cells = [row for row in cells if row["size"] != "all" and row["verdict"]]
    slower = sum(row["verdict"] == "slower" for row in cells)
    told = "By device time `compile-fullgraph` is nowhere told apart from `compile`, and by latency it is slower in"
    times = {"compile": {}, "compile-fullgraph": {}}
    for row in recorded_modes["summary"]:
        if row["metric"] == "host" and row["mode"] in times:
            times[row["mode"]][row["op"]] = row["estimate"]
    longer = sorted(time - times["compile"][op] for op, time in times["compile-fullgraph"].items())
    of = {"mode": "compile-fullgraph", "metric": "excess", "over": "compile"}
    (mean,) = [row for row in recorded_modes["means"] if all(row[key] == value for key, value in of.items())]
    assert mean["estimate"] == pytest.approx(statistics.fmean(longer), rel=0.02)
    mean, ends = paper.ci(mean, "estimate"), (paper.value(longer[0]), paper.value(longer[-1]))
    assert slower and f"{told} {slower} of {len(cells)} cells, which is put down to the host ({slower}):" in found
    assert f"its call keeps the host {mean}&nbsp;µs longer ({' to '.join(ends)})." in found
    assert f"`fullgraph=True` by {mean}&nbsp;µs a call" in section(render(whole, recorded_modes), "Conclusion")
    assert "`compile-dynamic` is nowhere" not in found


@pytest.mark.nightly
def test_claims_are_said_to_be_of_the_machines_own_study(recorded, recorded_modes):
    told = "not about those of [@sec-topics], where some would not hold"
    assert told in section(render(recorded, recorded_modes), "Claims {") and told not in render(recorded)


@pytest.mark.nightly
def test_what_few_repeats_may_miss_is_told_with_the_number_of_comparisons(recorded, recorded_modes):
    cells = [row for row in rows(recorded_modes, baseline="eager", metric="latency") if row["size"] != "all"]
    family = sum(bool(row["verdict"]) and row["mode"] != CONTROL for row in cells)
    few = copy.deepcopy(recorded_modes)
    few["study"]["repeats"] = few["jobs"]["repeats"] = 7
    told = f"may differ all the same, in `h200-modes` (7 repeats, {family} speedups over eager by a metric)."
    assert told in section(render(recorded, few), "Limits")
    assert recorded_modes["study"]["repeats"] == 10
    assert "so few repeats are little" not in render(recorded, recorded_modes)


@pytest.mark.nightly
def test_fusion_is_told_by_launches_and_by_the_share_of_the_copy(recorded, chain_study):
    found = section(render(recorded, chain_study), "Other operations, models, modes and dtypes {")
    cell = {"op": "elementwise_chain", "size": "20971520"}
    launched = {row["mode"]: int(row["launched"]) for row in chain_study["compilation"] if cell.items() <= row.items()}
    counts = f"eager launches {launched['eager']} kernels and `compile` {launched['compile']}."
    assert f"Fusion shows in `elementwise_chain`: at 20971520, {counts}" in found
    shares = {row["mode"]: row["estimate"] for row in rows(chain_study, metric="roofline", **cell)}
    least, steps = shares["eager"], 15 / 3
    assert f"eager reaches {paper.percent(least)} of the rate of the copy and `compile`" in found
    assert f"counting those, eager reaches {paper.percent(steps * least)}" in found


@pytest.mark.nightly
def test_runtimes_off_the_stream_are_told_by_throughput(recorded, chain_study):
    found = section(render(recorded, chain_study), "Other operations, models, modes and dtypes {")
    bullet = next(line for line in found.splitlines() if line.startswith("- By throughput"))
    assert [mode for mode in chain_study["study"]["modes"] if f"`{mode}` is " in bullet] == ["onnx", "jax"]
    of = {"metric": "throughput", "mode": "onnx", "baseline": "eager"}
    verdicts = [row["verdict"] for row in rows(chain_study, **of) if row["size"] != "all"]
    assert f"`onnx` is slower in {verdicts.count('slower')} of {len(verdicts)} cells" in bullet


@pytest.mark.nightly
def test_what_no_study_could_run_of_an_earlier_claim_is_told_with_the_reason(recorded, chain_study):
    missing = copy.deepcopy(chain_study)
    row = "100×100 is slower with backend `cudagraphs` | 0.085 (16.4 to 192 µs) | h200-elementwise (here):"
    assert f"{row} latency:" in render(recorded, missing)
    fail(missing, "unsupported", "needs another package", mode="compile-cudagraphs")
    assert f"{row} not run: needs another package | not tested |" in render(recorded, missing)


@pytest.mark.nightly
def test_where_a_call_does_the_work_of_many_the_host_is_sooner_done(whole, chain_study):
    cells = [row for row in chain_study["summary"] if row["metric"] == "host" and row["mode"] in ("eager", "compile")]
    times = {(row["op"], row["size"], row["mode"]): row["estimate"] for row in cells}
    more = {cell[:2]: time - times[*cell[:2], "eager"] for cell, time in times.items() if cell[2] == "compile"}
    of = {"mode": "compile", "baseline": "eager", "metric": "host"}
    shown = [more[row["op"], row["size"]] for row in rows(chain_study, **of, verdict="faster") if row["size"] != "all"]
    fewer = f"{len(shown)} of {len(more)} cells, by up to {paper.value(-min(shown))}&nbsp;µs."
    where = "on the NVIDIA H200 (study `h200-elementwise`)"
    told = f"Where one call does the work of many, {where}, `compile` keeps the host"
    assert f"{told} for less time than eager does in {fewer}" in section(render(whole, chain_study), "Conclusion")
    alone = copy.deepcopy(chain_study)
    faster = [row for row in rows(alone, **of, verdict="faster") if row["size"] != "all"]
    for row in faster[1:]:
        row["verdict"] = "inconclusive"
    only = f"1 of {len(more)} cells, by {paper.value(-more[faster[0]['op'], faster[0]['size']])}&nbsp;µs."
    assert f"{told} for less time than eager does in {only}" in render(whole, alone)
    faster[0]["verdict"] = "inconclusive"
    assert "the work of many" not in render(whole, alone)


@pytest.mark.nightly
def test_a_study_says_its_dtype_and_blocks_and_what_eager_is_told_apart_from_itself_by(recorded, chain_study):
    found = section(render(recorded, chain_study), "Other operations, models, modes and dtypes {")
    assert "at 1024 and 4096, in `float32`." in found
    odd = copy.deepcopy(chain_study)
    odd["jobs"].update(at_once=2, blocks=3)
    blocks = f"At most 3 of the study's {chain_study['study']['repeats']} repeats followed one another."
    assert blocks in render(recorded, odd) and blocks not in found
    where = {"mode": CONTROL, "metric": "latency", "op": "matmul_softmax", "size": "100", "baseline": "eager"}
    (row,) = rows(odd, **where)
    row["verdict"] = "slower"
    (mean,) = rows(odd, **{**where, "size": "all"})
    mean["verdict"] = "faster"
    told = (
        f"by latency at `matmul_softmax` 100 ({paper.ci(row)}) and by latency at `matmul_softmax` over its sizes "
        f"({paper.ci(mean)}): there a difference that is no larger decides nothing."
    )
    assert told in render(recorded, odd) and told not in found


@pytest.mark.nightly
def test_only_on_a_gpu_is_it_told_where_no_graph_is_recorded(recorded, chain_study):
    skipped = copy.deepcopy(chain_study)
    for row in skipped["compilation"]:
        if row["mode"] == "compile-reduce-overhead":
            row["skips"] = 1
    words = "PyTorch records no CUDA graph for `compile-reduce-overhead`"
    assert words in render(recorded, skipped)
    skipped["environment"].update(gpu=None, gpu_uuids=[])
    assert words not in render(recorded, skipped)


@pytest.mark.nightly
def test_a_mean_over_fewer_sizes_than_others_is_marked(recorded, chain_study):
    table = table_rows(render(recorded, chain_study), "| `linear_relu` | `compile` |", "|  | `compile-max-autotune` |")
    marks = [(cells[2], *("§" in cell for cell in cells[3:-1])) for cells in table[:4]]
    tuned = "`compile-max-autotune`"
    assert marks == [(tuned, False, False), (tuned, True, True), ("`compile`", False, False), (tuned, True, True)]


@pytest.mark.nightly
def test_few_repeats_of_a_study_beside_that_of_the_machine_are_told_with_its_name(recorded, chain_study):
    few = copy.deepcopy(chain_study)
    few["study"]["repeats"] = 2
    limits = section(render(recorded, few), "Limits")
    assert "With 2 repeats on the NVIDIA H200 (study `h200-elementwise`) most intervals are wide" in limits
    assert "repeats on the NVIDIA H200 (study" not in section(render(recorded, chain_study), "Limits")


@pytest.fixture
def study_of_kernels(monkeypatch, tmp_path) -> dict:
    study = kernel_study(monkeypatch)
    write_records(study, tmp_path / "kernels")
    return tables(study, tmp_path / "kernels")[2]


def test_kernels_beside_libraries_are_told_in_a_section_of_their_own(recorded, study_of_kernels, checkout):
    text = render(recorded, study_of_kernels)
    found = section(text, "Kernels written by hand, and those of libraries {")
    assert "sets the Triton kernels beside `liger` as well" in found
    stands = "behind one of them at all sizes"
    assert f"- softmax: by device time {stands}; by latency {stands}." in found
    assert "2 of its 3 goals are reached by their estimates, and 2 by the whole of their intervals" in found
    reached = {tuple(cells[3:4]) + tuple(cells[5:]): cells[4] for cells in table_rows(found, "| softmax |", "|  |")}
    assert len(reached) == 4
    assert "| Operation | Size | `eager` | `compile` | `triton` | `liger` | Of the limit |" in text
    said = section(text, "Conclusion")
    assert "(study `h200-kernels`), the Triton kernel is worth having by device time at none for softmax (" in said
    assert "Kernels written by hand" not in render(recorded)
    assert typeset(checkout, text).stat().st_size > 10_000


def test_kernels_that_too_few_repeats_cannot_tell_apart_are_not_called_level(recorded, study_of_kernels):
    for row in study_of_kernels["speedups"]:
        row["verdict"] = row["verdict"] and "inconclusive"
    study_of_kernels["study"]["note"] = "Two repeats of six."
    found = section(render(recorded, study_of_kernels), "Kernels written by hand, and those of libraries {")
    assert "- softmax: by device time not told apart at all sizes; by latency not told apart at all sizes." in found
    assert (
        "level at" not in found and "worth having where it is found ahead of all of them: at none for softmax." in found
    )
    least = min(
        rows({**study_of_kernels, "summary": []}, mode="triton", op="softmax", metric="device", size="all"),
        key=lambda row: row["speedup"],
    )
    mean = f"softmax ({paper.ci(least)} over `{least['baseline']}`)"
    assert f"where it is the least, is not told apart from one for {mean}.\nThat is" in found
    assert "Two repeats of six." in found


@pytest.mark.nightly
def test_what_a_reviewer_would_ask_about_the_kernels_is_told_beside_them(recorded):
    document = rebuilt("h200-kernels")
    found = section(render(recorded, document), "Kernels written by hand, and those of libraries {")
    suspects = document["jobs"]["suspects"]
    (cells,) = table_rows(render(recorded, document), "| `h200-kernels` | NVIDIA H200 |")
    assert cells[-2] == f"{suspects['kinds']['PowerCap']['jobs']} power cap"
    p95 = document["control"]["device"]["p95"]
    assert cells[6] == f"50, {paper.percent(0.02)}, 2&nbsp;s; 100, 0.1&nbsp;s", "as its study.yaml says"
    assert cells[7].startswith(f"{paper.percent(p95)}&nbsp;>&nbsp;δ, ") == (
        not document["control"]["device"]["supports_delta"]
    )
    assert re.search(r"Of its device times, \d+ of \d+ are below 10 times the floor", found)
    for op, beside, words in (
        ("layer_norm_256mib", ("8192", "32768"), "and more at the sizes beside it"),
        ("layer_norm_256mib_bf16", ("4096",), "at the size before"),
    ):
        own = {
            metric: {
                r["size"]: r["estimate"] for r in rows(document, op=op, mode="quack", metric=metric) if "unit" in r
            }
            for metric in ("device", "roofline")
        }
        share, least = own["roofline"]["16384"], min(own["roofline"][size] for size in beside)
        line = f"`quack` takes {paper.value(own['device']['16384'])}&nbsp;µs for `{op}` at 16384 and reaches"
        assert f"{line} {paper.percent(share)} of the limit, against {paper.percent(least)} {words}:" in found
    assert found.count("reported as it was found") == 2
    aims = [row for row in document["targets"] if row["aim"] is not None]
    missed = found.count(", missed |")
    assert f"Of the {len(aims)} hopes {len(aims) - missed} are fulfilled by their estimates." in found
    worst = min(rows(document, op="matmul", mode="triton", metric="device", size="all"), key=lambda r: r["speedup"])
    assert f"matrix product ({paper.ci(worst)} over `{worst['baseline']}`)" in found


@pytest.mark.nightly
def test_where_compiled_code_does_otherwise_on_other_inputs_is_told_wherever_we_conclude(recorded):
    """Softmax and layer normalization, slower by latency at some sizes, are faster there on inputs of 256 MiB."""
    document = rebuilt("h200-kernels")
    of = {"mode": "compile", "baseline": "eager", "dtype": "float16"}
    both, turned = 0, {"latency": {}, "device": {}}
    for metric, op in product(turned, ("softmax", "layer_norm")):
        own = {row["size"]: row["verdict"] for row in rows(recorded, **of, op=op, metric=metric)}
        other = {row["size"]: row["verdict"] for row in rows(document, **of, op=f"{op}_256mib", metric=metric)}
        shared = [size for size in own if size in other and size != "all"]
        both += len(shared)
        turned[metric][op] = [size for size in shared if (own[size], other[size]) == ("slower", "faster")]
        assert not [size for size in shared if (own[size], other[size]) == ("faster", "slower")]
    assert (both, turned["device"]) == (20, {"softmax": [], "layer_norm": []})
    assert turned["latency"] == {"softmax": ["1024"], "layer_norm": ["256", "2048"]}
    text = render(recorded, document)
    told = (
        "is faster by latency at 6 of the 10 sizes that both studies have, in place of 1: it turns from slower to "
        "faster at softmax 1024 and layer normalization 256 and 2048"
    )
    for part in (text.split("# The question")[0], section(text, "Conclusion")):
        assert f"On inputs of 256&nbsp;MiB at each size it {told}" in part
    assert f"on inputs of 256&nbsp;MiB at each size compiled code {told}" in section(text, "The published figures {")
    found = " ".join(section(text, "Kernels written by hand, and those of libraries {").split())
    where = "by device time at none and by latency at `softmax_256mib` 1024 and `layer_norm_256mib` 256 and 2048"
    assert f"as well, the verdict turns round {where}, faster here, where the inputs differ in their rows" in found
    assert "- By latency, compiled code is faster in 17 of 28 cells," in found
    here = copy.deepcopy(recorded)
    for row in rows(here, **of, metric="latency", op="layer_norm"):
        row["verdict"] = "faster"
    template = [machine(recorded), machine(here, local=True), machine(document)]
    abstract = paper.render(ROOT / "paper" / "paper.md", template, PUBLISHED, COVERAGE, []).split("# The question")[0]
    assert told in abstract and "in place of 6: it turns from slower to faster at softmax 1024." in abstract, (
        "each its own"
    )
    slower = (
        "is faster by latency at none of the 10 sizes that both studies have, in place of 1: it turns from faster to"
    )
    for verdict, turns in (("slower", f"{slower} slower at softmax 4096."), ("", "")):
        for row in rows(document, **of, metric="latency"):
            row["verdict"] = verdict
        abstract = render(recorded, document).split("# The question")[0]
        assert turns in abstract and ("that both studies have" in abstract) == bool(turns)


def test_an_operation_that_is_free_at_one_size_alone_is_named_beside_those_that_were_tried_at_one(recorded):
    told = "Asked at one size alone, as of those whose size is named, compiled code would be free for softmax 4096 as"
    assert told in section(render(recorded), "Conclusion")
    for row in rows(recorded, mode="compile", baseline="eager", op="softmax", size="4096"):
        row["verdict"] = "slower"
    assert "Asked at one size alone" not in render(recorded)


def test_an_op_without_the_first_baseline_is_in_the_paper(whole, monkeypatch, tmp_path):
    small = small_study(monkeypatch)
    ops = {"softmax": {"rows": 8, "sizes": [512]}, "matmul": {"sizes": [64], "modes": ["compile", "triton"]}}
    study = Study({**small.config, "ops": ops, "baselines": ["eager", "compile"], "study": "mine"})
    write_records(study, tmp_path)
    document = tables(study, tmp_path)[2]
    document["environment"] = whole["environment"]
    text = render(document)
    assert "are softmax (rows 8) at 512; and matrix product at 64." in section(text, "What is measured")
    own = section(text, "All cells").rsplit("| Size | Mode |", 1)[1].split("\n\n")[0]
    assert "`compile`" in own and "`triton`" in own and "`eager`" not in own, "its cells, in a table of their own"
    assert "in the geometric mean over 2 cells, against" in text and "for eager over 1." in text
    assert "against compiled code" in section(text, "Matrix product").lower()


def test_where_nothing_can_be_compared_one_sentence_says_so(whole, monkeypatch, tmp_path):
    small = small_study(monkeypatch)
    study = Study({**small.config, "modes": {"eager": small.config["modes"]["eager"]}, "baselines": ["eager"]})
    write_records(study, tmp_path)
    document = tables(study, tmp_path)[2]
    document["environment"] = whole["environment"]
    text = render(document)
    assert "On the NVIDIA H200 no two modes ran that could be compared" in section(text, "What is measured")
    assert "in no dtype" not in text and "changes by ;" not in text and "The modes on" not in text


def test_an_operation_by_another_name_is_a_single_one_all_the_same(document):
    document["study"]["ops"]["small"] = {**document["study"]["ops"].pop("softmax"), "workload": "softmax"}
    for row in [row for table in document.values() if isinstance(table, list) for row in table]:
        if isinstance(row, dict) and row.get("op") == "softmax":
            row["op"] = "small"
    assert "has nothing to fuse here" in section(render(document), "Limits")


def test_ends_of_a_range_of_short_times_are_no_zeros():
    assert paper.span(0.0002, 0.0004) == "0.0002–0.0004"
    assert (paper.span(0.35, 1.17), paper.span(0.027, 0.05), paper.span(12, 40)) == (
        "0.35–1.17",
        "0.027–0.050",
        "12.0–40.0",
    )


@pytest.fixture
def study_of_modes(monkeypatch, tmp_path) -> dict:
    """The small study under a name of its own, in which the compiler says what it did."""
    small = small_study(monkeypatch)
    study = Study({**small.config, "study": "modes"})
    said = {"graphs": 2, "graph_breaks": 1, "recompiles": 3, "nodes": 6, "kernels": 1}
    counters = {"fxgraph_cache_miss": 2, "fxgraph_cache_hit": 5, "cudagraph_skips": 1}
    said |= {"inductor": counters, "autograd": {}, "seconds": {}}
    points = [
        {"size": s, "first_call": 0.5, "latency": 9.0, "graphs": 1 + i, "recompiles": i} for i, s in enumerate("78")
    ]

    def told(job, entry):
        if job.mode == "compile":
            entry["compile"] = said
        if (job.mode, job.cell.size) == ("compile", "512"):
            entry["series"] = points

    write_records(study, tmp_path / "modes", told)
    return tables(study, tmp_path / "modes")[2]


def test_what_is_free_by_an_interval_that_promises_too_much_is_marked(document):
    for row in rows(document, mode="compile", baseline="eager", op="layer_norm"):
        row.update(verdict="faster")
    free = "free speedup for layer normalization"
    assert free in render(document) and f"{free}&nbsp;‡" not in render(document)
    rows(document, mode="compile", baseline="eager", op="layer_norm", metric="device", size="512")[0]["notes"] = [
        TWO_PEAKS
    ]
    text = render(document)
    assert f"{free}&nbsp;‡" in section(text, "Conclusion")
    assert "Marked ‡ is what rests on" in section(text, "The question {")


def test_a_study_that_stands_alone_has_what_the_compiler_did_as_well(whole, study_of_modes):
    study_of_modes["environment"] = whole["environment"]
    text = render(study_of_modes)
    assert "| softmax | `compile` | 7, 8 | 2 | 1 | 0.500, 0.500 |" in text and "{#tbl-compiler-" in text
    assert "{#tbl-compiler-" not in render(whole), "a machine's own study has its causes in place of them"
    assert "The first compiled call takes" in text
    study_of_modes["study"]["baselines"] = ["compile", "eager"]
    assert "The first compiled call takes" not in render(study_of_modes), "against itself"


def test_studies_of_other_topics_are_told_in_a_section_of_their_own(recorded, study_of_modes, checkout):
    text = render(recorded, study_of_modes)
    found = section(text, "Other operations, models, modes and dtypes {")
    assert f"The study `{study_of_modes['study']['machine']}` (NVIDIA H200, 5 repeats) measures softmax" in found
    (cells,) = table_rows(text, f"| `{study_of_modes['study']['machine']}` | NVIDIA H200 | ")
    assert cells[4] == study_of_modes["environment"]["software"]["torch"] and cells[3].endswith("; 1")
    assert any(cells[3].startswith("1.99") for cells in table_rows(text, "| softmax | `compile` |"))
    rows = table_rows(text, "| softmax | 512 | `compile` |", "|  | 1024 | `compile`")
    assert [row[5:9] for row in rows if "6 → 1" in row] == [["2, 1, 3", "6 → 1", "5, 2", "8.00"]] * 2
    assert "| softmax | `compile` | 7, 8 | 2 | 1 | 0.500, 0.500 |" in text
    assert "PyTorch records no CUDA graph for `compile` in softmax 512 and 1024: it starts" in found
    assert "Other operations, models" not in render(recorded)
    assert typeset(checkout, text).stat().st_size > 10_000


def table_rows(text: str, *starts: str) -> list[list[str]]:
    """Return the cells of the lines of a table that begin in one of these ways."""
    return [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if line.startswith(starts)]


@pytest.mark.nightly
def test_what_device_times_less_their_floor_would_say_is_told(whole, recorded_modes):
    text = render(whole, recorded_modes)
    verdicts = {(r["op"], r["dtype"], r["size"], r["mode"]): r for r in rows(whole, baseline="eager", metric="device")}
    less = {(r["op"], r["dtype"], r["size"], r["mode"]): r for r in whole["less_floor"] if r["mode"] != CONTROL}
    cells = [key for key, row in less.items() if row["verdict"] and key[2] != "all"]
    changed = sum(less[key]["verdict"] != verdicts[key]["verdict"] for key in cells)
    limits = section(text, "Limits")
    assert f"Less an empty pair of events, in each job its own, {changed} of the {len(cells)} verdicts" in limits
    means = [key for key, row in less.items() if row["verdict"] and key[2] == "all"]
    most = max(means, key=lambda key: abs(math.log(less[key]["speedup"] / verdicts[key]["speedup"])))
    moved = f"from {paper.value(verdicts[most]['speedup'])} to {paper.value(less[most]['speedup'])}"
    assert re.search(rf"of the means over sizes move most that of `{most[3]}` for [a-z ]+, {moved}", limits)
    assert not re.search(r"from (\S+) to \1[;. ]", " ".join(re.findall("Less an empty pair.*", text)))
    floors = sorted(recorded_modes["jobs"]["floors"])
    low = [floor for floor in floors if floor < 2]
    middle, other = statistics.median(low), statistics.median(floors[len(low) :])
    told = f"took {paper.value(middle)}&nbsp;µs in {len(low)} of its repeats and {paper.value(other)}&nbsp;µs in"
    assert told in section(text, "Other operations, models, modes and dtypes {")
    recorded_modes["jobs"]["floors"] = low
    whole["less_floor"] = []
    text = render(whole, recorded_modes)
    assert "of its repeats and" not in text and "Less an empty pair" not in text


@pytest.mark.nightly
def test_whether_gpus_differ_is_told_by_timer(whole, recorded_modes):
    names = ("op", "dtype", "size", "mode")
    lost = [dict(zip(names, ("softmax", "float16", size, "compile"), strict=True)) for size in ("1024", "4096")]

    def counted(apart, gpus=4):
        unit = {"gpus": gpus, "decided": 30 if gpus else 0, "lost": lost if gpus else []}
        unit |= {"equivalent": 6 if gpus else 0, "wider": lost[:1] if gpus else []}
        device, latency = {"of": 40, "apart": apart, **unit}, {"of": 40, "apart": 1, **unit, "lost": []}
        whole["by_gpu"] = {"device": device, "latency": latency, "graph": device}
        return section(render(whole, recorded_modes), "Statistics")

    text = counted(12)
    assert "in 12 of 40 by device time and in 1 of 40 by latency, where chance makes one in twenty" in text
    promise = "By device time an interval thus promises less for another GPU"
    assert promise in text and promise not in counted(3)
    remain = "28 of 30 by device time (all but `compile` at softmax 1024 and `compile` at softmax 4096) and 30 of 30 by"
    assert f"(n = 4), of the verdicts of faster or slower remain {remain} latency." in " ".join(text.split())
    remain = "5 of 6 by device time (not for `compile` at softmax 1024) and 5 of 6 by latency (not for `compile` at"
    assert f"Of the verdicts of equivalent remain, by an interval within ±δ, {remain}" in " ".join(text.split())
    assert "With the GPU as the unit" not in counted(12, gpus=0) and "of equivalent remain" not in counted(12, gpus=0)
    own = recorded_modes["by_gpu"]
    of = [f"{own[m]['decided'] - len(own[m]['lost'])} of {own[m]['decided']} by" for m in ("device", "latency")]
    told = f"In other studies remain {of[0]} device time and {of[1]} latency in `h200-modes` ({own['device']['gpus']}"
    assert told in " ".join(text.split())
    whole["by_gpu"] = {}
    assert "analysis of variance" not in render(whole)


def test_the_mean_of_a_diagnostic_arm_is_told_where_its_interval_misses_one(whole):
    text = section(render(whole), "What guards and input copies cost {")
    means = {row["metric"]: row for row in whole["arms"] if row["mode"] == "compile-skip-guards"}
    assert f"by host time {paper.ci(means['host'])}" in text
    assert means["device"]["ci_low"] < 1 < means["device"]["ci_high"]
    assert f"by device time {paper.ci(means['device'])}" not in text


def test_on_a_cpu_free_is_by_latency_alone(whole):
    of_cpu = rebuilt("cpu-amd-epyc-elementwise")
    told = section(render(whole, of_cpu), "Conclusion")
    (sentence,) = re.findall(r"On the AMD EPYC, where latency alone says it, of (.+)\n", told)
    of = {"mode": "compile", "metric": "latency", "baseline": "eager"}
    chain = rows(of_cpu, **of, op="elementwise_chain")
    assert {row["verdict"] for row in chain if row["size"] != "all"} == {"faster"}
    assert f"{len({row['op'] for row in rows(of_cpu, **of)})} combinations" in f"{sentence}"
    assert "it is free in `compile` for `elementwise_chain` in `float32`&nbsp;‡;" in sentence
    assert "where latency alone says it" not in render(whole)


def test_calls_back_to_back_are_compared_with_the_slower_of_host_and_device(whole):
    times = {}
    for row in whole["summary"]:
        arm = "diagnoses" in whole["study"]["modes"][row["mode"]]
        if row["metric"] in ("throughput", "host", "device") and row["estimate"] is not None and not arm:
            times.setdefault((row["op"], row["size"], row["mode"]), {})[row["metric"]] = row["estimate"]
    shares = [by["throughput"] / max(by["host"], by["device"]) for by in times.values() if len(by) == 3]
    assert f"take {paper.span(min(shares), max(shares))} times as long as the slower of the two" in render(whole)
