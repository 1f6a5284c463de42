"""The UR5's description with the gripper on its flange, from the robot data package's URDF."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path
from xml.sax.saxutils import escape

from keygrasp.errors import MissingExtraError, RobotError
from keygrasp.scene import GripperSpec
from keygrasp.sim.fingers import PALM_HEIGHT, box_link, gripper_links
from keygrasp.sim.robot_files import robot_file
from keygrasp.sim.ur5_look import with_coarse_look

_PACKAGE = "example-robot-data"
_URDF = "ur_description/urdf/ur5_robot.urdf"
#: Metres between flange and palm: keeps the wrist, which is wider than the palm, away from tall objects.
MOUNT_LENGTH = 0.10
_MOUNT_SIDE = 0.03
_MOUNT_MASS = 0.2
_PALM_MASS = 0.5
_PEDESTAL_SIDE = 0.15


def tool_length(spec: GripperSpec) -> float:
    """Metres from the flange (``tool0``) to the fingertips."""
    return MOUNT_LENGTH + PALM_HEIGHT + spec.pad_height


def data_folder() -> Path:
    """Folder of the robot data package that holds ``robots/``.

    Raises:
        MissingExtraError: If the package is not installed.
        RobotError: If it is, without the UR5.
    """
    try:
        files = importlib.metadata.files(_PACKAGE)
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingExtraError(
            f"the UR5 needs the package '{_PACKAGE}', which is not installed",
            "Install it with: pip install 'keygrasp[grasp]'",
        ) from error
    for file in files or ():
        if str(file).endswith(f"/robots/{_URDF}"):
            path = Path(str(file.locate())).resolve()
            if path.is_file():
                return path.parents[3]
    raise RobotError(f"the package '{_PACKAGE}' holds no {_URDF}", "Install it anew, version 4.2 or later")


def ur5_urdf(spec: GripperSpec, *, pedestal: float, detailed: bool) -> Path:
    """Path of a URDF of the arm with mount and gripper, its meshes given by absolute paths.

    Args:
        spec: The gripper.
        pedestal: Metres between table and base.
        detailed: Show the manufacturer's meshes; otherwise the coarser ones, which also serve for contact and load and
            render much faster.
    """
    folder = data_folder()
    text = (folder / "robots" / _URDF).read_text(encoding="utf-8")
    text = re.sub(r"<(gazebo|transmission)\b.*?</\1>", "", text, flags=re.DOTALL)
    if not detailed:
        text = re.sub(r"meshes/ur5/visual/(\w+)\.dae", r"meshes/ur5/collision/\1.stl", text)
    text = text.replace(f"package://{_PACKAGE}", escape(str(folder)))
    if not detailed:
        text = with_coarse_look(text)
    column = (_MOUNT_SIDE, _MOUNT_SIDE, MOUNT_LENGTH)
    stand = (
        '<link name="pedestal"><inertial><mass value="1"/>'
        '<inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>'
        f'<visual><origin xyz="0 0 {-pedestal / 2:.6g}"/>'
        f'<geometry><box size="{_PEDESTAL_SIDE} {_PEDESTAL_SIDE} {pedestal:.6g}"/></geometry>'
        '<material name="pedestal_colour"><color rgba="0.45 0.45 0.48 1"/></material></visual></link>'
        '<joint name="pedestal_joint" type="fixed"><parent link="base_link"/><child link="pedestal"/></joint>'
    )
    palm = gripper_links(spec, palm_mass=_PALM_MASS)
    hand = (
        f"{box_link('mount', _MOUNT_MASS, column, (0, 0, MOUNT_LENGTH / 2), '0.6 0.6 0.62 1')}\n{palm}\n"
        '<joint name="mount_joint" type="fixed"><parent link="tool0"/><child link="mount"/></joint>\n'
        '<joint name="palm_joint" type="fixed"><parent link="tool0"/><child link="palm"/>'
        f'<origin xyz="0 0 {tool_length(spec):.6g}" rpy="3.14159265358979 0 0"/></joint>\n'
    )
    return robot_file("ur5.urdf", text.replace("</robot>", f"{stand}\n{hand}</robot>").encode())
