"""What nodes of this process offer, by context and full name: who asks finds it without the middleware."""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

from rclpy.context import Context
from rclpy.exceptions import InvalidHandle
from rclpy.publisher import Publisher
from rclpy.service import Service

T = TypeVar("T", Service, Publisher)


class OwnProcess(Generic[T]):
    """Services, or publishers, of this process; those whose node was destroyed are not found any more."""

    def __init__(self) -> None:
        self._offered: weakref.WeakKeyDictionary[Context, weakref.WeakValueDictionary[str, T]]
        self._offered = weakref.WeakKeyDictionary()

    def add(self, context: Context, name: str, offered: T) -> None:
        """Let others find ``offered`` by its full name."""
        self._offered.setdefault(context, weakref.WeakValueDictionary())[name] = offered

    def find(self, context: Context, name: str) -> T | None:
        """What is offered under a full name; ``None`` where nothing is (any more)."""
        offered = self._offered.get(context, {}).get(name)
        if offered is None:
            return None
        try:
            with offered.handle:
                return offered
        except InvalidHandle:  # its node was destroyed
            return None
