"""The RViz file against the running graph: each display gets messages of its type, in frames that TF knows."""

import functools
from copy import deepcopy
from pathlib import Path

import pytest
import yaml
from keygrasp_ros import rerun_scene, topics
from keygrasp_ros.waiting import wait_until
from node_nursery import Forked, run_node
from ros_calls import never
from rviz_contract import complaints, subscriptions

from keygrasp.worldmodel.ensemble import Ensemble, EnsembleConfig

pytestmark = [pytest.mark.ros, pytest.mark.slow]
RVIZ = Path(__file__).parents[2] / "ros2_ws/src/keygrasp_bringup/rviz/keygrasp.rviz"


@pytest.fixture
def view():
    return yaml.safe_load(RVIZ.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def picked(refined_graph, tmp_path_factory):
    """The graph with the optional nodes after a pick, so that each result has been published."""
    folder = tmp_path_factory.mktemp("optional")
    Ensemble(EnsembleConfig(members=2, hidden=16)).save(folder / "weights.safetensors")
    imagining = ("-p", f"weights:={folder / 'weights.safetensors'}", "-p", "planner.samples:=64")
    optional = [
        Forked(run_node(name, *arguments), refined_graph.environment, folder / f"{name}.log")
        for name, arguments in (("shaped_reward", ()), ("world_model", imagining))
    ]
    for topic in (topics.SHAPED_REWARD_MARKERS, topics.IMAGINED_MARKERS):
        here = functools.partial(refined_graph.node.count_publishers, topic.name)
        wait_until(here, f"nobody publishes {topic.name}", 60.0, never)
    refined_graph.load_object("013", seed=1)
    answer = refined_graph.pick()
    assert answer.result.plan.planner == "refined"
    yield refined_graph
    for node in optional:  # in order, so that others know at once that they have gone
        node.terminate()
        assert node.wait(30.0) == 0


def test_each_display_shows_something_on_the_running_graph(picked, view):
    assert complaints(view, picked.node) == []
    shown = {display["Name"]: display["Enabled"] for display in view["Visualization Manager"]["Displays"]}
    assert {"Camera", "Cloud", "Keypoints", "Candidates", "Refinement", "Robot", "Outcome"} <= set(shown)
    for name in ("Shaped reward", "Imagined"):
        assert shown[name] is False  # its node is optional, and the simulator's symbols cost time


def change_topic(view, name, key, value):
    view = deepcopy(view)
    for display in view["Visualization Manager"]["Displays"]:
        if display["Name"] == name:
            (display.get("Topic") or display.get("Description Topic"))[key] = value
    return view


@pytest.mark.parametrize(
    "name", ["Camera", "Observer", "Keypoints", "Candidates", "Refinement", "Outcome", "Robot", "Shaped reward"]
)
def test_a_renamed_topic_is_noticed(picked, view, name):
    renamed = change_topic(view, name, "Value", "somewhere/else")
    assert complaints(renamed, picked.node) == [f"{name}: nobody publishes somewhere/else"]


def test_another_type_is_noticed(picked, view):
    other = change_topic(view, "Keypoints", "Value", topics.GRASP_POSES.name)
    assert "is geometry_msgs/msg/PoseArray" in complaints(other, picked.node)[0]


def test_a_quality_of_service_that_the_publisher_does_not_offer_is_noticed(picked, view):
    strict = change_topic(view, "Camera", "Reliability Policy", "Reliable")
    assert complaints(strict, picked.node) == [f"Camera: {topics.DEPTH.name} is best effort"]
    late = change_topic(view, "Camera", "Durability Policy", "Transient Local")
    assert "keeps nothing" in complaints(late, picked.node)[0]


def test_an_unknown_fixed_frame_is_noticed(picked, view):
    view["Visualization Manager"]["Global Options"]["Fixed Frame"] = "map"
    assert any("'map'" in complaint for complaint in complaints(view, picked.node))


def test_rerun_shows_the_topics_that_rviz_shows(view):
    shown = {topic.name for topic in rerun_scene.SHOWN}
    poses = {topics.GRASP_POSES.name, topics.REFINED_POSES.name}  # the same grasps as the markers
    assert {topic for _, topic, *_ in subscriptions(view)} - poses <= shown
