"""The law of a compiled call: its time from how many kernels it launches and how long the device computes.

A compiled call keeps the host for  H = call + each · L,  with L the kernels that it launches. A call that replays a
CUDA graph keeps the host for  H = call + each · C,  with C the kernels that it launches beyond those of the compiled
function: they copy the inputs. Both pairs of constants are least-squares lines through the host times of the study of
the ops. Nothing else is fitted.

Host and device work side by side. Of calls back to back each takes

    throughput = max(H, D)

with D the device's time of a call. A call that is waited for alone ends when both are through with the last kernel. For
kernels that are alike that is

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

EAGER = "eager"
# The metrics that the law predicts.
PREDICTED = ("latency", "throughput")
# Each mode that it is about, and the two constants of its host time.
COMPILED, REPLAYED = "compile", "compile-reduce-overhead"
MODES = (COMPILED, REPLAYED)


@dataclass(frozen=True)
class Call:
    """What the law needs of a call: the host's and the device's time in µs, and how many kernels it launches."""

    host: float
    device: float
    launches: float

    @property
    def latency(self) -> float:
        """After how many µs host and device are through with the last kernel of a call that is waited for."""
        return max(self.host + self.device / self.launches, self.host / self.launches + self.device)

    @property
    def throughput(self) -> float:
        """How many µs each of many calls back to back takes."""
        return max(self.host, self.device)


@dataclass(frozen=True)
class Law:
    """The host's time of a call in µs: `call`, and as much more for each launch (or copy of an input)."""

    call: float
    each: float

    def host(self, count: float) -> float:
        """Return the host's time in µs for so many launches (or copies)."""
        return self.call + self.each * count


class Prediction(NamedTuple):
    """One speedup over eager as predicted and as measured.

    host, host_predicted: µs; by_device: the ratio of the device times alone; right: whether the predicted side of 1 is
    the measured verdict, None where that is not decided; fitted: whether the constants come from this study.
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
    by_device: float
    measured: float
    ci_low: float | None
    ci_high: float | None
    verdict: str
    right: bool | None
    fitted: bool


def calls(document: dict) -> dict[tuple, Call]:
    """Return by (op, dtype, size, mode) what the law needs of a study's calls, where all of it was measured.

    The device's time is that of the device timer, or by the profiler where a call launches more than a delay can hide.
    """
    times, uncovered = {}, set()
    for row in document["summary"]:
        times[*_key(row), row["metric"]] = row["estimate"]
        if any(note["code"] == "Uncovered" for note in row["notes"]):
            uncovered.add(_key(row))
    found = {}
    for row in document["compilation"]:
        key = _key(row)
        device = row.get("busy") if key in uncovered else times.get((*key, "device"))
        host, launches = times.get((*key, "host")), row.get("launched")
        if host and device and launches:
            found[key] = Call(host, device, launches)
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
            laws[mode] = Law(float(call), float(each))
    return laws


def _count(found: dict[tuple, Call], key: tuple) -> float | None:
    """Return the launches of a compiled call, the copies of a replayed one; None where one of the two is missing."""
    own, compiled = found.get(key), found.get((*key[:3], COMPILED))
    if own is None or compiled is None:
        return None
    return own.launches if own is compiled else own.launches - compiled.launches


def predict(document: dict, laws: dict[str, Law]) -> Iterator[Prediction]:
    """Yield all that the law predicts of a study."""
    found, study = calls(document), document["study"]
    waited = {_key(row): row["estimate"] for row in document["summary"] if row["metric"] == "latency"}
    for row in document["speedups"]:
        key, eager = _key(row), (*_key(row)[:3], EAGER)
        asked = row["baseline"] == EAGER and row["metric"] in PREDICTED and row["mode"] in laws
        count = _count(found, key) if asked and row["speedup"] is not None and eager in found else None
        if count is None:
            continue
        own, before = found[key], found[eager]
        host = laws[row["mode"]].host(count)
        call = Call(host, own.device, 1 if row["mode"] == REPLAYED else own.launches)
        if row["metric"] == "throughput":
            predicted = before.throughput / call.throughput
        else:
            predicted = waited[eager] / (waited[eager] + call.latency - before.latency)
        decided = row["verdict"] in ("faster", "slower")
        yield Prediction(
            study["machine"], *key, row["metric"], own.host, host, predicted, before.device / own.device,
            row["speedup"], row["ci_low"], row["ci_high"], row["verdict"],
            (predicted > 1) == (row["verdict"] == "faster") if decided else None, topic(study) == OPS,
        )  # fmt: skip


def accuracy(rows: list[Prediction]) -> dict:
    """Return how well these predictions fit: {rows, decided, right, share, alone, error, host}.

    share: how much of the decided verdicts is right, None where none is decided; alone: how many would be right by
    device time alone; error: the median of how far predicted and measured speedup are apart, as a share; host: the same
    of the host times.
    """
    frame = pd.DataFrame(rows)
    decided = frame[frame["right"].notna()]
    right, alone = decided["right"].sum(), decided["by_device"].gt(1).eq(decided["verdict"].eq("faster")).sum()
    error, host = (
        np.expm1(np.median(np.abs(np.log(frame[predicted] / frame[measured]))))
        for predicted, measured in (("predicted", "measured"), ("host_predicted", "host"))
    )
    share = right / len(decided) if len(decided) else None
    counts = {"rows": len(frame), "decided": len(decided), "right": int(right), "alone": int(alone)}
    return {**counts, "share": share, "error": float(error), "host": float(host)}


def apply(studies: Studies, laws: dict[str, Law] | None = None) -> None:
    """Give the studies the laws, fitted to theirs of the ops unless given, all predictions, and a table `law` each.

    The table has what `accuracy` returns for each mode and metric.
    """
    if laws is None:
        laws = fit(studies.of(OPS)) if OPS in studies else {}
    studies.laws, studies.predictions = laws, []
    for document in studies.documents:
        own = list(predict(document, laws))
        studies.predictions += own
        document["law"] = [
            {"mode": mode, "metric": metric, **accuracy(rows)}
            for mode in MODES
            for metric in PREDICTED
            if (rows := [row for row in own if (row.mode, row.metric) == (mode, metric)])
        ]
