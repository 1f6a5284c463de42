"""What all nodes have in common."""

import ast
import importlib
from pathlib import Path

import pytest
from keygrasp_ros.graph import NODES
from rclpy.context import Context
from rclpy.lifecycle import LifecycleNode

pytestmark = pytest.mark.ros


@pytest.fixture(scope="module")
def taken():
    """Names of the attributes that rclpy's own nodes have."""
    context = Context()
    context.init()
    node = LifecycleNode("some_node", context=context)
    names = set(vars(node))
    node.destroy_node()
    context.try_shutdown()
    return names


@pytest.mark.parametrize("name", [spec.name for spec in NODES])
def test_no_attribute_of_a_node_hides_one_of_rclpys_own(taken, name):
    """rclpy keeps a node's timers and clock in ``_timers`` and ``_clock``: a namesake silences them without a word."""
    source = Path(importlib.import_module(f"keygrasp_ros.nodes.{name}").__file__).read_text()
    ours = {
        target.attr
        for target in ast.walk(ast.parse(source))
        if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store)
    }
    assert ours
    assert ours & taken == set()
