"""Node: depth image → table, objects, keypoints; on request, and live while somebody listens."""

from __future__ import annotations

import threading
from typing import Any

from rclpy.node import Node
from sensor_msgs.msg import CameraInfo, Image

from keygrasp.errors import KeygraspError
from keygrasp_ros.camera_feed import CameraFeed
from keygrasp_ros.diagnostics import Monitor
from keygrasp_ros.lifelines import offer
from keygrasp_ros.local_services import serve
from keygrasp_ros.markers import keypoint_markers
from keygrasp_ros.mirrors import Mirror
from keygrasp_ros.parameters import Parameter, reader
from keygrasp_ros.running import node_main
from keygrasp_ros.scene_conversions import scene_message
from keygrasp_ros.steps import PERCEPTION, Perceiver, answering
from keygrasp_ros.topics import EXTRACT, KEYPOINT_MARKERS, SCENE

PARAMETERS = (
    Parameter("live", True, "Whether each camera image is understood while somebody listens to the results."),
    *PERCEPTION,
)


class KeypointExtractor(Node):
    """Answers ``extract_keypoints`` and publishes what it finds."""

    def __init__(self, **options: Any) -> None:
        super().__init__("keypoint_extractor", **options)
        read = reader(self, PARAMETERS)
        self._monitor = Monitor(self)
        self._perceiver = Perceiver(self, read)
        self._watching = threading.Lock()
        self._feed = CameraFeed(self, self._watch)
        self._live: bool = read("live")
        self._mirrors: list[Mirror] = []
        self._mirrors += [Mirror(self, topic, self._follow_listeners) for topic in (SCENE, KEYPOINT_MARKERS)]
        self._lifeline = offer(self, EXTRACT)
        serve(self, EXTRACT, self._answer)

    def _answer(self, request: EXTRACT.type.Request, response: EXTRACT.type.Response) -> EXTRACT.type.Response:
        with answering(response, self._monitor):
            response.scene = self._look(request.depth, request.camera_info)
        return response

    def _follow_listeners(self) -> None:
        """Watch the camera as long as somebody watches the results."""
        if self._live and any(mirror.has_listeners for mirror in self._mirrors):
            self._feed.open()
        else:
            self._feed.close()

    def _watch(self, image: Image, info: CameraInfo) -> None:
        """Understand an image, unless the one before is still being understood: late results help nobody."""
        if not self._watching.acquire(blocking=False):
            return
        try:
            with self._monitor.timed():
                self._look(image, info)
        except KeygraspError as error:
            self._monitor.fault(str(error))
        finally:
            self._watching.release()

    def _look(self, image: Image, info: CameraInfo) -> SCENE.type:
        perceived, header = self._perceiver.look(image, info)
        scene = scene_message(perceived, header)
        shown, markers = self._mirrors
        shown.show(lambda: scene)
        markers.show(lambda: keypoint_markers(perceived.keypoints, header))
        return scene


def main() -> int:
    """Run the node."""
    return node_main(KeypointExtractor)
