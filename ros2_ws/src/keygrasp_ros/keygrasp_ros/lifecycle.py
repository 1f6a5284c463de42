"""Lifecycle nodes that own something: hardware, a simulation, a heavy model."""

from __future__ import annotations

import threading
from typing import Any

from lifecycle_msgs.srv import ChangeState
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn

from keygrasp.errors import KeygraspError


class OwningNode(LifecycleNode):
    """A node that takes hold of something when it is configured, and lets go of it in every way out.

    What that is, a node says with the four methods ``_set_up``, ``_begin``, ``_come_to_rest`` and ``_put_away``; the
    last two are also called where nothing was set up, or only a part of it.

    Args:
        name: Name of the node.
        options: For :class:`rclpy.node.Node`.
    """

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        #: Held while something is set up or put away.
        self._changing = threading.RLock()
        self._closed = False
        service = next(service for service in self.services if service.srv_type is ChangeState)
        self._change_state, service.callback = service.callback, self._change_if_possible

    def start(self, what: str) -> None:
        """Configure and activate, and close the node if that fails.

        Args:
            what: The node in a few words.

        Raises:
            KeygraspError: If one of the two fails; the node's log says why.
        """
        started = False
        try:
            triggers = (self.trigger_configure, self.trigger_activate)
            started = all(trigger() == TransitionCallbackReturn.SUCCESS for trigger in triggers)
        finally:
            if not started:
                self.close()
        if not started:
            raise KeygraspError(f"{what} did not start", "The line above says why")

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Set up; what was begun is put away again where that fails."""
        with self._changing:
            try:
                self._set_up()
            except Exception as error:  # rclpy would swallow it without a word
                self.get_logger().error(f"can't configure: {error}")
                self.on_cleanup(state)
                return TransitionCallbackReturn.FAILURE
        return TransitionCallbackReturn.SUCCESS

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Begin to work."""
        self._begin()
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Come to rest."""
        self._come_to_rest()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState | None) -> TransitionCallbackReturn:
        """Come to rest and put everything away."""
        with self._changing:
            self._come_to_rest()
            self._put_away()
        return TransitionCallbackReturn.SUCCESS

    # The same from any state, and after a fault in a transition.
    on_shutdown = on_error = on_cleanup

    def close(self) -> None:
        """As :meth:`on_cleanup`; the node can't be used afterwards."""
        if not self._closed:
            self._closed = True
            self.on_cleanup(None)

    def destroy_node(self) -> None:
        """Close it first, whoever ends it."""
        self.close()
        super().destroy_node()

    def _change_if_possible(self, request: ChangeState.Request, response: ChangeState.Response) -> ChangeState.Response:
        """As rclpy's, which raises for what can't be done in the present state: that would end the node."""
        try:
            return self._change_state(request, response)
        except _rclpy.RCLError:  # rcl's own line in the log names the transition and the state
            response.success = False
        return response

    def _set_up(self) -> None:
        """Take hold of what the node owns; may raise."""
        raise NotImplementedError

    def _begin(self) -> None:
        """Begin to work."""
        raise NotImplementedError

    def _come_to_rest(self) -> None:
        """Stop what moves and take no more work."""
        raise NotImplementedError

    def _put_away(self) -> None:
        """Let go of everything."""
        raise NotImplementedError
