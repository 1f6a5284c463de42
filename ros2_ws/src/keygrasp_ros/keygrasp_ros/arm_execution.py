"""The stages of an execution on an arm that others drive; the same stages and verdicts as in the simulator.

What the simulator knows from its world is found out here with the gripper: an object is held as long as the pads,
told to close, stay further apart than ``empty_opening``.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keygrasp.errors import RobotError
from keygrasp.geometry.poses import Array, wrap_angle
from keygrasp.robots import CancelCheck, Ended, Unreachable, refuse_impossible
from keygrasp.robots.motion import RELEASE, RETREAT, MotionProfile, TrialPath, place_path, straight, trial_path
from keygrasp.robots.ur5_paths import UR5Paths
from keygrasp.scene import GripperSpec, Outcome, PlanarGrasp, Stage, TrialOutcome
from keygrasp_ros.controllers import ArmController, GripperController, PathLeftError
from keygrasp_ros.joint_feed import JointFeed
from keygrasp_ros.waiting import CancelledError

#: How far the tool may be from where a motion should have brought it, in metres and radians.
_POSITION_TOLERANCE = 0.003
_YAW_TOLERANCE = 0.03
#: Seconds until the joint states must show that.
_SETTLE_SECONDS = 0.5


@dataclass(frozen=True)
class ArmSetup:
    """How an arm executes.

    Attributes:
        speed: Share of the speeds of trials.
        descent: Metres above the grasp from which the tool comes straight down; nothing may stand higher there.
        empty_opening: Metres between the pads, told to close, from which on they hold something.
        shake: Whether the object is shaken after lifting, as in trials.
        home: Joint angles in radians to which the arm goes when it holds nothing any more; empty to stay.
    """

    speed: float
    descent: float
    empty_opening: float
    shake: bool
    home: tuple[float, ...]

    @property
    def profile(self) -> MotionProfile:
        """KG-1's motion at this speed."""
        kg1, s = MotionProfile(), self.speed
        return dataclasses.replace(
            kg1,
            descend_speed=kg1.descend_speed * s,
            descend_acceleration=kg1.descend_acceleration * s**2,
            lift_time=kg1.lift_time / s,
            shake_frequency=kg1.shake_frequency * s,
            shake=self.shake,
        )


@dataclass(frozen=True, eq=False)
class Arm:
    """The parts of an arm: its controllers, where its joints are, and how it plans."""

    controller: ArmController
    gripper: GripperController
    joints: JointFeed
    paths: UR5Paths
    spec: GripperSpec
    setup: ArmSetup


class ArmExecution:
    """One goal: plan everything, then move stage by stage.

    Args:
        arm: The arm.
        cancelled: Asked on the way; true stops the arm where it is, with its fingers as they are.
        on_stage: Called when a stage begins.
    """

    def __init__(self, arm: Arm, cancelled: CancelCheck, on_stage: Callable[[Stage], None]) -> None:
        self._arm, self._cancelled, self._on_stage = arm, cancelled, on_stage
        self._stage = Stage.APPROACH
        self._z = 0.0
        self._grasped = False

    def run(self, grasp: PlanarGrasp, place_at: PlanarGrasp | None) -> TrialOutcome:
        """Execute a grasp, and put the object down where that is asked for; never raises for what the arm does."""
        began = time.monotonic()
        ended = self._verdict(grasp, place_at)
        rise, opening = self._rise(), max(0.0, self._arm.gripper.opening)
        return TrialOutcome(
            outcome=ended.outcome,
            rise=rise,
            opening=opening,
            message=ended.message + self._go_home(ended.outcome),
            seconds=time.monotonic() - began,
        )

    def _verdict(self, grasp: PlanarGrasp, place_at: PlanarGrasp | None) -> Ended:
        try:
            self._stages(grasp, place_at)
        except Ended as end:
            return end
        except Unreachable as reason:
            return Ended(Outcome.UNREACHABLE, str(reason))
        except CancelledError:
            return Ended(Outcome.CANCELLED, f"cancelled in stage '{self._stage}': {self._gripper_state()}")
        except PathLeftError as error:
            early = self._stage is Stage.DESCEND
            return Ended(Outcome.CONTACT_TOO_EARLY if early else Outcome.ROBOT_FAULT, self._fault_text(error))
        except RobotError as error:
            return Ended(Outcome.ROBOT_FAULT, self._fault_text(error))
        return Ended(Outcome.SUCCESS, "lifted and held" if place_at is None else "put down")

    def _go_home(self, outcome: Outcome) -> str:
        """Return to where the arm waits, where it is well and holds nothing; the reason in words where it can't."""
        arm = self._arm
        well = outcome in (Outcome.SUCCESS, Outcome.EMPTY, Outcome.SLIPPED, Outcome.SHAKEN)
        if not arm.setup.home or self._grasped or not well:
            return ""
        try:
            if self._stage is Stage.CLOSE:  # the object may stand between the fingers
                self._rise_by(RETREAT)
            self._move(arm.paths.free(arm.joints.angles(), np.array(arm.setup.home)))
        except (CancelledError, Unreachable, RobotError) as error:
            return f"; the arm did not return home: {error or 'cancelled'}"
        return ""

    def _stages(self, grasp: PlanarGrasp, place_at: PlanarGrasp | None) -> None:
        arm, profile = self._arm, self._arm.setup.profile
        if place_at is not None:
            profile = dataclasses.replace(profile, shake=False)
        here = arm.joints.angles()
        path = self._tool_path(grasp, profile)
        commands = arm.paths.along(path.whole, here)
        start, descend, lift, shake = np.split(commands, np.cumsum([1, len(path.descend), len(path.lift)]))
        above = arm.paths.above(start[0], profile)
        carry, lower = self._placing(path.lift[-1], lift[-1], place_at)

        self._begin(Stage.APPROACH)
        arm.gripper.move(grasp.width, self._cancelled, self._watch)
        self._move(np.concatenate([arm.paths.free(here, above[0]), above]))
        self._begin(Stage.DESCEND)
        self._move(descend)
        self._z = float(self._tool()[2])
        self._begin(Stage.CLOSE)
        if not self._closed_on_something():
            raise Ended(Outcome.EMPTY, f"the fingers closed to {arm.gripper.opening * 1e3:.1f} mm on nothing")
        self._begin(Stage.LIFT)
        self._move(lift)
        self._check_held(Outcome.SLIPPED, "the object was not held after lifting")
        if len(shake):
            self._begin(Stage.SHAKE)
            self._move(shake)
            self._begin(Stage.HOLD)
            time.sleep(profile.hold_time)
            self._check_held(Outcome.SHAKEN, "the object was lost while shaking")
        if place_at is not None:
            self._begin(Stage.PLACE)
            self._put_down(carry, lower)

    def _tool_path(self, grasp: PlanarGrasp, profile: MotionProfile) -> TrialPath:
        refuse_impossible(grasp, self._arm.spec)
        top = grasp.z + self._arm.setup.descent - profile.clearance
        return trial_path(grasp, top, profile, self._arm.paths.time_step)

    def _placing(self, here: Array, command: Array, place_at: PlanarGrasp | None) -> tuple[Array, Array]:
        """Joint angles that carry and lower, from where the lift ends; empty without a place."""
        if place_at is None:
            return np.empty((0, 6)), np.empty((0, 6))
        paths = self._arm.paths
        carry, lower = place_path(here, place_at, paths.time_step, self._arm.setup.speed)
        both = paths.along(np.concatenate([here[None], carry, lower]), command)[1:]
        return both[: len(carry)], both[len(carry) :]

    def _put_down(self, carry: Array, lower: Array) -> None:
        arm = self._arm
        self._move(carry)
        self._check_held(Outcome.SLIPPED, "the object was lost on the way to where it was to be put down")
        self._move(lower)
        arm.gripper.move(min(arm.spec.max_opening, arm.gripper.opening + RELEASE), self._cancelled, self._watch)
        self._grasped = False
        self._rise_by(RETREAT)

    def _rise_by(self, height: float) -> None:
        paths, angles = self._arm.paths, self._arm.joints.angles()
        here = paths.tool(angles)
        up = straight(here, here + np.array([0.0, 0.0, height, 0.0]), paths.time_step, self._arm.setup.speed)
        self._move(paths.along(up, angles))

    def _begin(self, stage: Stage) -> None:
        self._stage = stage
        self._on_stage(stage)
        if self._cancelled():
            raise CancelledError

    def _move(self, rows: Array) -> None:
        """Follow joint angles, and check that the tool is where they end."""
        arm = self._arm
        arm.controller.follow(rows, arm.paths.time_step, self._cancelled, self._watch)
        goal, deadline = arm.paths.tool(rows[-1]), time.monotonic() + _SETTLE_SECONDS
        while True:
            tool = self._tool()
            off, turn = float(np.linalg.norm(tool[:3] - goal[:3])), abs(wrap_angle(float(tool[3] - goal[3])))
            if off <= _POSITION_TOLERANCE and turn <= _YAW_TOLERANCE:
                return
            if time.monotonic() > deadline:
                raise RobotError(f"the tool stopped {off * 1e3:.1f} mm and {turn:.2f} rad off its target")
            time.sleep(0.01)

    def _closed_on_something(self) -> bool:
        gripper = self._arm.gripper
        try:
            gripper.move(0.0, self._cancelled, self._watch)
        except CancelledError:
            # What was held before it was asked again is still held: a cancelled goal need not say that it stalled.
            pressed = gripper.stalled or self._grasped
            self._grasped = pressed and gripper.opening > self._arm.setup.empty_opening
            raise
        self._grasped = gripper.opening > self._arm.setup.empty_opening
        return self._grasped

    def _check_held(self, outcome: Outcome, text: str) -> None:
        if not self._closed_on_something():
            raise Ended(outcome, text)

    def _watch(self) -> None:
        """While something moves: where the joints are must be known."""
        self._arm.joints.angles()

    def _tool(self) -> Array:
        return self._arm.paths.tool(self._arm.joints.angles())

    def _rise(self) -> float:
        """Metres by which the tool has risen with what it holds."""
        if not self._grasped:
            return 0.0
        try:
            return float(self._tool()[2]) - self._z
        except RobotError:
            return 0.0

    def _gripper_state(self) -> str:
        state = "holds the object" if self._grasped else "is empty"
        return f"the gripper {state}, {self._arm.gripper.opening * 1e3:.0f} mm open"

    def _fault_text(self, error: RobotError) -> str:
        return f"in stage '{self._stage}': {error}; {self._gripper_state()}"
