"""Nodes in processes of their own that start in a moment: forked from a process that has imported everything.

Importing a node takes seconds of a core, most of them for torch, and tests start and kill nodes dozens of times. Apart
from that it is what ``python -m keygrasp_ros.executables NODE`` does; other tests start nodes that way.
"""

from __future__ import annotations

import ctypes
import faulthandler
import functools
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path
from typing import ClassVar

from keygrasp_ros.executables import run_executable
from keygrasp_ros.graph import NODES
from keygrasp_ros.processes import NodeProcesses
from keygrasp_ros.running import PARENT_VARIABLE

_PR_SET_PDEATHSIG = 1


@functools.cache
def nursery():
    """The context whose processes are forked from one that has imported all nodes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([spec.module for spec in NODES] + ["keygrasp_ros.up"])
    return context


def run_node(name, *arguments):
    """What ``python -m keygrasp_ros.executables NAME --ros-args ARGUMENTS`` does."""
    return functools.partial(_run_node, name, arguments)


def run_up(*arguments):
    """What ``keygrasp up ARGUMENTS`` does."""
    return functools.partial(_run_up, arguments)


class Forked:
    """A forked process, with the part of :class:`subprocess.Popen` that tests use.

    Args:
        function: What it runs; returns its exit status.
        environment: Its environment.
        log: File to which its output is added.
    """

    known: ClassVar = weakref.WeakSet()

    def __init__(self, function, environment, log):
        self._log = Path(log)
        self.told_to_end = False
        self._process = nursery().Process(target=_live, args=(function, dict(environment), str(log)), daemon=True)
        self._process.start()
        self.pid = self._process.pid
        self.known.add(self)

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def wait(self, timeout=None):
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.whereabouts(), timeout)
        return self.returncode

    def whereabouts(self):
        """Its status and the end of its log, in which, while it runs, it says first where all its threads are."""
        self.send_signal(signal.SIGUSR1)
        time.sleep(1.0)
        return f"{self._process.name}, status {self.returncode}: ... {self._log.read_text()[-20000:]}"

    def communicate(self, timeout=None):
        self.wait(timeout)
        return self._log.read_text(), None

    def send_signal(self, number):
        self.told_to_end |= number in (signal.SIGINT, signal.SIGTERM)
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


class ForkedNodes(NodeProcesses):
    """The graph as one forked process a node; ``log`` and ``environment`` are needed."""

    def start_one(self, name):
        self.children[name] = Forked(run_node(name, *self._arguments[name]), self._environment, self._log)


def all_whereabouts():
    """Where the threads of this process are, and those of each forked one that still runs or broke."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        ours = file.read()
    found = [child for child in Forked.known if child.returncode is None or child.returncode > 0]
    return "\n\n".join([ours, *(child.whereabouts() for child in found)])


def _run_node(name, arguments):
    sys.argv = [name, "--ros-args", *arguments]
    return run_executable(name)


def _run_up(arguments):
    from keygrasp_ros.up import main

    return main(arguments)


def _live(function, environment, log):
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # nobody outlives tests that were killed
    os.setsid()
    os.environ.clear()
    os.environ.update(environment, **{PARENT_VARIABLE: str(os.getppid())})
    with Path(log).open("ab") as output:
        for stream in (1, 2):
            os.dup2(output.fileno(), stream)
    faulthandler.register(signal.SIGUSR1)
    sys.exit(function())
