"""Grasps that a real Delta made on a block, made again by its twin: same set-up, same grasps, same places."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from keygrasp.errors import ConfigurationError
from keygrasp.geometry.poses import Array, rotation_z
from keygrasp.geometry.solids import block
from keygrasp.objects import PreparedObject
from keygrasp.robots.delta_x import Calibration, DeltaConfig, load_calibration, load_model
from keygrasp.robots.motion import MotionProfile
from keygrasp.scene import PlanarGrasp, TrialOutcome
from keygrasp.sim.delta import DeltaTwin, lowest_table
from keygrasp.sim.world import World

#: Kilograms of a small robot's palm; its fingers and neck are those of KG-1.
_PALM_MASS = 0.05
#: The centre of mass must rise by this share of the lift.
_RISE_SHARE = 0.8
_MOST_TRIES = 1000


@dataclass(frozen=True)
class Try:
    """One grasp on the real robot.

    Attributes:
        grasp: x, y, z, yaw and width as it was executed: metres and radians in the workspace.
        outcome: How it ended, as the robot said or you saw.
        block_at: x, y and yaw of the block before it, where it did not stand as the grasp was aimed.
    """

    grasp: tuple[float, float, float, float, float]
    outcome: Literal["success", "contact_too_early", "empty", "slipped", "shaken", "unreachable", "robot_fault"]
    block_at: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class TriesFile:
    """Grasps on one block.

    Attributes:
        block: Its sides in metres: along x, y and z where its yaw is 0.
        mass: Kilograms.
        tries: The grasps, in their order.
        friction: Of its contact with pads and table.
    """

    block: tuple[float, float, float]
    mass: float
    tries: tuple[Try, ...]
    friction: float = 0.5

    def __post_init__(self) -> None:
        if not all(math.isfinite(side) and 0.002 <= side <= 0.3 for side in self.block):
            raise ConfigurationError(f"block: sides {self.block} are not within 0.002–0.3 m", "Give metres")
        if not 0.001 <= self.mass <= 5:
            raise ConfigurationError(f"block: a mass of {self.mass} is not within 0.001–5 kg", "Give kilograms")
        if not 0 < len(self.tries) <= _MOST_TRIES:
            raise ConfigurationError(f"tries: {len(self.tries)} are not 1 to {_MOST_TRIES}")


def repeat(tries: TriesFile, config: DeltaConfig) -> Iterator[TrialOutcome]:
    """Make the grasps again in simulation, each on a fresh block; yields the twin's outcomes.

    Args:
        tries: What the real robot did.
        config: Its set-up: model, tool, motion, and the calibration that says where its table is.

    Raises:
        RobotError: If the model can't carry a gripper.
    """
    place = None if config.calibration is None else load_calibration(config.calibration)
    for one in tries.tries:
        with World(friction=tries.friction) as world:
            grasp = PlanarGrasp(*one.grasp)
            x, y, yaw = one.block_at or (grasp.x, grasp.y, grasp.yaw)
            (bx, by), byaw = _seen_from_robot(place, x, y, yaw)
            handle = world.add_object(_prepared(tries), (bx, by, tries.block[2] / 2 + 5e-4), rotation_z(byaw))
            world.settle(handle)
            (gx, gy), gyaw = _seen_from_robot(place, grasp.x, grasp.y, grasp.yaw)
            twin = DeltaTwin(
                world,
                config.tool.gripper,
                _profile(config),
                model=load_model(config.model),
                tool=config.tool,
                table=None if place is None else float(place.pose[2, 3]),
                palm_mass=_PALM_MASS,
            )
            yield twin.execute(grasp.replace(x=gx, y=gy, yaw=gyaw))


def assumed_table(config: DeltaConfig) -> float:
    """Height (z in metres in the robot's frame) of the table that :func:`repeat` takes without a calibration."""
    return lowest_table(load_model(config.model), config.tool)


def _seen_from_robot(place: Calibration | None, x: float, y: float, yaw: float) -> tuple[Array, float]:
    """A place on the table in the robot's own x and y: the twin stands over its workspace's centre."""
    if place is None:
        return np.array([x, y]), yaw
    pose = place.pose
    return pose[:2, :2] @ (x, y) + pose[:2, 3], yaw + math.atan2(pose[1, 0], pose[0, 0])


def _profile(config: DeltaConfig) -> MotionProfile:
    """The real robot's motion as a trial's; the lift's half cosine is nowhere faster than the real lift."""
    motion = config.motion
    return MotionProfile(
        clearance=max(motion.clearance, 1e-3),
        descend_speed=motion.descend_speed,
        descend_acceleration=motion.acceleration,
        lift_height=motion.lift_height,
        lift_time=motion.lift_height * math.pi / 2 / motion.lift_speed,
        required_rise=_RISE_SHARE * motion.lift_height,
        hold_time=max(motion.hold_time, 1e-3),
        shake=motion.shake,
        shake_translation=0.01,
    )


def _prepared(tries: TriesFile) -> PreparedObject:
    x, y, z = tries.block
    vertices, faces = block(tries.block)
    return PreparedObject(
        name="block",
        source="file",
        category="compact",
        vertices=vertices,
        faces=faces,
        hulls=(vertices,),
        mass=tries.mass,
        inertia=tries.mass / 12 * np.array([y * y + z * z, x * x + z * z, x * x + y * y]),
        volume=x * y * z,
        extents=np.sort([x, y, z]),
    )
