"""Coverage and power over hosts: what intervals over repeats and over boots promise of a host that was not measured.

Each draw makes a study: speedups of TESTS pairs in so many boots, of REPEATS_OF_A_BOOT repeats each. Half of the pairs
have no effect, the others one of EFFECT. A boot shifts a pair by a normal value, and each repeat does so once more; the
ratio of the two standard deviations is what the scenarios vary. Some pairs are noisier than others, in both. A verdict
is a t test after Holm's correction, as in the tables.

Three designs are compared: over repeats; over boots, each with the mean of its repeats; and over boots with moderated
variances (Smyth 2004, https://doi.org/10.2202/1544-6115.1027): the pairs of a family lend each other degrees of
freedom.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from kernelbench.analysis import intervals

DRAWS = 400
TESTS = 100
# Of the speedups with an effect: 10 % on logs where a repeat deviates by 3 %.
EFFECT, REPEAT = np.log(1.1), 0.03
# How far pairs differ in noise: the standard deviation of the logarithm of theirs, in the recorded studies 0.5 to 1.4.
UNLIKE = 0.9
REPEATS_OF_A_BOOT = 2
BOOTS = (5, 6, 8, 10)
# The standard deviation between boots over that between repeats of a boot. With GPUs for boots, the ops study has 0.3
# by device time and none by latency; a host of another kind shifts short calls by far more.
RATIOS = (0.0, 0.3, 1.0, 2.0)


@dataclass(frozen=True)
class Estimate:
    """Of each pair (tests,): mean, standard error, and the degrees of freedom of its t."""

    mean: np.ndarray
    error: np.ndarray
    freedom: np.ndarray


def over_repeats(values: np.ndarray) -> Estimate:
    """Take each repeat of (tests, boots, repeats) for a unit."""
    return _estimate(values.reshape(len(values), -1))


def over_boots(values: np.ndarray) -> Estimate:
    """Take the mean of each boot of (tests, boots, repeats) for a unit."""
    return _estimate(values.mean(axis=2))


def over_boots_moderated(values: np.ndarray) -> Estimate:
    """Do so with the variances shrunk towards what is typical of the family, by empirical Bayes (Smyth 2004)."""
    own = _estimate(values.mean(axis=2))
    n, freedom = values.shape[1], own.freedom[0]
    variances = own.error**2 * n
    logs = np.log(variances) - special.digamma(freedom / 2) + np.log(freedom / 2)
    spread = logs.var(ddof=1) - special.polygamma(1, freedom / 2)
    if spread <= 0:  # No more than chance alone: the pairs share one variance.
        pooled = np.full_like(variances, variances.mean())
        return Estimate(own.mean, np.sqrt(pooled / n), np.full_like(variances, freedom * len(variances)))
    prior = 2 * _invert_trigamma(spread)
    typical = np.exp(logs.mean() + special.digamma(prior / 2) - np.log(prior / 2))
    shrunk = (prior * typical + freedom * variances) / (prior + freedom)
    return Estimate(own.mean, np.sqrt(shrunk / n), np.full_like(variances, prior + freedom))


# (tests, boots, repeats) of log speedups to the estimate of each pair.
Design = Callable[[np.ndarray], Estimate]
DESIGNS: dict[str, Design] = {
    "over repeats": over_repeats,
    "over boots": over_boots,
    "over boots, moderated": over_boots_moderated,
}


def _estimate(units: np.ndarray) -> Estimate:
    n = units.shape[1]
    return Estimate(units.mean(axis=1), units.std(axis=1, ddof=1) / np.sqrt(n), np.full(len(units), n - 1.0))


def _invert_trigamma(value: float) -> float:
    """Return where the trigamma function has a value, by Newton's method on its reciprocal."""
    x = 0.5 + 1 / value
    for _ in range(50):
        own = special.polygamma(1, x)
        x += own * (1 - own / value) / special.polygamma(2, x)
    return float(x)


def simulate(
    boots: int, ratio: float, design: Callable[[np.ndarray], Estimate], draws: int = DRAWS
) -> dict[str, float]:
    """Return {covered, power, false}, each a share of `draws` studies or of their pairs.

    covered: intervals that hold the truth; power: effects that get a verdict after Holm; false: studies with a verdict
    on a pair without effect.
    """
    rng = np.random.default_rng([boots, round(10 * ratio)])
    truth = np.where(np.arange(TESTS) < TESTS // 2, 0.0, EFFECT)
    covered, power, false = [], [], []
    for _ in range(draws):
        shape = (TESTS, boots, REPEATS_OF_A_BOOT)
        noise = rng.normal(0, ratio, shape[:2])[..., None] + rng.normal(0, 1, shape)
        scale = REPEAT * np.exp(rng.normal(0, UNLIKE, TESTS))
        found = design(truth[:, None, None] + scale[:, None, None] * noise)
        half = intervals.t_quantile(found.freedom) * found.error
        covered.append(np.mean(np.abs(found.mean - truth) <= half))
        p = 2 * special.stdtr(found.freedom, -np.abs(found.mean) / found.error)
        decided = intervals.holm(p) < intervals.SIGNIFICANCE
        power.append(decided[truth > 0].mean())
        false.append(decided[truth == 0].any())
    return {name: float(np.mean(own)) for name, own in (("covered", covered), ("power", power), ("false", false))}


def tabulate(draws: int = DRAWS) -> list[dict]:
    """Return {ratio, boots, repeats (of all boots), design, covered, power, false} of each scenario and design."""
    return [
        {"ratio": ratio, "boots": boots, "repeats": boots * REPEATS_OF_A_BOOT, "design": name}
        | simulate(boots, ratio, design, draws)
        for ratio in RATIOS
        for boots in BOOTS
        for name, design in DESIGNS.items()
    ]
