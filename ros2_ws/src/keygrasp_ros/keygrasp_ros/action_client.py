"""An action client that misses no answer."""

from __future__ import annotations

import threading
from typing import Any

from rclpy.action import ActionClient
from rclpy.task import Future


class SureActionClient(ActionClient):
    """rclpy's action client, for executors with several threads.

    rclpy 7 notes a request only after it has sent it: an answer that another thread takes in between counts as
    unexpected and is lost, so that who waits for it waits in vain while the arm moves. Here answers are taken only when
    no request is between the two; ``rclpy.client.Client`` does the same.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._sending = threading.Lock()
        super().__init__(*arguments, **options)

    def send_goal_async(self, *arguments: Any, **options: Any) -> Future:
        """As rclpy's."""
        with self._sending:
            return super().send_goal_async(*arguments, **options)

    def _cancel_goal_async(self, *arguments: Any) -> Future:
        with self._sending:
            return super()._cancel_goal_async(*arguments)

    def _get_result_async(self, *arguments: Any) -> Future:
        with self._sending:
            return super()._get_result_async(*arguments)

    def take_data(self) -> dict[str, Any]:
        """As rclpy's."""
        with self._sending:
            data: dict[str, Any] = super().take_data()
            return data
