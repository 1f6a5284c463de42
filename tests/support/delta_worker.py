"""A program that drives a Delta X, to be killed: moves, closes the gripper, and moves on until it is stopped.

python delta_worker.py PORT [--guardian] [--parent] [--fail]
"""

import sys

import numpy as np
from delta_setup import config

from keygrasp.robots.delta_x import DeltaX, running


def main():
    options = set(sys.argv[2:])
    if "--as-parent" in options:
        import subprocess

        child = subprocess.Popen([sys.executable, __file__, sys.argv[1], "--parent"])
        print(child.pid, flush=True)
        child.wait()
        return
    print("handshake", flush=True)
    setup = config(sys.argv[1], guardian="--guardian" in options, handshake_seconds=20.0)
    with running(DeltaX(setup), with_parent="--parent" in options) as driver:
        print("homed", flush=True)
        driver.move(np.array([[0, 0, -0.3]]))
        driver.grasp()
        print("grasped", flush=True)
        if "--fail" in options:
            raise RuntimeError("a fault of the program")
        while True:
            driver.move(np.array([[0.1, 0, -0.3], [-0.1, 0, -0.3]]), speed=0.1)


if __name__ == "__main__":
    main()
