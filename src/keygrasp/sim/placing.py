"""Putting down what a robot holds."""

from __future__ import annotations

import numpy as np

from keygrasp.geometry.poses import Array
from keygrasp.robots import CancelCheck, Ended, StageCallback
from keygrasp.robots.motion import RELEASE, RETREAT, MotionProfile, place_path, straight
from keygrasp.scene import Outcome, PlanarGrasp, Stage, TrialOutcome
from keygrasp.sim.stages import Execution, StepHook, ToolDriver

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
        carry, lower = place_path(here, self.grasp, self.world.time_step)
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
        opening = min(self.driver.gripper.max_opening, fingers.opening + RELEASE)
        fingers.drive(self.profile.close_speed)
        while fingers.opening < opening - 1e-4:
            before = fingers.opening
            self.step()
            if fingers.opening <= before:
                break
        fingers.hold(fingers.opening)
        self.wait(_REST)
        here = self.driver.tool()
        up = straight(here, here + np.array([0.0, 0.0, RETREAT, 0.0]), self.world.time_step)
        for command in self.driver.plan(up, from_here=True):
            self.driver.follow(command)
            self.step()
        if self.target is not None and self.driver.fingers.both_touch(self.target):
            raise Ended(Outcome.ROBOT_FAULT, "the object stuck between the pads")
