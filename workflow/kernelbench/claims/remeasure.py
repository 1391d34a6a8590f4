"""Verify: measure a random part of a recorded study again, and say which of its figures and claims that confirms.

A figure is a speedup of one op, dtype, size and mode over a baseline, by one metric. Both studies give its value by
repeat, the logarithm of a pair; they are independent of each other, so that the difference of their means has Welch's
interval. Within ±δ it confirms, outside it contradicts, and else it cannot tell.
"""

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import yaml
from rich.table import Table

from kernelbench.analysis import intervals
from kernelbench.analysis.measurements import Measurements
from kernelbench.analysis.studies import topic
from kernelbench.claims.rules import FAILS, OPEN, Outcome, evaluate, is_about_cells, selected, topics
from kernelbench.errors import InputError
from kernelbench.numbers import duration
from kernelbench.study import machine
from kernelbench.study.cells import CELL, cells_of, diagnosed, modes_of
from kernelbench.study.config import RECORDED
from kernelbench.study.metrics import ALL, LESS_FLOOR
from kernelbench.study.study import AGAIN
from kernelbench.study.validation import require_known

COLUMNS = (
    "op dtype size mode baseline metric n_recorded n recorded measured ratio ci_low ci_high delta outcome covers_zero"
)
CONFIRMED, CONTRADICTED = "confirmed", "contradicted"
# What the rounding of logarithms leaves of no difference where nothing spreads.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Part:
    """What is measured again: a config, how many cells and jobs it has, of how many cells, and the GPU's seconds."""

    config: dict
    cells: int
    of: int
    jobs: int
    seconds: float


def require_same(study: dict, environment: dict) -> str:
    """Return the label of this machine; raise InputError unless the study was measured on such a one.

    study, environment: the mappings of study.yaml and environment.json. Of a GPU the full name counts: several models
    share a label.
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
    """Return the part of a recorded `study` that is to be measured again, by the recorded `jobs` (jobs.parquet).

    wanted: the config's `verify`. An op at a size is drawn whole: in all its dtypes, and in all modes but those for
    diagnosis, so that all pairs are there. They come in the order of a hash of the seed, and each is taken that still
    fits into the minutes. With `rule` it is all that the rule is about, however long it takes. Raises InputError where
    none fits, naming the least.
    """
    costs = _seconds(study, jobs)
    if rule:
        about = {key[:3] for key in selected(rule, study)}
        costs = {(op, size): cost for (op, size), cost in costs.items() if _is_about(about, op, size)}
    repeats, limit = wanted["repeats"], math.inf if rule else 60 * wanted["minutes"]
    starts = repeats * _start(jobs)
    chosen, seconds = [], starts
    for drawn in sorted(costs, key=lambda drawn: _rank(wanted["seed"], *drawn)):
        if seconds + repeats * costs[drawn] <= limit:
            chosen.append(drawn)
            seconds += repeats * costs[drawn]
    if not chosen:
        _refuse(costs, starts, wanted)
    config = _cut(study, chosen, repeats)
    cells = cells_of(config)
    count = repeats * sum(len(modes_of(config, cell)) for cell in cells)
    of = sum((cell.op, cell.size) in costs for cell in cells_of(study))
    return Part(config, len(cells), of, count, seconds)


def _refuse(costs: dict[tuple[str, str], float], starts: float, wanted: dict) -> None:
    if not costs:
        raise InputError(
            f"config: verify.study: {wanted['study']} has no cell that is wanted; allowed: a study that compares modes "
            "at one"
        )
    least = min(costs, key=costs.get)
    needed = (starts + wanted["repeats"] * costs[least]) / 60
    raise InputError(
        f"config: verify.minutes: {wanted['minutes']:g} is too little, {' '.join(least)} alone takes {needed:.1f} "
        f"with {wanted['repeats']} repeats; allowed: from {math.ceil(10 * needed) / 10:g} on"
    )


def _is_about(about: set[tuple], op: str, size: str) -> bool:
    return any(op == other and of in (size, ALL) for other, _, of in about)


def _compared(study: dict) -> list[str]:
    return [mode for mode in study["modes"] if not diagnosed(study, mode)]


def _seconds(study: dict, jobs: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Return by (op, size) the seconds of one repeat in all compared modes, where there are two or more."""
    wall = jobs.groupby([*CELL, "mode"])["seconds.wall"].median()
    found = {}
    for cell in cells_of(study):
        modes = [mode for mode in modes_of(study, cell) if mode in _compared(study)]
        if len(modes) > 1:
            cost = sum(wall.get((cell.op, cell.dtype, cell.size, mode), 0) for mode in modes)
            found[cell.op, cell.size] = found.get((cell.op, cell.size), 0) + float(cost)
    return found


def _start(jobs: pd.DataFrame) -> float:
    """Return the seconds that a repeat takes to start, its warm parent above all: the most that its first job waited.

    0 where the records do not say.
    """
    first = jobs.sort_values("place").groupby("repeat").head(1)
    return float(first.reindex(columns=["seconds.overhead"]).fillna(0).max().item())


def _rank(seed: int, *what: str) -> bytes:
    return hashlib.sha256(json.dumps([seed, *what]).encode()).digest()


def _cut(study: dict, chosen: list[tuple[str, str]], repeats: int) -> dict:
    """Return the config of a study that is `study` at the chosen (op, size), without modes for diagnosis.

    Nor has it what names ops or modes that are left out: series at other sizes, and targets.
    """
    modes = {}
    for mode in _compared(study):
        entry = dict(study["modes"][mode])
        if "only" in entry:
            only = {op: [s for s in sizes if (op, str(s)) in chosen] for op, sizes in entry["only"].items()}
            entry["only"] = {op: sizes for op, sizes in only.items() if sizes}
        if "series" in entry:
            entry["series"] = {op: sizes for op, sizes in entry["series"].items() if op in {op for op, _ in chosen}}
        if entry.get("only") != {}:
            modes[mode] = entry
    ops = {}
    for op, entry in study["ops"].items():
        sizes = [size for size in entry["sizes"] if (op, str(size)) in chosen]
        if sizes:
            own = {"modes": [mode for mode in entry["modes"] if mode in modes]} if "modes" in entry else {}
            ops[op] = {**entry, "sizes": sizes, **own}
    cut = {**study, "ops": ops, "modes": modes}
    ran = {mode for cell in cells_of(cut) for mode in modes_of(cut, cell)}
    modes = {mode: entry for mode, entry in modes.items() if mode in ran}
    baselines = [mode for mode in study["baselines"] if mode in ran]
    # A study from before there was a choice started a new process for each job.
    changed = {"machine": "auto", "study": AGAIN, "repeats": repeats, "recorded": []}
    changed |= {"baselines": baselines, "ops": ops, "modes": modes}
    # A note is of the recording, not of what is measured again.
    same = {key: value for key, value in study.items() if key not in ("note", "targets")}
    return {"start": "fresh", **same, **changed}


def compare(recorded: Measurements, again: Measurements) -> pd.DataFrame:
    """Return a row of COLUMNS for each figure that is there, and ok, in both studies."""
    return pd.DataFrame(_rows(recorded, again), columns=COLUMNS.split())


def _rows(recorded: Measurements, again: Measurements) -> Iterator[list]:
    metrics = [metric for metric in recorded.metrics if metric in again.metrics]
    if "device" in metrics and all([data.take_floor_off() for data in (recorded, again)]):
        metrics.insert(metrics.index("device") + 1, LESS_FLOOR)
    for metric in metrics:
        delta = recorded.delta(metric)
        for baseline in again.study["baselines"]:
            for row in again.arms:
                both = [_pairs(data, row, baseline, metric) for data in (recorded, again)]
                if row[3] != baseline and all(pairs is not None for pairs in both):
                    yield _row(row, baseline, metric, *both, delta)


def _pairs(data: Measurements, row: tuple, baseline: str, metric: str) -> np.ndarray | None:
    """Return the log speedups by repeat, None where a study does not have both arms ok."""
    for arm in (row, (*row[:3], baseline)):
        if arm not in data.status or data.status_of(arm, metric)[0] != "ok":
            return None
    pairs = data.pairs(row, baseline, metric)
    return None if pairs is None else pairs.to_numpy()


def _row(row: tuple, baseline: str, metric: str, old: np.ndarray, new: np.ndarray, delta: float) -> list:
    speedups = [float(np.exp(np.mean(logs))) for logs in (old, new)]
    ratio, low, high = intervals.welch(new, old)
    covers = low <= 1 + ROUNDING and high >= 1 - ROUNDING
    outcome = _outcome(low, high, delta)
    return [*row, baseline, metric, len(old), len(new), *speedups, ratio, low, high, delta, outcome, covers]


def _outcome(low: float, high: float, delta: float) -> str:
    """Return what an interval of the ratio says: within ±δ (symmetric on logs), outside, or neither."""
    if low >= 1 / (1 + delta) and high <= 1 + delta:
        return CONFIRMED
    return CONTRADICTED if low > 1 + delta or high < 1 / (1 + delta) else OPEN


def judge(claims: list[dict], recorded: dict, again: dict) -> list[tuple[str, Outcome, Outcome, str]]:
    """Return of each claim (sentence, outcome of the recorded summary.json, of the new one, what follows).

    What was not measured again is missing, and so is a mean over the sizes that lacks some.
    """
    found, study = [], recorded["study"]
    for claim in claims:
        old = evaluate(claim["rule"], [recorded])
        new = evaluate(claim["rule"], [{**again, "study": study, "speedups": _whole(study, again)}])
        found.append((claim["sentence"], old, new, _follows(old.outcome, new.outcome)))
    return found


def _follows(old: str, new: str) -> str:
    if OPEN in (old, new):
        return OPEN
    if old != new:
        return "contradicts"
    return "refutes again" if new == FAILS else "confirms"


def _whole(study: dict, again: dict) -> list[dict]:
    """Return the speedups of `again` without means over fewer sizes than `study` has."""
    sizes = {op: entry["sizes"] for op, entry in study["ops"].items()}
    whole = {op for op, entry in again["study"]["ops"].items() if entry["sizes"] == sizes.get(op)}
    return [row for row in again["speedups"] if row["size"] != ALL or row["op"] in whole]


def named(claims: list[dict], name: str) -> dict:
    """Return the claim `name`; raise InputError where there is none, or none about cells."""
    found = {claim["id"]: claim for claim in claims}
    require_known("config: verify.claim", name, found)
    if not is_about_cells(found[name]["rule"]):
        raise InputError(
            f"config: verify.claim: {name} is about a whole study, not about cells of it; allowed: "
            f"{', '.join(claim['id'] for claim in claims if is_about_cells(claim['rule']))}; or measure every study "
            "again: snakemake reproduce"
        )
    return found[name]


def study_of(claim: dict, recorded: list[str]) -> str:
    """Return the first of the recorded studies that a claim is about; raise InputError where there is none."""
    wanted = topics(claim["rule"])
    for name in recorded:
        study = yaml.safe_load((RECORDED / name / "study.yaml").read_text(encoding="utf-8"))
        if topic(study) == wanted[0]:
            return name
    raise InputError(
        f"config: verify.claim: {claim['id']} is about {wanted[0]}, which no recorded study is; allowed: a claim about "
        f"one of {recorded}"
    )


def require_told(claim: dict, name: str, document: dict) -> None:
    """Raise InputError where the study `name`, whose summary.json is `document`, has no row that a claim is about."""
    if not evaluate(claim["rule"], [document]).rows:
        raise InputError(
            f"config: verify.claim: {claim['id']} is about nothing that {name} measured; allowed: a claim with a row "
            "in its speedups.csv"
        )


def preview(name: str, part: Part, wanted: dict, gpus: int) -> str:
    """Return what is about to be measured, in one line."""
    rounds = math.ceil(wanted["repeats"] / gpus) / wanted["repeats"]
    shared = f", {duration(part.seconds * rounds)} on {gpus} GPUs" if gpus > 1 else ""
    return (
        f"{name}: measuring {part.cells} of {part.of} cells again in {wanted['repeats']} repeats: {part.jobs} jobs, "
        f"{duration(part.seconds)} by the recorded times{shared}"
    )


def report(figures: pd.DataFrame, judged: list[tuple]) -> list[Table | str]:
    """Return what to print: counts by metric, the contradicted figures, and the claims.

    no difference: how many intervals hold a ratio of 1.
    """
    overview = Table(box=None, pad_edge=False)
    overview.add_column("metric", no_wrap=True)
    # A terminal of 80 columns has no room for "cannot be told".
    for name in ("figures", CONFIRMED, CONTRADICTED, "open", "no difference"):
        overview.add_column(name, justify="right", no_wrap=True)
    for metric, rows in figures.groupby("metric", sort=False):
        counts = [str((rows.outcome == outcome).sum()) for outcome in (CONFIRMED, CONTRADICTED, OPEN)]
        share = f"{rows.covers_zero.sum()} ({rows.covers_zero.mean():.0%})"
        overview.add_row(metric, str(len(rows)), *counts, share)
    lines = [f"{intervals.CONFIDENCE:.0%} of the intervals should hold no difference where there is none."]
    if (figures.metric == LESS_FLOOR).any():
        lines.append(f"{LESS_FLOOR}: without what an empty pair of CUDA events takes in the same job.")
    lines += [_line(row) for row in figures[figures.outcome == CONTRADICTED].itertuples()]
    return [overview, *lines, *(_told(*claim) for claim in judged)]


def _line(row) -> str:
    """Return a contradicted figure in one line."""
    return (
        f"contradicted: {row.op} {row.size} {row.dtype} {row.mode} over {row.baseline} by {row.metric}: "
        f"recorded {row.recorded:#.4g}, measured {row.measured:#.4g}, ratio {row.ratio:.3f} "
        f"[{row.ci_low:.3f}, {row.ci_high:.3f}]"
    )


def _told(sentence: str, recorded: Outcome, measured: Outcome, follows: str) -> str:
    """Return what was found of a claim, in one line."""
    rows = f"{measured.rows} of {measured.of} rows"
    return f"{follows}: {sentence} (recorded: {recorded.outcome}; measured: {measured.outcome}, {rows})"
