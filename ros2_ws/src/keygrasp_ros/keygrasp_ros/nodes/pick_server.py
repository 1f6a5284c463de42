"""Node: the ``/pick`` action: look, understand, plan, refine, execute, with feedback at each stage."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
from keygrasp_interfaces.msg import Grasp, GraspPlan, PerceivedScene, PickRecord
from keygrasp_interfaces.msg import TrialOutcome as OutcomeMessage
from rclpy.action import ActionServer
from rclpy.action.server import ServerGoalHandle
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from std_msgs.msg import Header, String

from keygrasp.errors import InputError, KeygraspError
from keygrasp.scene import Outcome
from keygrasp_ros.camera_feed import CameraFeed, Pair
from keygrasp_ros.conversions import checked_frame, grasp_of, pose_matrix
from keygrasp_ros.diagnostics import Monitor
from keygrasp_ros.frames import listen
from keygrasp_ros.goals import accept_cancel, end_goal, ended_early
from keygrasp_ros.graph import DEFAULT_PLANNER, PLANNERS
from keygrasp_ros.markers import outcome_markers
from keygrasp_ros.parameters import WORKSPACE_FRAME, Parameter, reader
from keygrasp_ros.pick_once import COMMAND
from keygrasp_ros.pick_steps import STOP_SECONDS, PickSteps
from keygrasp_ros.pregrasp import PREGRASP, PreGrasp
from keygrasp_ros.running import node_main
from keygrasp_ros.stages import PUSH_STAGE, PlanningStage
from keygrasp_ros.topics import OUTCOME_MARKERS, PICK, PICK_TASK, RECORD
from keygrasp_ros.waiting import CancelledError

PARAMETERS = (
    WORKSPACE_FRAME,
    Parameter("planner", DEFAULT_PLANNER, "Which grasp is executed.", choices=PLANNERS),
    Parameter("image_timeout", 5.0, "Seconds to wait for a depth image that is newer than the goal.", 0.1, 600.0),
    Parameter("max_image_age", 0.0, "Seconds by which the image may be older than the goal.", 0.0, 600.0),
    Parameter("service_timeout", 10.0, "Seconds to wait for each planning service.", 0.1, 600.0),
    Parameter("execution_timeout", 120.0, "Seconds to wait for the robot.", 1.0, 3600.0),
    *PREGRASP,
)


class PickServer(Node):
    """Serves one pick at a time."""

    def __init__(self, **options: Any) -> None:
        super().__init__("pick_server", **options)
        read = reader(self, PARAMETERS)
        self._frame: str = read("workspace_frame")
        self._busy = threading.Lock()
        self._closing = threading.Event()
        self._frames = listen(self)
        group = ReentrantCallbackGroup()
        self._steps = PickSteps(self, read, CameraFeed(self), group)
        self._pregrasp = PreGrasp(self, read, group)
        place = self.get_namespace()
        command = COMMAND if place == "/" else f"{COMMAND} --namespace {place}"
        self._monitor = Monitor(self, self._steps.missing, f"ready; pick from another terminal: {command}")
        self._records = self.create_publisher(RECORD.type, RECORD.name, RECORD.qos)
        self._markers = self.create_publisher(OUTCOME_MARKERS.type, OUTCOME_MARKERS.name, OUTCOME_MARKERS.qos)
        self._tasks = self.create_publisher(PICK_TASK.type, PICK_TASK.name, PICK_TASK.qos)
        self._server = ActionServer(
            self, PICK.type, PICK.name, self._execute, callback_group=group, cancel_callback=accept_cancel
        )

    def close(self) -> None:
        """End the pick that is under way, while answers can still arrive."""
        self._closing.set()
        if self._busy.acquire(timeout=2 * STOP_SECONDS):
            self._busy.release()

    def _execute(self, handle: ServerGoalHandle) -> PICK.type.Result:
        if not self._busy.acquire(blocking=False):
            return self._end(
                handle, _Pick(), OutcomeMessage.REFUSED, "busy with another pick; wait for it or cancel it"
            )
        try:
            with self._monitor.timed():
                return self._pick(handle)
        finally:
            self._busy.release()

    def _pick(self, handle: ServerGoalHandle) -> PICK.type.Result:
        pick = _Pick(cancelled=lambda: handle.is_cancel_requested or self._closing.is_set())
        try:
            pick.goal = handle.request
            place_at = self._place_at(handle.request)
            if pick.goal.task:  # whoever imagines or scores learns what it is for, before the first image
                self._tasks.publish(String(data=pick.goal.task))
            self._plan(handle, pick)
            made = 0
            while not pick.plan.found and self._pregrasp.push(
                pick.scene, made, pick.cancelled, lambda text: self._tell(handle, pick, PUSH_STAGE, message=text)
            ):
                made += 1
                self._plan(handle, pick)
            if not pick.plan.found:
                reason = pick.plan.reason + (f"; {made} push(es) have not changed that" if made else "")
                return self._end(handle, pick, Outcome.NO_GRASP, reason)
            pick.outcome = self._steps.execute(
                pick.plan,
                place_at,
                pick.cancelled,
                lambda stage: self._tell(handle, pick, stage, grasp=pick.plan.grasp),
            )
            return self._end(handle, pick, pick.outcome.outcome, pick.outcome.message)
        except CancelledError:
            return self._end(handle, pick, Outcome.CANCELLED, "cancelled while planning; the robot did not move")
        except InputError as error:
            return self._end(handle, pick, OutcomeMessage.REFUSED, str(error))
        except KeygraspError as error:
            self._monitor.fault(str(error))
            return self._end(handle, pick, Outcome.ROBOT_FAULT, str(error))

    def _plan(self, handle: ServerGoalHandle, pick: _Pick) -> None:
        self._tell(handle, pick, PlanningStage.LOOK)
        pick.pair = self._steps.look(pick.cancelled)
        self._tell(handle, pick, PlanningStage.PERCEIVE)
        pick.scene = self._steps.extract(pick.pair, pick.cancelled)
        self._tell(handle, pick, PlanningStage.GENERATE, message=f"{len(pick.scene.objects)} object(s) on the table")
        pick.plan = self._steps.generate(pick.scene, handle.request.target, pick.cancelled)
        if self._steps.refines and pick.scene.objects:
            self._tell(handle, pick, PlanningStage.REFINE, message=f"{len(pick.plan.candidates)} candidates")
            pick.plan, warning = self._steps.refine(pick.scene, pick.plan, pick.cancelled)
            if warning:
                self._tell(handle, pick, PlanningStage.REFINE, grasp=pick.plan.grasp, message=warning)
            for number, grasp in enumerate(pick.plan.path, start=1):
                self._tell(handle, pick, PlanningStage.REFINE, step=number, grasp=grasp)

    def _place_at(self, goal: PICK.type.Goal) -> Grasp | None:
        """Where to put the object down, ``None`` for not at all; a pose that can't be used is refused at once."""
        if not goal.place:
            return None
        frame = checked_frame(goal.place_pose.header, "place_pose")
        pose = goal.place_pose.pose
        in_frame = pose_matrix(pose.position, pose.orientation, "place_pose")
        in_workspace = self._frames.pose(frame, self._frame) @ in_frame
        x, y, z = in_workspace[:3, 3].tolist()
        along = in_workspace[:3, 0]
        if float(np.hypot(along[0], along[1])) < 0.1:
            raise InputError("place_pose: its x axis is vertical", "Let x point along the closing axis")
        return Grasp(x=x, y=y, z=z, yaw=float(np.arctan2(along[1], along[0])))

    def _tell(
        self,
        handle: ServerGoalHandle,
        pick: _Pick,
        stage: str,
        *,
        step: int = 0,
        grasp: Grasp | None = None,
        message: str = "",
    ) -> None:
        stamp = pick.pair[0].header.stamp if pick.pair else self.get_clock().now().to_msg()
        feedback = PICK.type.Feedback(stage=stage, refinement_step=step, message=message)
        feedback.header = Header(stamp=stamp, frame_id=self._frame)
        feedback.grasp_known = grasp is not None
        if grasp is not None:
            grasp_of(grasp)  # refuses a NaN
            feedback.grasp = grasp
        handle.publish_feedback(feedback)

    def _end(self, handle: ServerGoalHandle, pick: _Pick, outcome: str, message: str) -> PICK.type.Result:
        """Give the goal its final state and return its result; publish the record of what was done."""
        now = self.get_clock().now().to_msg()
        if pick.outcome is None:
            pick.outcome = ended_early(outcome, message, now)
        result = PICK.type.Result(outcome=pick.outcome, plan=pick.plan, seconds=time.monotonic() - pick.started)
        if pick.pair is not None and not self._closing.is_set():
            header = Header(stamp=now, frame_id=self._frame)
            image, info = pick.pair
            record = PickRecord(header=header, depth=image, camera_info=info, scene=pick.scene, plan=pick.plan)
            record.task, record.target = pick.goal.task, pick.goal.target
            record.outcome, record.seconds = pick.outcome, result.seconds
            self._records.publish(record)
            self._markers.publish(outcome_markers(pick.outcome, header))
        self.get_logger().info(f"pick: {outcome}{': ' if message else ''}{message}")
        end_goal(handle, pick.outcome)
        return result


class _Pick:
    """What one pick knows so far."""

    def __init__(self, cancelled: Any = lambda: False) -> None:
        self.started = time.monotonic()
        self.cancelled = cancelled
        self.pair: Pair | None = None
        self.goal = PICK.type.Goal()
        self.scene = PerceivedScene()
        self.plan = GraspPlan()
        self.outcome: OutcomeMessage | None = None


def main() -> int:
    """Run the node."""
    return node_main(PickServer)
