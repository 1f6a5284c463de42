"""Statistics against values worked out by hand (or by exact enumeration)."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keygrasp.errors import InputError
from keygrasp.protocol import statistics


def test_wilson_of_8_in_10():
    # (0.8 + 1.9208/10 ± 1.96·sqrt(0.016 + 0.009604)) / 1.38416, by hand.
    low, high = statistics.wilson_interval(8, 10, z=1.96)
    assert low == pytest.approx((0.99208 - 1.96 * math.sqrt(0.025604)) / 1.38416, abs=1e-9)
    assert high == pytest.approx((0.99208 + 1.96 * math.sqrt(0.025604)) / 1.38416, abs=1e-9)
    assert (round(low, 3), round(high, 3)) == (0.490, 0.943)


def test_wilson_at_the_ends():
    assert statistics.wilson_interval(0, 0) == (0.0, 1.0)
    assert statistics.wilson_interval(0, 10)[0] == 0.0
    assert statistics.wilson_interval(10, 10)[1] == pytest.approx(1.0)
    with pytest.raises(InputError):
        statistics.wilson_interval(11, 10)


def test_bootstrap_resamples_objects_and_not_trials():
    # Two objects, one always grasped and one never: a resample is 0, ½ or 1 with probability ¼, ½, ¼.
    values = [1] * 50 + [0] * 50
    assert statistics.bootstrap_interval(values, ["a"] * 50 + ["b"] * 50) == (0.0, 1.0)
    # The same outcomes, each on its own object, are far more certain: 0.5 ± 1.96·0.05.
    low, high = statistics.bootstrap_interval(values, list(range(100)))
    assert low == pytest.approx(0.40, abs=0.02)
    assert high == pytest.approx(0.60, abs=0.02)


def test_bootstrap_weights_objects_by_their_trials():
    # Every resample draws 1 object of 1, so the interval is the mean itself.
    assert statistics.bootstrap_interval([1, 0, 0, 0], ["a"] * 4) == (0.25, 0.25)
    assert statistics.bootstrap_interval([], []) == (0.0, 1.0)
    with pytest.raises(InputError):
        statistics.bootstrap_interval([1, 0], ["a"])


def test_bootstrap_is_deterministic_by_seed():
    values, groups = [1, 0, 1, 1, 0, 1], list("abcdef")
    first = statistics.bootstrap_interval(values, groups, seed=3, resamples=51)
    assert first == statistics.bootstrap_interval(values, groups, seed=3, resamples=51)
    assert first != statistics.bootstrap_interval(values, groups, seed=4, resamples=51)


def test_paired_difference_uses_the_pairing():
    first = [1, 0] * 100
    difference, (low, high) = statistics.paired_difference(first, first, list(range(200)))
    assert (difference, low, high) == (0.0, 0.0, 0.0)
    better = list(first)
    better[1] = better[3] = 1
    difference, (low, high) = statistics.paired_difference(first, better, list(range(200)))
    assert difference == pytest.approx(0.01)
    assert 0 <= low < 0.01 < high < 0.05
    with pytest.raises(InputError):
        statistics.paired_difference([], [], [])


def test_brier_skill_by_hand():
    # Brier: (0.1² + 0.2² + 0.3² + 0.4²)/4 = 0.075; base rate ½ has 0.25; skill 1 − 0.3.
    probabilities, outcomes = [0.9, 0.8, 0.3, 0.4], [1, 1, 0, 0]
    assert statistics.brier_score(probabilities, outcomes) == pytest.approx(0.075)
    assert statistics.brier_skill(probabilities, outcomes) == pytest.approx(0.7)
    assert statistics.brier_skill([0.5] * 4, outcomes) == pytest.approx(0.0)
    assert statistics.brier_skill([0.5, 0.5], [1, 1]) is None
    with pytest.raises(InputError):
        statistics.brier_score([0.5], [2])


def test_auroc_by_hand():
    # Pairs (success, failure): (.9,.3) (.9,.6) (.6,.3) won, (.6,.6) tied: 3.5 of 4.
    assert statistics.auroc([0.9, 0.6, 0.6, 0.3], [1, 1, 0, 0]) == pytest.approx(3.5 / 4)
    assert statistics.auroc([0.1, 0.9], [1, 0]) == 0.0
    assert statistics.auroc([0.1, 0.9], [1, 1]) is None


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=30))
def test_auroc_counts_pairs(pairs):
    wins = [(a > b) + 0.5 * (a == b) for a, x in pairs if x for b, y in pairs if not y]
    found = statistics.auroc([s for s, _ in pairs], [int(y) for _, y in pairs])
    assert found is None if not wins else found == pytest.approx(np.mean(wins))


def test_success_at_coverage_by_hand():
    probabilities = [0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.1]
    outcomes = [1, 1, 1, 0, 1, 1, 1, 1, 1, 0]
    assert statistics.success_at_coverage(probabilities, outcomes, 0.9) == pytest.approx(8 / 9)
    assert statistics.success_at_coverage(probabilities, outcomes, 0.3) == 1.0
    # All equally sure: any nine of ten, on average 80% of them.
    assert statistics.success_at_coverage([0.5] * 10, outcomes, 0.9) == pytest.approx(0.8)
