"""The executor of the nodes, and services within one process."""

import copy
import functools
import os
import threading
import time

import pytest
import rclpy
from keygrasp_interfaces.action import ExecuteGrasp
from keygrasp_ros.action_client import SureActionClient
from keygrasp_ros.conversions import camera_info_message, depth_message
from keygrasp_ros.executor import LeanExecutor
from keygrasp_ros.graph import nodes_for
from keygrasp_ros.local_services import ServiceCaller, serve
from keygrasp_ros.robot_state import transform
from keygrasp_ros.running import spinning
from keygrasp_ros.topics import EXTRACT, GENERATE, TF_STATIC, Endpoint
from keygrasp_ros.waiting import wait_for, wait_until
from rclpy.action import ActionServer
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.context import Context
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from ros_calls import never
from std_msgs.msg import Empty, Header
from std_srvs.srv import SetBool, Trigger
from tf2_msgs.msg import TFMessage

from keygrasp.protocol import SceneSpec, build_scene

pytestmark = pytest.mark.ros
SERVICE = Endpoint("shared", Trigger, "test", "")


class Stack:
    """Nodes of one context on one executor."""

    def __init__(self, threads):
        self.context = Context()
        rclpy.init(context=self.context, signal_handler_options=SignalHandlerOptions.NO)
        self.executor = LeanExecutor(threads, context=self.context)
        self.nodes = []
        self.fault = None
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self):
        try:
            self.executor.spin()
        except RuntimeError as error:
            self.fault = error

    def node(self, name):
        self.nodes.append(Node(name, context=self.context, use_global_arguments=False))
        self.executor.add_node(self.nodes[-1])
        return self.nodes[-1]

    def end(self):
        ended = self.executor.shutdown(timeout_sec=10.0)
        self._thread.join(10.0)
        for node in self.nodes:
            node.destroy_node()
        self.context.try_shutdown()
        return ended and not self._thread.is_alive()


@pytest.fixture
def stack():
    stacks = []

    def make(threads=4):
        stacks.append(Stack(threads))
        return stacks[-1]

    yield make
    assert all(one.end() for one in stacks)


def until(ready, what="it"):
    wait_until(ready, f"{what} did not come", 20.0, never)


def listen(node, name, callback, group):
    return node.create_subscription(Empty, name, callback, 10, callback_group=group)


@pytest.mark.parametrize(("group", "most"), [(MutuallyExclusiveCallbackGroup, 1), (ReentrantCallbackGroup, 3)])
def test_a_group_says_how_many_of_its_callbacks_run_at_once(stack, group, most):
    node = stack(3).node("counter")
    group, lock, running, seen = group(), threading.Lock(), [], []

    def callback(_):
        with lock:
            running.append(1)
            seen.append(len(running))
        time.sleep(0.05)
        with lock:
            running.pop()

    for name in "abc":
        listen(node, name, callback, group)
    publishers = [node.create_publisher(Empty, name, 10) for name in "abc"]
    until(lambda: all(publisher.get_subscription_count() for publisher in publishers))
    for _ in range(4):
        for publisher in publishers:
            publisher.publish(Empty())
    until(lambda: len(seen) == 12)
    assert max(seen) == most


def test_a_callback_on_the_only_thread_may_wait_for_services_and_actions(stack):
    """The answers need no thread that runs callbacks, nor do those of the callback's own exclusive group."""
    server = stack(2).node("server")
    server.create_service(Trigger, "ask", lambda _, response: response)

    def execute(handle):
        handle.succeed()
        return ExecuteGrasp.Result()

    ActionServer(server, ExecuteGrasp, "act", execute)
    node, done = stack(1).node("caller"), threading.Event()
    ask, act = node.create_client(Trigger, "ask"), SureActionClient(node, ExecuteGrasp, "act")
    until(lambda: ask.service_is_ready() and act.server_is_ready())
    time.sleep(0.5)  # until the servers know of us too

    def callback():
        timer.cancel()
        wait_for(ask.call_async(Trigger.Request()), "no answer", 10.0, never)
        handle = wait_for(act.send_goal_async(ExecuteGrasp.Goal()), "no handle", 10.0, never)
        wait_for(handle.get_result_async(), "no result", 10.0, never)
        done.set()

    timer = node.create_timer(0.01, callback)
    assert done.wait(20.0)


def test_a_flood_of_messages_lets_timers_and_services_through(stack):
    one = stack(2)
    node, ticks, answers = one.node("flooded"), [], []
    listen(node, "flood", lambda _: time.sleep(0.002), ReentrantCallbackGroup())
    node.create_timer(0.05, lambda: ticks.append(1), ReentrantCallbackGroup())
    node.create_service(Trigger, "ask", lambda _, r: answers.append(1) or r, callback_group=ReentrantCallbackGroup())
    other = stack(1).node("other")
    publisher, client = other.create_publisher(Empty, "flood", 10), other.create_client(Trigger, "ask")
    until(lambda: publisher.get_subscription_count() and client.service_is_ready())
    time.sleep(0.5)
    deadline, asked = time.monotonic() + 2.0, []
    while time.monotonic() < deadline:
        publisher.publish(Empty())
        if len(asked) == len(answers) < 10:
            asked.append(client.call_async(Trigger.Request()))
    assert len(answers) >= 5
    assert len(ticks) >= 10


def test_what_is_destroyed_while_it_is_waited_for_breaks_nothing(stack):
    one, other = stack(3), stack(1)
    node, heard = one.node("changing"), []
    publisher = other.node("busy").create_publisher(Empty, "topic", 10)
    stop = threading.Event()

    def publish():
        while not stop.wait(0.001):
            publisher.publish(Empty())

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        for _ in range(60):
            made = listen(node, "topic", heard.append, ReentrantCallbackGroup())
            timer = node.create_timer(0.001, lambda: None)
            service = node.create_service(SetBool, "service", lambda _, response: response)
            time.sleep(0.005)
            node.destroy_subscription(made)
            node.destroy_timer(timer)
            node.destroy_service(service)
        listen(node, "topic", heard.append, ReentrantCallbackGroup())
        before = len(heard)
        until(lambda: len(heard) > before + 5 or one.fault)
    finally:
        stop.set()
        thread.join()
    assert one.fault is None


@pytest.mark.parametrize("given", [False, True])
def test_what_a_callback_raises_comes_out_of_spin(stack, given):
    one = stack(2)

    def broken():
        raise RuntimeError("broken")

    if given:
        one.executor.create_task(broken)
    else:
        one.node("broken").create_timer(0.01, broken)
    until(lambda: one.fault is not None, "the fault")
    assert str(one.fault) == "broken"


def test_a_callback_that_suspends_is_a_fault_that_says_so(stack):
    one = stack(1)

    async def waits():
        await rclpy.task.Future()

    one.executor.create_task(waits)
    until(lambda: one.fault is not None, "the fault")
    assert "suspended" in str(one.fault)


def test_the_shutdown_waits_for_what_runs_but_not_for_ever():
    one, began, release = Stack(1), threading.Event(), threading.Event()

    def callback():
        timer.cancel()
        began.set()
        release.wait(20.0)

    timer = one.node("slow").create_timer(0.01, callback)
    assert began.wait(20.0)
    assert not one.executor.shutdown(timeout_sec=0.2)
    release.set()
    assert one.end()


def test_a_service_of_the_same_process_is_called_without_the_middleware(stack):
    one = stack(2)
    owner, caller = one.node("owner"), one.node("caller")
    seen = []

    def answer(request, response):
        seen.append((request, response))
        response.message = "here"
        return response

    serve(owner, SERVICE, answer)
    ask = ServiceCaller(caller, SERVICE, ReentrantCallbackGroup())
    assert ask.is_ready()
    request = Trigger.Request()
    response = wait_for(ask.call_async(request), "no answer", 10.0, never)
    assert seen == [(request, response)]
    assert seen[0][0] is request
    assert seen[0][1] is response


def test_a_service_of_another_context_goes_over_the_middleware_and_a_destroyed_one_is_asked_no_more(stack):
    here, there = stack(2), stack(2)
    caller, seen = here.node("caller"), []

    def answer(name):
        return lambda request, response: seen.append(name) or response

    near = here.node("near")
    serve(near, SERVICE, answer("near"))
    ask = ServiceCaller(caller, SERVICE, ReentrantCallbackGroup())
    wait_for(ask.call_async(Trigger.Request()), "no answer", 10.0, never)
    near.destroy_node()
    here.nodes.remove(near)
    serve(there.node("far"), SERVICE, answer("far"))
    until(ask.is_ready, "the far one")
    time.sleep(0.5)
    wait_for(ask.call_async(Trigger.Request()), "no answer", 10.0, never)
    assert seen == ["near", "far"]


def test_nodes_of_one_process_leave_what_they_share_as_it_is():
    with build_scene(SceneSpec("000", "E", 1)) as scene:
        view = scene.view
    planning = [
        spec.create for spec in nodes_for("geometric") if spec.name in ("keypoint_extractor", "grasp_generator")
    ]
    create = [*(functools.partial(make, "geometric") for make in planning), functools.partial(Node, "caller")]
    with spinning(create) as (*_, caller):
        now = caller.get_clock().now().to_msg()
        header = Header(stamp=now, frame_id="camera")
        pair = depth_message(view.depth, header), camera_info_message(view.intrinsics, header)
        static = caller.create_publisher(TF_STATIC.type, TF_STATIC.name, TF_STATIC.qos)
        static.publish(TFMessage(transforms=[transform("camera", "workspace", view.camera_in_workspace, now)]))
        extract, generate = (ServiceCaller(caller, end, ReentrantCallbackGroup()) for end in (EXTRACT, GENERATE))
        given = EXTRACT.type.Request(depth=pair[0], camera_info=pair[1])
        before = copy.deepcopy(given)
        scene = wait_for(extract.call_async(given), "no scene", 30.0, never).scene
        assert len(scene.objects) == 1
        assert given == before
        before = copy.deepcopy(scene)
        plan = wait_for(generate.call_async(GENERATE.type.Request(scene=scene)), "no plan", 30.0, never).plan
        assert plan.found
        assert scene == before


def test_one_thread_each_leaves_what_the_user_set(monkeypatch):
    from keygrasp_ros.threads import one_thread_each

    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    one_thread_each()
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert os.environ.pop("OPENBLAS_NUM_THREADS") == "1"


def test_a_shutdown_may_come_while_the_threads_are_started(stack, monkeypatch):
    """A signal in the moment in which a node begins to spin."""
    begun, start = threading.Event(), threading.Thread.start

    def slow_start(thread):
        if thread.daemon and "_spin" not in thread.name:
            begun.set()
            time.sleep(0.02)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", slow_start)
    made = stack()
    assert begun.wait(5.0)
    assert made.executor.shutdown(timeout_sec=10.0)
    assert made.fault is None
