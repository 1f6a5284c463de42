"""One executable a node: ready for a signal before the imports of the node, which take seconds.

``ros2 run keygrasp_ros NODE`` and launch files start these by name; ``python -m keygrasp_ros.executables NODE`` does
the same.
"""

from __future__ import annotations

import functools
import importlib
import sys
from typing import NoReturn

from keygrasp_ros.signals import end_at_once, leave_at_once
from keygrasp_ros.threads import one_thread_each


def run_executable(name: str) -> NoReturn:
    """Run the node whose module in :mod:`keygrasp_ros.nodes` has this name, and end the process with its status."""
    leave_at_once()
    one_thread_each()
    end_at_once(importlib.import_module(f"keygrasp_ros.nodes.{name}").main())


sim_robot = functools.partial(run_executable, "sim_robot")
trajectory_arm = functools.partial(run_executable, "trajectory_arm")
delta_robot = functools.partial(run_executable, "delta_robot")
scene_camera = functools.partial(run_executable, "scene_camera")
keypoint_extractor = functools.partial(run_executable, "keypoint_extractor")
grasp_generator = functools.partial(run_executable, "grasp_generator")
pose_refiner = functools.partial(run_executable, "pose_refiner")
pick_server = functools.partial(run_executable, "pick_server")
shaped_reward = functools.partial(run_executable, "shaped_reward")
world_model = functools.partial(run_executable, "world_model")
skill_robot = functools.partial(run_executable, "skill_robot")


if __name__ == "__main__":
    node = sys.argv.pop(1)
    sys.argv[0] = node
    run_executable(node)
