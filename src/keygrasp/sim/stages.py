"""The stages of an execution, written once for every simulated robot."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from keygrasp.geometry.poses import Array, wrap_angle
from keygrasp.robots import CancelCheck, Ended, StageCallback, Unreachable, refuse_impossible
from keygrasp.robots.motion import MotionProfile, TrialPath, trial_path
from keygrasp.scene import GripperSpec, Outcome, PlanarGrasp, Stage, TrialOutcome
from keygrasp.sim.fingers import Fingers
from keygrasp.sim.world import ObjectHandle, World

#: How far the tool may be from where it should be.
POSITION_TOLERANCE = 0.002
YAW_TOLERANCE = math.radians(1.0)
#: Steps between checks on the way whether the tool is where it should be and the object not lost.
_CHECK_STEPS = 12
#: Steps within which a stopped robot comes to rest.
_STOP_STEPS = 24
#: Called after each time step with the stage that is under way.
StepHook = Callable[[Stage], None]


class ToolDriver(Protocol):
    """What the stages need of a robot: to follow a path of its tool, one command a time step."""

    @property
    def world(self) -> World:
        """Where the robot is."""
        ...

    @property
    def body(self) -> int:
        """The engine's id of its body."""
        ...

    @property
    def fingers(self) -> Fingers:
        """Its fingers."""
        ...

    @property
    def gripper(self) -> GripperSpec:
        """Its gripper."""
        ...

    def plan(self, path: Array, *, from_here: bool = False) -> Array:
        """Commands (n, joints) that follow a tool path.

        Args:
            path: (n, 4) rows of x, y, z, yaw.
            from_here: Whether it begins where the tool is, so that the commands must continue from the present ones.

        Raises:
            Unreachable: If it can't.
        """
        ...

    def approach(self, command: Array, opening: float, step: Callable[[], None]) -> None:
        """Go to where a path begins, away from objects, with open fingers.

        Args:
            command: Where to go.
            opening: Metres between the pads.
            step: Advances the world by a step; not called by robots that are there at once.
        """
        ...

    def follow(self, command: Array) -> None:
        """Drive to a command within the next step."""
        ...

    def stop(self) -> None:
        """Brake, and hold the joints where they come to rest."""
        ...

    def tool(self) -> Array:
        """Where the tool is now, (4,)."""
        ...


def unreachable_reason(driver: ToolDriver, grasp: PlanarGrasp, profile: MotionProfile) -> str | None:
    """Why a grasp can't be executed on what stands on the table now, or ``None``."""
    try:
        _plan(driver, grasp, profile)
    except Unreachable as reason:
        return str(reason)
    return None


def execute_stages(
    driver: ToolDriver,
    grasp: PlanarGrasp,
    profile: MotionProfile,
    *,
    on_stage: StageCallback | None = None,
    cancelled: CancelCheck | None = None,
    on_step: StepHook | None = None,
) -> TrialOutcome:
    """Execute a grasp and judge it by KG-1's rule: both pads touch, and the centre of mass has risen enough.

    Args:
        driver: The robot.
        grasp: What to execute.
        profile: How.
        on_stage: Called when a stage begins.
        cancelled: Asked after each step; true stops the robot where it is.
        on_step: Called after each step.

    Returns:
        The verdict. An execution ends early where the verdict can't change any more.
    """
    return Execution(driver, grasp, profile, on_stage, cancelled, on_step).run()


def _plan(driver: ToolDriver, grasp: PlanarGrasp, profile: MotionProfile) -> tuple[TrialPath, Array]:
    refuse_impossible(grasp, driver.gripper)
    world = driver.world
    top = max((world.top_of(handle) for handle in world.objects), default=0.0)
    path = trial_path(grasp, top, profile, world.time_step)
    return path, driver.plan(path.whole)


class Execution:
    """One run through the stages of a grasp."""

    success_message = "lifted and held"

    def __init__(
        self,
        driver: ToolDriver,
        grasp: PlanarGrasp,
        profile: MotionProfile,
        on_stage: StageCallback | None,
        cancelled: CancelCheck | None,
        on_step: StepHook | None,
    ) -> None:
        self.driver, self.grasp, self.profile = driver, grasp, profile
        self.on_stage, self.cancelled, self.on_step = on_stage, cancelled, on_step
        self.world = driver.world
        self.stage = Stage.APPROACH
        self.force = 0.0
        self.heights = {handle.body: self.world.height_of(handle) for handle in self.world.objects}
        self.target: ObjectHandle | None = None
        self.lost_since = 0

    def run(self) -> TrialOutcome:
        """Go through the stages until one ends the execution."""
        began = self.world.time
        try:
            self.stages()
        except Unreachable as reason:
            ended = Ended(Outcome.UNREACHABLE, str(reason))
        except Ended as end:
            ended = end
        else:
            ended = Ended(Outcome.SUCCESS, self.success_message)
        return TrialOutcome(
            outcome=ended.outcome,
            rise=self._rise(),
            opening=self.driver.fingers.opening,
            contact_force=self.force,
            seconds=self.world.time - began,
            message=ended.message,
        )

    def stages(self) -> None:
        """Descend, close, lift and shake; returns after a success, else raises :class:`Ended`."""
        path, commands = _plan(self.driver, self.grasp, self.profile)
        ends = np.cumsum([1, len(path.descend), len(path.lift)])
        start, descend, lift, shake = np.split(commands, ends)
        self.begin(Stage.APPROACH)
        self.driver.approach(start[0], self.grasp.width, self.step)
        self.begin(Stage.DESCEND)
        self._descend(descend)
        self._arrived(path.descend[-1] if len(path.descend) else path.start)
        self.begin(Stage.CLOSE)
        self._close()
        self.begin(Stage.LIFT)
        self._follow(path.lift, lift, watch_from=len(lift) // 4)
        lifted = self._holds()
        if self.profile.shake:
            self.begin(Stage.SHAKE)
            self._follow(path.shake, shake)
            self.begin(Stage.HOLD)
            self.wait(self.profile.hold_time)
        if not self._holds():
            if lifted:
                raise Ended(Outcome.SHAKEN, "the object was lost while shaking")
            raise Ended(Outcome.SLIPPED, "the object was not held after lifting")

    def _descend(self, commands: Array) -> None:
        for command in commands:
            self.driver.follow(command)
            self.step()
            force = self._contact_force()
            self.force = max(self.force, force)
            if force > self.profile.contact_limit:
                self.driver.stop()
                raise Ended(Outcome.CONTACT_TOO_EARLY, f"met something with {force:.0f} N while descending")

    def _close(self) -> None:
        """Close until the fingers have stalled, and find out what they hold."""
        fingers, dt = self.driver.fingers, self.world.time_step
        fingers.drive(-self.profile.close_speed)
        patience = max(2, round(self.profile.stall_time / dt))
        limit = math.ceil(self.grasp.width / 2 / self.profile.close_speed / dt) + 6 * patience
        openings = [fingers.opening]
        for _ in range(limit):
            self.step()
            openings.append(fingers.opening)
            if len(openings) > patience and openings[-1 - patience] - openings[-1] < 1e-4:
                break
        held = [handle for handle in self.world.objects if fingers.both_touch(handle)]
        if not held:
            raise Ended(Outcome.EMPTY, f"the fingers closed to {fingers.opening * 1e3:.1f} mm on nothing")
        self.target = min(held, key=self._distance)

    def _follow(self, path: Array, commands: Array, watch_from: int = 0) -> None:
        """Follow a path, checking now and then that the tool does, and that the object isn't lost."""
        last = len(commands) - 1
        for index, command in enumerate(commands):
            self.driver.follow(command)
            self.step()
            if index % _CHECK_STEPS == 0 or index == last:
                self._arrived(path[index])
                if index >= watch_from:
                    self._check_lost()

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(round(seconds / self.world.time_step)):
            self.step()

    def _check_lost(self) -> None:
        """End early once the object is out of reach: it touched nothing of the robot twice, and is too low."""
        target = self.target
        if target is None:
            return
        touching = self.world.bullet.getContactPoints(self.driver.body, target.body, physicsClientId=self.world.client)
        if touching or self._rise() >= self.profile.required_rise:
            self.lost_since = 0
            return
        self.lost_since += 1
        if self.lost_since >= 2:
            if self.stage is Stage.LIFT:
                raise Ended(Outcome.SLIPPED, "the object slipped out while lifting")
            raise Ended(Outcome.SHAKEN, "the object was lost while shaking")

    def _holds(self) -> bool:
        """KG-1's success rule."""
        target = self.target
        return (
            target is not None and self._rise() >= self.profile.required_rise and self.driver.fingers.both_touch(target)
        )

    def _rise(self) -> float:
        """Metres by which the target has risen; before one is known, the object nearest to the grasp."""
        target = self.target or min(self.world.objects, key=self._distance, default=None)
        return 0.0 if target is None else self.world.height_of(target) - self.heights[target.body]

    def _distance(self, handle: ObjectHandle) -> float:
        position = self.world.object_pose(handle)[:2, 3]
        return float(np.hypot(position[0] - self.grasp.x, position[1] - self.grasp.y))

    def _contact_force(self) -> float:
        """Newtons with which the robot presses on anything."""
        points = self.world.bullet.getContactPoints(self.driver.body, physicsClientId=self.world.client)
        return float(sum(point[9] for point in points))

    def _arrived(self, goal: Array) -> None:
        """Check that the tool is where the stage should have brought it."""
        tool = self.driver.tool()
        error = float(np.linalg.norm(tool[:3] - goal[:3]))
        turn = abs(wrap_angle(float(tool[3] - goal[3])))
        if error > POSITION_TOLERANCE or turn > YAW_TOLERANCE:
            raise Ended(
                Outcome.ROBOT_FAULT,
                f"the tool stopped {error * 1e3:.1f} mm and {math.degrees(turn):.1f}° off its target "
                f"in stage '{self.stage}'",
            )

    def begin(self, stage: Stage) -> None:
        """Begin a stage."""
        self.stage = stage
        if self.on_stage is not None:
            self.on_stage(stage)

    def step(self) -> None:
        """Advance by a time step; ends the execution if asked to."""
        self.world.step()
        self._checkpoint()

    def _checkpoint(self) -> None:
        """After each step: tell who watches, and stop if asked."""
        if self.on_step is not None:
            self.on_step(self.stage)
        if self.cancelled is not None and self.cancelled():
            self.driver.stop()
            self.world.step(_STOP_STEPS)
            holding = any(self.driver.fingers.both_touch(handle) for handle in self.world.objects)
            state = "holds the object" if holding else "is empty"
            raise Ended(
                Outcome.CANCELLED,
                f"cancelled in stage '{self.stage}': the gripper {state}, "
                f"{self.driver.fingers.opening * 1e3:.0f} mm open",
            )
