"""The statistics. The repeat is the unit; times are compared on logarithms, in pairs within a repeat.

Georges, Buytaert and Eeckhout (2007) and Kalibera and Jones (2013) on replicates and intervals; Holm (1979);
Hodges and Lehmann (1963) with the exact signed-rank interval of Hollander, Wolfe and Chicken (2014, section 3.3);
Fieller (1954) on the interval of a ratio of means; Welch (1947) and Satterthwaite (1946) on two studies.
"""

import warnings
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import special

CONFIDENCE = 0.95
# The variance of the median of m normal samples is this times theirs over m.
MEDIAN_VARIANCE = np.pi / 2
SIGNIFICANCE = 0.05
# The smallest n whose exact signed-rank distribution holds a two-sided 95 % interval.
HODGES_LEHMANN_MIN_N = 6
# Fewer values say nothing about groups.
PEAKS_MIN_N = 5
# A repeat is far off that is this many times the median of all, or as many times less.
FAR = 1.2
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


def repeat_value(samples: np.ndarray) -> np.ndarray:
    """Return the value of a repeat: the logarithm of the median of its samples (…, samples), positive, any unit."""
    return np.log(np.median(samples, axis=-1))


def bounds(values: np.ndarray) -> tuple:
    """Return (mean, low, high), mean ± t(n-1) s / √n of values (…, repeats), each of shape (…); NaN where n < 2."""
    n, mean = values.shape[-1], np.mean(values, axis=-1)
    if n < 2:
        return mean, mean * np.nan, mean * np.nan
    half = _t(n) * _error(values, mean)
    return mean, mean - half, mean + half


def _error(values: np.ndarray, mean):
    """Return s / √n, the standard error of the mean."""
    n, off = values.shape[-1], values - np.expand_dims(mean, -1)
    return np.sqrt(np.sum(off * off, axis=-1) / (n - 1) / n)


def interval(logs: np.ndarray) -> Interval:
    """Return the bounds of `logs`, one value per repeat, as factors; NaN bounds and p where n < 2.

    Applied to the paired differences of a baseline and a mode it is the speedup's interval and its paired t test.
    """
    n, (mean, low, high) = len(logs), bounds(logs)
    if n < 2:
        return Interval(n, float(np.exp(mean)), np.nan, np.nan, np.nan)
    error = float(_error(logs, mean))
    # Without spread (memory, say) any difference is sure.
    p = float(2 * special.stdtr(n - 1, -abs(mean) / error)) if error > 0 else float(mean == 0)
    return Interval(n, float(np.exp(mean)), float(np.exp(low)), float(np.exp(high)), p)


def t_quantile(freedom):
    """Return the quantile of Student's t that bounds a confidence interval; freedom: degrees of it, one or an array."""
    return special.stdtrit(freedom, (1 + CONFIDENCE) / 2)


@cache
def _t(n: int) -> float:
    return float(t_quantile(n - 1))


@dataclass(frozen=True)
class Peaks:
    """Repeats that fall into two groups: how many are in the lower and in the upper one, and the ratio between them."""

    lower: int
    upper: int
    ratio: float


def two_peaks(logs: np.ndarray) -> Peaks | None:
    """Return the two groups that the values of repeats fall into, None where they may well be one.

    They are split at the widest gap between neighbours, wherever it lies: a group can be a single repeat. Two groups
    where the gap is a larger multiple of the standard deviation within them than in 99.9 % of as many normal values.
    Fewer than 5 values are never two groups.
    """
    ordered = np.sort(np.asarray(logs, dtype=float))
    n = len(ordered)
    if n < PEAKS_MIN_N or ordered[0] == ordered[-1]:
        return None
    gap, within, lower = (float(found[0]) for found in _widest_gaps(ordered[None]))
    if gap <= _normal_gap(n) * within:
        return None
    lower = int(lower)
    return Peaks(lower, n - lower, float(np.exp(ordered[lower:].mean() - ordered[:lower].mean())))


def far_off(logs: np.ndarray) -> int:
    """Return how many of the values of repeats are more than FAR times their median, or less than it divided by FAR."""
    return int((np.abs(logs - np.median(logs)) > np.log(FAR)).sum())


def _widest_gaps(ordered: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return of each row (draws, n), in rising order: its widest gap, the deviation within what it parts, the split."""
    gaps = np.diff(ordered, axis=1)
    split = gaps.argmax(axis=1) + 1
    is_lower = np.arange(ordered.shape[1]) < split[:, None]
    squares = np.zeros(len(ordered))
    for group in (is_lower, ~is_lower):
        mean = (ordered * group).sum(axis=1) / group.sum(axis=1)
        squares += ((ordered - mean[:, None]) ** 2 * group).sum(axis=1)
    return gaps.max(axis=1), np.sqrt(squares / (ordered.shape[1] - 2)), split


@cache
def _normal_gap(n: int) -> float:
    """Return the 99.9 % quantile of the widest gap over the deviation within, of n normal values: by simulation."""
    gaps, within, _ = _widest_gaps(np.sort(np.random.default_rng(n).normal(size=(100_000, n)), axis=1))
    return float(np.quantile(gaps / within, 0.999))


def one_way(groups: list[np.ndarray]) -> np.ndarray:
    """Return the p of the analysis of variance (one way, Fisher's F) that the means of groups are the same.

    groups: of one shape but for the first axis, along which the means are taken.
    """
    from scipy import stats  # Here and not at the top: it takes half a second, and few studies have several GPUs.

    with warnings.catch_warnings(action="ignore"):  # Of groups without spread, whose p is 0 or NaN.
        return stats.f_oneway(*groups).pvalue


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


@dataclass(frozen=True)
class Payback:
    """After how many calls a cost is paid, with a 95 % interval.

    kind: "after" so many; "never", where each call costs more; "open", where it is not sure that a call saves anything:
    then after `low` calls at the earliest.
    """

    kind: str
    calls: float
    low: float
    high: float


def payback(cost: np.ndarray, saved: np.ndarray) -> Payback:
    """Return mean(cost) / mean(saved) with Fieller's interval; (repeats,) each, in pairs and in the same unit.

    cost: what is paid once, positive; saved: what each call saves. NaN where there is no such number. Raises ValueError
    below two repeats.
    """
    n = len(cost)
    if n < 2:
        raise ValueError(f"payback: {n} repeats; allowed: 2 and more")
    (cc, cs), (_, ss) = _t(n) ** 2 * np.cov(cost, saved) / n
    paid, gain = float(np.mean(cost)), float(np.mean(saved))
    # The ratios r that the data do not refute: a r² - 2 b r + c <= 0.
    a, b, c = gain**2 - ss, paid * gain - cs, paid**2 - cc
    if a > 0 and gain < 0:
        return Payback("never", np.nan, np.nan, np.nan)
    root = np.sqrt(max(b**2 - a * c, 0.0))
    if a > 0:
        return Payback("after", max(paid / gain, 0.0), max(float(b - root) / a, 0.0), max(float(b + root) / a, 0.0))
    return Payback("open", np.nan, float(b - root) / a if a < 0 < c else 0.0, np.nan)


def _signed_rank_pmf(n: int) -> np.ndarray:
    """Return P(T+ = t) for t = 0 … n(n+1)/2 under the null: every subset of the ranks 1 … n is equally likely."""
    counts = np.zeros(n * (n + 1) // 2 + 1)
    counts[0] = 1
    for rank in range(1, n + 1):
        counts[rank:] += counts[:-rank].copy()
    return counts / 2**n


def welch(own: np.ndarray, other: np.ndarray) -> tuple[float, float, float]:
    """Return exp of (difference of the means of two independent samples of logs, bounds of its 95 % interval).

    Welch's t interval, for unequal numbers and variances, with the degrees of freedom of Welch (1947) after
    Satterthwaite (1946). The bounds are NaN where a sample has fewer than two values.
    """
    from scipy import stats

    difference = np.mean(own) - np.mean(other)
    if np.ptp(own) == np.ptp(other) == 0 and min(len(own), len(other)) > 1:  # Memory: any difference is sure.
        low = high = difference
    else:
        low, high = stats.ttest_ind(own, other, equal_var=False).confidence_interval(CONFIDENCE)
    return float(np.exp(difference)), float(np.exp(low)), float(np.exp(high))


def judge(speedup: Interval, p_holm: float, delta: float, equivalence: bool) -> str:
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
