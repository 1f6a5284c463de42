"""Perceived scenes to messages and back: height map, objects and keypoints."""

from __future__ import annotations

import array
import math

import numpy as np
from keygrasp_interfaces import msg
from std_msgs.msg import Header

from keygrasp.errors import InputError
from keygrasp.perception import Perceived, Plane
from keygrasp.scene import ROWS, TOTAL_ROWS, HeightMap, KeypointKind, Keypoints, Segment
from keygrasp_ros.conversions import timings_message

#: Largest height map that is taken from outside, in cells.
_MAX_CELLS = 1 << 22
#: Labels are bytes and 0 is the table.
_MAX_OBJECTS = 255


def scene_message(perceived: Perceived, header: Header) -> msg.PerceivedScene:
    """A perceived scene's message; the header holds the image's stamp and the workspace frame."""
    count = min(len(perceived.segments), _MAX_OBJECTS)
    scene = msg.PerceivedScene(header=header, note=perceived.note, timings=timings_message(perceived.timings_ms))
    scene.table = _table_message(perceived.table)
    scene.height_map = _height_map_message(perceived.height_map, perceived.segments[:count])
    scene.objects = [
        _object_message(segment, keypoints)
        for segment, keypoints in zip(perceived.segments[:count], perceived.keypoints[:count], strict=True)
    ]
    return scene


def scene_of(scene: msg.PerceivedScene) -> Perceived:
    """A perceived scene of a message.

    Raises:
        InputError: If arrays and sizes don't fit or a number is not finite.
    """
    height_map, labels = _height_map_of(scene.height_map)
    segments = tuple(_segment_of(thing, labels == index + 1) for index, thing in enumerate(scene.objects))
    keypoints = tuple(keypoints_of(thing.keypoints) for thing in scene.objects)
    timings = {entry.stage: entry.milliseconds for entry in scene.timings}
    return Perceived(_table_of(scene.table), height_map, segments, keypoints, timings, scene.note)


def is_empty(scene: msg.PerceivedScene) -> bool:
    """Whether a request left its scene out."""
    return scene.height_map.rows == 0


def _table_message(plane: Plane) -> msg.TablePlane:
    message = msg.TablePlane(offset=float(plane.offset), noise=float(plane.noise), support=float(plane.support))
    message.normal = np.asarray(plane.normal, dtype=float)
    return message


def _table_of(message: msg.TablePlane) -> Plane:
    normal = np.asarray(message.normal, dtype=float)
    length = float(np.linalg.norm(normal))
    if not abs(length - 1.0) < 1e-3 or not np.all(np.isfinite([message.offset, message.noise, message.support])):
        raise InputError(f"table: {normal.tolist()} is not a unit normal", "Send what the extractor sent")
    tilt = math.acos(min(1.0, max(-1.0, float(normal[2]))))
    return Plane(normal, message.offset, tilt, message.noise, message.support)


def _height_map_message(height_map: HeightMap, segments: tuple[Segment, ...]) -> msg.HeightMap:
    rows, columns = height_map.heights.shape
    labels = np.zeros((rows, columns), dtype=np.uint8)
    for index, segment in enumerate(segments):
        labels[segment.mask] = index + 1
    x, y = np.asarray(height_map.origin, dtype=float).tolist()
    message = msg.HeightMap(rows=rows, columns=columns, cell=float(height_map.cell), origin_x=x, origin_y=y)
    message.heights = array.array("f", height_map.heights.astype(np.float32).tobytes())
    message.measured = array.array("B", height_map.measured.astype(np.uint8).tobytes())
    message.labels = array.array("B", labels.tobytes())
    return message


def _height_map_of(message: msg.HeightMap) -> tuple[HeightMap, np.ndarray]:
    shape = (message.rows, message.columns)
    cells = message.rows * message.columns
    if not 0 < cells <= _MAX_CELLS:
        raise InputError(f"height map: {shape[0]}×{shape[1]} cells can't be used", "Send what the extractor sent")
    for name in ("heights", "measured", "labels"):
        if len(getattr(message, name)) != cells:
            raise InputError(f"height map: {name} has {len(getattr(message, name))} cells, not {cells}")
    heights = np.asarray(message.heights, dtype=np.float32).reshape(shape)
    if not np.all(np.isfinite(heights)) or not np.isfinite(message.origin_x + message.origin_y + message.cell):
        raise InputError("height map: a height or the grid is not finite", "Send what the extractor sent")
    measured = np.asarray(message.measured, dtype=np.uint8).reshape(shape) != 0
    labels = np.asarray(message.labels, dtype=np.uint8).reshape(shape)
    origin = np.array([message.origin_x, message.origin_y])
    return HeightMap(heights, measured, origin, message.cell), labels


def _object_message(segment: Segment, keypoints: Keypoints) -> msg.PerceivedObject:
    thing = msg.PerceivedObject(area=float(segment.area), top=float(segment.top))
    thing.centroid = np.asarray(segment.centroid, dtype=float)
    thing.touches_border = bool(segment.touches_border)
    thing.keypoints = keypoints_message(keypoints)
    return thing


def _segment_of(thing: msg.PerceivedObject, mask: np.ndarray) -> Segment:
    centroid = np.asarray(thing.centroid, dtype=float)
    if not np.all(np.isfinite([*centroid, thing.area, thing.top])):
        raise InputError("object: a number is not finite", "Send what the extractor sent")
    return Segment(mask, centroid, thing.area, thing.top, thing.touches_border)


def keypoints_message(keypoints: Keypoints) -> msg.Keypoints:
    """The used rows of a keypoint set, in order.

    Raises:
        InputError: If a used row has a number that is not finite.
    """
    used = keypoints.mask
    message = msg.Keypoints(kinds=array.array("B", keypoints.kind[used].astype(np.uint8).tobytes()))
    for name, (rows, _) in _columns(keypoints).items():
        if not np.all(np.isfinite(rows[used])):
            raise InputError("keypoints that are not finite are not sent")
        setattr(message, name, array.array("f", rows[used].astype(np.float32).tobytes()))
    return message


def keypoints_of(message: msg.Keypoints) -> Keypoints:
    """The fixed-size set of a message.

    Raises:
        InputError: If a kind is unknown or has more points than the set has rows, arrays have different lengths, or a
            number is not finite.
    """
    kinds = np.asarray(message.kinds, dtype=np.uint8)
    kind = np.concatenate([np.full(count, int(kind), np.int8) for kind, count in ROWS.items()])
    used = np.concatenate([np.flatnonzero(kind == number)[: np.sum(kinds == number)] for number in KeypointKind])
    if len(used) != len(kinds) or np.any(kind[used] != kinds):
        raise InputError("keypoints: a kind is unknown, out of order or has too many points", "See Keypoints.msg")
    result = Keypoints(
        position=np.zeros((TOTAL_ROWS, 3), np.float32),
        normal=np.zeros((TOTAL_ROWS, 2), np.float32),
        radius=np.zeros(TOTAL_ROWS, np.float32),
        contacts=np.zeros((TOTAL_ROWS, 2, 2), np.float32),
        kind=kind,
        mask=np.zeros(TOTAL_ROWS, bool),
    )
    result.mask[used] = True
    for name, (rows, numbers) in _columns(result).items():
        values = np.asarray(getattr(message, name), dtype=np.float32)
        if values.size != len(used) * numbers:
            raise InputError(f"keypoints: {name} has {values.size} numbers, not {numbers} for each of {len(used)}")
        if not np.all(np.isfinite(values)):
            raise InputError("keypoints: a number is not finite", "Send what the extractor sent")
        rows[used] = values.reshape(len(used), *rows.shape[1:])
    return result


def _columns(keypoints: Keypoints) -> dict[str, tuple[np.ndarray, int]]:
    """Arrays of a keypoint set by the field that carries them, with how many numbers a keypoint has in each."""
    arrays = {
        "positions": keypoints.position,
        "normals": keypoints.normal,
        "radii": keypoints.radius,
        "contacts": keypoints.contacts,
    }
    return {name: (rows, rows[0].size) for name, rows in arrays.items()}
