"""Picking from a script: connect, load an object, pick with feedback, cancel, read the result.

For example: ``with PickClient() as client: print(client.pick().result.outcome.message)``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from keygrasp_interfaces.msg import PickRecord
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.context import Context
from rclpy.node import Node

from keygrasp.errors import InputError, RobotError
from keygrasp_ros.action_client import SureActionClient
from keygrasp_ros.conversions import picture_of
from keygrasp_ros.diagnostics import RUNNING
from keygrasp_ros.executor import LeanExecutor
from keygrasp_ros.joining import join, naming_faults
from keygrasp_ros.topics import DIAGNOSTICS, LOAD_OBJECT, OBSERVER, PICK, RECORD
from keygrasp_ros.waiting import Acquaintance, wait_for, wait_until

#: Seconds to wait for what was published before the result but travels on another topic.
_LATE_SECONDS = 1.0
#: Seconds in which the pick server answers, and before that is found.
_ANSWER_SECONDS = 10.0


@dataclass(frozen=True)
class PickAnswer:
    """What came of a pick.

    Attributes:
        result: The action's result.
        record: What was seen, planned and done; ``None`` where the pick took no image.
        picture: (H, W, 3) uint8 picture of the arm at the end of the lift; ``None`` where nobody published one.
    """

    result: PICK.type.Result
    record: PickRecord | None
    picture: np.ndarray | None


class PickClient:
    """A client of the graph with its own context, node and thread; use as a context manager.

    Args:
        name: Name of its node.
        namespace: Namespace of the graph.
    """

    def __init__(self, name: str = "pick_client", namespace: str = "") -> None:
        self._context = Context()
        join((), self._context)
        with naming_faults():
            self.node = Node(name, context=self._context, namespace=namespace or None, use_global_arguments=False)
        group = ReentrantCallbackGroup()
        self._action = SureActionClient(self.node, PICK.type, PICK.name, callback_group=group)
        self._loader = self.node.create_client(LOAD_OBJECT.type, LOAD_OBJECT.name, callback_group=group)
        self._may_send: Callable[[], bool] = Acquaintance(self._action.server_is_ready)
        self._may_load: Callable[[], bool] = Acquaintance(self._loader.service_is_ready)
        self._records: list[PickRecord] = []
        self._pictures: list[Any] = []
        for topic, kept in ((RECORD, self._records), (OBSERVER, self._pictures)):
            self.node.create_subscription(topic.type, topic.name, kept.append, topic.qos, callback_group=group)
        self._executor = LeanExecutor(2, context=self._context)
        self._executor.add_node(self.node)
        self._thread = threading.Thread(target=self._executor.spin, name="pick-client", daemon=True)
        self._thread.start()

    def __enter__(self) -> PickClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the graph."""
        self._executor.shutdown(timeout_sec=2.0)
        self._thread.join(timeout=2.0)
        self.node.destroy_node()
        self._context.try_shutdown()

    def wait_ready(self, seconds: float = 30.0, check: Callable[[], bool] = lambda: False) -> None:
        """Wait until the pick server answers and has all that a pick needs; ``check`` may raise to give up early.

        Raises:
            RobotError: If that takes longer; says what is missing.
        """
        deadline = time.monotonic() + seconds
        wait_until(self._action.server_is_ready, f"nobody offers '{PICK.name}'", seconds, check)
        name = f"{self.node.get_namespace().rstrip('/')}/pick_server"
        heard: list[str] = []

        def take(message: DiagnosticArray) -> None:
            heard.extend(status.message for status in message.status if status.name == name)

        group = ReentrantCallbackGroup()
        listener = self.node.create_subscription(
            DIAGNOSTICS.type, DIAGNOSTICS.name, take, DIAGNOSTICS.qos, callback_group=group
        )

        def ready() -> bool:
            self._may_load()  # the time for getting acquainted begins now
            return bool(heard) and heard[-1] == RUNNING

        try:
            wait_until(ready, "the graph is not complete", deadline - time.monotonic(), check)
        except RobotError as error:
            raise RobotError(f"the pick server {heard[-1] if heard else 'says nothing on /diagnostics'}") from error
        finally:
            self.node.destroy_subscription(listener)
        # A server is told of a node's parts in the order in which they were made, and this one knew the last of them.
        self._may_send = self._action.server_is_ready

    def load_object(
        self, name: str, *, rule: str = "E", seed: int = 0, source: str = "embedded", seconds: float = 60.0
    ) -> None:
        """Put an object on the simulator's table.

        Raises:
            InputError: If the simulator can't; says why.
            RobotError: If it does not answer in time.
        """
        wait_until(self._may_load, f"nobody offers '{LOAD_OBJECT.name}'", seconds, lambda: False)
        request = LOAD_OBJECT.type.Request(name=name, rule=rule, seed=seed, source=source)
        response = wait_for(self._loader.call_async(request), "the object was not loaded", seconds, lambda: False)
        if not response.ok:
            raise InputError(response.message)

    def send(self, goal: PICK.type.Goal | None = None, on_feedback: Callable[[Any], None] | None = None) -> Any:
        """Send a goal; returns its handle, for ``cancel_goal_async()`` and :meth:`result`.

        Raises:
            RobotError: If nobody answers.
        """
        wait_until(self._may_send, f"nobody offers '{PICK.name}'", _ANSWER_SECONDS, lambda: False)
        receive = None if on_feedback is None else lambda message: on_feedback(message.feedback)
        future = self._action.send_goal_async(goal or PICK.type.Goal(), feedback_callback=receive)
        handle = wait_for(future, "the pick server did not answer", _ANSWER_SECONDS, lambda: False)
        if not handle.accepted:
            raise RobotError("the pick server rejected the goal", "Its log says why")
        return handle

    def result(
        self, handle: Any, seconds: float = 120.0, check: Callable[[], bool] = lambda: False
    ) -> PICK.type.Result:
        """Wait for the result of a goal."""
        return wait_for(handle.get_result_async(), "the pick did not end", seconds, check).result

    def pick(
        self,
        goal: PICK.type.Goal | None = None,
        on_feedback: Callable[[Any], None] | None = None,
        seconds: float = 120.0,
        check: Callable[[], bool] = lambda: False,
    ) -> PickAnswer:
        """Pick, and wait for the end.

        Raises:
            RobotError: If nobody answers in time.
        """
        self._pictures.clear()
        result = self.result(self.send(goal, on_feedback), seconds, check)
        record = self._record(result)
        return PickAnswer(result, record, picture_of(self._pictures[-1]) if self._pictures else None)

    def _record(self, result: PICK.type.Result) -> PickRecord | None:
        """The record of a result; it travels on another topic and may arrive a moment later."""
        if result.plan.header.frame_id == "":
            return None
        deadline = time.monotonic() + _LATE_SECONDS
        while time.monotonic() < deadline:
            for record in reversed(self._records):
                if record.plan.header.stamp == result.plan.header.stamp:
                    del self._records[:-1]
                    return record
            time.sleep(0.01)
        return None
