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

import numpy as np

from kernelbench.analysis.studies import CELL, OPS, Studies, topic

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


@dataclass(frozen=True)
class Law:
    """The host's time of a call in µs: `call`, and as much more for each launch (or copy of an input)."""

    call: float
    each: float

    def host(self, count: float) -> float:
        """Return the host's time in µs for so many launches (or copies)."""
        return self.call + self.each * count


@dataclass(frozen=True)
class Prediction:
    """One speedup over eager as predicted and as measured.

    launches: of the mode; host, host_predicted: µs; by_device: the ratio of the device times alone; right: whether the
    predicted side of 1 is the measured verdict, None where that is not decided; fitted: the constants come from here.
    """

    study: str
    op: str
    dtype: str
    size: str
    mode: str
    metric: str
    launches: float
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
    values, uncovered = {}, set()
    for row in document["summary"]:
        key = (*(row[name] for name in CELL), row["mode"])
        if row["metric"] in ("host", "device") and row["estimate"] is not None:
            values[*key, row["metric"]] = row["estimate"]
        if any(note["code"] == "Uncovered" for note in row["notes"]):
            uncovered.add(key)
    found = {}
    for row in document["compilation"]:
        key = (*(row[name] for name in CELL), row["mode"])
        device = row.get("busy") if key in uncovered else values.get((*key, "device"))
        host = values.get((*key, "host"))
        if host and device and row.get("launched"):
            found[key] = Call(host, device, row["launched"])
    return found


def fit(document: dict) -> dict[str, Law]:
    """Return the constants of each mode by a least-squares line through the host times of a study's cells."""
    found = calls(document)
    points = {mode: [] for mode in MODES}
    for key, call in found.items():
        if key[3] in points and (count := _count(found, key)) is not None:
            points[key[3]].append((count, call.host))
    return {mode: Law(*_line(own)) for mode, own in points.items() if len({count for count, _ in own}) > 1}


def predictions(documents: list[dict], laws: dict[str, Law]) -> list[Prediction]:
    """Return all that the law predicts of the studies, in their order."""
    return [row for document in documents for row in _of_study(document, laws)]


def _of_study(document: dict, laws: dict[str, Law]) -> Iterator[Prediction]:
    found, label = calls(document), document["study"]["machine"]
    key = (*CELL, "mode", "metric")
    times = {tuple(row[k] for k in key): row["estimate"] for row in document["summary"]}
    for row in document["speedups"]:
        at = tuple(row[k] for k in (*CELL, "mode"))
        eager = (*at[:3], EAGER)
        known = at in found and eager in found and row["mode"] in laws and row["speedup"] is not None
        if not known or row["baseline"] != EAGER or row["metric"] not in PREDICTED:
            continue
        count = _count(found, at)
        if count is None:
            continue
        host = laws[row["mode"]].host(count)
        call = Call(host, found[at].device, 1 if row["mode"] == REPLAYED else found[at].launches)
        speedup = _speedup(row["metric"], found[eager], call, times[*eager, row["metric"]])
        decided = row["verdict"] in ("faster", "slower")
        yield Prediction(
            label, *at, row["metric"], found[at].launches, found[at].host, host, speedup,
            found[eager].device / call.device, row["speedup"], row["ci_low"], row["ci_high"], row["verdict"],
            (speedup > 1) == (row["verdict"] == "faster") if decided else None,
            topic(document["study"]) == OPS,
        )  # fmt: skip


def _speedup(metric: str, eager: Call, call: Call, measured: float) -> float:
    if metric == "throughput":
        return max(eager.host, eager.device) / max(call.host, call.device)
    return measured / (measured + latency(call) - latency(eager))


def latency(call: Call) -> float:
    """Return in µs when host and device are through with the last kernel of a call."""
    return max(call.host + call.device / call.launches, call.host / call.launches + call.device)


def _count(found: dict[tuple, Call], key: tuple) -> float | None:
    """Return the launches of a compiled call, the copies of a replayed one; None without the compiled one beside it."""
    if key[3] == COMPILED:
        return found[key].launches
    compiled = found.get((*key[:3], COMPILED))
    return None if compiled is None else found[key].launches - compiled.launches


def _line(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Return (intercept, slope) of the least-squares line through (x, y)."""
    slope, intercept = np.polyfit(*np.array(points).T, 1)
    return float(intercept), float(slope)


def accuracy(rows: list[Prediction]) -> dict:
    """Return how well these predictions fit: {rows, decided, right, error, host, worst}.

    error: the median of how far predicted and measured speedup are apart, as a share; host: the same of the host times;
    worst: the Prediction that is farthest off.
    """
    apart = [abs(np.log(row.predicted / row.measured)) for row in rows]
    host = [abs(np.log(row.host_predicted / row.host)) for row in rows]
    judged = [row.right for row in rows if row.right is not None]
    return {
        "rows": len(rows),
        "decided": len(judged),
        "right": sum(judged),
        "error": float(np.expm1(np.median(apart))),
        "host": float(np.expm1(np.median(host))),
        "worst": rows[int(np.argmax(apart))],
    }


def apply(studies: Studies, laws: dict[str, Law] | None = None) -> None:
    """Give the studies the laws, fitted to theirs of the ops unless given, all predictions, and a table `law` each.

    The table has a row for each mode and metric: what `accuracy` returns, and `share`, how much of the decided verdicts
    is right, None where none is decided.
    """
    if laws is None:
        laws = fit(studies.of(OPS)) if OPS in studies else {}
    studies.laws, studies.predictions = laws, predictions(studies.documents, laws)
    for document in studies.documents:
        own = [row for row in studies.predictions if row.study == document["study"]["machine"]]
        document["law"] = [_row(rows) for mode in MODES for metric in PREDICTED if (rows := select(own, mode, metric))]


def select(rows: list[Prediction], mode: str, metric: str) -> list[Prediction]:
    """Return the predictions of a mode by a metric."""
    return [row for row in rows if (row.mode, row.metric) == (mode, metric)]


def _row(rows: list[Prediction]) -> dict:
    found = accuracy(rows)
    share = found["right"] / found["decided"] if found["decided"] else None
    return {"mode": rows[0].mode, "metric": rows[0].metric, **found, "share": share}
