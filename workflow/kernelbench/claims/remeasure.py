"""Choose what of the recorded studies is measured again: random cells, those that a claim is about, or all of them."""

import hashlib
import json
import math
from dataclasses import dataclass

import pandas as pd
import yaml

from kernelbench.analysis.studies import GPU, topic
from kernelbench.claims.rule_file import values
from kernelbench.claims.rules import evaluate, is_about_cells, say_studies, select
from kernelbench.errors import InputError
from kernelbench.numbers import duration
from kernelbench.study import machine
from kernelbench.study.cells import ARM, CELL, cells_of, find_diagnosed, modes_of
from kernelbench.study.config import RECORDED
from kernelbench.study.metrics import ALL
from kernelbench.study.study import VERIFY
from kernelbench.study.validation import require_known


@dataclass(frozen=True)
class Part:
    """What is measured again: a config, how many cells and jobs it has, of how many cells, and the GPU's seconds."""

    config: dict
    cells: int
    of: int
    jobs: int
    seconds: float


def require_same(study: dict, environment: dict) -> str:
    """Return the label of this machine; raise InputError unless the study was measured on such a machine.

    study, environment: the content of study.yaml and environment.json. We compare the full names of GPUs, as several
    models share a label.
    """
    label, device, name = machine.present()
    measured = study["machine"]
    gpu = None if measured.startswith("cpu") else environment["gpu"]["name"]
    if (device == "cpu") != (gpu is None) or gpu not in (None, name):
        raise InputError(
            f"config: verify.study: {measured} was not measured on what this machine has ({label}: {name})"
            f"{f', but on {gpu}' if gpu else ''}; allowed here: a study recorded on "
            f"{'a CPU' if device == 'cpu' else name}"
        )
    return label


def choose(study: dict, jobs: pd.DataFrame, wanted: dict, rule: dict | None = None) -> Part:
    """Return the part of a recorded study to measure again; raise InputError if nothing fits into the minutes.

    jobs: those of jobs.parquet; wanted: `verify` of the config. An op at a size is drawn as a whole, in all dtypes and
    all modes that are not for diagnosis, so that no pair is broken. The seed sets the order, and each one is taken that
    still fits. With a `rule` the part is all that the rule is about, however long it takes.
    """
    arms, repeats = _find_costs(study, jobs), wanted["repeats"]
    costs = (repeats * arms.groupby(["op", "size"])["seconds"].sum()).to_dict()
    if rule:
        about = {(key[0], key[2]) for key in select(rule, study)}
        costs = {(op, size): cost for (op, size), cost in costs.items() if about & {(op, size), (op, ALL)}}
    limit = math.inf if rule else 60 * wanted["minutes"]
    start = repeats * _find_start(jobs)
    chosen, seconds = set(), start
    for drawn in sorted(costs, key=lambda drawn: _rank(wanted["seed"], *drawn)):
        if seconds + costs[drawn] <= limit:
            chosen.add(drawn)
            seconds += costs[drawn]
    if not chosen:
        _refuse(costs, start, wanted)
    keys = pd.MultiIndex.from_frame(arms[["op", "size"]])
    drawn, allowed = arms[keys.isin(chosen)], arms[keys.isin(list(costs))]
    cells, of = (len(each.drop_duplicates(CELL)) for each in (drawn, allowed))
    return Part(_cut(study, drawn, repeats), cells, of, repeats * len(drawn), seconds)


def _find_costs(study: dict, jobs: pd.DataFrame) -> pd.DataFrame:
    """Return the `seconds` of one job of each arm that is not for diagnosis, of cells with two or more of them."""
    rows = [(*vars(cell).values(), mode) for cell in cells_of(study) for mode in modes_of(study, cell)]
    arms = pd.DataFrame([row for row in rows if not find_diagnosed(study, row[3])], columns=ARM)
    arms = arms[arms.groupby(CELL)["mode"].transform("size") > 1]
    wall = jobs.groupby(ARM)["seconds.wall"].median().rename("seconds")
    return arms.join(wall, on=ARM).fillna({"seconds": 0})


def _find_start(jobs: pd.DataFrame) -> float:
    """Return the seconds that a repeat takes to start: the longest that a first job waited, 0 if no record says so."""
    first = jobs.sort_values("place").groupby("repeat").head(1)
    return float(first.reindex(columns=["seconds.overhead"]).fillna(0).max().item())


def _rank(seed: int, *what: str) -> bytes:
    return hashlib.sha256(json.dumps([seed, *what]).encode()).digest()


def _refuse(costs: dict[tuple[str, str], float], start: float, wanted: dict) -> None:
    if not costs:
        raise InputError(
            f"config: verify.study: {wanted['study']} has no cell that is wanted; allowed: a study that compares modes "
            "at one"
        )
    least = min(costs, key=costs.get)
    needed = (start + costs[least]) / 60
    raise InputError(
        f"config: verify.minutes: {wanted['minutes']:g} is too little, {' '.join(least)} alone takes {needed:.1f} "
        f"with {wanted['repeats']} repeats; allowed: from {math.ceil(10 * needed) / 10:g} on"
    )


def _cut(study: dict, drawn: pd.DataFrame, repeats: int) -> dict:
    """Return the config of a study that has only the arms in `drawn`."""
    cells, ran = set(zip(drawn.op, drawn["size"], strict=True)), set(drawn["mode"])

    def cut_sizes(by_op: dict[str, list]) -> dict[str, list]:
        kept = {op: [size for size in sizes if (op, str(size)) in cells] for op, sizes in by_op.items()}
        return {op: sizes for op, sizes in kept.items() if sizes}

    ops = {}
    for op, sizes in cut_sizes({op: entry["sizes"] for op, entry in study["ops"].items()}).items():
        ops[op] = {**study["ops"][op], "sizes": sizes}
        if "modes" in ops[op]:
            ops[op]["modes"] = [mode for mode in ops[op]["modes"] if mode in ran]
    modes = {mode: dict(entry) for mode, entry in study["modes"].items() if mode in ran}
    for entry in modes.values():
        if "only" in entry:
            entry["only"] = cut_sizes(entry["only"])
        if "series" in entry:  # It measures other sizes than those of the cells.
            entry["series"] = {op: sizes for op, sizes in entry["series"].items() if op in ops}
    # The note and the looks are about the recording, and targets may name modes that are left out.
    same = {key: value for key, value in study.items() if key not in ("note", "looks", "targets")}
    baselines = [mode for mode in study["baselines"] if mode in ran]
    changed = {"ops": ops, "modes": modes, "baselines": baselines, "repeats": repeats}
    # A study from before `start` was a setting started a new process for each job.
    return {"start": "fresh", **same, **changed, "machine": "auto", "study": VERIFY, "recorded": []}


def find_claim(claims: list[dict], name: str) -> dict:
    """Return the claim with this id; raise InputError if there is none, or if it is not about cells."""
    found = {claim["id"]: claim for claim in claims}
    require_known("config: verify.claim", name, found)
    if not is_about_cells(found[name]["rule"]):
        raise InputError(
            f"config: verify.claim: {name} is about a whole study, not about cells of it; allowed: "
            f"{', '.join(claim['id'] for claim in claims if is_about_cells(claim['rule']))}; or measure every study "
            "again: snakemake reproduce"
        )
    return found[name]


def read_study(name: str) -> dict:
    """Return the mapping of a recorded study."""
    return yaml.safe_load((RECORDED / name / "study.yaml").read_text(encoding="utf-8"))


def list_topics_once(recorded: list[str], on_cpu: bool) -> list[str]:
    """Return the recorded studies of a CPU or else of GPUs: as in the article, of several on one topic the first."""
    names = [name for name in recorded if name.startswith("cpu") == on_cpu]
    return list({topic(read_study(name)): name for name in reversed(names)}.values())[::-1]


def find_study(claim: dict, recorded: list[str]) -> str:
    """Return the first of the recorded studies that a claim is about; raise InputError if there is none."""
    rule = claim["rule"]
    for name in recorded:
        study = read_study(name)
        device = "cpu" if name.startswith("cpu") else GPU
        named = topic(study) in values(rule["study"]) if "study" in rule else device == rule.get("device", GPU)
        if named and select(rule, study):
            return name
    raise InputError(
        f"config: verify.claim: {claim['id']} is about {say_studies(rule)}, and none of {recorded} has a row of it; "
        "allowed: a claim about one of these"
    )


def require_rows(claim: dict, name: str, document: dict) -> None:
    """Raise InputError if the summary.json of the study `name` has no row that a claim is about."""
    if not evaluate(claim["rule"], [document]).rows:
        raise InputError(
            f"config: verify.claim: {claim['id']} is about nothing that {name} measured; allowed: a claim with a row "
            "in its speedups.csv"
        )


def preview(name: str, part: Part, wanted: dict, gpus: int) -> str:
    """Return in one line what is about to be measured."""
    rounds = math.ceil(wanted["repeats"] / gpus) / wanted["repeats"]
    shared = f", {duration(part.seconds * rounds)} on {gpus} GPUs" if gpus > 1 else ""
    return (
        f"{name}: measuring {part.cells} of {part.of} cells again in {wanted['repeats']} repeats: {part.jobs} jobs, "
        f"{duration(part.seconds)} by the recorded times{shared}"
    )
