"""The emergency stop of a node: heard on an executor and a thread of its own, whatever else the node is busy with.

A node's own executor may have all its threads in callbacks that wait (a pick, a service), and then takes nothing new.
So topic and service belong to a small node beside it, whose only thread does nothing else.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from std_msgs.msg import Empty
from std_srvs.srv import Trigger

from keygrasp_ros.topics import EMERGENCY_STOP, STOP

#: Seconds for the thread to end.
_END_SECONDS = 2.0


class EmergencyStop:
    """Listens to ``emergency_stop``, as a topic and as a service, from the beginning to :meth:`close`.

    Args:
        node: The node whose robot it stops; its remappings of the two names hold here too.
        stop: Stops the robot; must not wait for anything, and never raise.
    """

    def __init__(self, node: Node, stop: Callable[[], None]) -> None:
        self._log, self._stop = node.get_logger(), stop
        self._lock = threading.Lock()
        self._count, self._milliseconds = 0, 0.0
        self._node = Node(
            f"{node.get_name()}_emergency",
            context=node.context,
            namespace=node.get_namespace(),
            use_global_arguments=False,
            start_parameter_services=False,
        )
        topic, service = node.resolve_topic_name(EMERGENCY_STOP.name), node.resolve_service_name(STOP.name)
        self._node.create_subscription(EMERGENCY_STOP.type, topic, self._hear, EMERGENCY_STOP.qos)
        self._node.create_service(STOP.type, service, self._answer)
        self._executor = SingleThreadedExecutor(context=node.context)
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._spin, name="emergency-stop", daemon=True)
        self._thread.start()

    def figures(self) -> dict[str, float]:
        """Stops so far, and milliseconds from hearing the last one until it was on the wire."""
        with self._lock:
            return {"emergency_stops": self._count, "emergency_stop_ms": round(self._milliseconds, 2)}

    def close(self) -> None:
        """Listen no more."""
        self._executor.shutdown(timeout_sec=_END_SECONDS)
        self._thread.join(_END_SECONDS)
        self._node.destroy_node()

    def _spin(self) -> None:
        with contextlib.suppress(ExternalShutdownException):
            self._executor.spin()

    def _hear(self, _: Empty) -> None:
        self._act()

    def _answer(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._act()
        response.success, response.message = True, "stopped; reset_emergency_stop lets it move again"
        return response

    def _act(self) -> None:
        began = time.perf_counter()
        self._stop()
        milliseconds = (time.perf_counter() - began) * 1e3
        with self._lock:
            self._count, self._milliseconds = self._count + 1, milliseconds
        self._log.error(f"EMERGENCY STOP, on the wire after {milliseconds:.1f} ms")
