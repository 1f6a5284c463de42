"""Node: symbolic states and a task → the reward of each step with its shaping term, and why.

It is no part of the standard graph: ``keygrasp up sim --with shaped_reward``, the launch files' argument
``shaped_reward:=true`` or ``ros2 run keygrasp_ros shaped_reward`` adds it. A task that is published on
``task`` takes effect with the next state: its potential is that of the new task.
"""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any

import numpy as np
from keygrasp_interfaces import msg
from rclpy.node import Node
from std_msgs.msg import Header

from keygrasp.errors import KeygraspError
from keygrasp.scene.symbols import COLOURS
from keygrasp.scene.tasks import Task, TaskKind
from keygrasp.shaping import Potential, RulePotential, ShapingTerm, ZeroPotential
from keygrasp.shaping.llm import language_model_potential
from keygrasp.shaping.llm_client import LLMConfig
from keygrasp.shaping.rules import task_done
from keygrasp_ros.diagnostics import Monitor
from keygrasp_ros.markers import reward_markers
from keygrasp_ros.parameters import WORKSPACE_FRAME, Parameter, reader
from keygrasp_ros.running import node_main
from keygrasp_ros.steps import check_frame
from keygrasp_ros.symbol_conversions import symbols_of, task_of
from keygrasp_ros.topics import SHAPED_REWARD, SHAPED_REWARD_MARKERS, SYMBOLS, TASK

PARAMETERS = (
    WORKSPACE_FRAME,
    Parameter("potential", "rules", "What scores progress.", choices=("none", "rules", "llm")),
    Parameter("gamma", 0.99, "Discount of the learner, in (0, 1].", 0.000001, 1.0),
    Parameter("scale", 1.0, "Factor of the shaping term.", -1000.0, 1000.0),
    Parameter("task.kind", "lift", "Task until one is published.", choices=tuple(TaskKind)),
    Parameter("task.colour", "", "Colour of the object that is meant; empty for any.", choices=("", *COLOURS)),
    Parameter("task.target_x", 0.0, "For 'place': workspace x in metres of the target circle's centre.", -0.6, 0.6),
    Parameter("task.target_y", 0.0, "For 'place': workspace y in metres of the target circle's centre.", -0.6, 0.6),
    Parameter("task.target_radius", 0.05, "For 'place': the target circle's radius in metres.", 0.001, 0.6),
    Parameter("llm.base_url", "", "OpenAI-compatible endpoint; empty takes it from the environment."),
    Parameter("llm.model", "default", "Name of the model there."),
    Parameter("llm.cache", "", "SQLite file of scores; empty keeps them in memory alone."),
    Parameter("llm.timeout", 20.0, "Seconds that one request may take.", 0.1, 600.0),
)


class ShapedReward(Node):
    """Publishes one :class:`keygrasp_interfaces.msg.ShapedReward` a state."""

    def __init__(self, **options: Any) -> None:
        super().__init__("shaped_reward", **options)
        read = reader(self, PARAMETERS)
        self._frame: str = read("workspace_frame")
        self._monitor = Monitor(self)
        self._lock = threading.Lock()
        self._task = Task(*(read(f"task.{field.name}") for field in dataclasses.fields(Task)))
        self._term = ShapingTerm(_potential(read), read("gamma"), scale=read("scale"))
        self._episode: int | None = None
        self._rewards = self.create_publisher(SHAPED_REWARD.type, SHAPED_REWARD.name, SHAPED_REWARD.qos)
        markers = SHAPED_REWARD_MARKERS
        self._markers = self.create_publisher(markers.type, markers.name, markers.qos)
        self.create_subscription(SYMBOLS.type, SYMBOLS.name, self._on_state, SYMBOLS.qos)
        self.create_subscription(TASK.type, TASK.name, self._on_task, TASK.qos)

    def close(self) -> None:
        """Close what the potential holds open."""
        close = getattr(self._term.potential, "close", None)
        if close is not None:
            close()

    def _on_task(self, message: msg.Task) -> None:
        try:
            task = task_of(message)
        except KeygraspError as error:
            self._monitor.fault(f"task not taken: {error}")
            return
        with self._lock:
            self._task = task
        self.get_logger().info(f"task: {task.text()}")

    def _on_state(self, message: msg.SymbolicState) -> None:
        try:
            check_frame(message.header, self._frame, "symbolic state")
            row = symbols_of(message).to_row()
            with self._lock, self._monitor.timed():
                reward = self._rewarded(row, message.header, message.episode)
        except KeygraspError as error:
            self._monitor.fault(f"state not used: {error}")
            return
        self._rewards.publish(reward)
        self._markers.publish(reward_markers(reward, message))

    def _rewarded(self, row: np.ndarray, header: Header, episode: int) -> msg.ShapedReward:
        """The reward of the step to a state; the first state of an episode earns nothing."""
        task, rows = self._task, row[None]
        done = bool(task_done(rows, task)[0])
        reward = msg.ShapedReward(header=header, episode=episode, task=task.text(), terminated=done)
        if self._episode != episode:  # an episode that ended without success was cut off: its last potential stays
            reward.first = True
            reward.terminated = False
            reward.potential = reward.next_potential = float(self._term.reset(rows, [task])[0])
            self._episode = episode
        elif self._term.running[0]:
            step = self._term.step(rows, [done], [False], [task])
            reward.potential, reward.next_potential = float(step.potential[0]), float(step.next_potential[0])
            reward.shaping, reward.reward = float(step.shaping[0]), float(done)
            reward.total = reward.shaping + reward.reward
        reward.reason = "done" if done else self._term.potential.explain(row, task)
        return reward


def _potential(read: Any) -> Potential:
    name = read("potential")
    if name == "none":
        return ZeroPotential()
    if name == "rules":
        return RulePotential()
    cache = read("llm.cache")
    return language_model_potential(
        LLMConfig(
            base_url=read("llm.base_url"),
            model=read("llm.model"),
            cache=Path(cache) if cache else None,
            timeout=read("llm.timeout"),
        )
    )


def main() -> int:
    """Run the node."""
    return node_main(ShapedReward)
