"""What tests ask the system about processes."""

import os
import signal
import subprocess
from pathlib import Path


def children_of(pid):
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in listed.stdout.split()]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return not status.startswith("Z")


def is_ready_for_signals(pid):
    """Whether our handlers are set: before, Python itself catches SIGINT, but not SIGTERM."""
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(status["SigCgt"], 16) & 1 << (signal.SIGTERM - 1))


def running(child):
    """A check for :meth:`PickClient.wait_ready` that gives up, with the output, when the graph has ended."""

    def check():
        assert child.poll() is None, child.communicate()[0]
        return False

    return check
