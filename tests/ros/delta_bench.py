"""An emulated Delta in a process of its own, the node that drives it in another, and a client of the node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

import yaml
from diagnostic_msgs.msg import DiagnosticArray
from keygrasp_interfaces.action import ExecuteGrasp
from keygrasp_ros.action_client import SureActionClient
from keygrasp_ros.client import PickClient
from keygrasp_ros.graph import NODES
from keygrasp_ros.topics import DIAGNOSTICS, EMERGENCY_STOP, EXECUTE, HOLDING, RESET_STOP, STOP
from keygrasp_ros.waiting import Acquaintance, wait_for, wait_until
from lifecycle_msgs.srv import ChangeState
from node_nursery import ForkedNodes
from ros_calls import Calls
from std_srvs.srv import Trigger

NODE = "delta_robot"
#: Slow enough for a test to act within a stage, at the scale below.
ROBOT = {
    "motion": {"speed": 0.2, "descend_speed": 0.05, "lift_speed": 0.05},
    "tool": {"settle": 0.5},
    "boot_seconds": 0.1,
    "reconnect_seconds": 10.0,
}
SCALE = 3.0
TABLE = -0.44
PATIENCE = 60.0
#: A robot with a stop command, which X1 has not.
X2 = """\
{name: X2-like, units: mm, convention: side, base: 259.04, effector: 120.0, upper_arm: 130.0, forearm: 315.0,
 home_angle: -38.5, home_z: -200.31, floor: -402.0, radius: 170.0, max_speed: 850.0, max_acceleration: 30000.0,
 dialect: x2}
"""


def goal(**change):
    message = ExecuteGrasp.Goal()
    message.header.frame_id = "workspace"
    message.grasp.x, message.grasp.y, message.grasp.z, message.grasp.width = 0.03, -0.02, 0.01, 0.03
    for name, value in change.items():
        setattr(message.grasp, name, value)
    return message


class EmulatorProcess:
    """``keygrasp delta emulate`` and its log, in a folder."""

    def __init__(self, folder, *options):
        self.link, self._folder, self._options, self._lives = folder / "port", folder, options, 0
        self.start()

    def start(self):
        self._lives += 1
        self._log = self._folder / f"events-{self._lives}.jsonl"
        command = [sys.executable, "-m", "keygrasp.cli.main", "delta", "emulate", "--scale", str(SCALE)]
        self.process = subprocess.Popen(
            [*command, "--link", str(self.link), "--log", str(self._log), *self._options],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout.readline().strip() == str(self.link)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def events(self):
        text = self._log.read_text(encoding="utf-8")
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def lines(self, start=""):
        """Commands that were begun so far, without the boot's own homing."""
        return [e["line"] for e in self.events() if e["event"] == "begin" and e["line"] and e["line"].startswith(start)]

    def has(self, event):
        return any(e["event"] == event for e in self.events())

    def is_still(self, seconds=0.4):
        """Whether nothing is begun for a while, and nothing is under way."""
        before = len(self.lines("G"))
        time.sleep(seconds)
        events = self.events()
        names = [e["event"] for e in events if e["event"] in ("begin", "end", "stop")]
        return len(self.lines("G")) == before and (not names or names[-1] != "begin")


class DeltaBench:
    """The node on an emulated robot.

    Args:
        folder: For files.
        options: More parameters of the node, as ``name:=value``.
        emulated: More options of the emulator.
    """

    def __init__(self, folder, *options, emulated=(), robot=ROBOT):
        self.emulator = EmulatorProcess(folder, *emulated)
        file = folder / "robot.yaml"
        file.write_text(yaml.safe_dump({"port": str(self.emulator.link), **robot}))
        self._given = (f"robot_file:={file}", f"table_height:={TABLE}", *options)
        self.log = folder / "node.log"
        self.log.touch()
        self.client = PickClient("delta_bench")
        node = self.client.node
        self._call = Calls(node, self._lives)
        self._robot = SureActionClient(node, ExecuteGrasp, EXECUTE.name)
        self._stop = node.create_publisher(EMERGENCY_STOP.type, EMERGENCY_STOP.name, EMERGENCY_STOP.qos)
        self._holding = node.create_publisher(HOLDING.type, HOLDING.name, HOLDING.qos)
        self.holding = True
        self.health = {}
        node.create_subscription(DIAGNOSTICS.type, DIAGNOSTICS.name, self._hear, DIAGNOSTICS.qos)
        self._ended = threading.Event()
        threading.Thread(target=self._tell, daemon=True).start()

    def start(self, *more):
        """Start the node; it need not be ready yet."""
        arguments = [text for given in (*self._given, *more) for text in ("-p", given)]
        spec = next(spec for spec in NODES if spec.name == NODE)
        self.health = {}
        self._nodes = ForkedNodes([spec], {NODE: arguments}, os.environ, self.log)
        self._nodes.start()
        return self

    @property
    def process(self):
        return self._nodes.children[NODE]

    def wait_ready(self):
        services = ((ChangeState, f"{NODE}/change_state"), (Trigger, STOP.name), (Trigger, RESET_STOP.name))
        known = [Acquaintance(self._robot.server_is_ready), *(self._call.meet(*service)[1] for service in services)]
        self._wait(lambda: all([is_known() for is_known in known]), "no robot")  # noqa: C419 - each must be asked
        self._wait(self._stop.get_subscription_count, "no emergency stop")
        self._wait(lambda: self.health.get("message") == "running", "not active")
        return self

    def revive(self):
        """Start again what a test left dead; the next one need not fail for it."""
        if self.emulator.process.poll() is not None:
            self.emulator.start()
        if self.process.poll() is not None:
            self.start().wait_ready()
        return self

    def _wait(self, ready, what):
        wait_until(ready, what, PATIENCE, self._lives)

    def _lives(self):
        """Asked while something is awaited from the node, which nobody need wait for once it has ended."""
        assert self.process.poll() is None, f"the node has ended: {self.log.read_text()[-4000:]}"
        return False

    def _hear(self, message: DiagnosticArray):
        for status in message.status:
            if status.name == f"/{NODE}":
                values = {pair.key: pair.value for pair in status.values}
                self.health = {"level": status.level, "message": status.message, **values}

    def _tell(self):
        while not self._ended.wait(0.05):
            if self.holding is not None:
                self._holding.publish(HOLDING.type(data=self.holding))

    def send(self, message, on_stage=lambda stage: None):
        sent = self._robot.send_goal_async(message, feedback_callback=lambda m: on_stage(m.feedback.stage))
        return wait_for(sent, "no answer", PATIENCE, self._lives)

    def result(self, handle, seconds=PATIENCE):
        return wait_for(handle.get_result_async(), "no result", seconds, self._lives)

    def execute(self, message, on_stage=lambda stage: None):
        return self.result(self.send(message, on_stage)).result.outcome

    def begun(self, message, stage):
        """Send a goal and wait until a stage of it begins."""
        seen = []
        handle = self.send(message, seen.append)
        self._wait(lambda: stage in seen, f"'{stage}' never came")
        return handle

    def change_state(self, *transitions):
        for transition in transitions:
            request = ChangeState.Request()
            request.transition.id = transition
            assert self._call(ChangeState, f"{NODE}/change_state", request).success, self.log.read_text()

    def trigger(self, name):
        return self._call(Trigger, name, Trigger.Request())

    def emergency_stop(self):
        self._stop.publish(EMERGENCY_STOP.type())

    def close(self):
        """End everything; returns the node's exit status."""
        self._ended.set()
        self._robot.destroy()
        self.client.close()
        self.process.terminate()
        status = self.process.wait(60)
        self.emulator.kill()
        return status
