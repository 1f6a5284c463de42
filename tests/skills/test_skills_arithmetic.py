"""The core's fixed-point functions against Python's."""

import ctypes
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keygrasp.skills.core import ONE, fixed, library

numbers = st.floats(-30000, 30000)


def call(name, *arguments):
    return getattr(library(), name)(*(ctypes.c_int32(fixed(a)) for a in arguments)) / ONE


@settings(deadline=None)
@given(numbers, numbers)
def test_product_and_quotient_saturate(a, b):
    a, b = fixed(a) / ONE, fixed(b) / ONE
    limit = 32768 - 1 / ONE
    assert call("kg_mul", a, b) == pytest.approx(max(-limit, min(limit, a * b)), abs=2 / ONE)
    expected = a / b if b else math.copysign(limit, a)
    assert call("kg_div", a, b) == pytest.approx(max(-limit, min(limit, expected)), abs=2 / ONE)


@settings(deadline=None)
@given(st.floats(-20000, 20000), st.floats(-20000, 20000))
def test_hypot_and_direction(x, y):
    assert call("kg_hypot", x, y) == pytest.approx(math.hypot(x, y), abs=3 / ONE)
    if math.hypot(x, y) > 0.1:
        error = math.remainder(call("kg_atan2", y, x) - math.atan2(y, x), math.tau)
        assert abs(error) < 3e-4 if math.hypot(x, y) < 10 else abs(error) < 5e-5


@settings(deadline=None)
@given(st.floats(-20, 20))
def test_sine_and_cosine_of_any_angle(angle):
    sine, cosine = ctypes.c_int32(), ctypes.c_int32()
    library().kg_sincos(ctypes.c_int32(fixed(angle)), ctypes.byref(sine), ctypes.byref(cosine))
    # The constant π is rounded, which 3 revolutions multiply.
    assert sine.value / ONE == pytest.approx(math.sin(angle), abs=1e-4)
    assert cosine.value / ONE == pytest.approx(math.cos(angle), abs=1e-4)


@settings(deadline=None)
@given(st.floats(1e-3, 30000))
def test_root_and_logarithm(a):
    a = fixed(a) / ONE
    assert call("kg_sqrt", a) == pytest.approx(math.sqrt(a), abs=2 / ONE)
    assert call("kg_log2", a) == pytest.approx(math.log2(a), abs=5e-4)


@settings(deadline=None)
@given(st.floats(0, 20))
def test_exponential(a):
    assert call("kg_exp_of_minus", a) == pytest.approx(math.exp(-a), abs=3e-4)


def test_random_numbers_are_the_published_sequence():
    state = ctypes.c_uint32(1)  # Marsaglia (2003), xorshift with (13, 17, 5) from 1
    core = library()
    core.kg_random.restype = ctypes.c_uint32
    assert [core.kg_random(ctypes.byref(state)) for _ in range(3)] == [270369, 67634689, 2647435461]
