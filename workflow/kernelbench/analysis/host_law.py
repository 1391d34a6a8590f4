"""The law of a compiled call: its time from how many kernels it launches and how long these compute.

A compiled call keeps the host for  H = call + each · L,  with L the kernels that it launches. A call that replays a
CUDA graph keeps the host for  H = call + each · C,  with C the kernels that it launches beyond those of the compiled
function: they copy the inputs. Both pairs of constants are least-squares lines through the host times of the study of
the ops. Nothing else is fitted.

Host and device work side by side. Of calls back to back each takes

    throughput = max(H, D)

with D what the kernels of a call take together, by the profiler. A call that is waited for alone ends when both are
through with the last kernel. For kernels that are alike that is

    latency = max(H + D / L, H / L + D)

The replay of a graph is one launch: L = 1. Eager's H, D and L are measured. The predicted latency is eager's measured
one plus the difference that the law makes; the predicted speedup by throughput is the ratio of the law's two times.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from kernelbench.analysis.studies import OPS, Studies, topic
from kernelbench.study.cells import workload_name
from kernelbench.study.metrics import KERNELS

EAGER = "eager"
# The metrics that the law predicts.
PREDICTED = ("latency", "throughput")
# Each mode that it is about, and the two constants of its host time.
COMPILED, REPLAYED = "compile", "compile-reduce-overhead"
MODES = (COMPILED, REPLAYED)


@dataclass(frozen=True)
class Call:
    """What the law needs of a call: the time of the host and that of the kernels in µs, and how many it launches."""

    host: float
    kernels: float
    launches: float

    @property
    def latency(self) -> float:
        """After how many µs host and device are through with the last kernel of a call that is waited for."""
        return max(self.host + self.kernels / self.launches, self.host / self.launches + self.kernels)

    @property
    def throughput(self) -> float:
        """How many µs each of many calls back to back takes."""
        return max(self.host, self.kernels)


@dataclass(frozen=True)
class Law:
    """The host's time of a call in µs: `call`, and `each` more for every launch (or copy of an input).

    constant: the mean host time of the calls that the two were fitted to, for a law that does not count launches.
    """

    call: float
    each: float
    constant: float

    def host(self, count: float) -> float:
        """Return the host's time in µs for so many launches (or copies)."""
        return self.call + self.each * count


class Prediction(NamedTuple):
    """One speedup over eager as predicted and as measured.

    host, host_predicted: µs; by_kernels: the ratio of the kernels' times alone; by_constant: what the law would predict
    if each call of this mode kept the host as long as the mean one of the fitted study; right: whether the predicted
    side of 1 is the measured verdict, None where that is not decided; missed: whether the interval excludes the
    prediction by more than δ, None where there is no interval; known: whether the fitted study has this workload;
    fitted: whether the constants come from this study.
    """

    study: str
    op: str
    dtype: str
    size: str
    mode: str
    metric: str
    host: float
    host_predicted: float
    predicted: float
    by_constant: float
    by_kernels: float
    measured: float
    ci_low: float | None
    ci_high: float | None
    verdict: str
    right: bool | None
    missed: bool | None
    known: bool
    fitted: bool

    @property
    def on_wrong_side(self) -> bool:
        """Whether the prediction is missed, and on the other side of 1 than the measured speedup."""
        return bool(self.missed) and (self.predicted > 1) != (self.measured > 1)


# The column of what predicts a speedup, by what it goes by.
PREDICTORS = {"the law": "predicted", "a constant host time": "by_constant", "kernels alone": "by_kernels"}


def calls(document: dict) -> dict[tuple, Call]:
    """Return by (op, dtype, size, mode) what the law needs of a study's calls, where all of it was measured."""
    times = {(*_key(row), row["metric"]): row["estimate"] for row in document["summary"]}
    found = {}
    for row in document["compilation"]:
        key = _key(row)
        host, kernels, launches = times.get((*key, "host")), times.get((*key, KERNELS)), row.get("launched")
        if host and kernels and launches:
            found[key] = Call(host, kernels, launches)
    return found


def _key(row: dict) -> tuple[str, str, str, str]:
    return row["op"], row["dtype"], row["size"], row["mode"]


def fit(document: dict) -> dict[str, Law]:
    """Return the constants of each mode by a least-squares line through the host times of a study's cells."""
    found, laws = calls(document), {}
    for mode in MODES:
        counted = [(_count(found, key), call.host) for key, call in found.items() if key[3] == mode]
        points = [(count, host) for count, host in counted if count is not None]
        if len({count for count, _ in points}) > 1:
            counts, times = np.array(points).T
            each, call = np.polyfit(counts, times, 1)
            laws[mode] = Law(float(call), float(each), float(times.mean()))
    return laws


def _count(found: dict[tuple, Call], key: tuple) -> float | None:
    """Return the launches of a compiled call, the copies of a replayed one; None where one of the two is missing."""
    own, compiled = found.get(key), found.get((*key[:3], COMPILED))
    if own is None or compiled is None:
        return None
    return own.launches if own is compiled else own.launches - compiled.launches


def predict(document: dict, laws: dict[str, Law], workloads: frozenset[str]) -> Iterator[Prediction]:
    """Yield all that the law predicts of a study; workloads: those that the fitted study has."""
    found, study = calls(document), document["study"]
    waited = {_key(row): row["estimate"] for row in document["summary"] if row["metric"] == "latency"}
    for row in document["speedups"]:
        key, eager = _key(row), (*_key(row)[:3], EAGER)
        asked = row["baseline"] == EAGER and row["metric"] in PREDICTED and row["mode"] in laws
        count = _count(found, key) if asked and row["speedup"] is not None and eager in found else None
        if count is None:
            continue
        own, before, law = found[key], found[eager], laws[row["mode"]]
        launches = 1 if row["mode"] == REPLAYED else own.launches
        predicted, by_constant = (
            _predict_speedup(before, Call(host, own.kernels, launches), row["metric"], waited[eager])
            for host in (law.host(count), law.constant)
        )
        decided = row["verdict"] in ("faster", "slower")
        yield Prediction(
            study["machine"], *key, row["metric"], own.host, law.host(count), predicted, by_constant,
            before.kernels / own.kernels, row["speedup"], row["ci_low"], row["ci_high"], row["verdict"],
            (predicted > 1) == (row["verdict"] == "faster") if decided else None, _is_missed(row, predicted),
            workload_name(row["op"], study["ops"][row["op"]]) in workloads, topic(study) == OPS,
        )  # fmt: skip


def _predict_speedup(before: Call, after: Call, metric: str, waited: float) -> float:
    """Return the speedup of `after` over `before`, eager's call; waited: its measured latency in µs."""
    if metric == "throughput":
        return before.throughput / after.throughput
    return waited / (waited + after.latency - before.latency)


def _is_missed(row: dict, predicted: float) -> bool | None:
    """Say whether the interval of a speedup excludes a prediction by more than δ; None where there is no interval."""
    if row["ci_low"] is None:
        return None
    return not row["ci_low"] / (1 + row["delta"]) <= predicted <= row["ci_high"] * (1 + row["delta"])


def accuracy(rows: list[Prediction], by: str = "predicted") -> dict:
    """Return how well these predictions fit: {rows, decided, right, share, error, tested, missed, host}.

    by: the column that predicts. share: how much of the decided verdicts is right, None where none is decided; error:
    the median of how far predicted and measured speedup are apart, as a share; tested: how many have an interval,
    missed: how many of these the law misses; host: the median error of its host times.
    """
    frame = pd.DataFrame(rows)
    decided = frame[frame["right"].notna()]
    right = int(decided[by].gt(1).eq(decided["verdict"].eq("faster")).sum())
    error, host = (
        float(np.expm1(np.median(np.abs(np.log(frame[predicted] / frame[measured])))))
        for predicted, measured in ((by, "measured"), ("host_predicted", "host"))
    )
    share = right / len(decided) if len(decided) else None
    counts = {"rows": len(frame), "decided": len(decided), "right": right, "share": share, "error": error}
    return {
        **counts,
        "tested": int(frame["missed"].notna().sum()),
        "missed": int(frame["missed"].eq(True).sum()),
        "host": host,
    }


def apply(studies: Studies, laws: dict[str, Law] | None = None) -> None:
    """Give the studies the laws, fitted to theirs of the ops unless given, all predictions, and a table `law` each.

    The table has what `accuracy` returns for each mode and metric; that of the study of the ops, which is fitted, is
    empty.
    """
    if laws is None:
        laws = fit(studies.of(OPS)) if OPS in studies else {}
    fitted = studies.of(OPS)["study"]["ops"] if OPS in studies else {}
    workloads = frozenset(workload_name(op, entry) for op, entry in fitted.items())
    studies.laws, studies.predictions = laws, []
    for document in studies.documents:
        own = list(predict(document, laws, workloads))
        studies.predictions += own
        document["law"] = [
            {"mode": mode, "metric": metric, **accuracy(rows)}
            for mode in MODES
            for metric in PREDICTED
            if (rows := [row for row in own if (row.mode, row.metric) == (mode, metric) and not row.fitted])
        ]
