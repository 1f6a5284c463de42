"""The graph as one process a node: started together, ended together."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from keygrasp.errors import StorageError
from keygrasp_ros.graph import EXECUTABLES, NodeSpec
from keygrasp_ros.running import PARENT_VARIABLE
from keygrasp_ros.signals import stop_on_signal

_STOP_SECONDS = 10.0


class NodeProcesses:
    """Child processes, one a node.

    Args:
        specs: The nodes.
        arguments: ROS arguments of each, by name.
        environment: Their environment; this process's by default.
        log: File to which their output is added; this process's own output where ``None``.
    """

    def __init__(
        self,
        specs: Sequence[NodeSpec],
        arguments: Mapping[str, Sequence[str]],
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> None:
        self._specs, self._arguments, self._log = tuple(spec.name for spec in specs), arguments, log
        self._environment = {**(environment or os.environ), PARENT_VARIABLE: str(os.getpid())}
        self.children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start all of them, each in a session of its own, so that a Ctrl-C reaches this process alone."""
        for name in self._specs:
            self.start_one(name)

    def start_one(self, name: str) -> None:
        """Start one of them, also once more after it has ended."""
        command = [sys.executable, "-m", EXECUTABLES, name, "--ros-args", *self._arguments[name]]
        with self._output() as output:
            self.children[name] = subprocess.Popen(  # noqa: S603 - this interpreter, a module of ours
                command, env=self._environment, start_new_session=True, stdout=output, stderr=output
            )

    def __enter__(self) -> NodeProcesses:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @contextlib.contextmanager
    def _output(self) -> Iterator[IO[bytes] | None]:
        if self._log is None:
            yield None
            return
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            stream = self._log.open("ab")
        except OSError as error:
            raise StorageError(f"can't write {self._log}: {error.strerror}", "Choose another folder") from error
        with stream:
            yield stream

    def ended(self) -> dict[str, int]:
        """Exit status of each node that has ended."""
        return {name: child.returncode for name, child in self.children.items() if child.poll() is not None}

    def stop(self) -> None:
        """End all of them: politely first, then by force."""
        for child in self.children.values():
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        for child in self.children.values():
            try:
                child.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def run_processes(processes: NodeProcesses) -> int:
    """Run until a signal (status 0) or until a node ends by itself (its status, at least 1)."""
    stop = stop_on_signal()
    with processes:
        while not stop.wait(0.2):
            for name, status in processes.ended().items():
                print(f"keygrasp: node {name} ended with status {status}; stopping the others", file=sys.stderr)
                return status if status > 0 else 1
        return 0
