"""A PyBullet world with table, objects, camera, a floating gripper, a UR5 and a Delta."""

from keygrasp.robots.motion import MotionProfile
from keygrasp.sim.delta import DeltaTwin
from keygrasp.sim.delta_flaws import Flaws
from keygrasp.sim.free_gripper import FreeGripper
from keygrasp.sim.rendering import look_at, pinhole
from keygrasp.sim.ur5 import UR5
from keygrasp.sim.world import ObjectHandle, Snapshot, World

__all__ = [
    "UR5",
    "DeltaTwin",
    "Flaws",
    "FreeGripper",
    "MotionProfile",
    "ObjectHandle",
    "Snapshot",
    "World",
    "look_at",
    "pinhole",
]
