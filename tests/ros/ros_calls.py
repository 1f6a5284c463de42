"""Calls of services by tests."""

from keygrasp_ros.waiting import Acquaintance, wait_for, wait_until


def never():
    return False


class Calls:
    """Calls services from a node; keeps each client, because a server answers only whom it knows."""

    def __init__(self, node):
        self._node, self._clients = node, {}

    def __call__(self, kind, name, request, seconds=60.0):
        if name not in self._clients:
            client = self._node.create_client(kind, name)
            self._clients[name] = client, Acquaintance(client.service_is_ready)
        client, is_known = self._clients[name]
        wait_until(is_known, f"no {name}", seconds, never)
        return wait_for(client.call_async(request), f"no answer from {name}", seconds, never)
