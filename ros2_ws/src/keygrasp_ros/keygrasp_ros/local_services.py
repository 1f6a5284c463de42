"""Services between nodes of one process, without the middleware in between.

Each of them is an ordinary ROS service too; but where client and server share a process, a request goes straight to the
server's callback, on a thread of the caller's executor. That saves milliseconds a call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import CallbackGroup, ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.service import Service
from rclpy.task import Future

from keygrasp_ros.own_process import OwnProcess
from keygrasp_ros.topics import Endpoint

Answer = Callable[[Any, Any], Any]
_OFFERED = OwnProcess[Service]()


def serve(node: Node, endpoint: Endpoint, answer: Answer) -> None:
    """Offer a service.

    Args:
        node: Node that offers it.
        endpoint: Name and type.
        answer: Takes the request and an empty response, and returns the response. Within a process both are shared, not
            copied: neither side may change what it gave or got.
    """
    service = node.create_service(endpoint.type, endpoint.name, answer, callback_group=ReentrantCallbackGroup())
    _OFFERED.add(node.context, service.service_name, service)


class ServiceCaller:
    """Calls a service, in this process or in another.

    Args:
        node: Node that calls; it needs an executor on which a callback can wait, see ``LeanExecutor``.
        endpoint: Name and type.
        group: Callback group of the answers.
    """

    def __init__(self, node: Node, endpoint: Endpoint, group: CallbackGroup) -> None:
        self._node, self._type = node, endpoint.type
        self._client = node.create_client(endpoint.type, endpoint.name, callback_group=group)

    def is_ready(self) -> bool:
        """Whether somebody offers it."""
        return self._local() is not None or bool(self._client.service_is_ready())

    def call_async(self, request: Any) -> Future:
        """Send a request; the future holds the response."""
        answer = self._local()
        if answer is None:
            return self._client.call_async(request)
        return self._node.executor.create_task(answer, request, self._type.Response())

    def forget(self, future: Future) -> None:
        """Nobody waits for this answer any more."""
        self._client.remove_pending_request(future)

    def _local(self) -> Answer | None:
        """What answers in this process; ``None`` where nobody does so (any more)."""
        service = _OFFERED.find(self._node.context, self._client.service_name)
        return None if service is None else service.callback
