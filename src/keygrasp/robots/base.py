"""What a robot must offer to execute planar grasps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from keygrasp.scene import GripperSpec, Outcome, PlanarGrasp, Stage, TrialOutcome

#: Called when a stage begins.
StageCallback = Callable[[Stage], None]
#: Asked often during motion; true stops the robot and ends the execution as cancelled.
CancelCheck = Callable[[], bool]


class Unreachable(Exception):  # noqa: N818 - an answer rather than an error
    """The robot can't follow a path; the text says why."""


class Ended(Exception):  # noqa: N818 - control flow
    """Ends an execution with a verdict."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.outcome, self.message = outcome, message


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
