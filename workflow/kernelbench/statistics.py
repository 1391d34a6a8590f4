"""The statistics. The repeat is the unit; times are compared on logarithms, in pairs within a repeat.

Georges, Buytaert and Eeckhout (2007) and Kalibera and Jones (2013) on replicates and intervals; Holm (1979);
Hodges and Lehmann (1963) with the exact signed-rank interval of Hollander, Wolfe and Chicken (2014, section 3.3).
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
SIGNIFICANCE = 0.05
# The smallest n whose exact signed-rank distribution holds a two-sided 95 % interval.
HODGES_LEHMANN_MIN_N = 6
# Fewer repeats cannot support a claim of equivalence.
EQUIVALENT_MIN_N = 5


@dataclass(frozen=True)
class Interval:
    """A geometric mean with its 95 % interval, and the two-sided p of the logarithms' mean being 0."""

    n: int
    estimate: float
    low: float
    high: float
    p: float


def repeat_value(samples: np.ndarray) -> float:
    """Return the value of a repeat: the logarithm of the median of its samples (positive, any unit)."""
    return float(np.log(np.median(samples)))


def interval(logs: np.ndarray) -> Interval:
    """Return exp(mean ± t(n-1) s / √n) of `logs`, one value per repeat; NaN bounds and p where n < 2.

    Applied to the paired differences of a baseline and a mode it is the speedup's interval and its paired t test.
    """
    n, mean = len(logs), float(np.mean(logs))
    if n < 2:
        return Interval(n, float(np.exp(mean)), np.nan, np.nan, np.nan)
    error = float(np.std(logs, ddof=1)) / np.sqrt(n)
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * error
    # Without spread (memory, say) any difference is sure.
    p = float(2 * stats.t.sf(abs(mean) / error, n - 1)) if error > 0 else float(mean == 0)
    return Interval(n, float(np.exp(mean)), float(np.exp(mean - half)), float(np.exp(mean + half)), p)


def holm(p: np.ndarray) -> np.ndarray:
    """Return Holm's adjusted p for one family of tests; NaN stays NaN and is not counted."""
    p = np.asarray(p, dtype=float)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    adjusted = np.full(len(p), np.nan)
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(p[order] * factors))
    return adjusted


def hodges_lehmann(logs: np.ndarray) -> tuple[float, float, float]:
    """Return exp of (median of the Walsh averages of `logs`, bounds of the exact 95 % interval).

    The bounds are NaN below n = 6, where no exact two-sided 95 % interval exists.
    """
    n = len(logs)
    rows, columns = np.triu_indices(n)
    walsh = np.sort((logs[rows] + logs[columns]) / 2)
    estimate = float(np.exp(np.median(walsh)))
    if n < HODGES_LEHMANN_MIN_N:
        return estimate, np.nan, np.nan
    # The largest c with P(T+ < c) <= 2.5 %: the c-th smallest and c-th largest Walsh average bound the interval.
    c = int(np.searchsorted(np.cumsum(_signed_rank_pmf(n)), (1 - CONFIDENCE) / 2, side="right"))
    return estimate, float(np.exp(walsh[c - 1])), float(np.exp(walsh[-c]))


def _signed_rank_pmf(n: int) -> np.ndarray:
    """Return P(T+ = t) for t = 0 … n(n+1)/2 under the null: every subset of the ranks 1 … n is equally likely."""
    counts = np.zeros(n * (n + 1) // 2 + 1)
    counts[0] = 1
    for rank in range(1, n + 1):
        counts[rank:] += counts[:-rank].copy()
    return counts / 2**n


def verdict(speedup: Interval, p_holm: float, delta: float, equivalence: bool) -> str:
    """Return equivalent, faster, slower or inconclusive.

    equivalent: the interval lies inside ±delta (relative, symmetric on logs), from n = 5, where `equivalence` says
    that the A/A arm supports it. Else faster or slower by `p_holm`. Else inconclusive.
    """
    bound = np.log1p(delta)
    inside = -bound <= np.log(speedup.low) and np.log(speedup.high) <= bound
    if equivalence and speedup.n >= EQUIVALENT_MIN_N and inside:
        return "equivalent"
    if p_holm < SIGNIFICANCE:
        return "faster" if speedup.estimate > 1 else "slower"
    return "inconclusive"
