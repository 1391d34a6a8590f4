"""Causes: why a mode is faster or slower than its baseline, as far as timers and kernels can tell.

| cause | where |
| --- | --- |
| `graph input copy` | the device's time differs, most by the copies that a CUDA graph makes of its inputs |
| `kernel` | it differs, and the kernels by name or number, copies aside |
| `clocks` | neither kernels nor the host explain it, and the slower arm had the lower SM clock |
| `autotune` | it differs with the same kernels, and so do repeats of other generated code |
| `host` | a call waits for the host: its time differs that way, and by more than the device's or by all of it |
| `compilation` | of the first call: a mode that compiles |
| `graph capture` | of the first call: eager's calls are captured into a CUDA graph |
| `graph pool` | of the memory: that of a CUDA graph is kept |

The device's part of a difference is that of the kernels' own time, where a profile has it. A runtime off PyTorch's
stream has no timer of the host: what its kernels do not take is put down to the host. Else a difference is
`unexplained`. A study without the timer `host` has no causes.
"""

import json
import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pandas as pd

from kernelbench.analysis import intervals
from kernelbench.analysis.measurements import Measurements
from kernelbench.analysis.speedups import KEY
from kernelbench.analysis.verdicts import DECIDED
from kernelbench.records.job_table import find_slowed
from kernelbench.study.cells import ARM
from kernelbench.study.metrics import ALL, CLOCKS, KERNELS, UNEXPLAINED

# A part explains a difference that has its sign where it is at least this share of it.
EXPLAINS = 0.5
# With codes drawn anew in each repeat, some are always faster than others: so seldom is that called theirs.
CHANCE = 0.05
# Kernels of PyTorch and of the driver that copy: CUTLASS and Inductor have the word in the names of others.
COPY = re.compile(r"^memcpy|^void at::native::.*copy", re.IGNORECASE)
# The timers of many calls back to back, which have clocks of their own; the others time single calls.
MANY = ("throughput", "graph")


@dataclass(frozen=True)
class Cause:
    """A cause, and what says so."""

    cause: str
    evidence: str


def explain(data: Measurements, table: pd.DataFrame) -> list[dict]:
    """Fill the column `cause` of the table of speedups; return what says so: the row's names, cause and evidence."""
    found, finder = [], Causes(data, table)
    for row in table[table["size"] != ALL].itertuples():
        cause = finder.find((row.op, row.dtype, row.size), row.mode, row.baseline, row.metric)
        if cause:
            table.loc[row.Index, "cause"] = cause.cause
            found.append({name: getattr(row, name) for name in KEY} | vars(cause))
    # A mean over sizes differs for the causes of the sizes that differ in the same way, the most frequent one first.
    means = ["op", "dtype", "mode", "baseline", "metric", "verdict"]
    by_mean = table[table.cause != ""].groupby(means).cause.agg(_join)
    decided = table[(table["size"] == ALL) & table.verdict.isin(DECIDED)] if found else table[:0]
    for row in decided.itertuples():
        table.loc[row.Index, "cause"] = by_mean.get(tuple(getattr(row, name) for name in means), UNEXPLAINED)
    return found


def _join(causes: pd.Series) -> str:
    counts = Counter(causes)
    return " and ".join(sorted(counts, key=lambda cause: (-counts[cause], cause)))


class Causes:
    """Finds causes in the measurements of a study and its table of speedups with verdicts."""

    def __init__(self, data: Measurements, table: pd.DataFrame):
        self.data = data
        self.verdicts = table.set_index(KEY).verdict.to_dict()
        self.jobs = dict(list(data.by_arm))
        profiled = data.jobs.reindex(columns=[*ARM, "profile.checked", "profile.kernels"])
        self.kernels = profiled[profiled["profile.checked"].eq(True)].groupby(ARM)["profile.kernels"].first().to_dict()

    def find(self, cell: tuple, mode: str, baseline: str, metric: str) -> Cause | None:
        """Return the cause of a difference at cell (op, dtype, size), None where there is none to explain."""
        if "host" not in self.data.metrics or self.verdicts[*cell, mode, baseline, metric] not in DECIDED:
            return None
        arms = (*cell, baseline), (*cell, mode)
        if metric == "first_call":
            return self._explain_first_call(*arms)
        if metric == "peak_memory":
            return self._explain_memory(*arms)
        if metric == "host":
            return Cause("host", f"the call returns after {self._times(*arms, metric)}")
        if metric in ("device", KERNELS, "graph"):
            return self._explain_device(*arms, metric)
        return self._explain_wait(*arms, metric)

    def _explain_wait(self, baseline: tuple, mode: tuple, metric: str) -> Cause:
        """Return the cause of a difference in a time that has a part of the host and one of the device."""
        if any(self.data.values(arm, "host") is None for arm in (baseline, mode)):
            return self._explain_profiled(baseline, mode, metric)
        whole = self._find_difference(baseline, mode, metric)
        on_device = self._pick_device_metric(baseline, mode)
        parts = {
            name: self._find_difference(baseline, mode, part) if self._is_decided(baseline, mode, part) else 0.0
            for name, part in (("host", "host"), ("device", on_device))
        }
        # Calls back to back wait for the slower of host and device.
        if metric == "throughput":
            bound = [self._time(arm, "host") >= self._time(arm, on_device) for arm in (baseline, mode)]
            if not bound[whole > 0]:
                parts["host"] = 0.0
            if all(bound):
                parts["device"] = 0.0
        # The two overlap, so that each may differ by more than the call does: then it is put down to the host.
        shares = {name: min(part / whole, 1) for name, part in parts.items()}
        part = max(shares, key=lambda name: shares[name])
        if shares[part] < EXPLAINS:
            times = f"{metric} {self._times(baseline, mode, metric)}"
            return self._explain_clocks(baseline, mode, metric, times) or Cause(UNEXPLAINED, times)
        if part == "host":
            return Cause("host", f"the call returns after {self._times(baseline, mode, 'host')}")
        return self._explain_device(baseline, mode, on_device)

    def _explain_profiled(self, baseline: tuple, mode: tuple, metric: str) -> Cause:
        """Return the cause where an arm is a runtime off PyTorch's stream: only the profiler tells its parts."""
        kernels = self._list_kernels(baseline, mode)
        times = f"{metric} {self._times(baseline, mode, metric)}"
        if kernels is None:
            return Cause(UNEXPLAINED, f"{times}; not profiled")
        took = [_add_times(listed) for listed in kernels]
        difference = self._find_difference(baseline, mode, metric)
        slower = int(difference > 0)
        # Calls back to back wait for kernels only where these take most of their time.
        waits = metric != "throughput" or took[slower] >= EXPLAINS * self._time((baseline, mode)[slower], metric)
        if not waits or (took[1] - took[0]) / difference < EXPLAINS:
            return Cause("host", f"{times}, of which kernels take {_format(took[0])} and {_format(took[1])} µs")
        return Cause("kernel", f"{times}; {_name_kernels(kernels[0])} and {_name_kernels(kernels[1])}")

    def _explain_device(self, baseline: tuple, mode: tuple, metric: str) -> Cause:
        """Return the cause of a difference in the device's time."""
        kernels = self._list_kernels(baseline, mode)
        times = f"{metric} {self._times(baseline, mode, metric)}"
        if kernels is None:
            return Cause(UNEXPLAINED, f"{times}; not profiled")
        others = [self._drop_copies(arm, listed) for arm, listed in zip((baseline, mode), kernels, strict=True)]
        counts = [{k["name"]: k["count"] for k in listed} for listed in others]
        copies = [_add_times(whole) - _add_times(computing) for whole, computing in zip(kernels, others, strict=True)]
        # What the same kernels take more or less of is no difference between kernels.
        took = [_add_times(listed) if counts[0] != counts[1] else 0 for listed in others]
        sign = np.sign(self._find_difference(baseline, mode, metric))
        copied, computed = ((part[1] - part[0]) * sign for part in (copies, took))
        listed = f"{_name_kernels(kernels[0])} and {_name_kernels(kernels[1])}"
        if copied > max(computed, 0):
            beside = f"; {listed}" if computed > 0 else ""
            return Cause(
                "graph input copy", f"{times}; copies {_format(copies[0])} and {_format(copies[1])} µs{beside}"
            )
        if counts[0] != counts[1]:
            return Cause("kernel", f"{times}; {listed}")
        if clocks := self._explain_clocks(baseline, mode, metric, times):
            return clocks
        if any(self._is_tuned_apart(arm, metric) for arm in (baseline, mode)):
            return Cause("autotune", f"{times}; repeats with other generated code differ")
        return Cause(UNEXPLAINED, f"{times}; the same kernels: {_name_kernels(kernels[0])}")

    def _explain_first_call(self, baseline: tuple, mode: tuple) -> Cause:
        entries = self.data.study["modes"]
        times = f"first call {self._times(baseline, mode, 'first_call', 's')}"
        runners = {entries[arm[-1]]["runner"] for arm in (baseline, mode)} - {"eager"}
        if runners == {"cuda_graph"}:
            return Cause("graph capture", times)
        if runners:
            return Cause("compilation", times)
        return Cause(UNEXPLAINED, times)

    def _explain_memory(self, baseline: tuple, mode: tuple) -> Cause:
        pools = [self._pools(arm) for arm in (baseline, mode)]
        kernels = self._list_kernels(baseline, mode)
        if pools[0] != pools[1]:
            return Cause("graph pool", f"graphs keep {pools[0]:.3g} and {pools[1]:.3g} MiB")
        if kernels and kernels[0] != kernels[1]:
            return Cause("kernel", f"{_name_kernels(kernels[0])} and {_name_kernels(kernels[1])}")
        return Cause(UNEXPLAINED, "the same kernels and no graphs")

    def _pick_device_metric(self, baseline: tuple, mode: tuple) -> str:
        """Return what tells how long the device computes: the kernels' own time, or the timer's without a profile."""
        return "device" if any(self.data.values(arm, KERNELS) is None for arm in (baseline, mode)) else KERNELS

    def _is_decided(self, baseline: tuple, mode: tuple, metric: str) -> bool:
        """Say whether a difference is shown; of kernels' time, which one profile may give, whether it is beyond δ."""
        if metric == KERNELS:
            ratio = np.log(self._time(mode, metric) / self._time(baseline, metric))
            return abs(ratio) > np.log1p(self.data.delta(metric))
        return self.verdicts.get((*mode, baseline[-1], metric)) in DECIDED

    def _time(self, arm: tuple, metric: str) -> float:
        values = self.data.values(arm, metric)
        return np.nan if values is None else float(np.exp(values.mean()))

    def _find_difference(self, baseline: tuple, mode: tuple, metric: str) -> float:
        """Return how much longer the mode takes, in the metric's unit."""
        return self._time(mode, metric) - self._time(baseline, metric)

    def _times(self, baseline: tuple, mode: tuple, metric: str, unit: str = "µs") -> str:
        return f"{_format(self._time(baseline, metric))} and {_format(self._time(mode, metric))} {unit}"

    def _list_kernels(self, *arms: tuple) -> list[list[dict]] | None:
        """Return the kernels that one call of each arm launches, None where one was not profiled or did not add up."""
        return [json.loads(self.kernels[arm]) for arm in arms] if self.kernels.keys() >= set(arms) else None

    def _explain_clocks(self, baseline: tuple, mode: tuple, metric: str, times: str) -> Cause | None:
        """Return the cause of a difference whose slower arm had the lower clock, None where it had not."""
        slower = mode if self._find_difference(baseline, mode, metric) > 0 else baseline
        timers = metric if metric in MANY else "single"
        if not find_slowed(self.data.jobs, self.data.delta("device"), timers)[slower]:
            return None
        return Cause(CLOCKS, f"{times}; the SM clock was lower in {slower[-1]}")

    def _drop_copies(self, arm: tuple, listed: list[dict]) -> list[dict]:
        """Return the kernels without the copies of a CUDA graph; eager copies, too, by kernels like any other."""
        return [k for k in listed if not (COPY.search(k["name"]) and self._pools(arm) > 0)]

    def _pools(self, arm: tuple) -> float:
        """Return the MiB that the CUDA graphs of an arm keep."""
        return float(self.jobs[arm]["memory.graph_pools"].median()) / 2**20

    def _is_tuned_apart(self, arm: tuple, metric: str) -> bool:
        """Say whether repeats of an arm with other generated code have other times: beyond δ, and by an F test."""
        codes = self.jobs[arm].set_index("repeat").generated_code
        times = self.data.values(arm, metric)
        grouped = () if times is None else times.groupby(codes.reindex(times.index))
        groups = [own.to_numpy() for _, own in grouped if len(own) > 1]
        if len(groups) < 2 or np.ptp([own.mean() for own in groups]) <= np.log1p(self.data.delta(metric)):
            return False
        return bool(intervals.one_way(groups) < CHANCE)


def _add_times(kernels: list[dict]) -> float:
    return sum(kernel["time"] for kernel in kernels)


def _name_kernels(kernels: list[dict], most: int = 3) -> str:
    """Return kernels in words, those that take longest first: their names without templates, count and time."""
    names: Counter[str] = Counter()
    for kernel in sorted(kernels, key=lambda k: -k["time"])[:most]:
        count = f"{kernel['count']:g} × " if kernel["count"] != 1 else ""
        names[f"{count}{_shorten(kernel['name'])} {_format(kernel['time'])} µs"] += 1
    more = len(kernels) - most
    return " + ".join(names) + (f" + {more} more" if more > 0 else "")


def _format(number: float) -> str:
    """Return a number in three digits, and in all of those before the point."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def _shorten(name: str) -> str:
    """Return a kernel's name without namespaces, template arguments and parameters."""
    bare = re.sub(r"\(anonymous namespace\)::", "", name)
    while (shorter := re.sub(r"<[^<>]*>|\([^()]*\)", "", bare)) != bare:
        bare = shorter
    return bare.rpartition("::")[2].removeprefix("void ").strip()
