"""The parallel gripper that every simulated robot carries: its description, and the control of its fingers."""

from __future__ import annotations

from keygrasp.scene import GripperSpec
from keygrasp.sim.world import ObjectHandle, World

#: Vertical size of the palm in metres.
PALM_HEIGHT = 0.03
#: Kilograms of each finger.
FINGER_MASS = 0.1
FINGER_JOINTS = ("left_finger_joint", "right_finger_joint")
#: Newtons that the coupling of the two fingers may transmit: far more than the fingers' own force.
_COUPLING_FORCE = 1000.0
_PALM_COLOUR = "0.25 0.25 0.28 1"
_PAD_COLOUR = "0.12 0.12 0.13 1"


def box_link(
    name: str, mass: float, size: tuple[float, float, float], origin: tuple[float, float, float], colour: str
) -> str:
    """URDF of a link that is a solid box."""
    x, y, z = size
    shape = f'<origin xyz="{origin[0]:.6g} {origin[1]:.6g} {origin[2]:.6g}"/>'
    box = f'<geometry><box size="{x:.6g} {y:.6g} {z:.6g}"/></geometry>'
    inertia = (
        f'ixx="{mass / 12 * (y * y + z * z):.6g}" iyy="{mass / 12 * (x * x + z * z):.6g}" '
        f'izz="{mass / 12 * (x * x + y * y):.6g}" ixy="0" ixz="0" iyz="0"'
    )
    return (
        f'<link name="{name}"><inertial>{shape}<mass value="{mass:.6g}"/><inertia {inertia}/></inertial>'
        f"<collision>{shape}{box}</collision>"
        f'<visual>{shape}{box}<material name="{name}_colour"><color rgba="{colour}"/></material></visual></link>'
    )


def gripper_links(spec: GripperSpec, *, palm_mass: float) -> str:
    """URDF of palm and fingers: link ``palm`` has its origin between the tips, x along the closing axis, z upwards.

    Each finger's joint is the distance of its pad's inner face from the middle.
    """
    pad = (spec.pad_thickness, spec.pad_width, spec.pad_height)
    palm = (spec.palm_along, spec.palm_across, PALM_HEIGHT)
    parts = [box_link("palm", palm_mass, palm, (0, 0, spec.pad_height + PALM_HEIGHT / 2), _PALM_COLOUR)]
    for name, side in (("left", 1), ("right", -1)):
        origin = (side * spec.pad_thickness / 2, 0.0, spec.pad_height / 2)
        parts.append(box_link(f"{name}_finger", FINGER_MASS, pad, origin, _PAD_COLOUR))
        parts.append(
            f'<joint name="{name}_finger_joint" type="prismatic"><parent link="palm"/><child link="{name}_finger"/>'
            f'<axis xyz="{side} 0 0"/>'
            f'<limit lower="0" upper="{spec.max_opening / 2:.6g}" effort="{spec.force:.6g}" velocity="1"/></joint>'
        )
    return "\n".join(parts)


class Fingers:
    """Two pads that move symmetrically and press with the same limited force.

    Each finger has a motor limited to the gripper's force. A gear between the two joints makes them move as one, as in
    a real parallel gripper: force limits alone would let the pair slide sideways with the object (28 mm in KG-1's
    shake), while with the gear both pads press with the set force and their difference stays below 0.1 mm.

    Args:
        world: Where the robot is.
        body: The robot's body.
        spec: The gripper.
    """

    def __init__(self, world: World, body: int, spec: GripperSpec) -> None:
        self._world, self._body, self._spec = world, body, spec
        bullet, client = world.bullet, world.client
        index = joint_indices(world, body)
        #: Links of the pads, which carry their joints' indices.
        self.links = (index[FINGER_JOINTS[0]], index[FINGER_JOINTS[1]])
        gear = bullet.createConstraint(
            body, self.links[0], body, self.links[1], bullet.JOINT_GEAR, [1, 0, 0], [0, 0, 0], [0, 0, 0],
            physicsClientId=client,
        )  # fmt: skip
        bullet.changeConstraint(gear, gearRatio=-1, maxForce=_COUPLING_FORCE, physicsClientId=client)

    @property
    def opening(self) -> float:
        """Metres between the pads' inner faces."""
        return sum(self.positions)

    @property
    def positions(self) -> list[float]:
        """Metres of each pad's inner face from the middle."""
        states = self._world.bullet.getJointStates(self._body, self.links, physicsClientId=self._world.client)
        return [float(state[0]) for state in states]

    def jump(self, opening: float) -> None:
        """Put the fingers at an opening at once, and hold them there."""
        for link in self.links:
            self._world.bullet.resetJointState(self._body, link, opening / 2, 0.0, physicsClientId=self._world.client)
        self.hold(opening)

    def hold(self, opening: float) -> None:
        """Move to an opening at the closing speed of a step, and hold it, with the gripper's force at most."""
        self._world.bullet.setJointMotorControlArray(
            self._body,
            self.links,
            self._world.bullet.POSITION_CONTROL,
            targetPositions=[opening / 2] * 2,
            positionGains=[1.0] * 2,
            velocityGains=[1.0] * 2,
            forces=[self._spec.force] * 2,
            physicsClientId=self._world.client,
        )

    def drive(self, speed: float, force: float | None = None) -> None:
        """Move each finger at ``speed`` metres a second (negative closes) until something stops it.

        Args:
            speed: Metres a second.
            force: Newtons at most; ``None`` for the gripper's.
        """
        self._world.bullet.setJointMotorControlArray(
            self._body,
            self.links,
            self._world.bullet.VELOCITY_CONTROL,
            targetVelocities=[speed] * 2,
            forces=[self._spec.force if force is None else force] * 2,
            physicsClientId=self._world.client,
        )

    def touching(self, handle: ObjectHandle) -> tuple[bool, bool]:
        """Whether the left and the right pad touch an object."""
        bullet, client = self._world.bullet, self._world.client
        left, right = (bool(bullet.getContactPoints(self._body, handle.body, k, -1, client)) for k in self.links)
        return left, right

    def both_touch(self, handle: ObjectHandle) -> bool:
        """Whether both pads touch an object."""
        return all(self.touching(handle))


def joint_indices(world: World, body: int) -> dict[str, int]:
    """Index of each joint of a body by its name."""
    count = world.bullet.getNumJoints(body, physicsClientId=world.client)
    names = (world.bullet.getJointInfo(body, index, physicsClientId=world.client)[1] for index in range(count))
    return {name.decode(): index for index, name in enumerate(names)}
