"""The frame tree: chains, strangers, circles, and transforms that are none."""

import math
import time

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from geometry_msgs.msg import TransformStamped
from keygrasp_ros.client import PickClient
from keygrasp_ros.frames import FrameTree, listen
from keygrasp_ros.robot_state import transform
from keygrasp_ros.topics import TF_STATIC
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from tf2_msgs.msg import TFMessage

from keygrasp.errors import InputError
from keygrasp.geometry.poses import invert_pose, make_pose, rotation_z

pytestmark = pytest.mark.ros
A_IN_ROOT = make_pose((1, 0, 0), rotation_z(math.pi / 2))
B_IN_A = make_pose((0, 2, 0), rotation_z(0.3))
C_IN_ROOT = make_pose((0, 0, 5))


@pytest.fixture
def tree():
    tree = FrameTree()
    stamp = Time()
    links = [transform("a", "root", A_IN_ROOT, stamp), transform("b", "a", B_IN_A, stamp)]
    assert tree.update(TFMessage(transforms=[*links, transform("c", "/root", C_IN_ROOT, stamp)])) == []
    return tree


def test_up_down_and_across(tree):
    np.testing.assert_allclose(tree.pose("b", "root"), A_IN_ROOT @ B_IN_A, atol=1e-12)
    np.testing.assert_allclose(tree.pose("root", "b"), invert_pose(A_IN_ROOT @ B_IN_A), atol=1e-12)
    np.testing.assert_allclose(tree.pose("b", "c"), invert_pose(C_IN_ROOT) @ A_IN_ROOT @ B_IN_A, atol=1e-12)
    np.testing.assert_array_equal(tree.pose("a", "a"), np.eye(4))


def test_an_unknown_frame_is_named(tree):
    with pytest.raises(InputError, match="'nowhere'"):
        tree.pose("nowhere", "root")


def test_a_circle_ends():
    tree = FrameTree()
    tree.update(TFMessage(transforms=[transform(a, b, np.eye(4), Time()) for a, b in ("xy", "yz", "zx")]))
    np.testing.assert_array_equal(tree.pose("x", "z"), np.eye(4))
    with pytest.raises(InputError):
        tree.pose("x", "other")


@pytest.mark.parametrize("damage", ["zero quaternion", "nan", "no child", "own parent"])
def test_bad_transforms_are_dropped_and_named(tree, damage):
    bad = transform("d", "root", np.eye(4), Time())
    if damage == "zero quaternion":
        bad.transform.rotation.w = 0.0
    elif damage == "nan":
        bad.transform.translation.x = math.nan
    elif damage == "no child":
        bad.child_frame_id = ""
    else:
        bad.child_frame_id = "root"
    assert isinstance(bad, TransformStamped)
    assert len(tree.update(TFMessage(transforms=[bad]))) == 1
    with pytest.raises(InputError):
        tree.pose("d", "root")


def test_a_frame_that_moves_on_is_followed_and_one_that_stands_still_stays(tree):
    stamp = Time(sec=3)
    for pose, parent in ((B_IN_A, "a"), (A_IN_ROOT, "a"), (A_IN_ROOT, "c"), (A_IN_ROOT, "c")):
        assert tree.update(TFMessage(transforms=[transform("b", parent, pose, stamp)])) == []
        np.testing.assert_allclose(tree.pose("b", parent), pose, atol=1e-12)


def test_a_late_listener_hears_the_fixed_transforms_of_all_who_publish_some():
    """All of them arrive before the first is taken."""
    context = Context()
    context.init()
    late = Node("late_listener", context=context, use_global_arguments=False)
    with PickClient("fixed_frames") as client:
        frames = ("camera", "base", "tool")
        for frame in frames:
            publisher = client.node.create_publisher(TF_STATIC.type, TF_STATIC.name, TF_STATIC.qos)
            publisher.publish(TFMessage(transforms=[transform(frame, "workspace", C_IN_ROOT, Time())]))
        tree, executor = listen(late), SingleThreadedExecutor(context=context)
        time.sleep(1.0)
        executor.add_node(late)
        deadline, missing = time.monotonic() + 10.0, set(frames)
        while missing and time.monotonic() < deadline:
            executor.spin_once(0.1)
            missing = {frame for frame in frames if frame not in tree._parents}
    executor.shutdown()
    late.destroy_node()
    context.try_shutdown()
    assert missing == set()
