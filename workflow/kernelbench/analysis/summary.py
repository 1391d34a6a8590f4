"""Summarize: from raw samples to summary.csv, speedups.csv and summary.json.

Reads samples.parquet, jobs.parquet, study.yaml and environment.json of a directory and nothing else; the same
samples always give the same tables.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from kernelbench import notes
from kernelbench.analysis import compilation, gpu_effect, intervals
from kernelbench.analysis.causes import DECIDED, Causes
from kernelbench.analysis.early_repeats import first_repeats
from kernelbench.analysis.intervals import Interval
from kernelbench.analysis.load_traces import traces
from kernelbench.analysis.targets import NOTHING, judged
from kernelbench.notes import Note
from kernelbench.records import job_table
from kernelbench.records.job_table import FLOOR
from kernelbench.study.cells import CONTROL, TWIN, cells_of, diagnosed, modes_of
from kernelbench.study.config import LIMIT
from kernelbench.study.metrics import ALL, DERIVED, FLOOR_FACTOR, LESS_FLOOR, MEASURED, UNEXPLAINED

# Those that every study has, of a GPU or of a CPU, even if no job of it came so far.
ALWAYS = {True: {"device", "latency", "first_call", "peak_memory"}, False: {"latency", "first_call"}}
SUMMARY = "machine op dtype size mode metric unit n estimate ci_low ci_high status notes"
SPEEDUPS = (
    "machine op dtype size mode baseline metric n speedup ci_low ci_high p p_holm verdict cause status notes "
    "hl hl_low hl_high delta"
)
PAYBACK = "op dtype size mode metric n cost saved kind calls low high"
SPREAD = "op dtype size mode metric n samples within between drawn"
# The times of a call of which it is said when what they save has paid for the compilation.
PAID_BY = ("device", "latency", "throughput")
# From the best to the worst: the worst of a mode's repeats stands.
STATUSES = ["ok", "unsupported", "timeout", "oom", "crashed", "incorrect"]
# What the median absolute deviation of normal values is multiplied by to be their standard deviation.
NORMAL_MAD = 1.4826
WORK = ["work.flops", "work.bytes", "work.bound"]


class Data:
    """The measurements of one directory: log medians by (cell, mode), metric and repeat, and each mode's status."""

    def __init__(self, directory: Path):
        self.study = yaml.safe_load((directory / "study.yaml").read_text(encoding="utf-8"))
        self.environment = json.loads((directory / "environment.json").read_text(encoding="utf-8"))
        self.jobs = job_table.read(directory / "jobs.parquet")
        samples = pd.read_parquet(directory / "samples.parquet")
        self.device_metric = "device" if self.environment["gpu"] else "latency"
        there = {*samples.timer.unique(), *ALWAYS[bool(self.environment["gpu"])]}
        self.metrics = [m for m in MEASURED if m in there]
        key = ["op", "dtype", "size", "mode", "timer"]
        samples = samples[samples.timer.isin(MEASURED)]
        # intervals.repeat_value of each repeat; pandas' own median takes no call of Python for each.
        medians = samples.groupby([*key, "repeat"], observed=True)["value"].median()
        logs = np.log(medians.where(medians > 0))
        self.within = self._within(samples, [*key, "repeat"])
        self.uncovered = _uncovered(samples[samples.timer == "device"], key)
        self.logs = {k: g.droplevel(key) for k, g in logs.groupby(level=key, observed=True)}
        cells = cells_of(self.study)
        self.rows = [(c.op, c.dtype, c.size, mode) for c in cells for mode in modes_of(self.study, c)]
        # Where no job came as far as its inputs there is no work, and nothing to divide by a time.
        self.jobs = self.jobs.reindex(columns=self.jobs.columns.union(WORK, sort=False))
        self.work = self.jobs.dropna(subset=["work.flops"]).groupby(["op", "dtype", "size"]).first()
        by_mode = self.jobs.groupby(["op", "dtype", "size", "mode"])
        self.status = {row: self._status(group) for row, group in by_mode}
        self.workers = _workers(by_mode)
        self.floors = by_mode["floors.empty_kernel"].median() if "floors.empty_kernel" in self.jobs else {}
        # What many tables ask for, as it is made: which logs are all finite, and log speedups.
        self.finite = {}
        self.pairs = {}
        self.no_graph = by_mode["graph.reason"].first().to_dict() if "graph" in self.metrics else {}

    def _within(self, samples: pd.DataFrame, key: list[str]) -> pd.DataFrame:
        """Return by `key` the spread of a repeat's samples on logs (a robust standard deviation) and their number."""
        logs = samples[key].assign(log=np.log(samples["value"].where(samples["value"] > 0)))
        middle = logs.groupby(key, observed=True)["log"].transform("median")
        away = logs.assign(log=(logs["log"] - middle).abs()).groupby(key, observed=True)["log"]
        return pd.DataFrame({"within": away.median() * NORMAL_MAD, "samples": away.size()})

    def _status(self, group: pd.DataFrame) -> tuple[str, Note | None]:
        """Return (worst status, reason) of one (cell, mode)."""
        worst = max(group.status, key=STATUSES.index)
        if worst == "ok":
            return worst, None
        hit = group[group.status == worst]
        reason = hit.reason.iloc[0]
        return worst, reason if len(hit) == len(group) else notes.SomeRepeats(len(hit), len(group), reason)

    def status_of(self, row: tuple, metric: str) -> tuple[str, Note | None]:
        """Return (status, reason) of one metric of a (op, dtype, size, mode)."""
        status, reason = self.status[row]
        if status == "ok" and (*row, metric) not in self.logs:
            return "unsupported", (self.no_graph.get(row) if metric == "graph" else None) or notes.OffStream()
        if status == "ok" and self.values(row, metric) is None:
            return "unsupported", notes.ZeroValue()
        return status, reason

    def delta(self, metric: str) -> float:
        """Return the margin of equivalence of a metric."""
        margins = self.study["equivalence"]
        return margins.get("device" if metric == LESS_FLOOR else metric, margins["default"])

    def take_floor_off(self) -> bool:
        """Add LESS_FLOOR, device times less the empty pair of events of the same job; say whether the jobs tell it."""
        if FLOOR not in self.jobs:
            return False
        floors = self.jobs.set_index(["op", "dtype", "size", "mode", "repeat"])[FLOOR].sort_index()
        for (*arm, metric), logs in list(self.logs.items()):
            if metric == "device":
                left = np.exp(logs) - floors.loc[tuple(arm)]
                self.logs[*arm, LESS_FLOOR] = np.log(left.where(left > 0))
        return True

    def values(self, row: tuple, metric: str) -> pd.Series | None:
        """Return the log value by repeat of a (op, dtype, size, mode), None where there is nothing to estimate."""
        key = (*row, metric)
        if key not in self.logs or self.status[row][0] == "incorrect":
            return None
        if key not in self.finite:
            self.finite[key] = np.isfinite(self.logs[key]).all()
        return self.logs[key] if self.finite[key] else None

    def pairs_of(self, row: tuple, baseline: str, metric: str) -> pd.Series | None:
        """Return log speedups by repeat, where both arms of the pair are there."""
        key = (*row, baseline, metric)
        if key not in self.pairs:
            own, other = self.values(row, metric), self.values((*row[:3], baseline), metric)
            pairs = None if own is None or other is None else (other - own).dropna()
            self.pairs[key] = None if pairs is None or pairs.empty else pairs
        return self.pairs[key]


def _workers(by_mode) -> dict[tuple, float]:
    """Return by (op, dtype, size, mode), of those that compile, in how many processes."""
    if "compile.graphs" not in by_mode.obj:
        return {}
    graphs = by_mode["compile.graphs"].first().dropna()
    known = by_mode["compile.workers"].first() if "compile.workers" in by_mode.obj else graphs.map(lambda _: None)
    return known.reindex(graphs.index).fillna(1).to_dict()  # Older records do not say: it was one.


def _uncovered(samples: pd.DataFrame, key: list[str]) -> dict[tuple, float]:
    """Return by `key` the share of the samples in which the delay did not hide the host's work."""
    return samples["flag"].eq("uncovered").groupby([samples[name] for name in key], observed=True).mean().to_dict()


def summarize(directory: Path) -> tuple[pd.DataFrame, pd.DataFrame, dict]:
    """Return (summary, speedups, summary.json's content) of the measurements in `directory`."""
    data = Data(directory)
    ceilings = _ceilings(data)
    machine = data.study["machine"]
    summary = pd.DataFrame(_summary_rows(data, ceilings), columns=SUMMARY.split()[1:])
    speedups, controls = _speedups(data)
    reasons = _reasons(data, speedups)
    summary.insert(0, "machine", machine)
    speedups.insert(0, "machine", machine)
    document = {
        "study": data.study,
        "environment": data.environment,
        "ceilings": ceilings,
        "control": controls,
        "arms": _plain(pd.DataFrame(_arm_means(data))),
        "by_gpu": gpu_effect.about(data, speedups),
        "first_repeats": first_repeats(data, speedups),
        "peaks": _peaks(data, speedups),
        "causes": reasons,
        "spread": _plain(_spread(data)),
        "payback": _plain(_paybacks(data, speedups)),
        "traces": traces(data.jobs),
        "jobs": job_table.about(data.jobs),
        "packages": job_table.packages(data.jobs),
        "compilation": compilation.about(data.jobs, data.rows, data.study["baselines"][0]),
        "targets": _plain(pd.DataFrame(_targets(data, ceilings))),
        "summary": _plain(summary),
        "speedups": _plain(speedups),
    }
    return summary, speedups, document


def _spread(data: Data) -> pd.DataFrame:
    """Return by (op, dtype, size, mode, metric) the spread of times on logs, as standard deviations.

    n: repeats; samples: in a repeat; within: of a repeat's samples; between: of the repeats' medians; drawn: as much of
    that as the medians of so many samples would have by themselves.
    """
    key = ["op", "dtype", "size", "mode", "timer"]
    within = data.within.groupby(key, observed=True).median()
    rows = [
        [*row, metric, len(values), samples, inner, values.std(), np.sqrt(intervals.MEDIAN_VARIANCE / samples) * inner]
        for row in data.rows
        for metric in data.metrics
        if (values := data.values(row, metric)) is not None and metric not in ("first_call", "peak_memory")
        for inner, samples in [within.loc[(*row, metric)]]
    ]
    return pd.DataFrame(rows, columns=SPREAD.split())


def _paybacks(data: Data, table: pd.DataFrame) -> pd.DataFrame:
    """Return after how many calls each mode that compiles has paid for its longer first call, over the first baseline.

    cost: how much longer that is, in s; saved: what a call takes less, in µs; kind, calls, low, high: of Payback, but
    open where the verdict in the table of speedups, which is corrected for the number of cells, does not agree.
    """
    baseline, found = data.study["baselines"][0], []
    verdicts = table.set_index(["op", "dtype", "size", "mode", "baseline", "metric"]).verdict.to_dict()
    for row in data.rows:
        *cell, mode = row
        entry = data.study["modes"][mode]
        if mode == baseline or entry["runner"] != "compile" or not _comparable(data, row, baseline):
            continue
        for metric in (metric for metric in PAID_BY if metric in data.metrics):
            arms = [data.values((*cell, arm), name) for name in ("first_call", metric) for arm in (mode, baseline)]
            if any(arm is None for arm in arms):
                continue
            times = np.exp(pd.concat(arms, axis=1).dropna().to_numpy())
            if len(times) > 1:
                cost, saved = times[:, 0] - times[:, 1], times[:, 3] - times[:, 2]
                paid = intervals.payback(cost * 1e6, saved)
                if verdicts[*row, baseline, metric] != {"after": "faster", "never": "slower"}.get(paid.kind):
                    paid = replace(paid, kind="open", calls=np.nan, high=np.nan)
                found.append([*row, metric, len(times), cost.mean(), saved.mean(), *vars(paid).values()])
    return pd.DataFrame(found, columns=PAYBACK.split())


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write `table` with six significant digits: more than any interval here supports, equal on any machine.

    A column of notes becomes `reason`, their text.
    """
    if "notes" in table:
        table = table.assign(notes=table.notes.map(notes.say)).rename(columns={"notes": "reason"})
    table.to_csv(path, index=False, float_format="%.6g", lineterminator="\n")


def _plain(table: pd.DataFrame) -> list[dict]:
    """Return rows as JSON can hold them: floats to six digits, None for a missing one, notes as `notes.dump` has them.

    `reason` is the text of the notes for people, as in the CSV; no code reads it.
    """
    rows = table.astype(object).where(table.notna(), None).to_dict("records")
    rows = [row | {"reason": notes.say(row["notes"])} if "notes" in row else row for row in rows]
    return [{k: _digits(v) if isinstance(v, float) else notes.dump(v) for k, v in row.items()} for row in rows]


def _digits(value: float) -> float:
    """Return a number with six significant digits: with more, processors would write different bytes."""
    return float(f"{value:.6g}")


def _ceilings(data: Data) -> dict:
    """Return the machine's best rates as {dtype: {"memory" | "compute": {rate, op, size, mode}}}.

    rate: bytes/µs of eager's copy, FLOP/µs of the fastest matrix product.
    """
    ceilings = {}
    for row in data.rows:
        op, dtype, size, mode = row
        values = data.values(row, data.device_metric)
        if values is None:
            continue
        workload = data.study["ops"][op].get("workload", op)
        work = data.work.loc[(op, dtype, size)]
        if workload == "copy" and mode == "eager":
            bound, amount = "memory", work["work.bytes"]
        elif workload in ("matmul", "scaled_matmul"):
            bound, amount = "compute", work["work.flops"]
        else:
            continue
        rate = float(np.exp(np.log(amount) - values.mean()))
        best = ceilings.setdefault(dtype, {}).get(bound)
        if best is None or rate > best["rate"]:
            ceilings[dtype][bound] = {"rate": rate, "op": op, "size": size, "mode": mode}
    return ceilings


def _summary_rows(data: Data, ceilings: dict):
    for row in data.rows:
        for metric in data.metrics:
            status, reason = data.status_of(row, metric)
            values = data.values(row, metric)
            row_notes = [reason or _floor_note(data, row, metric) or _uncovered_note(data, row, metric)]
            row_notes.append(None if values is None else _peaks_note(values))
            yield _summary_row(row, metric, MEASURED[metric], values, status, row_notes)
        values = data.values(row, data.device_metric)
        if values is None:
            continue
        for metric, rates in _rates(data, row, values, ceilings).items():
            status, reason = data.status_of(row, data.device_metric)
            yield _summary_row(row, metric, DERIVED[metric], rates, status, [reason])


def _summary_row(row, metric, unit, values, status, row_notes: list[Note | None]) -> list:
    kept = [note for note in row_notes if note]
    if values is None:
        return [*row, metric, unit, 0, np.nan, np.nan, np.nan, status, kept]
    found = intervals.interval(values.to_numpy())
    return [*row, metric, unit, found.n, found.estimate, found.low, found.high, status, kept]


def _rates(data: Data, row: tuple, values: pd.Series, ceilings: dict) -> dict[str, pd.Series]:
    """Return the log rates by repeat: work or necessary bytes per time, and the share of the machine's ceiling."""
    op, dtype, size, _ = row
    work = data.work.loc[(op, dtype, size)]
    rates = {"gbps": np.log(work["work.bytes"] / 1e3) - values}
    if work["work.flops"]:
        rates["tflops"] = np.log(work["work.flops"] / 1e6) - values
    bound = work["work.bound"]
    ceiling = ceilings.get(dtype, {}).get(bound)
    if ceiling:
        top = data.values((ceiling["op"], dtype, ceiling["size"], ceiling["mode"]), data.device_metric)
        amount = "work.bytes" if bound == "memory" else "work.flops"
        full = data.work.loc[(ceiling["op"], dtype, ceiling["size"]), amount]
        share = np.log(work[amount] / full) - values + top
        rates["roofline"] = share.dropna()
    return rates


def _floor_note(data: Data, row: tuple, metric: str) -> Note | None:
    """Return a note where a device time is so short that the timer's own floor shows in it."""
    if metric != "device" or data.values(row, metric) is None:
        return None
    floor = data.floors[row]
    below = np.exp(data.values(row, metric).mean()) < FLOOR_FACTOR * floor
    return notes.NearFloor(_digits(floor), FLOOR_FACTOR) if below else None


def _uncovered_note(data: Data, row: tuple, metric: str) -> Note | None:
    """Return a note where the host's work shows in a device time: no delay hides more launches than the queue holds."""
    share = data.uncovered.get((*row, metric), 0)
    return notes.Uncovered(_digits(share)) if share >= 0.5 else None


def _peaks_note(logs: pd.Series) -> Note | None:
    """Return a note where the repeats fall into two groups: no interval is honest about those."""
    found = intervals.two_peaks(logs.to_numpy())
    return notes.TwoPeaks(found.lower, found.upper, _digits(100 * (found.ratio - 1))) if found else None


def _pairs_note(pairs: pd.Series) -> Note | None:
    """Return a note where the pairs fall into two groups or some are far off, as times may be by their block alone."""
    far = intervals.far_off(pairs.to_numpy())
    return _peaks_note(pairs) or (notes.FarOff(far, len(pairs), intervals.FAR) if far else None)


def _targets(data: Data, ceilings: dict) -> list[dict]:
    """Return what the study's targets are and what is reached of them; a row that did not run reaches nothing."""

    def ran(row: tuple, metric: str) -> pd.Series | None:
        """NOTHING of a row that failed, None of one that cannot run or is no row."""
        if row not in data.status or data.status_of(row, metric)[0] == "unsupported":
            return None
        values = data.values(row, metric)
        return NOTHING if values is None else values

    def ratios(row: tuple, of: str) -> pd.Series | None:
        own = ran(row, data.device_metric)
        if of == LIMIT:
            return own if own is None or own is NOTHING else _rates(data, row, own, ceilings).get("roofline")
        pairs = data.pairs_of(row, of, data.device_metric) if (*row[:3], of) in data.status else None
        return NOTHING if own is NOTHING and ran((*row[:3], of), data.device_metric) is not None else pairs

    def calls(row: tuple, of: str) -> pd.Series | None:
        own, other = ran(row, "host"), ran((*row[:3], of), "host")
        if own is None or other is None:
            return None
        if other is NOTHING:
            return None
        return NOTHING if own is NOTHING else (np.exp(own) - np.exp(other)).dropna()

    return judged(data.study, {"ratios": ratios, "calls": calls})


def _all_sizes(data: Data, op: str, dtype: str, sizes: list[str], mode: str, baseline: str, metric: str):
    """Return (mean log speedup over these sizes by repeat or None, those of them that are missing)."""
    found = {s: data.pairs_of((op, dtype, s, mode), baseline, metric) for s in sizes}
    status = {s: {data.status_of((op, dtype, s, m), metric)[0] for m in (mode, baseline)} for s in sizes}
    missing = [s for s in sizes if found[s] is None or status[s] != {"ok"}]
    if missing:
        return None, missing
    return pd.concat(list(found.values()), axis=1).dropna().mean(axis=1), []


def _speedups(data: Data) -> tuple[pd.DataFrame, dict]:
    """Return the table of speedups with verdicts, and the A/A arm's figures by metric."""
    rows = []
    others = filter(None, (diagnosed(data.study, mode) for mode in data.study["modes"]))
    for baseline in dict.fromkeys([*data.study["baselines"], *others]):
        for metric in data.metrics:
            rows += [_speedup_row(data, row, baseline, metric) for row in data.rows if _comparable(data, row, baseline)]
            rows += _all_rows(data, baseline, metric)
    table = pd.DataFrame(rows, columns=SPEEDUPS.split()[1:])
    controls = _controls(table, data)
    table["p_holm"] = np.nan
    # One family for each (baseline, metric); A/A, diagnostic arms and means over sizes are families of their own.
    diagnostic = table["mode"].map(lambda mode: diagnosed(data.study, mode) is not None)
    families = ["baseline", "metric", table["mode"] == CONTROL, table["size"] == ALL, diagnostic]
    for _, family in table.groupby(families):
        table.loc[family.index, "p_holm"] = intervals.holm(family.p.to_numpy())
    table["verdict"] = [_verdict(row, controls) for row in table.itertuples()]
    return table, controls


def _arm_means(data: Data) -> Iterator[dict]:
    """Yield by diagnostic arm and metric the mean over its cells of its speedup over what it diagnoses, if all ran."""
    for mode in data.study["modes"]:
        other, rows = diagnosed(data.study, mode), [row for row in data.rows if row[3] == mode]
        for metric in data.metrics if other else ():
            pairs = [data.pairs_of(row, other, metric) for row in rows]
            if len(pairs) > 1 and all(own is not None for own in pairs):
                logs = pd.concat(pairs, axis=1).dropna().mean(axis=1)
                found = intervals.interval(logs.to_numpy())
                own = {"n": found.n, "speedup": found.estimate, "ci_low": found.low, "ci_high": found.high}
                yield {"mode": mode, "baseline": other, "metric": metric, "cells": len(pairs), **own}


def _peaks(data: Data, table: pd.DataFrame) -> list[dict]:
    """Return the speedups whose pairs fall into two groups or are far off, with the speedup of each repeat."""
    found = []
    for row in table[(table["size"] != ALL) & (table.n > 0)].itertuples():
        key = (row.op, row.dtype, row.size, row.mode)
        pairs = data.pairs_of(key, row.baseline, row.metric)
        if _pairs_note(pairs):
            names = ("op", "dtype", "size", "mode", "baseline", "metric")
            points = [_digits(speedup) for speedup in np.exp(pairs)]
            found.append({**{name: getattr(row, name) for name in names}, "points": points})
    return found


def _reasons(data: Data, table: pd.DataFrame) -> list[dict]:
    """Fill the column `cause` of the speedups, and return what says so: the row's names, cause and evidence."""
    found, named, causes = [], {}, Causes(data, table)
    for row in table[table["size"] != ALL].itertuples():
        cause = causes.of((row.op, row.dtype, row.size), row.mode, row.baseline, row.metric)
        if cause:
            named[row.Index] = cause.cause
            names = ("op", "dtype", "size", "mode", "baseline", "metric")
            found.append({**{name: getattr(row, name) for name in names}, **vars(cause)})
    table.loc[list(named), "cause"] = list(named.values())
    # A mean over sizes differs for the causes of the sizes that differ in the same way, the most frequent one first.
    means = ["op", "dtype", "mode", "baseline", "metric", "verdict"]
    by_mean = table[table.cause != ""].groupby(means).cause.agg(_joined)
    decided = table[(table["size"] == ALL) & table.verdict.isin(DECIDED)] if found else table[:0]
    for row in decided.itertuples():
        table.loc[row.Index, "cause"] = by_mean.get(tuple(getattr(row, name) for name in means), UNEXPLAINED)
    return found


def _joined(causes: pd.Series) -> str:
    counts = Counter(causes)
    return " and ".join(sorted(counts, key=lambda cause: (-counts[cause], cause)))


def _comparable(data: Data, row: tuple, baseline: str) -> bool:
    """Say whether a mode at a cell has a speedup over `baseline`; a diagnostic arm only over what it diagnoses."""
    *cell, mode = row
    allowed = [diagnosed(data.study, mode)] if diagnosed(data.study, mode) else data.study["baselines"]
    return mode != baseline and baseline in allowed and (*cell, baseline) in data.status


def _speedup_row(data: Data, row: tuple, baseline: str, metric: str) -> list:
    status, reason = data.status_of(row, metric)
    other, why = data.status_of((*row[:3], baseline), metric)
    if STATUSES.index(other) > STATUSES.index(status):
        status, reason = other, notes.OfBaseline(baseline, why)
    pairs = data.pairs_of(row, baseline, metric)
    if metric == "first_call" and (unlike := _unlike_workers(data, row, baseline)):
        pairs, status, reason = None, "unsupported", unlike
    return _row(data, row, baseline, metric, pairs, status, [reason])


def _unlike_workers(data: Data, row: tuple, baseline: str) -> Note | None:
    """Return why first calls do not compare, None where they do: both compile, and not in as many processes.

    A diagnostic arm is there to show what that does.
    """
    *cell, mode = row
    own, other = (data.workers.get((*cell, arm)) for arm in (mode, baseline))
    if own == other or None in (own, other) or diagnosed(data.study, mode):
        return None
    return notes.WorkersDiffer(own, baseline, other)


def _all_rows(data: Data, baseline: str, metric: str):
    labels = dict.fromkeys(
        (o, d, m)
        for o, d, s, m in data.rows
        # The few cells of a diagnostic arm are not the sizes of its op.
        if _comparable(data, (o, d, s, m), baseline) and not diagnosed(data.study, m)
    )
    for op, dtype, mode in labels:
        every = list(dict.fromkeys(s for o, d, s, _ in data.rows if (o, d) == (op, dtype)))
        # A mode, or the baseline, may be one that the study has at some sizes alone.
        sizes = [s for s in every if all((op, dtype, s, m) in data.status for m in (mode, baseline))]
        if len(sizes) < 2:
            continue
        pairs, missing = _all_sizes(data, op, dtype, sizes, mode, baseline, metric)
        statuses = [data.status_of((op, dtype, s, m), metric)[0] for s in sizes for m in (mode, baseline)]
        status = max(statuses, key=STATUSES.index)
        row_notes = [notes.SizesNotOk(missing) if missing else None]
        if len(sizes) < len(every):
            row_notes.append(notes.SizesNotMeasured([s for s in every if s not in sizes], len(sizes)))
        yield _row(data, (op, dtype, ALL, mode), baseline, metric, pairs, status, row_notes)


def _row(data, row, baseline, metric, pairs, status, row_notes: list[Note | None]) -> list:
    op, dtype, size, mode = row
    delta = data.delta(metric)
    head = [op, dtype, size, mode, baseline, metric]
    kept = [note for note in row_notes if note]
    if pairs is None:
        nothing = [np.nan] * 3
        return [*head, 0, *nothing, np.nan, np.nan, "", "", status, kept, *nothing, delta]
    logs = pairs.to_numpy()
    found = intervals.interval(logs)
    exact = intervals.hodges_lehmann(logs)
    kept += filter(None, [None if size == ALL else _pairs_note(pairs), _exact_note(found, exact)])
    return [
        *head, found.n, found.estimate, found.low, found.high, found.p, np.nan, "", "", status, kept,
        *exact, delta,
    ]  # fmt: skip


def _exact_note(found: Interval, exact: tuple[float, float, float]) -> Note | None:
    """Return a note where only one of the two intervals, Student's and the exact one, holds a speedup of 1."""
    _, low, high = exact
    if np.isnan(low) or (found.low <= 1 <= found.high) == (low <= 1 <= high):
        return None
    return notes.ExactIntervalDisagrees()


def _controls(table: pd.DataFrame, data: Data) -> dict:
    """Return for each metric the 95th percentile of |speedup - 1| (on logs) of A/A, and whether δ stands the test."""
    controls = {}
    for metric in data.metrics:
        arm = table[(table["mode"] == CONTROL) & (table.baseline == TWIN) & (table.metric == metric)]
        logs = np.abs(np.log(arm[(arm["size"] != ALL) & arm.speedup.notna()].speedup))
        if len(logs):
            p95 = _digits(np.expm1(np.quantile(logs, 0.95)))
            controls[metric] = {"cells": len(logs), "p95": p95, "supports_delta": p95 <= data.delta(metric)}
    return controls


def _verdict(row, controls: dict) -> str:
    if row.status != "ok" or not row.n:
        return ""
    found = Interval(row.n, row.speedup, row.ci_low, row.ci_high, row.p)
    supported = controls.get(row.metric, {}).get("supports_delta", True)
    return intervals.verdict(found, row.p_holm, row.delta, supported)
