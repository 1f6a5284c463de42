"""Whether a node's name is taken twice: the same graph started twice, whose servers would both take each goal."""

from __future__ import annotations

from rclpy.node import Node

#: What is said of it.
TEXT = "has a namesake: if the graph was started twice, end one or give it a namespace or a ROS_DOMAIN_ID of its own"
#: Seconds between looks, and looks after which a namesake is no leftover of a process that was killed, which DDS gives
#: up after 20 s.
_PERIOD, _ENOUGH = 5, 6


class Namesakes:
    """Looks for nodes of the same name and namespace now and then.

    Args:
        node: Whose name.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._calls, self._seen = 0, 0

    def stay(self) -> bool:
        """Whether there has been one for a while; to be called each second."""
        if self._calls % _PERIOD == 0:
            name = (self._node.get_name(), self._node.get_namespace())
            several = self._node.get_node_names_and_namespaces().count(name) > 1
            self._seen = self._seen + 1 if several else 0
        self._calls += 1
        return self._seen >= _ENOUGH
