"""The Delta X as a :class:`keygrasp.robots.Robot`: the same stages and verdicts as every other robot."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keygrasp.errors import InputError, KeygraspError, RobotError
from keygrasp.geometry.poses import Array, make_pose, transform_points
from keygrasp.robots.base import CancelCheck, Ended, StageCallback, Unreachable, refuse_impossible
from keygrasp.robots.delta_x.calibration import Calibration, load_calibration
from keygrasp.robots.delta_x.config import DeltaConfig
from keygrasp.robots.delta_x.driver import DeltaX
from keygrasp.robots.delta_x.failures import HaltedError
from keygrasp.robots.delta_x.model import DeltaModel
from keygrasp.robots.delta_x.reach import GraspReach
from keygrasp.robots.delta_x.state import State
from keygrasp.robots.delta_x.workspace import check_path
from keygrasp.robots.motion import RETREAT
from keygrasp.scene import GripperSpec, Outcome, PlanarGrasp, ReachFilter, Stage, TrialOutcome

#: Metres to each side when shaking.
_SHAKE = 0.01
#: Says whether an object hangs in the tool now: a camera, a vacuum switch, a light barrier, or a person.
HoldingCheck = Callable[[], bool]


@dataclass(frozen=True, eq=False)
class _Plan:
    """Points (n, 3) of the platform for each stage, and the tool's turn."""

    approach: Array
    act: Array
    leave: Array
    shake: Array
    turn: float

    @property
    def whole(self) -> Array:
        return np.concatenate([self.approach, self.act, self.leave, self.shake])


def reach_of_robot(model: DeltaModel, config: DeltaConfig, workspace: Array) -> GraspReach:
    """Which grasps such a robot can reach and turn to, over a workspace with this pose (4, 4) in its frame."""
    motion = config.motion
    rise = max(motion.clearance, motion.lift_height)
    return GraspReach(model, config.tool, workspace, rise, _SHAKE if motion.shake else 0.0)


class DeltaRobot:
    """Executes planar grasps with a Delta X.

    A servo gripper reports nothing, and a finger that touches an object doesn't hold it yet. So an execution is a
    success only if ``holding`` says after the lift that something is held, or if the set-up says to assume it.

    Args:
        driver: The driver; it may be connected later.
        workspace: Where the workspace's frame is; where left out, the calibration that the set-up names.
        holding: Asked after lifting whether the object is held.
        remedy: What to do about it where nothing tells that, as whoever uses this robot would do it.

    Raises:
        InputError: If it is not known where the table is.
    """

    name = "delta"

    def __init__(
        self,
        driver: DeltaX,
        workspace: Calibration | None = None,
        *,
        holding: HoldingCheck | None = None,
        remedy: str = "give a check, or set assume_held",
    ) -> None:
        config = driver.config
        if workspace is None and config.calibration is not None:
            workspace = load_calibration(config.calibration)
        if workspace is None or workspace.frame != "workspace":
            raise InputError("it is not known where the table is", "Run 'keygrasp delta calibrate' and name its file")
        self.driver, self._holding, self._remedy = driver, holding, remedy
        self._pose = workspace.pose
        self._yaw = math.atan2(workspace.pose[1, 0], workspace.pose[0, 0])
        self._held = False

    @property
    def config(self) -> DeltaConfig:
        """The set-up."""
        return self.driver.config

    @property
    def table(self) -> Array:
        """Pose (4, 4) of the workspace in the robot's frame."""
        return self._pose

    @property
    def gripper(self) -> GripperSpec:
        """The gripper that it carries."""
        return self.config.tool.gripper

    @property
    def reach(self) -> ReachFilter:
        """For planners: which grasps it can reach and turn to."""
        return reach_of_robot(self.driver.model, self.config, self._pose)

    def unreachable_reason(self, grasp: PlanarGrasp, *, placing: bool = False) -> str | None:
        """Why it can't grasp or place there from where it is (from home while disconnected), or ``None`` if it can."""
        try:
            self._plan(grasp, placing=placing)
        except Unreachable as reason:
            return str(reason)
        return None

    def execute(
        self,
        grasp: PlanarGrasp,
        *,
        on_stage: StageCallback | None = None,
        cancelled: CancelCheck | None = None,
    ) -> TrialOutcome:
        """Approach, descend, close, lift and (if set up) shake; a connection that was lost is made again first."""
        return self._run(lambda begin: self._grasp(grasp, begin, cancelled), "lifted and held", on_stage, cancelled)

    def place(
        self,
        pose: PlanarGrasp,
        *,
        on_stage: StageCallback | None = None,
        cancelled: CancelCheck | None = None,
    ) -> TrialOutcome:
        """Carry what is held to a pose, lower it there, let go and rise."""
        return self._run(lambda begin: self._place(pose, begin, cancelled), "put down", on_stage, cancelled)

    def home(self, *, cancelled: CancelCheck | None = None) -> bool:
        """Go to the home position, out of a camera's view; returns whether it arrived (else it was cancelled)."""
        try:
            self.driver.move(self.driver.model.home[None], cancelled=cancelled)
        except HaltedError:
            return False
        return True

    # Stages

    def _run(
        self,
        stages: Callable[[StageCallback], float],
        message: str,
        on_stage: StageCallback | None,
        cancelled: CancelCheck | None,
    ) -> TrialOutcome:
        """Go through the stages; whatever the robot does ends in a verdict."""
        began, stage, rise = time.monotonic(), Stage.APPROACH, 0.0

        def begin(now: Stage) -> None:
            nonlocal stage
            stage = now
            if on_stage is not None:
                on_stage(now)
            if cancelled is not None and cancelled():
                raise HaltedError("the motion was cancelled")

        try:
            if self.driver.state is State.LOST:
                self._held = False
                self.driver.reconnect(cancelled=cancelled)
            rise = stages(begin)
            ended = Ended(Outcome.SUCCESS, message)
        except Ended as end:
            ended = end
        except Unreachable as reason:
            ended = Ended(Outcome.UNREACHABLE, str(reason))
        except HaltedError as error:
            stopped = self.driver.state is State.STOPPED
            outcome = Outcome.ROBOT_FAULT if stopped else Outcome.CANCELLED
            ended = Ended(outcome, f"in stage '{stage}': {error.problem}; {self._tool_state()}")
        except KeygraspError as error:
            ended = Ended(Outcome.ROBOT_FAULT, f"in stage '{stage}': {error}; {self._tool_state()}")
        return TrialOutcome(
            ended.outcome,
            rise=rise,
            opening=self.driver.whereabouts.opening or 0.0,
            seconds=time.monotonic() - began,
            message=ended.message,
        )

    def _grasp(self, grasp: PlanarGrasp, begin: StageCallback, cancelled: CancelCheck | None) -> float:
        plan, driver, motion = self._plan(grasp), self.driver, self.config.motion
        begin(Stage.APPROACH)
        self._held = False
        if self.config.tool.kind == "vacuum":
            driver.release()
        else:
            driver.grip(grasp.width)
        driver.move(plan.approach, turn=plan.turn, cancelled=cancelled)
        begin(Stage.DESCEND)
        driver.move(plan.act, speed=motion.descend_speed, cancelled=cancelled)
        begin(Stage.CLOSE)
        self._held = True  # for all that is known, from the moment in which the tool may close
        driver.grasp()
        begin(Stage.LIFT)
        driver.move(plan.leave, speed=motion.lift_speed, cancelled=cancelled)
        self._check_held(Outcome.SLIPPED, "nothing is held after lifting")
        if motion.shake:
            begin(Stage.SHAKE)
            driver.move(plan.shake, speed=motion.lift_speed, cancelled=cancelled)
        begin(Stage.HOLD)
        driver.wait(motion.hold_time)
        self._check_held(Outcome.SHAKEN, "the object was lost after lifting")
        return motion.lift_height

    def _place(self, pose: PlanarGrasp, begin: StageCallback, cancelled: CancelCheck | None) -> float:
        if not self._held:
            raise Ended(Outcome.EMPTY, "nothing is held that could be put down")
        plan, driver, motion = self._plan(pose, placing=True), self.driver, self.config.motion
        begin(Stage.PLACE)
        driver.move(plan.approach, turn=plan.turn, cancelled=cancelled)
        if self._holding is not None:
            self._check_held(Outcome.SLIPPED, "the object was lost on the way to where it was to be put down")
        driver.move(plan.act, speed=motion.descend_speed, cancelled=cancelled)
        driver.release()
        self._held = False
        driver.move(plan.leave, speed=motion.lift_speed, cancelled=cancelled)
        return 0.0

    def _check_held(self, outcome: Outcome, text: str) -> None:
        if self._holding is None:
            if not self.config.assume_held:
                opening = self.driver.whereabouts.opening
                told = "" if opening is None else f" with the gripper told to close to {opening * 1e3:.1f} mm"
                raise Ended(
                    Outcome.EMPTY,
                    f"the motion was made{told}, but nothing tells whether the object is held: not counted as a grasp "
                    f"({self._remedy})",
                )
        elif not self._holding():
            self._held = False
            raise Ended(outcome, text)

    def _tool_state(self) -> str:
        return "the tool is closed" if self._held else "the tool is open"

    # Paths

    def _plan(self, grasp: PlanarGrasp, *, placing: bool = False) -> _Plan:
        """All points from where the robot is, checked along the whole way.

        Raises:
            Unreachable: If any can't be reached.
        """
        tool, motion = self.config.tool, self.config.motion
        refuse_impossible(grasp, self.gripper if tool.kind == "gripper" and not placing else None)
        turn = tool.turn(grasp.yaw + self._yaw)
        if turn is None:
            raise Unreachable(f"the tool can't turn to a yaw of {math.degrees(grasp.yaw):.1f}°")
        height = max(grasp.z + motion.clearance, motion.travel_height)
        low, start, high, lifted = self._platform(
            grasp, (grasp.z, grasp.z + motion.clearance, height, grasp.z + (RETREAT if placing else motion.lift_height))
        )
        aside = lifted + _SHAKE * np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 0]])
        shake = aside if motion.shake and not placing else np.empty((0, 3))
        return self._reachable_plan(_Plan(np.array([high, start]), low[None], lifted[None], shake, turn))

    def _reachable_plan(self, plan: _Plan) -> _Plan:
        """Complete a plan by the way to its first point: directly if that is not lower, else up or down where it is."""
        here, model = self.driver.position, self.driver.model
        fault = check_path(model, plan.whole)
        if fault is not None:  # its first point is where the first move ends
            fault = dataclasses.replace(fault, leg=fault.leg + 1)
        corner = np.array([[here[0], here[1], plan.approach[0, 2]]])
        ways = [np.empty((0, 3)), corner] if here[2] >= corner[0, 2] else [corner]
        for way in ways if fault is None else ():
            approach = np.concatenate([way, plan.approach])
            fault = check_path(model, np.concatenate([here[None], approach]))
            if fault is None:
                return dataclasses.replace(plan, approach=approach)
        raise Unreachable(f"the Delta can't go to {fault}")

    def _platform(self, grasp: PlanarGrasp, heights: tuple[float, ...]) -> Array:
        """Where the platform is, (n, 3) in the robot's frame, for tips at heights above the table."""
        tips = np.array([[grasp.x, grasp.y, z] for z in heights])
        return np.asarray(transform_points(self._pose, tips) + np.array([0.0, 0.0, self.config.tool.length]))


def table_below(height: float) -> Calibration:
    """A level table whose centre lies on the robot's axis, for trying things out with the emulator.

    Args:
        height: z of the table's surface in the robot's frame, negative metres.

    Raises:
        RobotError: If that is not below the base.
    """
    if not (math.isfinite(height) and height < 0):
        raise RobotError(f"a table at z = {height} m is not below the robot", "Give negative metres")
    return Calibration("workspace", make_pose((0.0, 0.0, height)), np.empty(0))
