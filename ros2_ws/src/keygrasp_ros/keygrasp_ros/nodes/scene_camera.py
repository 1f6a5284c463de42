"""Node: the depth camera over a simulated table, without a robot: the eyes of a graph whose robot has none.

An emulated Delta moves nothing, so the scene stays as it is, whatever is picked; the robot itself is not in the image.
"""

from __future__ import annotations

from typing import Any

from keygrasp_interfaces.srv import LoadObject
from rclpy.node import Node
from std_msgs.msg import Header
from tf2_msgs.msg import TFMessage

from keygrasp.geometry.cameras import overhead_pose
from keygrasp.objects import split
from keygrasp.protocol.constants import PROTOCOL
from keygrasp_ros.conversions import camera_info_message, depth_message
from keygrasp_ros.diagnostics import Monitor
from keygrasp_ros.parameters import SEED, WORKSPACE_FRAME, Parameter, reader
from keygrasp_ros.robot_state import transform
from keygrasp_ros.running import node_main
from keygrasp_ros.sim_parameters import CAMERA_FRAME, CAMERA_RATE, OBJECT
from keygrasp_ros.sim_scene import SimScene
from keygrasp_ros.steps import answering
from keygrasp_ros.topics import DEPTH, DEPTH_INFO, LOAD_OBJECT, TF_STATIC

PARAMETERS = (
    WORKSPACE_FRAME,
    SEED,
    *OBJECT,
    CAMERA_FRAME,
    CAMERA_RATE,
    Parameter("camera.place", True, "Whether the camera's pose is published; not where a calibration says it."),
)


class SceneCamera(Node):
    """Publishes one depth image again and again, while somebody takes it."""

    def __init__(self, **options: Any) -> None:
        super().__init__("scene_camera", **options)
        self._read = reader(self, PARAMETERS)
        self._monitor = Monitor(self)
        self._frame: str = self._read("camera.frame")
        self._images = {t.name: self.create_publisher(t.type, t.name, t.qos) for t in (DEPTH, DEPTH_INFO)}
        self._static = self.create_publisher(TF_STATIC.type, TF_STATIC.name, TF_STATIC.qos)
        self._scene = SimScene("gripper", full_motion=False)
        self._scene.load(
            self._read("object") or split("test")[0], self._read("rule"), self._read("seed"), self._read("source")
        )
        if self._read("camera.place"):
            stamp, pose = self.get_clock().now().to_msg(), overhead_pose(PROTOCOL.camera_height)
            placed = transform(self._frame, self._read("workspace_frame"), pose, stamp)
            self._static.publish(TFMessage(transforms=[placed]))
        # In the node's own group, which runs one callback at a time: the scene is never loaded while it is shown.
        self.create_timer(1.0 / self._read("camera.rate"), self._publish)
        self.create_service(LOAD_OBJECT.type, LOAD_OBJECT.name, self._load_object)

    def close(self) -> None:
        """Free the scene."""
        self._scene.close()

    def _publish(self) -> None:
        if not any(publisher.get_subscription_count() for publisher in self._images.values()):
            return
        view, header = self._scene.view, Header(stamp=self.get_clock().now().to_msg(), frame_id=self._frame)
        self._images[DEPTH.name].publish(depth_message(view.depth, header))
        self._images[DEPTH_INFO.name].publish(camera_info_message(view.intrinsics, header))

    def _load_object(self, request: LoadObject.Request, response: LoadObject.Response) -> LoadObject.Response:
        with answering(response, self._monitor):
            self._scene.load(request.name, request.rule, request.seed, request.source)
        return response


def main() -> int:
    """Run the node."""
    return node_main(SceneCamera)
