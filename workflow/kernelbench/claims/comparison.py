"""Compare a recorded study with a part of it that was measured again: its figures, and the claims about it.

A figure is the speedup of one op, dtype, size and mode over a baseline, by one metric. Both studies have its logarithm
by repeat. They are independent of each other, so that the difference of their means has Welch's interval. A new value
confirms the figure if this interval is within ±δ and contradicts it if the interval is outside; else it stays open.
"""

import numpy as np
import pandas as pd
from rich.table import Table

from kernelbench.analysis import intervals
from kernelbench.analysis.measurements import Measurements
from kernelbench.claims.rules import FAILS, HOLDS, OPEN, Outcome, decide, find_rows
from kernelbench.study.cells import ARM, CELL
from kernelbench.study.metrics import ALL, LESS_FLOOR

KEY = [*ARM, "baseline", "metric"]
NUMBERS = ["n_recorded", "n", "recorded", "measured", "ratio", "ci_low", "ci_high"]
COLUMNS = [*KEY, *NUMBERS, "delta", "outcome", "covers_zero"]
CONFIRMED, CONTRADICTED = "confirmed", "contradicted"
# What follows for a claim from its outcomes on the recorded and on the new values; without both it stays open.
FOLLOWS = {
    (HOLDS, HOLDS): "confirms",
    (FAILS, FAILS): "refutes again",
    (HOLDS, FAILS): "contradicts",
    (FAILS, HOLDS): "contradicts",
}
# Values that do not spread have an interval of no width, which rounding moves off 1 by less than this.
ROUNDING = 1e-9


def compare(recorded: Measurements, again: Measurements) -> pd.DataFrame:
    """Return a row of COLUMNS for each figure that both studies have, from jobs without errors."""
    metrics = [metric for metric in recorded.metrics if metric in again.metrics]
    if "device" in metrics:
        metrics.insert(metrics.index("device") + 1, LESS_FLOOR)
    baselines = again.study["baselines"]
    wanted = [(*arm, baseline, metric) for metric in metrics for baseline in baselines for arm in again.arms]
    figures = pd.DataFrame(wanted, columns=KEY)
    for name, data in (("old", recorded), ("new", again)):
        figures = figures.merge(_pair(data, baselines).rename(name), on=KEY)
    if figures.empty:
        return pd.DataFrame(columns=COLUMNS)
    found = [_summarize(row.old, row.new) for row in figures.itertuples()]
    figures[NUMBERS] = pd.DataFrame(found, columns=NUMBERS, index=figures.index)
    figures["delta"] = figures.metric.map(recorded.delta)
    low, high, most = figures.ci_low, figures.ci_high, 1 + figures.delta
    within, outside = (low >= 1 / most) & (high <= most), (low > most) | (high < 1 / most)
    figures["outcome"] = np.select([within, outside], [CONFIRMED, CONTRADICTED], OPEN)
    figures["covers_zero"] = (low <= 1 + ROUNDING) & (high >= 1 - ROUNDING)
    return figures[COLUMNS]


def _pair(data: Measurements, baselines: list[str]) -> pd.Series:
    """Return the log speedups by repeat, in lists, of each arm over each baseline by metric, where both are ok."""
    logs = pd.concat([data.logs, data.find_logs_less_floor()])
    logs = logs[~np.isneginf(logs).any(axis=1)]  # A time of 0 has no speedup.
    status = pd.Series({arm: status for arm, (status, _) in data.status.items()}, name="status")
    values = logs.stack().dropna().rename("log").reset_index().join(status, on=ARM)
    values = values[values.status == "ok"]
    others = values[values["mode"].isin(baselines)].rename(columns={"mode": "baseline", "log": "other"})
    pairs = values.merge(others, on=[*CELL, "metric", "repeat"])
    pairs = pairs[pairs["mode"] != pairs.baseline]
    return (pairs.other - pairs.log).groupby([pairs[name] for name in KEY]).agg(list)


def _summarize(old: list[float], new: list[float]) -> tuple:
    """Return the NUMBERS of a figure from the log speedups of both studies."""
    speedups = (np.exp(np.mean(logs)) for logs in (old, new))
    return len(old), len(new), *speedups, *intervals.welch(np.array(new), np.array(old))


def judge(claims: list[dict], recorded: dict, again: dict) -> list[tuple[str, Outcome, Outcome, str]]:
    """Return for each claim its sentence, its outcome on the recorded and on the new summary.json, and what follows.

    Rows that were not measured again are missing, and so are means over fewer sizes than the recorded study has.
    """
    sizes = {op: entry["sizes"] for op, entry in recorded["study"]["ops"].items()}
    whole = {op for op, entry in again["study"]["ops"].items() if entry["sizes"] == sizes.get(op)}
    speedups = [row for row in again["speedups"] if row["size"] != ALL or row["op"] in whole]
    measured, judged = {**again, "study": recorded["study"], "speedups": speedups}, []
    for claim in claims:
        rule = claim["rule"]
        old, new = (decide(rule, find_rows(rule, document)) for document in (recorded, measured))
        judged.append((claim["sentence"], old, new, FOLLOWS.get((old.outcome, new.outcome), OPEN)))
    return judged


def report(figures: pd.DataFrame, judged: list[tuple]) -> list[Table | str]:
    """Return what to print: counts by metric, the figures that are contradicted, and the claims."""
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
    lines += [_format_figure(row) for row in figures[figures.outcome == CONTRADICTED].itertuples()]
    return [overview, *lines, *(_format_claim(*claim) for claim in judged)]


def _format_figure(row) -> str:
    return (
        f"contradicted: {row.op} {row.size} {row.dtype} {row.mode} over {row.baseline} by {row.metric}: "
        f"recorded {row.recorded:#.4g}, measured {row.measured:#.4g}, ratio {row.ratio:.3f} "
        f"[{row.ci_low:.3f}, {row.ci_high:.3f}]"
    )


def _format_claim(sentence: str, recorded: Outcome, measured: Outcome, follows: str) -> str:
    rows = f"{measured.rows} of {measured.of} rows"
    return f"{follows}: {sentence} (recorded: {recorded.outcome}; measured: {measured.outcome}, {rows})"
