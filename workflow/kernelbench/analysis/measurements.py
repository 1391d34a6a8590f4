"""Measurements: what a study measured, as one table of log values by cell, mode, metric and repeat."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from kernelbench import notes
from kernelbench.analysis.boots import find_boots
from kernelbench.notes import Note
from kernelbench.records import job_table
from kernelbench.records.job_table import FLOOR
from kernelbench.study.cells import ARM, CELL, cells_of, modes_of
from kernelbench.study.metrics import FLOOR_FACTOR, KERNELS, LESS_FLOOR, MEASURED

# The metrics that every study of a GPU, and of a CPU, has, even if no job got so far.
ALWAYS = {True: {"device", "latency", "first_call", "peak_memory"}, False: {"latency", "first_call"}}
# From the best to the worst: the worst of a mode's repeats stands.
STATUSES = ["ok", "unsupported", "timeout", "oom", "crashed", "incorrect"]
# The flag of a sample of device time or of a graph whose delay ended before the host had done its work.
UNCOVERED = "uncovered"
WORK = ["work.flops", "work.bytes", "work.bound"]


class Measurements:
    """The measurements of one directory: samples.parquet, jobs.parquet, study.yaml and environment.json.

    An arm is an (op, dtype, size, mode). `logs` has a row for each (arm, metric) and a column for each repeat: the log
    of the median of the repeat's samples, NaN without samples, -inf for a median of 0. `status` has for each arm the
    worst status of its repeats and a note that says why. `boots` has the boot of each repeat, as `find_boots` says.
    """

    def __init__(self, directory: Path):
        self.study = yaml.safe_load((directory / "study.yaml").read_text(encoding="utf-8"))
        self.environment = json.loads((directory / "environment.json").read_text(encoding="utf-8"))
        self.jobs = job_table.read(directory / "jobs.parquet")
        # Where no job came as far as its inputs there is no work, and nothing to divide by a time.
        self.jobs = self.jobs.reindex(columns=self.jobs.columns.union(WORK, sort=False))
        samples = pd.read_parquet(directory / "samples.parquet")
        on_gpu = bool(self.environment["gpu"])
        self.device_metric = "device" if on_gpu else "latency"
        samples = samples[samples.timer.isin(MEASURED)].rename(columns={"timer": "metric"})
        self.samples, self.uncovered = _drop_uncovered(samples)
        medians = self.samples.groupby([*ARM, "metric", "repeat"], observed=True)["value"].median()
        medians.index = pd.MultiIndex.from_frame(medians.index.to_frame().astype(dict.fromkeys([*ARM, "metric"], str)))
        medians = pd.concat([medians, _add_kernels(self.jobs)])
        there = {*medians.index.unique("metric"), *ALWAYS[on_gpu]}
        self.metrics = [metric for metric in MEASURED if metric in there]
        with np.errstate(divide="ignore"):
            self.logs = np.log(medians.clip(lower=0)).unstack("repeat").sort_index()
        self.boots = find_boots(self.jobs)
        self.arms = [(*vars(c).values(), mode) for c in cells_of(self.study) for mode in modes_of(self.study, c)]
        self.work = self.jobs.dropna(subset=["work.flops"]).groupby(CELL)[WORK].first()
        self.by_arm = self.jobs.groupby(ARM)
        self.status = {arm: _find_status(own) for arm, own in self.by_arm}
        self.compared = {arm: _is_compared(own) for arm, own in self.by_arm}
        self.floors = self.by_arm[FLOOR].max() if FLOOR in self.jobs else pd.Series(dtype=float)
        # A lookup in a table of pandas takes half a millisecond.
        self._values = {
            key: row.dropna()
            for key, row in self.logs.iterrows()
            if self.status[key[:4]][0] != "incorrect" and not np.isneginf(row.to_numpy()).any()
        }

    def status_of(self, arm: tuple, metric: str) -> tuple[str, Note | None]:
        """Return (status, reason) of one metric of an arm."""
        status, reason = self.status[arm]
        if status == "ok" and (*arm, metric) not in self.logs.index:
            return "unsupported", self._explain_missing(arm, metric)
        if status == "ok" and (*arm, metric) not in self._values:
            return "unsupported", notes.ZeroValue()
        return status, reason

    def _explain_missing(self, arm: tuple, metric: str) -> Note:
        """Return why an arm that ran has no value of a metric."""
        if (*arm, metric) in self.uncovered:
            return notes.Uncovered(self.uncovered[*arm, metric])
        own = self.by_arm.get_group(arm)
        if metric == "graph" and "graph.reason" in own and own["graph.reason"].notna().any():
            return own["graph.reason"].dropna().iloc[0]
        if metric == KERNELS and own.get("profile.checked", own.status.eq("")).eq(False).any():
            return notes.ProfileIncomplete()
        return notes.OffStream()

    def find_near_floor(self, arm: tuple, metric: str) -> Note | None:
        """Return a note where a device time is so short that what the pair of events takes by itself decides it."""
        values = self.values(arm, metric) if metric == "device" else None
        floor = np.nan if values is None else self.floors.get(arm, np.nan)
        if values is None or not np.exp(values.mean()) < FLOOR_FACTOR * floor:
            return None
        return notes.NearFloor(float(f"{floor:.6g}"), FLOOR_FACTOR)

    def delta(self, metric: str) -> float:
        """Return the margin of equivalence of a metric."""
        margins = self.study["equivalence"]
        return margins.get("device" if metric in (LESS_FLOOR, KERNELS) else metric, margins["default"])

    def values(self, arm: tuple, metric: str) -> pd.Series | None:
        """Return the log value by repeat of an arm, None where there is nothing to estimate."""
        return self._values.get((*arm, metric))

    def pairs(self, arm: tuple, baseline: str, metric: str) -> pd.Series | None:
        """Return the log speedup by repeat of an arm over a baseline, None where no repeat has both."""
        own, other = self.values(arm, metric), self.values((*arm[:3], baseline), metric)
        pairs = None if own is None or other is None else (other - own).dropna()
        return None if pairs is None or pairs.empty else pairs

    def find_logs_less_floor(self) -> pd.DataFrame:
        """Return the logs of device times less the empty pair of events of the same job, NaN if the job lacks it."""
        floors = self.jobs.reindex(columns=[*ARM, "repeat", FLOOR]).set_index([*ARM, "repeat"])[FLOOR].unstack("repeat")
        device = self.logs[self.logs.index.get_level_values("metric") == "device"].droplevel("metric")
        left = np.exp(device) - floors.reindex(index=device.index, columns=device.columns)
        return np.log(left.where(left > 0)).assign(metric=LESS_FLOOR).set_index("metric", append=True)


def _drop_uncovered(samples: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """Return the samples without those that hold the host's time, and by (arm, metric) the share that these were.

    The delay in front of them ended before the host had done its work. A repeat counts where it covered most samples.
    """
    marked = samples["flag"].eq(UNCOVERED)
    if not marked.any():
        return samples, pd.Series(dtype=float)
    key = [*ARM, "metric"]
    of = samples.loc[samples.metric.isin(samples.loc[marked, "metric"].unique()), [*key, "repeat"]].assign(share=marked)
    mostly = of.groupby([*key, "repeat"], observed=True)["share"].transform("mean") > 0.5
    shares = of.groupby(key, observed=True)["share"].mean()
    kept = samples[~marked & ~mostly.reindex(samples.index, fill_value=False)]
    return kept, shares[shares > 0]


def _add_kernels(jobs: pd.DataFrame) -> pd.Series:
    """Return what the kernels of a call took together, in µs by (arm, metric, repeat), where a profile adds up."""
    profiled = jobs.reindex(columns=[*ARM, "repeat", "status", "profile.checked", "profile.kernels"])
    profiled = profiled[profiled["profile.checked"].eq(True) & profiled.status.eq("ok")]
    took = profiled["profile.kernels"].map(lambda text: sum(kernel["time"] for kernel in json.loads(text)))
    index = pd.MultiIndex.from_frame(profiled[[*ARM, "repeat"]].assign(metric=KERNELS)[[*ARM, "metric", "repeat"]])
    return pd.Series(took.to_numpy(dtype=float), index=index, name="value")


def _is_compared(jobs: pd.DataFrame) -> bool | None:
    """Say whether the outputs of an arm's jobs were compared with eager's; None where none ran to its end.

    Jobs from before there was another outcome were all compared.
    """
    ran = jobs[jobs.status.isin(("ok", "incorrect"))]
    return None if ran.empty else bool(ran.get("accuracy.compared", pd.Series(True, ran.index)).ne(False).all())


def _find_status(jobs: pd.DataFrame) -> tuple[str, Note | None]:
    """Return the worst status of an arm's jobs, and why."""
    worst = max(jobs.status, key=STATUSES.index)
    hit = jobs[jobs.status.eq(worst) & (jobs.reason.notna() | (worst != "ok"))]
    if hit.empty:
        return worst, None
    reason = hit.reason.iloc[0]
    return worst, reason if len(hit) == len(jobs) else notes.SomeRepeats(len(hit), len(jobs), reason)
