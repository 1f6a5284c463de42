"""``execute_grasp``, written once for every robot: one goal at a time, refusals in words, feedback, cancel, verdict."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from builtin_interfaces.msg import Time
from rclpy.action import ActionServer
from rclpy.action.server import ServerGoalHandle
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node

from keygrasp.errors import InputError, KeygraspError
from keygrasp.robots import CancelCheck
from keygrasp.scene import Outcome, PlanarGrasp, Stage, TrialOutcome
from keygrasp_ros.conversions import grasp_of, outcome_message
from keygrasp_ros.diagnostics import Monitor
from keygrasp_ros.goals import accept_cancel, end_goal, refuse
from keygrasp_ros.lifelines import offer
from keygrasp_ros.steps import check_frame
from keygrasp_ros.topics import EXECUTE


@dataclass(frozen=True)
class GraspJob:
    """What one goal asks of a robot.

    Attributes:
        grasp: The grasp, in the workspace frame.
        place_at: Where to put the object down; ``None`` for not at all.
        cancelled: True once the goal is cancelled or the node goes to rest: the robot must stop.
        tell: Sends feedback: the stage that begins, and the metres between the pads.
    """

    grasp: PlanarGrasp
    place_at: PlanarGrasp | None
    cancelled: CancelCheck
    tell: Callable[[Stage, float], None]


class GraspServer:
    """The action server of a lifecycle node that owns a robot.

    Args:
        node: The node.
        monitor: Where refusals and faults are counted.
        workspace_frame: The frame in which grasps must be given.
        work: Executes a job; a :class:`KeygraspError` that it raises before anything moves refuses the goal.
        patience: Seconds for which a goal waits for :attr:`busy` before it is refused.
        now: The time of results; the node's clock where it is left out.
    """

    def __init__(
        self,
        node: Node,
        monitor: Monitor,
        workspace_frame: str,
        work: Callable[[GraspJob], TrialOutcome],
        *,
        patience: float = 0.0,
        now: Callable[[], Time] | None = None,
    ) -> None:
        self._node, self._monitor, self._frame, self._work = node, monitor, workspace_frame, work
        self._patience = patience
        self._now = now or (lambda: node.get_clock().now().to_msg())
        #: Who holds it may use the robot.
        self.busy = threading.Lock()
        self._shift: object | None = None
        self._lifeline = offer(node, EXECUTE)
        self._server = ActionServer(
            node,
            EXECUTE.type,
            EXECUTE.name,
            self._execute,
            callback_group=ReentrantCallbackGroup(),
            cancel_callback=accept_cancel,
        )

    @property
    def is_active(self) -> bool:
        """Whether goals are taken."""
        return self._shift is not None

    def begin(self) -> None:
        """Take goals from now on."""
        self._shift = object()

    def end(self, seconds: float = 0.0) -> bool:
        """Take no goals and stop the one that is under way.

        Args:
            seconds: How long to wait for its end.

        Returns:
            Whether nothing is under way any more.
        """
        self._shift = None
        if not self.busy.acquire(timeout=seconds):
            return False
        self.busy.release()
        return True

    @contextmanager
    def idle(self, seconds: float) -> Iterator[None]:
        """Hold goals off while the robot is used for something else.

        Args:
            seconds: How long to wait for the end of one that is under way.

        Raises:
            InputError: If it has not ended by then.
        """
        if not self.busy.acquire(timeout=seconds):
            raise InputError("a goal is still under way", "Wait for its end")
        try:
            yield
        finally:
            self.busy.release()

    def check_active(self) -> None:
        """Refuse what needs an active node.

        Raises:
            InputError: If it is not active.
        """
        if not self.is_active:
            name = self._node.get_name()
            raise InputError(f"{name} is not active", f"Configure and activate it: ros2 lifecycle set {name} …")

    def _execute(self, handle: ServerGoalHandle) -> EXECUTE.type.Result:
        deadline = time.monotonic() + self._patience
        while not self.busy.acquire(timeout=min(0.05, self._patience)):
            if time.monotonic() >= deadline:
                return self._refused(handle, "busy with another grasp")
        try:
            return self._run(handle)
        except KeygraspError as error:
            return self._refused(handle, str(error))
        finally:
            self.busy.release()

    def _run(self, handle: ServerGoalHandle) -> EXECUTE.type.Result:
        goal, shift = handle.request, self._shift
        check_frame(goal.header, self._frame, "grasp")
        self.check_active()

        def tell(stage: Stage, opening: float) -> None:
            handle.publish_feedback(EXECUTE.type.Feedback(stage=str(stage), opening=opening))

        outcome = self._work(
            GraspJob(
                grasp=grasp_of(goal.grasp),
                place_at=grasp_of(goal.place_at) if goal.place else None,
                cancelled=lambda: handle.is_cancel_requested or self._shift is not shift,
                tell=tell,
            )
        )
        if outcome.outcome is Outcome.ROBOT_FAULT:
            self._monitor.fault(outcome.message)
        result = EXECUTE.type.Result(outcome=outcome_message(outcome, self._now()))
        end_goal(handle, result.outcome)
        return result

    def _refused(self, handle: ServerGoalHandle, reason: str) -> EXECUTE.type.Result:
        return refuse(handle, self._monitor, EXECUTE.type, reason, self._node.get_clock().now().to_msg())
