"""The same cells on GPUs of two models: the speedups of one beside those of the other."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kernelbench.analysis.studies import Studies, name_device
from kernelbench.analysis.verdicts import DECIDED
from kernelbench.study.cells import ARM, CONTROL, find_diagnosed
from kernelbench.study.metrics import ALL

# What an op's or a mode's entry says of where it is measured and who compiles, and not of what a call does.
ELSEWHERE = {"sizes", "dtypes", "modes", "draw", "only", "workers", "devices"}


class Pair(NamedTuple):
    """A row of `speedups` over the first baseline, or of `summary`, on each of two GPU models."""

    op: str
    dtype: str
    size: str
    mode: str
    metric: str
    first: dict
    second: dict


def name_gpus(studies: Studies) -> list[str]:
    """Return the first two GPU models that the studies ran on."""
    gpus = dict.fromkeys(name_device(document) for document in studies.documents if document["environment"]["gpu"])
    return list(gpus)[:2]


def pair_rows(studies: Studies, table: str = "speedups") -> list[Pair]:
    """Return the rows that the studies of the first two GPU models have of the same call, with a value on both.

    Two calls are the same if workload, parameters, size, dtype and mode are, and the versions of PyTorch, of Triton and
    of the package that a model is from. Of several studies of one GPU model the first one counts. Control and
    diagnostic arms are left out.
    """
    names = name_gpus(studies)
    if len(names) < 2:
        return []
    first, second = (_collect(studies, table, gpu) for gpu in names)
    return [Pair(*(*key[:5], first[key], second[key])) for key in first if key in second]


def _collect(studies: Studies, table: str, gpu: str) -> dict[tuple, dict]:
    found: dict[tuple, dict] = {}
    for document in studies.documents:
        if document["environment"]["gpu"] and name_device(document) == gpu:
            for key, row in _list_rows(document, table):
                found.setdefault(key, row)
    return found


def _list_rows(document: dict, table: str) -> Iterator[tuple[tuple, dict]]:
    """Yield each row of a table with what tells its call from others."""
    study, software = document["study"], document["environment"]["software"]
    # A model's package as well: another version of transformers may call other kernels.
    versions = {op: document["packages"].get(entry.get("workload")) for op, entry in study["ops"].items()}
    ran = {op: (software["torch"], software["triton"], version) for op, version in versions.items()}
    ops = {op: _describe(entry) for op, entry in study["ops"].items()}
    modes = {
        mode: _describe(entry)
        for mode, entry in study["modes"].items()
        if mode != CONTROL and not find_diagnosed(study, mode)
    }
    value, baseline = {"speedups": ("speedup", study["baselines"][0]), "summary": ("estimate", None)}[table]
    for row in document[table]:
        wanted = row["mode"] in modes and row["size"] != ALL and row[value] is not None
        if wanted and row.get("baseline") == baseline:
            op, mode = row["op"], row["mode"]
            yield (*(row[name] for name in ARM), row["metric"], ops[op], modes[mode], ran[op]), row


def _describe(entry: dict) -> str:
    return repr(sorted((key, value) for key, value in entry.items() if key not in ELSEWHERE))


def compare_speedups(pairs: list[Pair]) -> dict:
    """Return how far pairs of speedups agree.

    of: their number; decided: how many are faster or slower on both GPUs; same: how many of these have the same
    verdict on both; median: by what share the larger speedup of a pair is above the smaller.
    """
    verdicts = [(pair.first["verdict"], pair.second["verdict"]) for pair in pairs]
    decided = [both for both in verdicts if all(verdict in DECIDED for verdict in both)]
    apart = [np.expm1(abs(np.log(pair.second["speedup"] / pair.first["speedup"]))) for pair in pairs]
    return {
        "of": len(pairs),
        "decided": len(decided),
        "same": sum(first == second for first, second in decided),
        "median": float(np.median(apart)),
    }
