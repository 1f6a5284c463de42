"""What the perceiving and planning nodes share: requests to library calls, and faults to answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from keygrasp_interfaces.msg import PerceivedScene, Target
from rclpy.node import Node
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header

from keygrasp.errors import InputError, KeygraspError
from keygrasp.geometry.poses import Array
from keygrasp.perception import Perceived, PerceptionConfig, perceive
from keygrasp_ros.conversions import checked_frame, view_of
from keygrasp_ros.diagnostics import Monitor
from keygrasp_ros.frames import FrameTree, listen
from keygrasp_ros.parameters import WORKSPACE_FRAME, Parameter, fill, from_dataclass
from keygrasp_ros.scene_conversions import is_empty, scene_of

FRAME_TIMEOUT = Parameter("frame_timeout", 3.0, "Seconds to wait for TF to connect an image's frame.", 0.0, 60.0)
#: Parameters of every node that perceives.
PERCEPTION: tuple[Parameter, ...] = (WORKSPACE_FRAME, FRAME_TIMEOUT, *from_dataclass("perception", PerceptionConfig))


class Perceiver:
    """Turns images or perceived scenes of requests into the library's :class:`Perceived`.

    Args:
        node: Node that owns it; it listens on TF for the camera's pose.
        read: Reads the node's parameters, :data:`PERCEPTION` among them.
    """

    def __init__(self, node: Node, read: Callable[[str], Any]) -> None:
        self.workspace_frame: str = read("workspace_frame")
        self._config = fill(read, "perception", PerceptionConfig)
        self._frame_seconds: float = read("frame_timeout")
        self._frames: FrameTree = listen(node)

    def look(self, image: Image, info: CameraInfo) -> tuple[Perceived, Header]:
        """Perceive an image.

        Returns:
            What it shows, and the header of everything derived from it: the image's stamp, the workspace frame.

        Raises:
            InputError: If image, camera model or frames can't be used.
        """
        frame = checked_frame(image.header, "depth image")
        camera = self._frames.wait_for_pose(frame, self.workspace_frame, self._frame_seconds)
        perceived = perceive(view_of(image, info, camera), self._config)
        return perceived, Header(stamp=image.header.stamp, frame_id=self.workspace_frame)

    def workspace_in(self, frame: str) -> Array:
        """Pose (4, 4) of the workspace in another frame.

        Raises:
            InputError: If TF doesn't connect them in time.
        """
        return self._frames.wait_for_pose(self.workspace_frame, frame, self._frame_seconds)

    def take(self, scene: PerceivedScene, image: Image, info: CameraInfo) -> tuple[Perceived, Header]:
        """The scene of a request, or what its image shows where it has none; see :meth:`look`."""
        if is_empty(scene):
            return self.look(image, info)
        check_frame(scene.header, self.workspace_frame, "scene")
        return scene_of(scene), scene.header


def check_frame(header: Header, expected: str, what: str) -> None:
    """Refuse a header whose frame is not ``expected``.

    Raises:
        InputError: If it is empty or another one.
    """
    frame = checked_frame(header, what)
    if frame != expected:
        raise InputError(f"{what}: frame '{frame}' is not '{expected}'", f"Express it in '{expected}'")


def check_target(target: Target, perceived: Perceived) -> tuple[int, ...]:
    """Indices of the objects that a target allows, in the order in which to try them.

    Raises:
        InputError: If the choice is unknown, there is no such object, or the region is no region.
    """
    count = len(perceived.segments)
    if target.choice == Target.BEST:
        return tuple(range(count))
    if target.choice == Target.OBJECT:
        if target.object_index >= count:
            raise InputError(f"there is no object {target.object_index}: {count} object(s) are seen", "Count from 0")
        return (target.object_index,)
    if target.choice != Target.REGION:
        raise InputError(f"target: choice {target.choice} is unknown", "Use Target.BEST, OBJECT or REGION")
    x, y, radius = target.x, target.y, target.radius
    if not 0 < radius < 10 or not abs(x) < 10 or not abs(y) < 10:  # false for NaN too
        raise InputError(f"target: a circle at ({x}, {y}) m with radius {radius} m is no region", "Give metres")
    distances = {
        index: ((segment.centroid[0] - x) ** 2 + (segment.centroid[1] - y) ** 2) ** 0.5
        for index, segment in enumerate(perceived.segments)
    }
    return tuple(index for index in sorted(distances, key=distances.__getitem__) if distances[index] <= radius)[:1]


@contextmanager
def answering(response: Any, monitor: Monitor) -> Iterator[None]:
    """Fill ``ok`` and ``message`` of a service's response: what went wrong inside is an answer, never a dead node."""
    try:
        with monitor.timed():
            yield
        response.ok = True
    except KeygraspError as error:
        response.ok, response.message = False, str(error)
        monitor.fault(str(error))
    except Exception as error:  # a fault of ours: the node must live on, and the caller must know
        response.ok, response.message = False, f"internal fault: {type(error).__name__}: {error}"
        monitor.fault(response.message)
