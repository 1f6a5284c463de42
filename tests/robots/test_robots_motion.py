from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keygrasp.errors import ConfigurationError
from keygrasp.robots.motion import MotionProfile, oscillation, trapezoid, trial_path
from keygrasp.scene import PlanarGrasp

DT = 1 / 240
PROFILE = MotionProfile()


@given(st.floats(1e-4, 2.0), st.floats(0.05, 2.0), st.floats(0.5, 20.0))
def test_trapezoid_arrives_within_its_limits(distance, speed, acceleration):
    way = np.concatenate([[0.0], trapezoid(distance, speed, acceleration, DT)])
    steps = np.diff(way)
    assert way[-1] == pytest.approx(distance, abs=1e-12)
    assert steps.min() >= -1e-12
    assert steps.max() <= speed * DT + 1e-12
    assert np.abs(np.diff(steps)).max(initial=0) <= acceleration * DT**2 + 1e-12


def test_no_way_takes_no_step():
    assert trapezoid(0.0, 1.0, 1.0, DT).shape == (0,)


def test_shake_reaches_its_amplitude_smoothly():
    wave = np.concatenate([[0.0], oscillation(PROFILE, DT)])
    omega = 2 * math.pi * PROFILE.shake_frequency
    assert (wave.max(), wave.min()) == pytest.approx((1.0, -1.0), abs=1e-3)
    assert wave[-1] == pytest.approx(0.0, abs=1e-12)
    assert np.abs(np.diff(wave)).max() <= omega * DT
    assert np.abs(np.diff(wave, n=2)).max() <= 1.01 * (omega * DT) ** 2


def test_trial_path_has_kg1_values():
    grasp = PlanarGrasp(0.01, -0.02, 0.03, 0.4, 0.05)
    path = trial_path(grasp, 0.08, PROFILE, DT)
    assert path.start == pytest.approx([0.01, -0.02, 0.09, 0.4])
    assert path.descend[-1] == pytest.approx([0.01, -0.02, 0.03, 0.4])
    assert np.diff(path.descend[:, 2]).min() == pytest.approx(-0.25 * DT)
    assert len(path.lift) == 120
    assert path.lift[-1, 2] == pytest.approx(0.18)
    away = np.abs(path.shake - path.lift[-1]).max(axis=0)
    assert away == pytest.approx([0.025, 0.025, 0.0, 0.2], abs=1e-4)
    moving = np.abs(path.shake - path.lift[-1]) > 1e-9
    assert moving.sum(axis=1).max() == 1
    assert np.abs(np.diff(path.whole, axis=0))[:, 2].max() < 0.5 * DT


def test_full_speed_is_reached_before_the_object():
    path = trial_path(PlanarGrasp(0, 0, 0.0, 0, 0.05), 0.08, PROFILE, DT)
    steps = np.diff(path.descend[:, 2])
    assert steps[path.descend[1:, 2] < 0.08][0] == pytest.approx(-0.25 * DT)


def test_grasp_above_the_object_does_not_descend():
    path = trial_path(PlanarGrasp(0, 0, 0.2, 0, 0.05), 0.08, PROFILE, DT)
    assert path.descend.shape == (0, 4)
    assert path.start[2] == 0.2


def test_bad_profile_is_refused():
    with pytest.raises(ConfigurationError, match="lift_time"):
        MotionProfile(lift_time=0.0)
    with pytest.raises(ConfigurationError, match="required_rise"):
        dataclasses.replace(PROFILE, required_rise=0.2)
