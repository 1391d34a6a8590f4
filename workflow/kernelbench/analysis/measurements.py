"""Measurements: what a study measured, as one table of log values by cell, mode, metric and repeat."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from kernelbench import notes
from kernelbench.notes import Note
from kernelbench.records import job_table
from kernelbench.records.job_table import FLOOR
from kernelbench.study.cells import ARM, CELL, cells_of, modes_of
from kernelbench.study.metrics import LESS_FLOOR, MEASURED

# The metrics that every study of a GPU, and of a CPU, has, even if no job got so far.
ALWAYS = {True: {"device", "latency", "first_call", "peak_memory"}, False: {"latency", "first_call"}}
# From the best to the worst: the worst of a mode's repeats stands.
STATUSES = ["ok", "unsupported", "timeout", "oom", "crashed", "incorrect"]
WORK = ["work.flops", "work.bytes", "work.bound"]


class Measurements:
    """The measurements of one directory: samples.parquet, jobs.parquet, study.yaml and environment.json.

    An arm is an (op, dtype, size, mode). `logs` has a row for each (arm, metric) and a column for each repeat: the log
    of the median of the repeat's samples, NaN without samples, -inf for a median of 0. `status` has for each arm the
    worst status of its repeats and a note that says why.
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
        there = {*samples.timer.unique(), *ALWAYS[on_gpu]}
        self.metrics = [metric for metric in MEASURED if metric in there]
        self.samples = samples[samples.timer.isin(MEASURED)].rename(columns={"timer": "metric"})
        medians = self.samples.groupby([*ARM, "metric", "repeat"], observed=True)["value"].median()
        medians.index = pd.MultiIndex.from_frame(medians.index.to_frame().astype(dict.fromkeys([*ARM, "metric"], str)))
        with np.errstate(divide="ignore"):
            self.logs = np.log(medians.clip(lower=0)).unstack("repeat").sort_index()
        self.arms = [(*vars(c).values(), mode) for c in cells_of(self.study) for mode in modes_of(self.study, c)]
        self.work = self.jobs.dropna(subset=["work.flops"]).groupby(CELL)[WORK].first()
        self.by_arm = self.jobs.groupby(ARM)
        self.status = {arm: _find_status(own) for arm, own in self.by_arm}
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
            graph = self.by_arm.get_group(arm).get("graph.reason") if metric == "graph" else None
            first = None if graph is None else next(iter(graph.dropna()), None)
            return "unsupported", first or notes.OffStream()
        if status == "ok" and (*arm, metric) not in self._values:
            return "unsupported", notes.ZeroValue()
        return status, reason

    def delta(self, metric: str) -> float:
        """Return the margin of equivalence of a metric."""
        margins = self.study["equivalence"]
        return margins.get("device" if metric == LESS_FLOOR else metric, margins["default"])

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


def _find_status(jobs: pd.DataFrame) -> tuple[str, Note | None]:
    """Return the worst status of an arm's jobs, and why."""
    worst = max(jobs.status, key=STATUSES.index)
    hit = jobs[jobs.status.eq(worst) & (jobs.reason.notna() | (worst != "ok"))]
    if hit.empty:
        return worst, None
    reason = hit.reason.iloc[0]
    return worst, reason if len(hit) == len(jobs) else notes.SomeRepeats(len(hit), len(jobs), reason)
