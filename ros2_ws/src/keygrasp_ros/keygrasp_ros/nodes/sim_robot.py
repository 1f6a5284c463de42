"""Node: a simulated table with a camera and an arm. It owns the physics world, hence its lifecycle.

While it is active it publishes the camera's images and the arm's state, and offers ``execute_grasp``,
``load_object`` and ``reset_scene``. Simulated time runs as fast as it can while the arm moves, unless
``real_time_factor`` holds it back, and stands still in between: the image of a scene is taken once and repeated.
"""

from __future__ import annotations

import threading
from typing import Any

from builtin_interfaces.msg import Time
from keygrasp_interfaces.srv import LoadObject
from rclpy.callback_groups import ReentrantCallbackGroup
from std_srvs.srv import Trigger

from keygrasp.errors import KeygraspError
from keygrasp.objects import split
from keygrasp.robots import CancelCheck
from keygrasp.scene import Stage, TrialOutcome
from keygrasp.scene.pushes import PlanarPush
from keygrasp_ros.diagnostics import Monitor
from keygrasp_ros.grasp_server import GraspJob, GraspServer
from keygrasp_ros.lifecycle import OwningNode
from keygrasp_ros.parameters import reader
from keygrasp_ros.push_server import PushServer
from keygrasp_ros.running import node_main
from keygrasp_ros.sim_clock import SimClock
from keygrasp_ros.sim_parameters import PARAMETERS
from keygrasp_ros.sim_publisher import SimPublisher
from keygrasp_ros.sim_scene import SimScene
from keygrasp_ros.steps import answering
from keygrasp_ros.ticking import EachSecond
from keygrasp_ros.topics import LOAD_OBJECT, RESET_SCENE


class SimRobot(OwningNode):
    """Owns the simulated scene."""

    def __init__(self, **options: Any) -> None:
        super().__init__("sim_robot", **options)
        self._read = reader(self, PARAMETERS)
        self._monitor = Monitor(self)
        self._closing = threading.Event()
        self._scene: SimScene | None = None
        self._publisher: SimPublisher | None = None
        self._sim_clock = SimClock(self) if self._read("publish_clock") else None
        self._ticks: list[Any] = []
        self._watching = threading.Lock()
        self._camera: Any = None
        group = ReentrantCallbackGroup()
        # A timer's tick may hold the world for a moment.
        self._grasps = GraspServer(
            self, self._monitor, self._read("workspace_frame"), self._grasp, patience=1.0, now=self._result_time
        )
        self._pushes = PushServer(self, self._monitor, self._grasps, self._read("workspace_frame"), self._push)
        self.create_service(LOAD_OBJECT.type, LOAD_OBJECT.name, self._load_object, callback_group=group)
        self.create_service(RESET_SCENE.type, RESET_SCENE.name, self._reset_scene, callback_group=group)
        if self._read("autostart"):
            self.start("the simulator")

    def close(self) -> None:
        """Stop the arm and free the world; the node can't be used afterwards."""
        self._closing.set()
        super().close()

    # Lifecycle

    def _set_up(self) -> None:
        """Build the physics world with the object of the parameters."""
        name = self._read("object") or split("test")[0]
        self._scene = SimScene(self._read("robot"), full_motion=self._read("full_motion"))
        self._scene.load(name, self._read("rule"), self._read("seed"), self._read("source"))
        self._publisher = SimPublisher(self, self._read, self._scene, self._follow_viewers, self._sim_clock)

    def _begin(self) -> None:
        """Begin to publish and to take goals."""
        self._publisher.publish_fixed()
        self._ticks = [EachSecond(self, self._when_idle(self._publisher.publish_state), ReentrantCallbackGroup())]
        if self._sim_clock is not None:
            self._ticks.append(self._sim_clock.start(self._when_idle(self._sim_clock.idle)))
        self._follow_viewers()
        self._grasps.begin()

    def _come_to_rest(self) -> None:
        """Stop the arm, publish nothing and take no goals."""
        self._grasps.end()
        timers, self._ticks = self._ticks, []
        for timer in timers:
            timer.destroy() if isinstance(timer, EachSecond) else self.destroy_timer(timer)
        self._send_images(False)

    def _put_away(self) -> None:
        """Free the physics world."""
        with self._grasps.busy:
            for part in (self._publisher, self._scene):
                if part is not None:
                    part.close()
            self._scene = self._publisher = None

    # Images

    def _follow_viewers(self) -> None:
        """Send images while anybody takes them, the first at once."""
        if self._publisher is None or not self._ticks:
            return
        wanted = self._publisher.has_viewers
        self._send_images(wanted)
        if wanted:
            self._when_idle(self._publisher.publish_image)()

    def _send_images(self, wanted: bool) -> None:
        """Begin or end to send images at the camera's rate."""
        with self._watching:
            if wanted and self._camera is None:
                publish, period = self._when_idle(self._publisher.publish_image), 1.0 / self._read("camera.rate")
                self._camera = self.create_timer(period, publish, ReentrantCallbackGroup())
            elif not wanted and self._camera is not None:
                # Not cancelled: an executor that is about to call a timer breaks if it was cancelled just before,
                # while one that was destroyed is passed over.
                self.destroy_timer(self._camera)
                self._camera = None

    def _when_idle(self, publish: Any) -> Any:
        """A timer's callback that leaves the world alone while somebody else uses it."""

        def tick() -> None:
            if self._grasps.busy.acquire(blocking=False):
                try:
                    if self._ticks:
                        publish()
                finally:
                    self._grasps.busy.release()

        return tick

    def _load_object(self, request: LoadObject.Request, response: LoadObject.Response) -> LoadObject.Response:
        with answering(response, self._monitor), self._grasps.busy:
            self._active_scene().load(request.name, request.rule, request.seed, request.source)
            self._publisher.publish_fixed()
        return response

    def _reset_scene(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        try:
            with self._grasps.busy:
                self._active_scene().reset()
            response.success = True
        except KeygraspError as error:
            response.message = str(error)
        return response

    def _active_scene(self) -> SimScene:
        self._grasps.check_active()
        return self._scene

    def _grasp(self, job: GraspJob) -> TrialOutcome:
        scene = self._active_scene()

        def on_stage(stage: Stage) -> None:
            job.tell(stage, scene.opening)

        def on_step(stage: Stage) -> None:
            self._publisher.step(self._read("real_time_factor"))

        with self._monitor.timed():
            outcome = scene.execute(
                job.grasp, job.place_at, on_stage=on_stage, cancelled=job.cancelled, on_step=on_step
            )
        self._publisher.publish_state()
        if self._read("observer") and not self._closing.is_set():
            self._publisher.publish_observer()
        scene.prepare_next(lifted=outcome.success and job.place_at is None)
        return outcome

    def _push(self, push: PlanarPush, cancelled: CancelCheck) -> TrialOutcome:
        with self._monitor.timed():
            outcome = self._active_scene().push(push, cancelled)
        self._publisher.publish_state()
        return outcome

    def _result_time(self) -> Time:
        return self._publisher.now()


def main() -> int:
    """Run the node."""
    return node_main(SimRobot)
