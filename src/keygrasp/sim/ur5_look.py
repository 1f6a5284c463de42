"""How the UR5's coarse meshes look: the arm's greys and blues, and normals, which their files leave at zero.

A renderer takes a surface whose normal is zero for one that no light reaches, so that the arm would be black.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.sax.saxutils import escape, unescape

import numpy as np

from keygrasp.errors import RobotError
from keygrasp.sim.robot_files import robot_file

_LIGHT_GREY, _BLUE_GREY = "0.80 0.82 0.84 1", "0.42 0.58 0.74 1"
_COLOURS = {"shoulder": _BLUE_GREY, "wrist1": _BLUE_GREY, "wrist2": _BLUE_GREY}
#: Binary STL: a header of 80 bytes, the number of triangles, then 50 bytes each.
_HEADER, _MOST_TRIANGLES = 84, 1_000_000
_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("unused", "<u2")])


def with_coarse_look(urdf: str) -> str:
    """The URDF with its visual STL meshes coloured and lit.

    Args:
        urdf: Text with absolute mesh paths.
    """

    def replace(match: re.Match[str]) -> str:
        path = Path(unescape(match[2]))
        lit = escape(str(_with_normals(path)))
        colour = _COLOURS.get(path.stem, _LIGHT_GREY)
        material = f'<material name="{path.stem}_colour"><color rgba="{colour}"/></material>'
        return f"{match[1]}{lit}{match[3]}{material}</visual>"

    return re.sub(
        r'(<visual>(?:(?!</visual>).)*?<mesh filename=")([^"]+\.stl)("\s*/>\s*</geometry>\s*)</visual>',
        replace,
        urdf,
        flags=re.DOTALL,
    )


def _with_normals(path: Path) -> Path:
    """A copy of a binary STL file whose triangles have unit normals, by the right-hand rule."""
    data = path.read_bytes()
    count = int.from_bytes(data[80:_HEADER], "little")
    if count > _MOST_TRIANGLES or len(data) != _HEADER + count * _TRIANGLE.itemsize:
        raise RobotError(f"{path} is no binary STL file", "Install the robot's data package anew")
    triangles = np.frombuffer(data, _TRIANGLE, count, _HEADER).copy()
    first, second, third = triangles["corners"].swapaxes(0, 1)
    normals = np.cross(second - first, third - first)
    triangles["normal"] = normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    return robot_file(path.name, data[:_HEADER] + triangles.tobytes())
