"""Set-up of a checkout: the venv with every pinned package, and the ROS 2 workspace. Does nothing where all is done.

Run it through ``make setup``, which looks for the tools first and chooses the Python that runs this file.
"""

from __future__ import annotations

import fcntl
import os
import sys
from importlib.util import find_spec

import environment
import ros_workspace
from steps import LOG, ROOT, SetupError, say

EXIT_INTERRUPTED = 130


def sourced_distribution() -> str | None:
    """Name of the ROS 2 distribution that is sourced and works with the Python that runs this, or None."""
    name = os.environ.get("ROS_DISTRO")
    if not name:
        return None
    try:
        import rclpy  # noqa: F401
    except ImportError:
        version = ".".join(map(str, sys.version_info[:2]))
        say(f"[setup] ROS 2 '{name}' is sourced but not for Python {version}: using the Jazzy wheels instead")
        return None
    if find_spec("colcon_core") is None:
        raise SetupError(
            f"ROS 2 '{name}' is sourced, but its build tool colcon is missing",
            "Install it with: sudo apt-get install -y python3-colcon-common-extensions",
        )
    return name


def main() -> int:
    """Bring the checkout to the state that pyproject.toml, constraints.txt and ros2_ws ask for."""
    if " " in str(ROOT):
        raise SetupError(f"the path of this checkout contains a space: {ROOT}", "Move it; ROS 2's build can't take it.")
    LOG.parent.mkdir(parents=True, exist_ok=True)
    with (LOG.parent / "setup.lock").open("w") as lock:
        # Two `make` at once would both write into .venv; the lock goes with the process, whatever ends it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        distribution = sourced_distribution()
        environment.prepare(distribution)
        ros_workspace.build(environment.VENV, distribution)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SetupError as error:
        print(f"keygrasp: {error.problem}.\n{error.remedy}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("keygrasp: set-up interrupted; `make setup` starts it again", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
