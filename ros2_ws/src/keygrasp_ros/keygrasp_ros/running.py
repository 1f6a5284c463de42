"""Running nodes in a process: signals, a multi-threaded executor, and an orderly end.

The executor spins on a thread of its own, so that the main thread is always free for SIGINT and SIGTERM: either ends
the process with status 0 and without a traceback, after each node's ``close()`` has stopped what was moving.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node

from keygrasp.errors import KeygraspError
from keygrasp.trials.worker import limit_threads
from keygrasp_ros.executor import LeanExecutor
from keygrasp_ros.joining import join, naming_faults
from keygrasp_ros.signals import Stop, letting_go, stop_on_signal
from keygrasp_ros.threads import one_heap

#: Process id of whoever started this node's process and wants it to end when he ends, however he ends.
PARENT_VARIABLE = "KEYGRASP_PARENT"
#: Threads of the executor: callbacks may wait for each other (a pick waits for services and an execution).
_THREADS = 8
#: Seconds that running callbacks have to end.
_END_SECONDS = 5.0
_PR_SET_PDEATHSIG = 1

NodeFactory = Callable[[], Node]


def run_nodes(factories: Sequence[NodeFactory], arguments: Sequence[str] | None = None) -> int:
    """Create nodes, spin until a signal, close them.

    Args:
        factories: Each returns a node; nodes may have a method ``close()`` that stops what moves.
        arguments: Command line with ``--ros-args``; the process's own by default.

    Returns:
        Exit status: 0 after a signal, a KeygraspError's own status where a node can't start, 1 where one broke.
    """
    stop = stop_on_signal()
    one_heap()
    if not _bound_to_parent():
        return 0
    nodes: list[Node] = []
    try:
        join(arguments)
        executor = LeanExecutor(_THREADS)
        for create in factories:
            if stop.is_set():
                return 0
            with naming_faults():
                nodes.append(create())
            executor.add_node(nodes[-1])
        limit_threads()  # images and batches are so small that more threads only lose
        # What the imports left behind stays: searching it for garbage now and then would cost a plan tens of ms.
        gc.freeze()
        return _run(executor, nodes, stop)
    except KeygraspError as error:
        print(f"keygrasp: {error}", file=sys.stderr)
        return error.exit_code
    finally:
        _leave(nodes)


def _bound_to_parent() -> bool:
    """Ask for a SIGTERM when the parent dies, where there is one that wants it; false if it is dead already."""
    parent = os.environ.get(PARENT_VARIABLE, "")
    if not parent.isdecimal():
        return True
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    return os.getppid() == int(parent)


def node_main(factory: NodeFactory) -> int:
    """The ``main`` of one node's process."""
    return run_nodes([factory])


@contextlib.contextmanager
def spinning(factories: Sequence[NodeFactory], arguments: Sequence[str] = ()) -> Iterator[list[Node]]:
    """Nodes that run beside a script, as long as the context lasts; signals stay the script's own business.

    Args:
        factories: Each returns a node.
        arguments: Command line with ``--ros-args`` for all of them.
    """
    join(arguments)
    executor, nodes = LeanExecutor(_THREADS), list[Node]()
    try:
        for create in factories:
            nodes.append(create())
            executor.add_node(nodes[-1])
        spinner = _Spinner(executor, Stop())
        try:
            yield nodes
        finally:
            spinner.end(nodes)
    finally:
        _leave(nodes)


def _leave(nodes: Sequence[Node]) -> None:
    """Destroy nodes, whose callbacks have ended, and leave ROS."""
    with letting_go():
        for node in nodes:
            node.destroy_node()
        rclpy.try_shutdown()


class _Spinner:
    """Spins an executor on a thread of its own."""

    def __init__(self, executor: LeanExecutor, stop: Stop) -> None:
        self._executor, self._stop = executor, stop
        self.faults: list[BaseException] = []
        self._thread = threading.Thread(target=self._spin, name="executor", daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        try:
            self._executor.spin()
        except ExternalShutdownException:
            pass
        except BaseException as error:  # a fault in a callback: reported on the main thread
            self.faults.append(error)
        finally:
            self._stop.set()

    def end(self, nodes: Sequence[Node]) -> None:
        """Close the nodes and let running callbacks end; afterwards nothing uses the nodes any more."""
        for node in nodes:
            getattr(node, "close", lambda: None)()
        with letting_go():
            self._executor.shutdown(timeout_sec=_END_SECONDS)
            self._thread.join(_END_SECONDS)


def _run(executor: LeanExecutor, nodes: Sequence[Node], stop: Stop) -> int:
    spinner = _Spinner(executor, stop)
    # A timeout keeps the main thread responsive to signals on every platform.
    while not stop.wait(0.5):
        pass
    spinner.end(nodes)
    if spinner.faults:
        fault = spinner.faults[0]
        print(f"keygrasp: a node broke: {type(fault).__name__}: {fault}", file=sys.stderr)
        return 1
    return 0
