"""Rows of a scene with two blocks, as the workspace would give them."""

import pytest
import torch
from tabletop_rows import state

from keygrasp.worldmodel.ensemble import Ensemble, EnsembleConfig
from keygrasp.worldmodel.layout import Layout


@pytest.fixture
def layout():
    return Layout()


@pytest.fixture
def row(layout):
    """(D,) float32."""
    states = {"red": state(-0.1), "blue": state(0.1, colour="blue"), "other": state(0.0, 0.12, "unknown")}
    return torch.tensor(layout.row(states), dtype=torch.float32)


@pytest.fixture
def model():
    return Ensemble(EnsembleConfig(members=4, hidden=16), seed=1).eval()
