"""Calls of services by tests."""

from keygrasp_ros.waiting import Acquaintance, wait_for, wait_until


def never():
    return False


class Calls:
    """Calls services from a node; keeps each client, because a server answers only whom it knows.

    Args:
        node: The node.
        check: Asked while it waits; may raise to give up early.
    """

    def __init__(self, node, check=never):
        self._node, self._check, self._clients = node, check, {}

    def __call__(self, kind, name, request, seconds=60.0):
        client, is_known = self.meet(kind, name)
        wait_until(is_known, f"no {name}", seconds, self._check)
        return wait_for(client.call_async(request), f"no answer from {name}", seconds, self._check)

    def meet(self, kind, name):
        """The client, and whether it is known to the server: takes a second, for which a motion doesn't wait."""
        if name not in self._clients:
            client = self._node.create_client(kind, name)
            self._clients[name] = client, Acquaintance(client.service_is_ready)
        return self._clients[name]
