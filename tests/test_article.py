"""The article: free of logic and of literal results, complete, and a draft wherever its data say otherwise."""

import re
from functools import partial
from pathlib import Path

import pandas as pd
import pypdf
import pytest
import yaml
from checkout import TINY, Checkout
from recorded import rebuilt

from kernelbench.analysis import host_law
from kernelbench.analysis.studies import Studies, topic
from kernelbench.claims import published, rules
from kernelbench.errors import InputError
from kernelbench.paper import article, readme, tables
from kernelbench.paper.values import FACTS, Values
from kernelbench.study.study import Study

ROOT = Path(__file__).parents[1]
PAPER = ROOT / "paper"
TEXT = (PAPER / "paper.md").read_text(encoding="utf-8")
CLAIMS = rules.load(PAPER / "claims.yaml")
CONSTANTS = yaml.safe_load((PAPER / "constants.yaml").read_text(encoding="utf-8"))
EARLIER = published.load(PAPER / "published.yaml")
RECORDED = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))["recorded"]


@pytest.fixture(scope="module")
def studies() -> Studies:
    """Return the recorded studies with the law applied, which no test changes."""
    found = Studies([rebuilt(name) for name in RECORDED])
    host_law.apply(found)
    return found


def functions(studies: Studies) -> dict:
    """Return what an address may call."""
    table = {"table": partial(tables.table, studies=studies, earlier=EARLIER)}
    table |= {"figure": partial(article.figure, folder=Path("figures"))}
    return Values(studies, CONSTANTS, EARLIER).functions() | table


@pytest.fixture(scope="module")
def known(studies) -> dict:
    return functions(studies)


def rendered(known: dict, studies: Studies, text: str = TEXT, claimed=CLAIMS) -> tuple[str, list[article.Mark]]:
    return article.render(text, "paper.md", known, rules.judge(claimed, studies))


# What the text itself may say


def test_the_text_has_no_logic():
    assert len(TEXT.splitlines()) <= 400
    for line in TEXT.splitlines():
        assert "{%" not in line and "{#" not in re.sub(r"\{#(sec|fig|tbl)-[a-z-]+\}", "", line)
        assert all(re.fullmatch(r"\s*[a-z_]+\(.*\)\s*", address) for address in re.findall(r"\{\{(.*?)\}\}", line))


def test_digits_come_from_an_address():
    """All that is left is names: of versions of other works, GPUs and models."""
    body = TEXT.split("---", 2)[2]
    body = re.sub(r"\{\{.*?\}\}|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|\[[^\]]*@[^\]]*\]|\{#[^}]*\}|^#.*$", "", body, flags=re.M)
    words = re.findall(r"[^\s()\[\],;:.“”]*\d[^\s()\[\],;:“”]*", body)
    assert [word for word in words if not re.match(r"[A-Za-z][\w/-]*\d", word)] == []


def test_one_sentence_stands_on_each_line():
    prose = re.sub(r"\{\{.*?\}\}", "", TEXT)
    lines = [line for line in prose.splitlines() if line and not re.match(r"[-|:!#$]|\s|\*\*", line)]
    assert [line for line in lines if re.search(r"[a-z)][.?!] [A-Z]", line)] == []


def test_the_article_is_as_short_as_it_promises(known, studies):
    text, _ = rendered(known, studies)
    abstract = text.split("abstract: |")[1].split("---")[0]
    assert len(re.sub(r"\^C\d+\^", "", abstract).split()) <= 200
    assert len(set(re.findall(r"\{#tbl-[a-z-]+\}", TEXT))) <= 12
    assert len(set(re.findall(r"\{#fig-[a-z-]+\}", TEXT))) <= 8


# What the data say


def test_every_claim_holds_on_the_recorded_data_and_nothing_is_missing(known, studies):
    text, marks = rendered(known, studies)
    assert marks == []
    assert "⚠" not in text and "{{" not in text and "None" not in text and "nan" not in text.split()
    assert article.head(marks, []) == ""


def turned(claim: dict, studies: Studies) -> Studies:
    """Return the studies with the rows of one claim turned round, the others as they are."""
    rule = claim["rule"]
    table, keys = rule.get("table", "speedups"), rules.KEYS[rule.get("table", "speedups")]
    word = next(word for word in rules.WORDS if word in rule)
    changed = []
    about = rules.find_documents(rule, studies)
    for document in studies.documents:
        if document not in about:
            changed.append(document)
            continue
        wanted = set(rules.find_rows(rule, document))
        rows = [
            turned_row(row, rule[word], table, word) if tuple(str(row[key]) for key in keys) in wanted else row
            for row in document[table]
        ]
        changed.append({**document, table: rows})
    return Studies(changed)


def turned_row(row: dict, condition, table: str, word: str) -> dict:
    """Return a row that says the opposite of what a condition asks for, or what none of them may say."""
    if not isinstance(condition, dict):
        wanted = rules.values(condition)
        other = "slower" if "faster" in wanted else "faster"
        return {**row, "verdict": wanted[0] if word == "none" else other}
    above = ("above" in condition) != (word == "none")
    value = next(condition.get(key, 1) for key in ("above", "below", "within") if key in condition)
    value = 2 if "within" in condition else value * (0.5 if above else 2)
    if "of" in condition:
        return {**row, condition["of"]: value}
    named = dict.fromkeys(
        ("speedup", "estimate", "ci_low", "ci_high", "calls", "low", "high", "share", "launched"), value
    )
    return (
        row
        | {key: value for key, value in named.items() if key in row}
        | ({"kind": "after"} if table == "payback" else {})
    )


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["id"])
def test_a_claim_whose_data_are_turned_round_fails_by_its_id(claim, known, studies):
    other = turned(claim, studies)
    # Only the line that makes it, in its place: the whole text takes seconds.
    number, line = next((n, line) for n, line in enumerate(TEXT.splitlines(), 1) if f'claim("{claim["id"]}")' in line)
    made = [one for one in CLAIMS if f'claim("{one["id"]}")' in line]
    assert {found["id"]: found["outcome"] for found in rules.judge(made, other)}[claim["id"]] == rules.FAILS
    _, marks = rendered(known, other, "\n" * (number - 1) + line, made)
    (mark,) = (mark for mark in marks if f"claim {claim['id']} does not hold" in mark.what)
    assert mark.line == number
    assert mark.what in article.head(marks, [])
    for own in rules.find_documents(claim["rule"], other):
        (here,) = rules.judge([claim], rules.file_by_topic(own))
        assert here["outcome"] != rules.HOLDS, "and so says a report"


def test_without_a_study_its_claims_and_values_are_marked_and_the_rest_stands(studies):
    one = Studies([document for document in studies.documents if topic(document["study"]) == "ops"])
    host_law.apply(one)
    alone = functions(one)
    text, marks = rendered(alone, one)
    assert any("no recorded study is about architectures" in mark.what for mark in marks)
    assert not any("ops-latency" in mark.what for mark in marks)
    assert alone["span"]("ops", "ops", "compile") in text


# Addresses


def test_values_are_those_of_the_tables(known):
    (row,) = (
        row
        for row in rebuilt("h200")["speedups"]
        if [row[k] for k in ("op", "size", "mode", "baseline", "metric")]
        == ["softmax", "1024", "compile", "eager", "device"]
    )
    assert known["ratio"]("ops", "softmax 1024", "compile", "device") == f"{row['speedup']:.2f}"
    assert known["speedup"]("ops", "softmax 1024", "compile", "device").startswith(f"{row['speedup']:.2f}")
    rows = [
        row
        for row in rebuilt("h200")["speedups"]
        if (row["op"], row["mode"], row["baseline"], row["metric"]) == ("matmul", "compile", "eager", "latency")
        and row["size"] != "all"
    ]
    low, high = min(row["speedup"] for row in rows), max(row["speedup"] for row in rows)
    assert known["span"]("ops", "matmul", "compile") == f"{low:.2f}–{high:.2f}"
    assert known["count"]("slower", "ops", "matmul", "compile") == str(sum(row["verdict"] == "slower" for row in rows))
    assert known["total"]("ops", "matmul", "compile") == "4"
    assert known["setting"]("ops", "repeats") == "10" and known["fact"]("ops", "gpu") == "H200"
    assert all(FACTS[name](rebuilt("h100-architectures")) for name in FACTS)


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("speedup('ops', 'softmax 1024', 'compiled')", "compiled is not known (did you mean compile?)"),
        ("speedup('ops', 'sofmax 1024', 'compile')", "sofmax is not known (did you mean softmax?)"),
        ("speedup('ops', 'softmax', 'compile')", "softmax: is no cell"),
        ("speedups('ops', 'softmax 1024', 'compile')", "speedups is not known"),
        ("speedup('ops', 'softmax ' + size, 'compile')", "is no address"),
        ("1 if True else 2", "is no address"),
        ("speedup('ops', 'softmax 1024', 'compile', 'latancy')", "latancy is not known (did you mean latency?)"),
        ("speedup('opps', 'softmax 1024', 'compile')", "opps is not known (did you mean ops?)"),
        ("speedup('ops')", "missing a required argument"),
        ("span('ops', '', 'compile')", "op:  is not known"),
        ("table('nothing')", "nothing is not known"),
        ("figure('nothing')", "nothing is not known"),
        ("published('softmax', 'nothing')", "nothing is not known"),
        ("constant('nothing')", "nothing is not known"),
        ("setting('ops', 'sampling.sample')", "sampling.sample is not in the study of ops"),
        ("claim('nothing')", "claim nothing is not known"),
        ("ratio('dtypes', 'softmax 1024', 'compile')", "has several dtypes"),
    ],
)
def test_an_address_that_nothing_could_have_is_refused_with_its_line(address, what, known, studies):
    with pytest.raises(InputError) as error:
        rendered(known, studies, "one\ntwo {{ " + address + " }}\n", [])
    assert str(error.value).startswith("paper.md: line 2: ") and what in str(error.value)


@pytest.mark.parametrize(
    "address",
    [
        "speedup('ops', 'softmax 2048', 'compile')",
        "speedup('ops', 'softmax 1024', 'onnx')",
        "payback('training', 'gpt_training 1', 'eager')",
        "gpus('start', 'do_bench', 'apart')",
        "time('cpu-training', 'softmax 1024', 'eager')",
    ],
)
def test_what_no_study_has_is_marked(address, known, studies):
    text, marks = rendered(known, studies, "It is {{ " + address + " }}.\n", [])
    assert text == "It is **[⚠ 1]**.\n" and [mark.line for mark in marks] == [1]


def test_a_claim_that_no_sentence_makes_is_refused(known, studies):
    with pytest.raises(InputError, match="no sentence names the claims softmax-narrow"):
        rendered(known, studies, "text\n", [claim for claim in CLAIMS if claim["id"] == "softmax-narrow"])


# The law


def planted(host: dict, launches: dict) -> dict:
    """Return a document of one op with these host times and launches by mode and size, and kernels of 10 µs."""
    rows, compiled, speedups = [], [], []
    for (mode, size), time in host.items():
        at = {"op": "softmax", "dtype": "float16", "size": size, "mode": mode}
        for metric, estimate in (
            ("host", time),
            ("kernels", 10.0),
            ("latency", time + 10.0),
            ("throughput", max(time, 10.0)),
        ):
            rows.append({**at, "metric": metric, "estimate": estimate, "notes": []})
        compiled.append({**at, "launched": launches[mode, size]})
        for metric in ("latency", "throughput"):
            found = {"speedup": 0.5, "ci_low": 0.4, "ci_high": 0.6, "verdict": "slower", "delta": 0.03}
            speedups.append({**at, "baseline": "eager", "metric": metric, **found})
    study = {"machine": "t4", "ops": {"softmax": {"sizes": [1, 2]}}, "dtypes": ["float16"]}
    return {
        "study": study,
        "summary": rows,
        "compilation": compiled,
        "speedups": [s for s in speedups if s["mode"] != "eager"],
    }


def test_the_law_is_the_line_through_what_it_was_fitted_to():
    host = {("eager", "1"): 5.0, ("eager", "2"): 8.0, ("compile", "1"): 40.0, ("compile", "2"): 55.0}
    document = planted(host, {key: int(key[1]) for key in host})
    laws = host_law.fit(document)
    assert (laws["compile"].call, laws["compile"].each) == (pytest.approx(25), pytest.approx(15))
    studies = Studies([document])
    host_law.apply(studies)
    found = {(row.size, row.metric): row for row in studies.predictions}
    assert found["1", "throughput"].predicted == pytest.approx(10 / 40)
    # One kernel: host and device follow each other. Two: the device's first half hides behind the host's second.
    assert found["1", "latency"].predicted == pytest.approx(15 / (15 + 35))
    assert found["2", "latency"].predicted == pytest.approx(18 / (18 + (55 + 5) - max(8 + 5, 4 + 10)))
    assert all(row.right and row.fitted for row in studies.predictions)
    assert document["law"] == [], "what it was fitted to is no test of it"
    assert host_law.accuracy(studies.predictions)["share"] == 1


def test_a_prediction_that_the_interval_excludes_is_missed_whatever_the_verdict():
    """One that only the verdict calls undecided, as compiled training steps were."""
    host = {("eager", "1"): 5.0, ("eager", "2"): 8.0, ("compile", "1"): 40.0, ("compile", "2"): 55.0}
    other = planted(host, {key: int(key[1]) for key in host})
    other["study"] = {**other["study"], "machine": "t4-other", "study": "other"}
    for row in other["speedups"]:
        row |= {"speedup": 0.95, "ci_low": 0.9, "ci_high": 1.01, "verdict": "inconclusive"}
    document = planted(host, {key: int(key[1]) for key in host})
    studies = Studies([document, other])
    host_law.apply(studies)
    rows = [row for row in studies.predictions if not row.fitted]
    assert len(rows) == 4 and all(row.missed and row.right is None and row.known for row in rows)
    assert not any(row.on_wrong_side for row in rows), "both are below 1"
    found = host_law.accuracy(rows)
    assert (found["tested"], found["missed"], found["decided"], found["share"]) == (4, 4, 0, None)
    within = 1.0299 * rows[0].predicted
    other["speedups"][0] |= {"ci_low": within, "ci_high": 2.0}
    host_law.apply(studies)
    assert [row.missed for row in studies.predictions if not row.fitted] == [False, True, True, True], "by more than δ"


def test_a_constant_host_time_is_the_mean_of_what_the_law_was_fitted_to():
    host = {("eager", "1"): 5.0, ("eager", "2"): 8.0, ("compile", "1"): 40.0, ("compile", "2"): 60.0}
    studies = Studies([planted(host, {key: int(key[1]) for key in host})])
    host_law.apply(studies)
    assert studies.laws["compile"].constant == pytest.approx(50)
    found = {(row.size, row.metric): row for row in studies.predictions}
    assert found["1", "throughput"].by_constant == found["2", "throughput"].by_constant == pytest.approx(10 / 50)
    assert found["1", "throughput"].by_kernels == 1


def test_a_call_without_a_profile_is_no_part_of_the_law():
    document = planted({("eager", "1"): 5.0, ("compile", "1"): 40.0}, {("eager", "1"): 1, ("compile", "1"): 1})
    assert {call.kernels for call in host_law.calls(document).values()} == {10.0}
    document["summary"] = [row for row in document["summary"] if row["metric"] != "kernels"]
    assert host_law.calls(document) == {}


# The README, whose answer is the article's


README = (ROOT / "README.md").read_text(encoding="utf-8")


TEMPLATE = (PAPER / "readme.md").read_text(encoding="utf-8")


def checked(known: dict, studies: Studies, text: str = README, template: str = TEMPLATE) -> list[article.Mark]:
    return readme.check(text, template, known, rules.judge(CLAIMS, studies))


def line_of(words: str) -> int:
    """Return the number of the README's line that has these words."""
    return next(number for number, line in enumerate(README.splitlines(), 1) if words in line)


def test_the_readme_says_what_the_data_say(known, studies):
    assert checked(known, studies) == []
    assert len(re.findall(r"\{\{", TEMPLATE)) > 60


@pytest.mark.parametrize(
    ("machine", "cell", "words"),
    [
        # A held-out shape: the README says that compiled layer norm takes longer there.
        ("h200-heldout", ("layer_norm_many", "1408", "compile", "kernels"), "1,408"),
        # A user's model: it says that no model is slower with reduce-overhead when it is waited for.
        ("h200-resnet", ("resnet", "batch-64", "compile-reduce-overhead", "latency"), "default; queued"),
        ("h200-training", ("gpt_training", "1", "compile-reduce-overhead", "latency"), "| a training step |"),
    ],
)
def test_a_cell_that_is_turned_round_in_any_study_fails_by_the_readmes_line(machine, cell, words, studies):
    document = rebuilt(machine)
    documents = [document if own["study"]["machine"] == machine else own for own in studies.documents]
    for row in document["speedups"]:
        if tuple(row[key] for key in ("op", "size", "mode", "metric")) == cell and row["baseline"] in (
            "eager",
            "compile",
        ):
            verdict = "faster" if row["verdict"] == "slower" else "slower"
            row |= {key: row[key] and 1 / row[key] for key in ("speedup", "ci_low", "ci_high")} | {"verdict": verdict}
            row["ci_low"], row["ci_high"] = row["ci_high"], row["ci_low"]
    other = Studies(documents)
    host_law.apply(other)
    marks = checked(functions(other), other)
    assert line_of(words) in [mark.line for mark in marks]
    assert all(mark.file == "README.md" for mark in marks)


def test_a_figure_of_the_readme_that_is_another_is_named_with_its_line(known, studies):
    (figure,) = re.findall(r"`torch.compile`: (\d\.\d+–\d\.\d+) \|", README)[:1]
    (mark,) = checked(known, studies, README.replace(figure, "1.05–3.30", 1))
    assert mark.line == line_of(figure) and mark.what.startswith(f"says 1.05–3.30, and the data {figure}: span(")


@pytest.mark.parametrize("added", ["- It is 2.5 times as fast.", "- No model gets slower.", "| ViT | 1.2–1.3 |"])
def test_a_result_that_is_bound_to_nothing_is_named_with_its_line(added, known, studies):
    head, tail = README.split("- **Which mode first?**")
    (mark,) = checked(known, studies, f"{head}{added}\n- **Which mode first?**{tail}")
    assert mark.line == line_of("Which mode first?") and "is not in paper/readme.md" in mark.what


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("- It never loses {{ law('compile', 'call') }}.", '"never" is bound to nothing'),
        ("It takes 1.5 times {{ law('compile', 'call') }}.", "1.5 is no address"),
        ("Words without an address.", "has no address"),
        ("It is {{ law('compile', 'call') }} long.", "README.md has no such block"),
        ("It is {{ law('compiled', 'call') }} long.", "compiled is not known"),
    ],
)
def test_a_block_of_the_template_that_binds_nothing_is_refused(line, what, known, studies):
    with pytest.raises(InputError) as error:
        checked(known, studies, template=f"{TEMPLATE}\n{line}\n")
    number = len(TEMPLATE.splitlines()) + 2
    assert str(error.value).startswith(f"paper/readme.md: line {number}: ") and what in str(error.value)


def test_the_readme_is_short_and_its_links_lead_somewhere():
    assert len(README.splitlines()) <= 150
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if not link.startswith(("http", "#"))]
    assert links and [link for link in links if not (ROOT / link).exists()] == []


def test_the_readmes_models_can_be_measured():
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    added = yaml.safe_load(re.search(r"```yaml\n(.*?)```", README, re.DOTALL)[1])
    config.update({key: config[key] | added[key] for key in added}, machine="h200")
    cells = Study(config, here=False).cells()
    assert {cell.op for cell in cells} >= set(added["ops"])


# A build from end to end


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Checkout:
    """Return a checkout that built its paper from one study, in whose samples compiled code and eager swap places."""
    name = "cpu-amd-epyc-elementwise"
    config = {**TINY, "machine": "cpu-test", "recorded": [name]}
    checkout = Checkout(tmp_path_factory.mktemp("built") / "clone", config, recorded=(name, "h200"))
    path = checkout.path / "results" / "recorded" / name / "samples.parquet"
    samples = pd.read_parquet(path)
    swapped = {"eager": "compile", "compile": "eager"}
    chain = samples.op.eq("elementwise_chain")
    samples["mode"] = samples["mode"].where(~chain, samples["mode"].map(lambda mode: swapped.get(mode, mode)))
    samples.to_parquet(path)
    checkout.failed = fail(checkout)
    return checkout


def fail(checkout: Checkout) -> str:
    """Return what a build that must fail prints."""
    process = checkout.start("paper", cores=2)
    output = process.communicate()[0]
    assert process.returncode == 1 and "Traceback" not in output, output
    return output


def test_a_build_whose_data_turned_fails_by_the_claims_id_and_leaves_a_draft(built):
    assert "claim cpu-chain does not hold" in built.failed
    assert re.search(r"README.md: line \d+: ", built.failed)
    assert "set draft: true in the config" in built.failed
    pages = pypdf.PdfReader(built.path / "paper" / "paper.pdf").pages
    assert all("DRAFT" in page.extract_text() for page in pages)


def test_a_draft_that_was_asked_for_is_built(built):
    before = (built.path / "paper" / "paper.pdf").read_bytes()
    built.run("paper", "--config", "draft=True", cores=2)
    assert (built.path / "paper" / "paper.pdf").read_bytes() == before, "same inputs, same bytes"
    assert pypdf.PdfReader(built.path / "paper" / "supplement.pdf").pages
