"""What the page knows of each study's cells, as compact as JSON gets: rows are lists, and words are places in lists.

Numbers that a reader sees are texts already, so that the page has no rules of its own for digits.
"""

from collections.abc import Iterator

from kernelbench import numbers
from kernelbench.analysis import host_law
from kernelbench.analysis.payback import PAID_BY
from kernelbench.analysis.recommendation import recommend
from kernelbench.analysis.studies import Studies, topic
from kernelbench.claims.by_machine import machine_of
from kernelbench.op_names import BATCHED, name
from kernelbench.page.texts import code, measured
from kernelbench.study.cells import ARM, CONTROL, cells_of, find_diagnosed, workload_of
from kernelbench.study.metrics import ALL

# The columns of the page's tables, in order. `text` is a speedup with its interval, `paid` after how many calls
# compiling has paid, `law` the speedup that the law predicts, `said` an estimate with its unit.
SPEEDUPS = (
    *ARM, "baseline", "metric", "n", "speedup", "low", "high", "verdict", "cause", "status", "note", "text", "paid",
    "law",
)  # fmt: skip
ESTIMATES = (*ARM, "metric", "n", "said", "status", "note", "samples")
ANSWERS = ("op", "dtype", "size", "metric", "mode", "ties", "reason", "code")
# Columns of words: a row has their places in the list of all words.
WORDS = {*ARM, "baseline", "metric", "verdict", "cause", "status", "note", "reason", "code"}
# What a ranking may be by.
RANKED = ("latency", "throughput", "device", "first_call", "peak_memory")


class Words:
    """A list of words, and the place of each."""

    def __init__(self):
        self.places: dict[str, int] = {}

    def pack(self, columns: tuple[str, ...], rows: Iterator[dict]) -> list[list]:
        """Return rows as lists in the order of the columns, with words as their places."""
        return [[self._place(row[name]) if name in WORDS else row[name] for name in columns] for row in rows]

    def _place(self, word: str | None) -> int:
        return self.places.setdefault(word or "", len(self.places))


def device_of(document: dict) -> str:
    """Return the name of the device that a study was measured on, as short as it can be told from others."""
    environment = document["environment"]
    return environment["gpu"]["name"].removeprefix("NVIDIA ") if environment["gpu"] else environment["host"]["cpu"]


def describe(studies: Studies) -> dict:
    """Return {columns, coded, words, devices, names, cells, sizes, studies}: all that the page may be asked for.

    coded: the columns of words; devices: the name of each machine; names, cells, sizes: how people write each op, "op
    size" and size. A study has {label, topic, machine, repeats,
    baselines, sizes, modes, speedups, estimates, answers}, its tables as rows of `columns`.
    """
    words = Words()
    found = [_describe_study(document, studies, words) for document in studies.documents]
    ops = [(op, entry) for document in studies.documents for op, entry in document["study"]["ops"].items()]
    sized = dict.fromkeys((op, str(size)) for op, entry in ops for size in entry["sizes"])
    return {
        "columns": {"speedups": SPEEDUPS, "estimates": ESTIMATES, "answers": ANSWERS},
        "coded": sorted(WORDS),
        "words": list(words.places),
        "devices": {machine_of(document["study"]): device_of(document) for document in studies.documents},
        "names": {op: name(op) for op, _ in ops},
        "cells": {f"{op} {size}": _name_cell(op, size) for op, size in sized},
        "sizes": {size: numbers.size(size) for _, size in sized} | {ALL: "all (mean)"},
        "studies": found,
    }


def _name_cell(op: str, size: str) -> str:
    return name(op, size) if op in BATCHED else f"{name(op)}, size {numbers.size(size)}"


def _describe_study(document: dict, studies: Studies, words: Words) -> dict:
    study = document["study"]
    return {
        "label": study["machine"],
        "topic": topic(study),
        "machine": machine_of(study),
        "repeats": study["repeats"],
        "baselines": study["baselines"],
        "sizes": {op: list(map(str, entry["sizes"])) for op, entry in study["ops"].items()},
        # Arms for control and diagnosis are no modes to choose from.
        "modes": [mode for mode in study["modes"] if mode != CONTROL and not find_diagnosed(study, mode)],
        "speedups": words.pack(SPEEDUPS, _list_speedups(document, studies)),
        "estimates": words.pack(ESTIMATES, _list_estimates(document)),
        "answers": words.pack(ANSWERS, _list_answers(document)),
    }


def _list_speedups(document: dict, studies: Studies) -> Iterator[dict]:
    label, baseline = document["study"]["machine"], document["study"]["baselines"][0]
    paid = {(*_arm(row), baseline, row["metric"]): row for row in document["payback"]}
    law = {
        (row.op, row.dtype, row.size, row.mode, host_law.EAGER, row.metric): row.predicted
        for row in studies.predictions
        if row.study == label
    }
    for row in document["speedups"]:
        key = (*_arm(row), row["baseline"], row["metric"])
        yield {
            **row,
            "low": row["ci_low"],
            "high": row["ci_high"],
            "note": row["reason"],
            "text": "" if row["speedup"] is None else numbers.ci(row),
            "paid": numbers.calls(paid[key]) if key in paid else "",
            "law": numbers.factor(law[key]) if key in law else "",
        }


def _list_estimates(document: dict) -> Iterator[dict]:
    samples = {(*_arm(row), row["metric"]): int(row["samples"]) for row in document["spread"]}
    for row in document["summary"]:
        if row["metric"] in RANKED:
            said = measured(row) if row["estimate"] is not None else ""
            # What has no spread within a repeat is sampled once in each.
            yield {**row, "said": said, "note": row["reason"], "samples": samples.get((*_arm(row), row["metric"]), 1)}


def _list_answers(document: dict) -> Iterator[dict]:
    study = document["study"]
    trains = {op: workload_of(op, entry).trains for op, entry in study["ops"].items()}
    measured_by = {row["metric"] for row in document["summary"]}
    for metric in (metric for metric in PAID_BY if metric in measured_by):
        cases = recommend(document, metric)["cases"]
        for cell, case in zip(cells_of(study), cases, strict=True):
            answer = {key: case[key] for key in ("mode", "ties", "reason")}
            entry = study["modes"][case["mode"] or study["baselines"][0]]
            yield {**vars(cell), "metric": metric, **answer, "code": code(entry, trains[cell.op])}


def _arm(row: dict) -> tuple:
    return tuple(row[key] for key in ARM)


def count_speedups(studies: Studies) -> int:
    """Return how many speedups the page has, of single cells and with a value."""
    rows = (row for document in studies.documents for row in document["speedups"])
    return sum(row["speedup"] is not None and row["size"] != ALL for row in rows)
