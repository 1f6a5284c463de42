"""What all simulated robots share: they execute and place in the same stages."""

from __future__ import annotations

from typing import Protocol

from keygrasp.robots import CancelCheck, StageCallback
from keygrasp.robots.motion import MotionProfile
from keygrasp.scene import PlanarGrasp, ReachFilter, TrialOutcome
from keygrasp.sim.placing import place_stages
from keygrasp.sim.stages import StepHook, ToolDriver, execute_stages, unreachable_reason


class _Staged(ToolDriver, Protocol):
    """A driver that knows how it moves."""

    @property
    def profile(self) -> MotionProfile:
        """How it moves."""
        ...

    @property
    def on_step(self) -> StepHook | None:
        """Called after each step."""
        ...


class StagedRobot:
    """Makes a :class:`~keygrasp.sim.stages.ToolDriver` with a ``profile`` a :class:`keygrasp.robots.Robot`."""

    #: Called after each step of an execution, for pictures and recordings.
    on_step: StepHook | None = None
    #: Which grasps planners may propose.
    reach: ReachFilter | None = None

    def unreachable_reason(self: _Staged, grasp: PlanarGrasp) -> str | None:
        """Why it can't execute ``grasp``, or ``None`` if it can."""
        return unreachable_reason(self, grasp, self.profile)

    def execute(
        self: _Staged,
        grasp: PlanarGrasp,
        *,
        on_stage: StageCallback | None = None,
        cancelled: CancelCheck | None = None,
    ) -> TrialOutcome:
        """Execute a grasp; see :func:`keygrasp.sim.stages.execute_stages`."""
        return execute_stages(self, grasp, self.profile, on_stage=on_stage, cancelled=cancelled, on_step=self.on_step)

    def place(
        self: _Staged,
        pose: PlanarGrasp,
        *,
        on_stage: StageCallback | None = None,
        cancelled: CancelCheck | None = None,
    ) -> TrialOutcome:
        """Put down what it holds; see :func:`keygrasp.sim.placing.place_stages`."""
        return place_stages(self, pose, self.profile, on_stage=on_stage, cancelled=cancelled, on_step=self.on_step)
