"""Running nodes in a process: signals, a multi-threaded executor, and an orderly end.

The executor spins on a thread of its own, so that the main thread is always free for SIGINT and SIGTERM: either ends
the process with status 0 and without a traceback, after each node's ``close()`` has stopped what was moving.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence

import rclpy
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from keygrasp.errors import KeygraspError

#: Set by ``keygrasp up`` for the processes that it starts: they end when it ends, however it ends.
CHILD_VARIABLE = "KEYGRASP_CHILD"
#: Threads of the executor: callbacks may wait for each other (a pick waits for services and an execution).
_THREADS = 8
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
    if os.environ.get(CHILD_VARIABLE):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    rclpy.init(args=list(arguments) if arguments is not None else None, signal_handler_options=SignalHandlerOptions.NO)
    executor = MultiThreadedExecutor(num_threads=_THREADS)
    nodes: list[Node] = []
    try:
        for create in factories:
            if stop.is_set():
                return 0
            nodes.append(create())
            executor.add_node(nodes[-1])
        return _spin(executor, stop)
    except KeygraspError as error:
        print(f"keygrasp: {error}", file=sys.stderr)
        return error.exit_code
    finally:
        _close(executor, nodes)


def node_main(factory: NodeFactory) -> int:
    """The ``main`` of one node's process."""
    return run_nodes([factory])


def _spin(executor: MultiThreadedExecutor, stop: threading.Event) -> int:
    faults: list[BaseException] = []

    def spin() -> None:
        try:
            executor.spin()
        except ExternalShutdownException:
            pass
        except BaseException as error:  # a fault in a callback: reported below, on the main thread
            faults.append(error)
        finally:
            stop.set()

    thread = threading.Thread(target=spin, name="executor", daemon=True)
    thread.start()
    # A timeout keeps the main thread responsive to signals on every platform.
    while not stop.wait(0.5):
        pass
    if faults:
        print(f"keygrasp: a node broke: {type(faults[0]).__name__}: {faults[0]}", file=sys.stderr)
        return 1
    return 0


def _close(executor: MultiThreadedExecutor, nodes: Sequence[Node]) -> None:
    """Stop what moves, let running callbacks end, then take the nodes down."""
    for node in nodes:
        close = getattr(node, "close", None)
        if close is not None:
            close()
    executor.shutdown(timeout_sec=5.0)
    for node in nodes:
        node.destroy_node()
    rclpy.try_shutdown()
