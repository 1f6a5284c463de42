"""Symbols of a real simulated grasp: the predicates come true in their order, and the true pose is what is told."""

import numpy as np
import pytest

from keygrasp.protocol import SceneSpec, build_scene
from keygrasp.protocol.oracle import OracleConfig, oracle
from keygrasp.scene.predicates import PREDICATES
from keygrasp.sim.symbols import SymbolObserver


def test_predicates_come_true_in_order_while_an_object_is_picked():
    with build_scene(SceneSpec("013", "E", 1)) as scene:
        plan = oracle(scene, OracleConfig(50, 5, 80), np.random.default_rng(0))
        scene.restore()
        observer = SymbolObserver(scene.robot, scene.handle)
        seen, steps = [], []

        def on_step(stage):
            steps.append(stage)
            if len(steps) % 12 == 0:
                seen.append(observer.observe())

        scene.robot.on_step = on_step
        assert scene.execute(plan.grasp).success
    rows = np.stack([state.to_row() for state in seen])
    first = [int(np.argmax(predicate(rows))) for predicate in PREDICATES.values()]
    assert first == sorted(first)
    assert bool(PREDICATES["stable"](rows[-1]))
    assert seen[-1].height > 0.1


def test_the_object_is_where_the_physics_has_it():
    with build_scene(SceneSpec("013", "E", 1)) as scene:
        state = SymbolObserver(scene.robot, scene.handle).observe()
        pose = scene.object_pose
        points = scene.handle.points @ pose[:3, :3].T + pose[:3, 3]
    assert state.object_z == pytest.approx((points[:, 2].min() + points[:, 2].max()) / 2)
    assert points[:, 0].min() < state.object_x < points[:, 0].max()
    assert state.object_length >= state.object_width > 0
    assert not state.contact_left
    assert state.height == 0.0
