"""The statistics against values worked out elsewhere, and against simulation."""

import numpy as np
import pytest
from scipy import stats

from kernelbench.analysis import intervals
from kernelbench.analysis.intervals import Interval


def test_the_interval_is_the_paired_t_interval_on_logs():
    logs = np.log([1.10, 1.20, 1.15, 1.05])
    found = intervals.interval(logs)
    test = stats.ttest_1samp(logs, 0)
    low, high = test.confidence_interval(0.95)
    assert found.estimate == pytest.approx(np.exp(np.mean(logs)))
    assert (found.low, found.high) == pytest.approx((np.exp(low), np.exp(high)))
    assert found.p == pytest.approx(test.pvalue)
    assert found.n == 4


def test_the_analysis_of_variance_is_fishers():
    rng = np.random.default_rng(1)
    groups = [rng.normal(shift, 1, (size, 5)) for shift, size in ((0, 2), (0.5, 4), (1, 3))]
    assert intervals.one_way(groups) == pytest.approx(stats.f_oneway(*groups, axis=0).pvalue)
    one = [group[:, 0] for group in groups]
    assert intervals.one_way(one) == pytest.approx(stats.f_oneway(*one).pvalue)
    assert intervals.one_way([np.ones(3), np.full(2, 2.0)]) == 0, "means that differ without any spread"


def test_one_repeat_has_no_interval():
    found = intervals.interval(np.log([1.5]))
    assert found.estimate == pytest.approx(1.5)
    assert np.isnan([found.low, found.high, found.p]).all()


def test_repeats_without_spread_have_a_sure_interval():
    assert intervals.interval(np.log([2.0, 2.0, 2.0])) == Interval(3, 2.0, 2.0, 2.0, 0.0)
    assert intervals.interval(np.zeros(3)).p == 1.0


def test_the_value_of_a_repeat_is_the_log_of_the_median():
    assert intervals.repeat_value(np.array([1.0, 100.0, 4.0])) == pytest.approx(np.log(4))


def test_holm_by_hand():
    # Sorted .01 .02 .03 .04 times 4 3 2 1: .04 .06 .06 .04, made monotone.
    assert intervals.holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])


def test_holm_leaves_untested_cells_out_of_the_family():
    adjusted = intervals.holm([0.01, np.nan, 0.04])
    assert adjusted[[0, 2]] == pytest.approx([0.02, 0.04])
    assert np.isnan(adjusted[1])


def test_holm_never_exceeds_one():
    assert intervals.holm([0.9, 0.8]) == pytest.approx([1, 1])


def test_hodges_lehmann_matches_the_tables_of_the_signed_rank_test():
    # n = 10: P(T+ <= 8) = 0.0244, so the 9th smallest and largest of the 55 Walsh averages bound the interval.
    logs = np.log(np.array([1.3, 1.1, 1.25, 1.02, 1.4, 1.33, 0.98, 1.2, 1.15, 1.18]))
    walsh = np.sort([(a + b) / 2 for i, a in enumerate(logs) for b in logs[i:]])
    estimate, low, high = intervals.hodges_lehmann(logs)
    assert estimate == pytest.approx(np.exp(np.median(walsh)))
    assert (low, high) == pytest.approx((np.exp(walsh[8]), np.exp(walsh[-9])))


def test_hodges_lehmann_has_no_exact_interval_below_six():
    assert np.isnan(intervals.hodges_lehmann(np.log([1.1, 1.2, 1.3, 1.4, 1.5]))[1:]).all()
    assert not np.isnan(intervals.hodges_lehmann(np.log([1.1, 1.2, 1.3, 1.4, 1.5, 1.6]))[1:]).any()


@pytest.mark.parametrize(
    ("interval", "p_holm", "equivalence", "verdict"),
    [
        (Interval(10, 1.001, 0.995, 1.007, 0.001), 0.001, True, "equivalent"),
        (Interval(10, 1.001, 0.995, 1.007, 0.001), 0.001, False, "faster"),
        (Interval(3, 1.001, 0.995, 1.007, 0.5), 0.5, True, "inconclusive"),
        (Interval(10, 0.992, 0.985, 1.0, 0.05), 0.5, True, "inconclusive"),
        (Interval(10, 1.008, 1.0, 1.015, 0.05), 0.5, True, "inconclusive"),
        (Interval(10, 1.10, 1.05, 1.15, 0.001), 0.01, True, "faster"),
        (Interval(10, 0.90, 0.85, 0.95, 0.001), 0.01, True, "slower"),
        (Interval(10, 0.90, 0.85, 0.95, 0.001), 0.06, True, "inconclusive"),
        (Interval(1, 0.90, np.nan, np.nan, np.nan), np.nan, True, "inconclusive"),
    ],
)
def test_verdicts(interval, p_holm, equivalence, verdict):
    assert intervals.judge(interval, p_holm, 0.01, equivalence) == verdict


def test_welch_is_that_of_scipy():
    own, other = np.log([1.10, 1.20, 1.15, 1.05, 1.3]), np.log([1.11, 1.12, 1.10])
    low, high = stats.ttest_ind(own, other, equal_var=False).confidence_interval(0.95)
    expected = np.exp([own.mean() - other.mean(), low, high])
    assert intervals.welch(own, other) == pytest.approx(expected)


def test_welch_without_spread_is_sure_and_with_one_value_open():
    assert intervals.welch(np.log([2.0, 2.0]), np.zeros(3)) == pytest.approx((2, 2, 2))
    assert np.isnan(intervals.welch(np.log([2.0]), np.zeros(3))[1:]).all()


@pytest.mark.parametrize("spreads", [(0.01, 0.01), (0.01, 0.05), (0.05, 0.01)])
def test_welch_covers_the_truth_in_95_percent_of_draws(spreads):
    rng = np.random.default_rng(11)
    truth, draws = 0.02, 10_000
    own = rng.normal(truth, spreads[0], (draws, 5))
    other = rng.normal(0, spreads[1], (draws, 10))
    found = [intervals.welch(*pair) for pair in zip(own, other, strict=True)]
    covered = sum(low <= np.exp(truth) <= high for _, low, high in found)
    assert 0.93 <= covered / draws <= 0.97


@pytest.mark.parametrize("n", [3, 5, 10])
def test_the_interval_covers_the_truth_in_95_percent_of_draws(n):
    rng = np.random.default_rng(7)
    truth, draws = 0.05, 10_000
    # A block effect that both arms share must cancel in the pairs.
    block = rng.normal(0, 0.1, (draws, n))
    baseline = block + truth + rng.normal(0, 0.01, (draws, n))
    mode = block + rng.normal(0, 0.01, (draws, n))
    covered = 0
    for row in baseline - mode:
        found = intervals.interval(row)
        covered += found.low <= np.exp(truth) <= found.high
    assert 0.94 <= covered / draws <= 0.96


@pytest.mark.parametrize(("correlation", "spread"), [(0.0, 0.1), (0.8, 0.1), (0.0, 0.3)])
def test_paybacks_interval_holds_the_truth(correlation, spread):
    """10,000 studies of 10 repeats: a cost of 1.5 s, 10 µs saved by each call."""
    rng = np.random.default_rng(7)
    noise = rng.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], size=(10_000, 10))
    costs, saved = 1.5e6 * (1 + spread * noise[..., 0]), 10 * (1 + spread * noise[..., 1])
    found = [intervals.payback(cost, each) for cost, each in zip(costs, saved, strict=True)]
    assert {one.kind for one in found} == {"after"}
    assert 0.93 < np.mean([one.low <= 150_000 <= one.high for one in found]) < 0.97


def test_a_call_that_takes_longer_never_pays_back_and_one_that_is_not_sure_to_save_may_not():
    rng = np.random.default_rng(8)
    cost, noise = 1e6 * (1 + 0.05 * rng.normal(size=10)), rng.normal(size=10)
    assert intervals.payback(cost, noise - 20).kind == "never"
    saved = noise - noise.mean() + 0.1
    found = intervals.payback(cost, saved)
    assert found.kind == "open" and np.isnan(found.high)
    most = 0.1 + 2.262 * saved.std(ddof=1) / np.sqrt(10)
    assert found.low == pytest.approx(cost.mean() / most, rel=0.05), "by the most that a call may save"
    with pytest.raises(ValueError, match="1 repeats; allowed: 2 and more"):
        intervals.payback(cost[:1], noise[:1])


@pytest.mark.parametrize(
    ("values", "far"), [([1, 1.1, 0.9, 1, 1.19], 0), ([1, 1.25, 1, 0.99, 1], 1), ([1, 1, 1, 0.8, 1.3], 2)]
)
def test_repeats_far_off_are_counted(values, far):
    assert intervals.far_off(np.log(values)) == far
