"""One executable a node: ready for a signal before the imports of the node, which take seconds.

``ros2 run keygrasp_ros NODE`` and launch files start these by name; ``python -m keygrasp_ros.executables NODE`` does
the same.
"""

from __future__ import annotations

import functools
import importlib
import sys

from keygrasp_ros.signals import end_quietly, leave_at_once
from keygrasp_ros.threads import one_thread_each


def run_executable(name: str) -> int:
    """Run the node whose module in :mod:`keygrasp_ros.nodes` has this name; returns the exit status."""
    leave_at_once()
    one_thread_each()
    status: int = importlib.import_module(f"keygrasp_ros.nodes.{name}").main()
    end_quietly()
    return status


sim_robot = functools.partial(run_executable, "sim_robot")
trajectory_arm = functools.partial(run_executable, "trajectory_arm")
delta_robot = functools.partial(run_executable, "delta_robot")
scene_camera = functools.partial(run_executable, "scene_camera")
keypoint_extractor = functools.partial(run_executable, "keypoint_extractor")
grasp_generator = functools.partial(run_executable, "grasp_generator")
pose_refiner = functools.partial(run_executable, "pose_refiner")
pick_server = functools.partial(run_executable, "pick_server")
shaped_reward = functools.partial(run_executable, "shaped_reward")


if __name__ == "__main__":
    node = sys.argv.pop(1)
    sys.argv[0] = node
    raise SystemExit(run_executable(node))
