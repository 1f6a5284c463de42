"""The stated probability after calibration is the rate at which grasps succeed."""

import numpy as np
import pytest

from keygrasp.errors import InputError
from keygrasp.refine.calibration import fit_calibration


def test_recovers_a_known_overconfidence():
    rng = np.random.default_rng(0)
    logits = rng.normal(2.0, 1.5, 20_000)
    truth = 1 / (1 + np.exp(-(0.6 * logits - 0.8)))
    fitted = fit_calibration(logits, rng.random(logits.size) < truth)
    assert fitted.slope == pytest.approx(0.6, abs=0.05)
    assert fitted.offset == pytest.approx(-0.8, abs=0.1)


def test_a_handful_of_successes_doesnt_make_it_certain():
    fitted = fit_calibration([1.0, 2.0, 3.0], [1, 1, 1])
    assert fitted.probability(2.0) < 0.98


def test_lengths_must_agree():
    with pytest.raises(InputError, match="as many outcomes"):
        fit_calibration([1.0, 2.0], [1])
