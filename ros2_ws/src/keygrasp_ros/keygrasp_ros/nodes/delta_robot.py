"""Node: ``execute_grasp`` on a Delta X on a serial port. A lifecycle node: it owns the robot.

Configuring connects and homes, activating takes goals, deactivating stops, cleaning up lets go as the robot's file says
and closes the port; so does every end of the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from std_srvs.srv import Trigger

from keygrasp.errors import InputError, KeygraspError
from keygrasp.robots import pick_and_place
from keygrasp.robots.delta_x import DeltaRobot, DeltaX, State
from keygrasp.robots.delta_x.description import describe
from keygrasp.scene import Outcome, Stage, TrialOutcome
from keygrasp_ros.delta_publisher import DeltaPublisher, broken, details
from keygrasp_ros.delta_setup import (
    HOLDING_REMEDY,
    PARAMETERS,
    EmulatedPort,
    HoldingFeed,
    camera_of,
    robot_config,
    table_of,
)
from keygrasp_ros.diagnostics import Monitor
from keygrasp_ros.emergency import EmergencyStop
from keygrasp_ros.grasp_server import GraspJob, GraspServer
from keygrasp_ros.lifecycle import OwningNode
from keygrasp_ros.parameters import reader
from keygrasp_ros.running import node_main
from keygrasp_ros.topics import RESET_STOP

#: Seconds in which a motion that was told to end has ended; after that it is stopped as in an emergency.
_REST_SECONDS = 10.0


class DeltaRobotNode(OwningNode):
    """Owns the robot."""

    def __init__(self, **options: Any) -> None:
        super().__init__("delta_robot", **options)
        self._read = reader(self, PARAMETERS)
        self._stopped = threading.Event()
        self._driver: DeltaX | None = None
        self._robot: DeltaRobot | None = None
        self._publisher: DeltaPublisher | None = None
        self._parts: list[Callable[[], object]] = []
        self._emergency = EmergencyStop(self, self._stop_now)
        self._monitor = Monitor(
            self,
            self._missing,
            details=self._details,
            broken=lambda: broken(self._driver, stopped=self._stopped.is_set()),
        )
        self._grasps = GraspServer(self, self._monitor, self._read("workspace_frame"), self._grasp)
        group = ReentrantCallbackGroup()
        self.create_service(RESET_STOP.type, RESET_STOP.name, self._reset, callback_group=group)
        if self._read("autostart"):
            self.start("the Delta's node")

    def close(self) -> None:
        """Put everything away, and hear no emergency stop any more."""
        if not self._closed:
            super().close()
            self._emergency.close()

    # Lifecycle

    def _set_up(self) -> None:
        """Connect, and home."""
        read, config = self._read, robot_config(self._read)
        holding = None
        if read("holding") == "topic":
            holding = HoldingFeed(self, read("holding_timeout"))
            self._parts.append(holding.close)
        table, camera = table_of(config, read), camera_of(read)
        if read("emulate"):
            emulated = EmulatedPort(config.model, read("emulator_scale"))
            self._parts.append(emulated.close)
            config = emulated.drive(config)
        self._driver = DeltaX(config)  # before the look at the stop: one that comes after it reaches the driver
        if self._stopped.is_set():
            raise InputError("an emergency stop is in force", f"Call the service {RESET_STOP.name}")
        self._robot = DeltaRobot(self._driver, table, holding=holding, remedy=HOLDING_REMEDY)
        self._publisher = DeltaPublisher(self, describe(self._driver.model, config.tool))
        self._parts.append(self._publisher.close)
        self._driver.connect()
        self._publisher.publish_fixed(read("workspace_frame"), self._robot.table, camera)
        timer = self.create_timer(1.0 / read("state_rate"), self._publish_state, ReentrantCallbackGroup())
        self._parts.append(lambda: self.destroy_timer(timer))

    def _begin(self) -> None:
        self._grasps.begin()

    def _come_to_rest(self) -> None:
        """Stop the robot, which holds what it has, and take no goals."""
        if not self._grasps.end(_REST_SECONDS) and self._driver is not None:
            self.get_logger().error("a motion does not end: stopped as in an emergency")
            self._stop_now()
            self._grasps.end(_REST_SECONDS)

    def _put_away(self) -> None:
        """Let go as the robot's file says, and close the port."""
        driver, self._driver, self._robot, self._publisher = self._driver, None, None, None
        for problem in driver.close() if driver is not None else ():
            self._monitor.fault(problem)
        while self._parts:
            self._parts.pop()()

    # Emergency stop

    def _stop_now(self) -> None:
        """From the emergency stop's own thread: nothing here waits."""
        self._stopped.set()
        driver = self._driver
        if driver is not None:
            driver.emergency_stop()

    def _reset(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """Let the robot move again, which homes it; not while a goal still ends."""
        try:
            with self._changing, self._grasps.idle(_REST_SECONDS):
                self._stopped.clear()
                if self._driver is not None:
                    self._driver.reset()
            response.success, response.message = True, "homed" if self._driver is not None else "may be configured"
        except KeygraspError as error:
            response.message = str(error)
        return response

    # Goals and state

    def _grasp(self, job: GraspJob) -> TrialOutcome:
        robot, driver = self._robot, self._driver
        if robot is None or driver is None:
            raise InputError("the Delta's node is not configured")
        if self._stopped.is_set():
            raise InputError("an emergency stop is in force", f"Call the service {RESET_STOP.name}")

        if job.place_at is not None and (reason := robot.unreachable_reason(job.place_at, placing=True)):
            return TrialOutcome(Outcome.UNREACHABLE, message=f"where to place: {reason}")

        def on_stage(stage: Stage) -> None:
            job.tell(stage, driver.whereabouts.opening or 0.0)

        with self._monitor.timed():
            return pick_and_place(robot, job.grasp, job.place_at, on_stage=on_stage, cancelled=job.cancelled)

    def _publish_state(self) -> None:
        driver, publisher = self._driver, self._publisher
        if driver is None or publisher is None or driver.state is not State.READY:
            return  # where it is then is not known
        publisher.publish_state(driver.whereabouts, busy=self._grasps.busy.locked())

    def _missing(self) -> list[str]:
        return [] if self._grasps.is_active else ["being activated"]

    def _details(self) -> dict[str, object]:
        return self._emergency.figures() | details(self._driver, self._publisher)


def main() -> int:
    """Run the node."""
    return node_main(DeltaRobotNode)
