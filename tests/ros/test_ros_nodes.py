"""What all nodes have in common."""

import ast
import importlib
from pathlib import Path

import pytest
from keygrasp_ros.graph import NODES
from keygrasp_ros.namesakes import Namesakes
from keygrasp_ros.waiting import wait_until
from rclpy.context import Context
from rclpy.lifecycle import LifecycleNode
from rclpy.node import Node

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


def test_a_graph_that_was_started_twice_is_noticed_and_a_leftover_of_a_killed_node_is_not(monkeypatch):
    monkeypatch.setattr("keygrasp_ros.namesakes._PERIOD", 1)
    context = Context()
    context.init()
    nodes = [Node(name, context=context) for name in ("server", "other", "server")]
    watch, alone = Namesakes(nodes[0]), Namesakes(nodes[1])
    wait_until(lambda: len(nodes[0].get_node_names()) == 3, "not all are seen", 10.0, bool)
    assert [watch.stay() for _ in range(7)] == [False] * 5 + [True] * 2
    assert not any(alone.stay() for _ in range(7))
    nodes.pop().destroy_node()
    wait_until(lambda: len(nodes[0].get_node_names()) == 2, "it is still seen", 10.0, bool)
    assert not watch.stay()
    for node in nodes:
        node.destroy_node()
    context.try_shutdown()


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
