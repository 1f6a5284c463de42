"""Putting down what a robot holds."""

from __future__ import annotations

import numpy as np

from keygrasp.geometry.poses import Array, wrap_half_turn
from keygrasp.robots import CancelCheck, StageCallback
from keygrasp.robots.motion import MotionProfile, trapezoid
from keygrasp.scene import Outcome, PlanarGrasp, Stage, TrialOutcome
from keygrasp.sim.stages import Ended, Execution, StepHook, ToolDriver

#: Metres and radians a second while carrying, and metres a second squared.
_CARRY_SPEED = 0.25
_CARRY_TURN = 1.0
_CARRY_ACCELERATION = 1.0
#: Metres by which the pads open to let go, and to which the tool then rises.
_RELEASE = 0.03
_RETREAT = 0.10
#: Seconds to let the object come to rest after opening.
_REST = 0.3


def place_stages(
    driver: ToolDriver,
    pose: PlanarGrasp,
    profile: MotionProfile,
    *,
    on_stage: StageCallback | None = None,
    cancelled: CancelCheck | None = None,
    on_step: StepHook | None = None,
) -> TrialOutcome:
    """Carry what is held to a pose at the present height, lower it there, let go and rise.

    Args:
        driver: The robot, after a successful execution.
        pose: Where the gripper lets go; the same ``z`` as that of the grasp stands the object on the table again. Its
            width is not used.
        profile: How to lower.
        on_stage: Called when the stage begins.
        cancelled: Asked after each step; true stops the robot where it is, with its fingers closed.
        on_step: Called after each step.

    Returns:
        ``SUCCESS`` if the object was let go at the pose, ``EMPTY`` if nothing was held, ``SLIPPED`` if it was lost on
        the way, else as for executions.
    """
    return _Placing(driver, pose, profile, on_stage, cancelled, on_step).run()


class _Placing(Execution):
    """One run of carrying, lowering and letting go."""

    success_message = "put down"

    def stages(self) -> None:
        """Carry, lower, let go, rise."""
        self.begin(Stage.PLACE)
        held = [handle for handle in self.world.objects if self.driver.fingers.both_touch(handle)]
        if not held:
            raise Ended(Outcome.EMPTY, "there is nothing between the pads to put down")
        self.target = held[0]
        here = self.driver.tool()
        turn = wrap_half_turn(self.grasp.yaw - float(here[3]))
        there = np.array([self.grasp.x, self.grasp.y, max(float(here[2]), self.grasp.z), float(here[3]) + turn])
        low = np.array([*there[:2], self.grasp.z, there[3]])
        carry, lower = self._line(here, there), self._line(there, low)
        commands = self.driver.plan(np.concatenate([here[None], carry, lower]), from_here=True)[1:]
        for command in commands[: len(carry)]:
            self.driver.follow(command)
            self.step()
        if not self.driver.fingers.both_touch(self.target):
            raise Ended(Outcome.SLIPPED, "the object was lost on the way to where it was to be put down")
        self._lower(commands[len(carry) :])
        self._let_go()

    def _lower(self, commands: Array) -> None:
        """Lower until the pose, or until the object stands on something."""
        for command in commands:
            self.driver.follow(command)
            self.step()
            self.force = max(self.force, self._support_force())
            if self.force > self.profile.contact_limit:
                self.driver.stop()
                return

    def _support_force(self) -> float:
        """Newtons with which the object presses on anything but the robot."""
        target = self.target
        if target is None:
            return 0.0
        points = self.world.bullet.getContactPoints(target.body, physicsClientId=self.world.client)
        return float(sum(point[9] for point in points if point[2] != self.driver.body))

    def _let_go(self) -> None:
        fingers = self.driver.fingers
        opening = min(self.driver.gripper.max_opening, fingers.opening + _RELEASE)
        fingers.drive(self.profile.close_speed)
        while fingers.opening < opening - 1e-4:
            before = fingers.opening
            self.step()
            if fingers.opening <= before:
                break
        fingers.hold(fingers.opening)
        self.wait(_REST)
        here = self.driver.tool()
        up = self._line(here, here + np.array([0.0, 0.0, _RETREAT, 0.0]))
        for command in self.driver.plan(up, from_here=True):
            self.driver.follow(command)
            self.step()
        if self.target is not None and self.driver.fingers.both_touch(self.target):
            raise Ended(Outcome.ROBOT_FAULT, "the object stuck between the pads")

    def _line(self, start: Array, end: Array) -> Array:
        """Tool poses (n, 4) on the way between two, limited in speed along and about the vertical."""
        length = float(np.linalg.norm(end[:3] - start[:3]))
        turn = abs(float(end[3] - start[3]))
        slowest = max(length / _CARRY_SPEED, turn / _CARRY_TURN)
        if slowest < 1e-9:
            return end[None]
        shares = trapezoid(1.0, 1 / slowest, _CARRY_ACCELERATION / _CARRY_SPEED / slowest, self.world.time_step)
        return np.asarray(start + shares[:, None] * (end - start))
