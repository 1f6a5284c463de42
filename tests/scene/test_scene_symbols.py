"""Typed symbols and predicates: rows and states are one, angles wrap, and each predicate has its edge."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keygrasp.errors import InputError
from keygrasp.scene import SYMBOLS, SymbolicState, Task
from keygrasp.scene.predicates import PREDICATES, misalignment, relative_offset
from keygrasp.scene.rendering import holding, state_text
from keygrasp.scene.symbols import COLUMN, FEATURES, SymbolKind, dequantise, features, quantise

STATE = SymbolicState(
    object_x=0.02, object_y=-0.01, object_z=0.03, object_yaw=0.3, object_length=0.10, object_width=0.04,
    object_height=0.06, object_shape="flat", object_colour="blue", gripper_x=0.02, gripper_y=-0.01, gripper_z=0.01,
    gripper_yaw=0.3 + math.pi / 2, gripper_width=0.07,
)  # fmt: skip


def states():
    def values(symbol):
        if symbol.kind is SymbolKind.CATEGORY:
            return st.sampled_from(symbol.names)
        if symbol.kind is SymbolKind.BOOLEAN:
            return st.booleans()
        if symbol.unit == "steps":
            return st.integers(int(symbol.low), int(symbol.high))
        return st.floats(symbol.low, symbol.high, allow_nan=False)

    return st.builds(SymbolicState, **{symbol.name: values(symbol) for symbol in SYMBOLS})


@given(states())
def test_a_row_gives_the_state_back(state):
    assert SymbolicState.from_row(state.to_row()) == state


@given(states())
def test_a_quantised_state_is_within_half_a_step_and_stays_as_it_is(state):
    rows = state.to_row()[None]
    steps = quantise(rows)
    back = dequantise(steps)
    for symbol, value, kept in zip(SYMBOLS, rows[0], back[0], strict=True):
        gap = abs(value - kept)
        if symbol.kind is SymbolKind.ANGLE:
            gap = min(gap, symbol.high - symbol.low - gap)
        assert gap <= symbol.resolution / 2 + 1e-9, symbol.name
    assert np.array_equal(quantise(back), steps)


@given(states())
def test_features_are_bounded_and_a_half_turn_changes_nothing(state):
    turned = state.replace(object_yaw=state.object_yaw + math.pi)
    one, other = features(state.to_row()[None]), features(turned.to_row()[None])
    assert one.shape == (1, FEATURES)
    assert np.abs(one).max() <= 1 + 1e-12
    assert one == pytest.approx(other, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [("object_x", math.nan, "object_x"), ("object_colour", "red-hot", "orange"), ("gripper_z", math.inf, "gripper_z")],
)
def test_a_value_that_a_symbol_cannot_take_is_refused(name, value, match):
    with pytest.raises(InputError, match=match):
        STATE.replace(**{name: value})


def test_rows_of_the_wrong_shape_or_with_nan_are_refused():
    with pytest.raises(InputError, match="shape"):
        quantise(np.zeros((2, 3)))
    rows = STATE.to_row()[None].copy()
    rows[0, COLUMN["object_z"]] = np.nan
    with pytest.raises(InputError, match="object_z"):
        features(rows)
    with pytest.raises(InputError, match="object_shape"):
        SymbolicState.from_row(np.where(np.arange(len(SYMBOLS)) == COLUMN["object_shape"], 99.0, STATE.to_row()))


def holds(name, **changes):
    return bool(PREDICATES[name](STATE.replace(**changes).to_row()))


def test_the_edges_of_each_predicate():
    assert holds("near", gripper_x=0.069)
    assert not holds("near", gripper_x=0.071)
    assert not holds("near", gripper_z=0.22)
    assert holds("aligned", gripper_yaw=STATE.gripper_yaw + math.radians(9))
    assert not holds("aligned", gripper_yaw=STATE.gripper_yaw + math.radians(11))
    assert holds("between_fingers")
    assert not holds("between_fingers", gripper_z=0.058)
    assert not holds("between_fingers", gripper_x=0.08)
    assert holds("touched", contact_left=True)
    assert not holds("grasped", contact_left=True)
    both = {"contact_left": True, "contact_right": True}
    assert holds("grasped", **both)
    assert holds("lifted", height=0.051, **both)
    assert not holds("lifted", height=0.05, **both)
    assert not holds("lifted", height=0.06)  # thrown up, not held
    assert holds("stable", height=0.06, held_steps=10, **both)
    assert not holds("stable", height=0.06, held_steps=9, **both)


def test_a_round_object_is_aligned_at_every_yaw():
    assert holds("aligned", object_width=0.095, gripper_yaw=1.0)


@given(st.floats(-1.5, 1.5), st.floats(-0.3, 0.3), st.floats(-0.3, 0.3))
def test_turning_and_moving_everything_changes_no_predicate(turn, dx, dy):
    cos, sin = math.cos(turn), math.sin(turn)

    def moved(x, y):
        return cos * x - sin * y + dx, sin * x + cos * y + dy

    x, y = moved(STATE.object_x, STATE.object_y)
    gx, gy = moved(0.03, 0.0)
    other = STATE.replace(
        object_x=x, object_y=y, object_yaw=STATE.object_yaw + turn, gripper_x=gx, gripper_y=gy,
        gripper_yaw=STATE.gripper_yaw + turn,
    )  # fmt: skip
    here = STATE.replace(gripper_x=0.03, gripper_y=0.0)
    assert misalignment(other.to_row()) == pytest.approx(misalignment(here.to_row()), abs=1e-9)
    # The closing axis may point either way: the offset then has both horizontal signs turned.
    assert np.abs(relative_offset(other.to_row())) == pytest.approx(np.abs(relative_offset(here.to_row())), abs=1e-9)


def test_the_text_names_every_symbol_and_what_is_true():
    text = state_text(STATE.to_row())
    assert all(symbol.name in text for symbol in SYMBOLS)
    assert "object_colour = blue" in text
    assert holding(STATE.to_row()) == ("near", "aligned", "between_fingers")


def test_tasks_are_goals_that_compare_by_value():
    assert Task("place", target_x=0.1) == Task("place", target_x=0.1) != Task("lift")
    assert Task("place", target_x=0.1).contains(0.1, 0.04)
    assert "x = 0.100 m" in Task("place", target_x=0.1).text()
    with pytest.raises(InputError, match="reach, lift, place"):
        Task("throw")
    with pytest.raises(InputError, match="colour"):
        Task("lift", colour="pink")
    with pytest.raises(InputError, match="radius"):
        Task("place", target_radius=0.0)
