"""Rows, features and scenes say the same."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tabletop_rows import state

from keygrasp.errors import InputError
from keygrasp.scene.predicates import PREDICATES, misalignment
from keygrasp.worldmodel.layout import Layout


def test_a_row_gives_back_the_states_it_was_made_of(layout, row):
    states = layout.states(row)
    assert states["blue"].object_x == pytest.approx(0.1)
    assert states["blue"].object_colour == "blue"
    assert states["red"].gripper_width == pytest.approx(0.085)
    assert np.allclose(layout.row(states), row.numpy(), atol=1e-6)


@given(st.floats(-math.pi / 2, math.pi / 2 - 1e-3), st.floats(-0.3, 0.3), st.booleans())
@settings(max_examples=30, deadline=None)
def test_features_give_back_the_row(yaw, x, touches):
    layout = Layout()
    one = state(x, object_yaw=yaw, gripper_yaw=yaw / 2, contact_left=touches, held_steps=3)
    rows = torch.tensor(layout.row(dict.fromkeys(layout.objects, one), 12.0), dtype=torch.float64)[None]
    assert layout.features(rows).shape == (1, layout.feature_size)
    assert torch.allclose(layout.from_features(layout.features(rows)), rows, atol=1e-6)


def test_yaws_that_are_a_half_turn_apart_have_the_same_features(layout, row):
    turned = row.clone()
    turned[layout.columns["red.object_yaw"]] += math.pi
    assert torch.allclose(layout.features(turned), layout.features(row), atol=1e-5)


def test_predicates_are_the_same_on_tensors_and_arrays(layout):
    draw = torch.Generator().manual_seed(0)
    rows = torch.rand((200, layout.size), generator=draw, dtype=torch.float64) * 0.2
    scenes = layout.scene_rows(rows, "blue")
    for name, test in PREDICATES.items():
        assert np.array_equal(test(scenes).numpy(), test(scenes.numpy())), name
    assert np.allclose(misalignment(scenes).numpy(), misalignment(scenes.numpy()))


def test_bad_rows_and_layouts_are_refused(layout, row):
    with pytest.raises(InputError, match="expected"):
        layout.check(row[:-1])
    row[layout.columns["blue.object_y"]] = math.nan
    with pytest.raises(InputError, match=r"blue\.object_y is not finite"):
        layout.check(row)
    with pytest.raises(InputError, match="no symbols of object 'blue'"):
        layout.row({"red": state()})
    with pytest.raises(InputError, match="not in the layout"):
        layout.columns_of("green")
    for names in ((), ("a", "a"), ("a.b",)):
        with pytest.raises(InputError):
            Layout(names)
