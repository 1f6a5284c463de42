"""The shaped reward's node: conversions, and states and tasks in, rewards with reasons out, over real DDS."""

import math

import pytest
from builtin_interfaces.msg import Time
from keygrasp_interfaces.msg import ShapedReward, SymbolicState, Task
from keygrasp_ros.client import PickClient
from keygrasp_ros.graph import OPTIONAL, PLANNERS, nodes_for
from keygrasp_ros.isolation import free_domain
from keygrasp_ros.symbol_conversions import symbols_message, symbols_of, task_message, task_of
from keygrasp_ros.topics import SHAPED_REWARD, SYMBOLS, TASK
from keygrasp_ros.waiting import wait_until
from node_nursery import run_node
from std_msgs.msg import Header

from keygrasp.errors import InputError
from keygrasp.scene import SymbolicState as State
from keygrasp.scene import Task as LibraryTask
from keygrasp.shaping import RulePotential

pytestmark = pytest.mark.ros
FAR = State(
    object_x=0.0, object_y=0.0, object_z=0.03, object_yaw=1.5, object_length=0.1, object_width=0.04,
    object_height=0.06, object_shape="flat", object_colour="blue", gripper_x=0.2, gripper_y=0.0, gripper_z=0.1,
    gripper_yaw=0.0, gripper_width=0.08,
)  # fmt: skip
NEAR = FAR.replace(gripper_x=0.0)
HELD = NEAR.replace(
    gripper_z=0.07, object_z=0.09, contact_left=True, contact_right=True, height=0.06, held_steps=10, gripper_width=0.04
)
HEADER = Header(stamp=Time(sec=3), frame_id="workspace")


def test_states_and_tasks_survive_the_way_through_messages():
    assert symbols_of(symbols_message(HELD, HEADER, 2)) == HELD
    for task in (LibraryTask("reach", "blue"), LibraryTask("place", target_x=0.1, target_radius=0.02)):
        assert task_of(task_message(task)) == task
    assert task_of(Task(kind="lift")) == LibraryTask()


def test_bad_messages_are_named():
    message = symbols_message(FAR, HEADER, 0)
    message.gripper_x = math.nan
    with pytest.raises(InputError, match="gripper_x"):
        symbols_of(message)
    with pytest.raises(InputError, match="unknown"):
        task_of(Task(kind="juggle"))
    with pytest.raises(InputError, match="radius"):
        task_of(Task(kind="place"))


def test_the_node_is_in_a_graph_only_where_it_is_asked_for():
    assert "shaped_reward" in OPTIONAL
    for planner in PLANNERS:
        usual = nodes_for(planner)
        assert "shaped_reward" not in {spec.name for spec in usual}
        asked = nodes_for(planner, extra=("shaped_reward",))
        assert [spec.name for spec in asked] == [s.name for s in usual] + ["shaped_reward"]


@pytest.mark.slow
def test_rewards_follow_states_and_a_changed_task(fork, monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", str(free_domain()))
    fork(run_node("shaped_reward", "-p", "gamma:=0.9"))
    with PickClient() as client:
        got: list[ShapedReward] = []
        client.node.create_subscription(SHAPED_REWARD.type, SHAPED_REWARD.name, got.append, SHAPED_REWARD.qos)
        states = client.node.create_publisher(SYMBOLS.type, SYMBOLS.name, SYMBOLS.qos)
        tasks = client.node.create_publisher(TASK.type, TASK.name, TASK.qos)
        wait_until(lambda: states.get_subscription_count() and tasks.get_subscription_count(), "no node", 60.0, bool)

        def send(state, episode=1, **header):
            count = len(got)
            states.publish(
                symbols_message(state, Header(stamp=Time(sec=3), **{"frame_id": "workspace", **header}), episode)
            )
            return count

        def answer(state, episode=1):
            count = send(state, episode)
            wait_until(lambda: len(got) > count, "no reward", 20.0, lambda: False)
            return got[-1]

        phi = {s: float(RulePotential().values(s.to_row()[None], LibraryTask())[0]) for s in (FAR, NEAR)}
        first = answer(FAR)
        assert first.first
        assert first.total == 0
        step = answer(NEAR)
        assert step.shaping == pytest.approx(0.9 * phi[NEAR] - phi[FAR])
        assert "next: between fingers" in step.reason
        done = answer(HELD)
        assert done.terminated
        assert (done.reward, done.next_potential, done.reason) == (1.0, 0.0, "done")
        assert done.total == pytest.approx(1 - phi[NEAR])
        assert answer(HELD).total == 0  # nothing more is earned in an episode that has ended
        again = answer(FAR, episode=2)
        assert again.first
        send(NEAR, episode=2, frame_id="elsewhere")  # not used: no reward comes
        tasks.publish(Task(kind="lift", colour="green"))
        wait_until(lambda: "green" in answer(NEAR, episode=2).task, "no new task", 20.0, lambda: False)
        assert got[-1].next_potential == 0  # of the new task: the object is blue
        assert "not green" in got[-1].reason
        assert all(g.header.frame_id == "workspace" for g in got)
        tasks.publish(Task(kind="juggle"))
        assert "green" in answer(NEAR, episode=2).task
    assert isinstance(got[0], ShapedReward)
    assert SYMBOLS.type is SymbolicState


@pytest.mark.slow
def test_the_simulator_tells_its_symbols(graph):
    got: list[SymbolicState] = []
    # By the graph's own client: what else ran in this process may have turned to another domain.
    listener = graph.node.create_subscription(SYMBOLS.type, SYMBOLS.name, got.append, SYMBOLS.qos)
    try:
        wait_until(lambda: len(got) >= 2, "no symbols", 90.0, lambda: False)
    finally:
        graph.node.destroy_subscription(listener)
    state = symbols_of(got[-1])
    assert got[-1].header.frame_id == "workspace"
    assert got[0].episode == got[-1].episode >= 1
    assert abs(state.object_x) < 0.2
    assert not state.contact_left
