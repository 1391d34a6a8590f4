"""Do the intervals hold what they promise? By seeded simulation, with the project's own estimates and its own order."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy import stats

from kernelbench.analysis import intervals
from kernelbench.analysis.coverage import (
    BLOCK,
    DRAWS,
    PEAK,
    REPEATS,
    Effects,
    estimate_paired,
    find_places,
    list_scenarios,
    simulate,
    tabulate,
)
from kernelbench.study.study import Study

CONFIG = yaml.safe_load(
    (Path(__file__).parents[1] / "results" / "recorded" / "h200" / "study.yaml").read_text(encoding="utf-8")
)
HONEST = (0.93, 0.97)


def is_honest(found: float) -> bool:
    return HONEST[0] <= found <= HONEST[1]


@pytest.mark.parametrize("what", ["normal", "blocks", "drift"])
@pytest.mark.parametrize("n", REPEATS)
def test_the_interval_covers_what_it_promises(what, n):
    assert DRAWS >= 10_000
    assert is_honest(simulate(n, list_scenarios(CONFIG)[what](n)))


def pooled(baseline: np.ndarray, mode: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Take every sample for a repeat of its own."""
    return estimate_paired(*(arm.reshape(len(arm), -1, 1) for arm in (baseline, mode)))


def without_pairs(baseline: np.ndarray, mode: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Take the repeats of the two arms for independent of each other (Welch)."""
    values = [np.median(arm, axis=-1) for arm in (baseline, mode)]
    difference = values[0].mean(axis=1) - values[1].mean(axis=1)
    n = values[0].shape[1]
    parts = [arm.var(axis=1, ddof=1) / n for arm in values]
    degrees = (parts[0] + parts[1]) ** 2 / sum(part**2 / (n - 1) for part in parts)
    half = stats.t.ppf(0.975, degrees) * np.sqrt(sum(parts))
    return np.exp(difference - half), np.exp(difference + half)


def bootstrapped(baseline: np.ndarray, mode: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Take the percentiles of resampled repeats."""
    pairs = np.median(baseline, axis=-1) - np.median(mode, axis=-1)
    picks = np.random.default_rng(0).integers(pairs.shape[1], size=(500, pairs.shape[1]))
    means = pairs[:, picks].mean(axis=2)
    return tuple(np.exp(np.quantile(means, [0.025, 0.975], axis=1)))


@pytest.mark.parametrize(
    ("broken", "effects"),
    [
        (pooled, Effects()),
        (pooled, Effects(block=BLOCK)),
        (without_pairs, Effects(block=BLOCK)),
        (bootstrapped, Effects()),
    ],
)
def test_broken_statistics_are_seen(broken, effects):
    assert is_honest(simulate(5, effects, 2000))
    assert not is_honest(simulate(5, effects, 2000, broken))


def test_the_order_of_the_plan_is_what_withstands_drift():
    assert simulate(10, list_scenarios(CONFIG)["drift in order of modes"](10), 2000) < 0.3
    of_plan = find_places(Study({**CONFIG, "repeats": 10}))
    assert np.abs(np.diff(of_plan)).max() < 8 / 1240, "the modes of a cell run next to each other"
    assert np.diff(of_plan[:, 0]).min() > 0, "repeats are blocks in time"


def test_the_order_is_that_of_a_cell_with_two_modes_and_without_one_no_drift_is_simulated():
    copy = {"copy": {"sizes": ["1MiB"], "modes": ["eager"]}}
    modes = {name: CONFIG["modes"][name] for name in ("eager", "compile")}
    config = {**CONFIG, "presets": {}, "recorded": [], "modes": modes, "baselines": ["eager"]}
    both = {**config, "ops": {**copy, "softmax": CONFIG["ops"]["softmax"]}}
    assert find_places(Study({**both, "repeats": 4})).shape == (4, 2)
    alone = {**config, "ops": copy}
    assert find_places(Study(alone)) is None
    assert [name for name in list_scenarios(both) if name not in list_scenarios(alone)] == [
        "drift",
        "drift in order of modes",
    ]


def test_no_interval_is_honest_about_a_rare_second_peak():
    assert simulate(10, Effects(share=0.1), 2000) < 0.9


def test_two_peaks_are_seen_and_one_is_not_taken_for_two():
    rng = np.random.default_rng(1)
    one = rng.normal(0, 0.003, (5000, 10))
    assert np.mean([intervals.two_peaks(logs) is not None for logs in one]) < 0.003
    second = one + PEAK * (np.arange(10) < 3)
    found = [intervals.two_peaks(logs) for logs in second]
    assert np.mean([f is not None and (f.lower, f.upper) == (7, 3) for f in found]) > 0.95
    assert found[0].ratio == pytest.approx(np.exp(PEAK), rel=0.01)


@pytest.mark.parametrize("logs", [[0.0] * 10, [0.0, 0.0, 0.0, 1.0]])
def test_repeats_without_spread_or_too_few_of_them_have_no_peaks(logs):
    assert intervals.two_peaks(np.array(logs)) is None


def test_the_table_has_every_scenario_and_number_of_repeats():
    found = tabulate(CONFIG, draws=20)["coverage"]
    assert set(found) == set(list_scenarios(CONFIG)) and all(
        set(row["held"]) == set(map(str, REPEATS)) for row in found.values()
    )
