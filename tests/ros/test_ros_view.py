"""The viewer's command: what is drawn of each message, and what is said where it can't work."""

import re
import sys
import time

import numpy as np
import pytest
from geometry_msgs.msg import Point
from keygrasp_interfaces.msg import Grasp, GraspPlan, PickRecord, StageTiming, TrialOutcome
from keygrasp_ros import record, rerun_scene, rerun_screenshot, view
from keygrasp_ros.conversions import camera_info_message, depth_message
from keygrasp_ros.markers import candidate_markers, outcome_markers
from keygrasp_ros.topics import DEPTH, DEPTH_INFO, GRASP_MARKERS, OUTCOME_MARKERS, TF_STATIC
from std_msgs.msg import Header
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import Marker, MarkerArray

from keygrasp.errors import InputError, KeygraspError, MissingExtraError, StorageError
from keygrasp.geometry.cameras import Intrinsics
from keygrasp.scene import GripperSpec, PlanarGrasp

pytestmark = pytest.mark.ros
HEADER = Header(frame_id="workspace")


class Recording:
    """Keeps what a recording stream is given."""

    def __init__(self):
        self.logged, self.static = {}, {}

    def set_time(self, timeline, timestamp):
        assert timeline == rerun_scene.TIMELINE
        self.stamp = timestamp

    def log(self, path, shape, static=False):
        (self.static if static else self.logged)[path] = shape


@pytest.fixture
def scene():
    pytest.importorskip("rerun", reason="the extra 'viz' is not installed")
    recording = Recording()
    return rerun_scene.RerunScene(recording, "workspace"), recording


def test_depth_is_drawn_in_metres_through_its_camera_and_holes_are_left_out(scene):
    scene, recording = scene
    depth = np.full((4, 6), 0.7, np.float32)
    depth[0, 0] = np.nan
    header = Header(frame_id="camera")
    header.stamp.sec = 7
    scene.take(DEPTH_INFO.name, camera_info_message(Intrinsics(6, 4, 5.0, 5.0, 2.5, 1.5), header), 1.0)
    scene.take(DEPTH.name, depth_message(depth, header), 1.0)
    assert recording.stamp == 7.0
    image = recording.logged[rerun_scene.DEPTH_IMAGE]
    shown = np.frombuffer(bytes(image.buffer.as_arrow_array()[0].as_py()), np.float32).reshape(4, 6)
    assert shown[0, 0] == 0.0
    assert shown[1, 1] == np.float32(0.7)
    assert recording.logged[rerun_scene.CAMERA].resolution.as_arrow_array()[0].as_py() == [6.0, 4.0]


def test_the_camera_is_placed_as_soon_as_tf_knows_its_frame(scene):
    from builtin_interfaces.msg import Time
    from keygrasp_ros.robot_state import transform

    from keygrasp.geometry.poses import make_pose

    scene, recording = scene
    info = camera_info_message(Intrinsics(6, 4, 5.0, 5.0, 2.5, 1.5), Header(frame_id="camera"))
    scene.take(DEPTH_INFO.name, info, 1.0)
    assert rerun_scene.CAMERA not in recording.static
    pose = make_pose((0.0, 0.0, 0.7), np.diag([1.0, -1.0, -1.0]))
    scene.take(TF_STATIC.name, TFMessage(transforms=[transform("camera", "workspace", pose, Time())]), 1.0)
    placed = recording.static[rerun_scene.CAMERA].translation.as_arrow_array()[0].as_py()
    assert placed == pytest.approx([0.0, 0.0, 0.7])


def test_candidates_become_lines_in_their_colours(scene):
    scene, recording = scene
    grasps = tuple(PlanarGrasp(0.01 * n, 0.0, 0.02, 0.1, 0.05, score=n / 2) for n in range(3))
    markers = candidate_markers(grasps, GripperSpec(), HEADER)
    scene.take(GRASP_MARKERS.name, markers, 1.0)
    lines = recording.logged["world/grasps/candidates"]
    assert len(lines.strips.as_arrow_array()) == 9  # three a grasp
    assert len(set(lines.colors.as_arrow_array().to_pylist())) == 3
    scene.take(GRASP_MARKERS.name, candidate_markers((), GripperSpec(), HEADER), 1.0)
    assert type(recording.logged["world/grasps"]).__name__ == "Clear"


def test_the_outcome_becomes_text_and_other_shapes_are_named(scene):
    scene, recording = scene
    outcome = TrialOutcome(outcome="slipped", message="lost while lifting")
    scene.take(OUTCOME_MARKERS.name, outcome_markers(outcome, HEADER), 1.0)
    label = recording.logged["world/pick/outcome"].labels.as_arrow_array().to_pylist()
    assert label == ["lost while lifting"]
    cube = Marker(header=HEADER, ns="cube", type=Marker.CUBE, points=[Point()])
    with pytest.raises(InputError, match="'cube': type 1"):
        scene.take(OUTCOME_MARKERS.name, MarkerArray(markers=[cube]), 1.0)


def test_the_summary_tells_what_was_planned_and_how_it_ended():
    plan = GraspPlan(planner="refined", found=True, grasp=Grasp(x=0.01, width=0.05), path=[Grasp()] * 3)
    plan.success_probability_known, plan.success_probability = True, 0.934
    plan.timings = [StageTiming(stage="refine", milliseconds=42.0)]
    record = PickRecord(plan=plan, outcome=TrialOutcome(outcome="contact_too_early", message="met the table"))
    text = rerun_scene.summary(record)
    for part in ("## contact too early", "met the table", "| refinement steps | 2 |", "| stated success | 93% |",
                 "| opening | 50 mm |", "| refine | 42.0 ms |"):  # fmt: skip
        assert part in text


@pytest.fixture
def no_display(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)


def test_without_a_display_the_ways_that_need_none_are_named(no_display):
    pytest.importorskip("rerun", reason="the extra 'viz' is not installed")
    with pytest.raises(KeygraspError, match=r"no display.*--save FILE.rrd"):
        view.main([])


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "rerun", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'keygrasp\[viz\]'"):
        view.main(["--save", str(tmp_path / "a.rrd")])
    monkeypatch.setitem(sys.modules, "mcap", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'keygrasp\[record\]'"):
        record.main([str(tmp_path / "bags")])


def test_unwritable_places_and_foreign_recordings_are_said_at_once(tmp_path):
    pytest.importorskip("rerun", reason="the extra 'viz' is not installed")
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="file"):
        view.main(["--save", str(tmp_path / "file" / "a.rrd")])
    with pytest.raises(InputError, match="no recording"):
        view.main(["--bag", str(tmp_path / "none"), "--save", str(tmp_path / "a.rrd")])
    with pytest.raises(SystemExit):
        view.main(["--size", "9x9"])


@pytest.mark.parametrize(
    ("command", "arguments", "needle"),
    [
        (record, ["bags", "--picks", "-3"], "whole number"),
        (view, ["--picks", "-1"], "whole number"),
        (view, ["--seconds", "-1"], "give seconds"),
        (view, ["--seconds", "nan"], "give seconds"),
        (view, ["--screenshot", "x.jpg"], "does not end in .png"),
    ],
)
def test_values_that_make_no_sense_are_refused(command, arguments, needle, capsys):
    with pytest.raises(SystemExit):
        command.main(arguments)
    assert needle in capsys.readouterr().err


@pytest.mark.parametrize("url", ["foo", "rerun+http://127.0.0.1:1/nope"])
def test_an_address_that_is_none_is_named(url):
    pytest.importorskip("rerun", reason="the extra 'viz' is not installed")
    with pytest.raises(InputError, match=f"'{re.escape(url)}' is no viewer's URL.*--connect rerun"):
        view.main(["--connect", url])


def test_folders_for_what_could_not_be_made_are_removed(tmp_path):
    pytest.importorskip("rerun", reason="the extra 'viz' is not installed")
    with pytest.raises(InputError, match="no recording"):
        view.main(["--bag", str(tmp_path / "none"), "--screenshot", str(tmp_path / "a" / "b" / "x.png")])
    assert not (tmp_path / "a").exists()


def test_a_viewer_that_can_not_draw_is_explained(monkeypatch, tmp_path):
    pytest.importorskip("rerun", reason="the extra 'viz' is not installed")
    monkeypatch.setattr(rerun_screenshot, "_COMMAND", (sys.executable, "-c", "raise SystemExit('no adapter')"))
    began = time.monotonic()
    with pytest.raises(KeygraspError, match=r"no adapter.*mesa-vulkan-drivers"):
        rerun_screenshot.screenshot(tmp_path / "a.rrd", tmp_path / "a.png", (800, 450))
    assert time.monotonic() - began < 20
    assert not (tmp_path / "a.png").exists()
