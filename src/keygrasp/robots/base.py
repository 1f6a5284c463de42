"""What a robot must offer to execute planar grasps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from keygrasp.scene import GripperSpec, Outcome, PlanarGrasp, ReachFilter, Stage, TrialOutcome

#: Called when a stage begins.
StageCallback = Callable[[Stage], None]
#: Asked often during motion; true stops the robot and ends the execution as cancelled.
CancelCheck = Callable[[], bool]


class Unreachable(Exception):  # noqa: N818 - an answer rather than an error
    """The robot can't follow a path; the text says why."""


def refuse_impossible(grasp: PlanarGrasp, gripper: GripperSpec | None) -> None:
    """Refuse a grasp that can't be made on a table, whatever carries the gripper.

    Args:
        grasp: What is asked for.
        gripper: The gripper; ``None`` where no opening is asked for (a suction cup, placing).

    Raises:
        Unreachable: If its opening is outside the gripper's, or its fingertips would be below the table.
    """
    if gripper is not None and not gripper.min_opening <= grasp.width <= gripper.max_opening + 1e-9:
        raise Unreachable(
            f"an opening of {grasp.width * 1e3:.1f} mm is outside the gripper's "
            f"{gripper.min_opening * 1e3:.0f}–{gripper.max_opening * 1e3:.0f} mm"
        )
    if grasp.z < 0:
        raise Unreachable(f"the fingertips would be {-grasp.z * 1e3:.1f} mm below the table")


class Ended(Exception):  # noqa: N818 - control flow
    """Ends an execution with a verdict."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.outcome, self.message = outcome, message


def pick_and_place(
    robot: PlacingRobot,
    grasp: PlanarGrasp,
    place_at: PlanarGrasp | None,
    *,
    on_stage: StageCallback | None = None,
    cancelled: CancelCheck | None = None,
) -> TrialOutcome:
    """Execute a grasp and, where it succeeded and a place is given, put the object down there."""
    outcome = robot.execute(grasp, on_stage=on_stage, cancelled=cancelled)
    if place_at is None or not outcome.success:
        return outcome
    placed = robot.place(place_at, on_stage=on_stage, cancelled=cancelled)
    return replace(placed, seconds=outcome.seconds + placed.seconds, contact_force=outcome.contact_force)


class Robot(Protocol):
    """Executes planar grasps; its properties work before it is connected."""

    @property
    def name(self) -> str:
        """Name under which results are reported (``gripper``, ``ur5``, ``delta``)."""
        ...

    @property
    def gripper(self) -> GripperSpec:
        """The gripper that it carries."""
        ...

    @property
    def reach(self) -> ReachFilter | None:
        """For planners: which grasps it can make; ``None`` where the gripper is the only limit in the workspace."""
        ...

    def unreachable_reason(self, grasp: PlanarGrasp) -> str | None:
        """Why the robot can't execute ``grasp``, or ``None`` if it can."""
        ...

    def execute(
        self,
        grasp: PlanarGrasp,
        *,
        on_stage: StageCallback | None = None,
        cancelled: CancelCheck | None = None,
    ) -> TrialOutcome:
        """Approach, descend, close, lift and (in trials) shake; never raises for a failed grasp."""
        ...


class PlacingRobot(Robot, Protocol):
    """A robot that can also put down what it holds."""

    def place(
        self,
        pose: PlanarGrasp,
        *,
        on_stage: StageCallback | None = None,
        cancelled: CancelCheck | None = None,
    ) -> TrialOutcome:
        """Carry what is held to a pose, lower it there, let go and rise."""
        ...
