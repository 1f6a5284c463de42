"""Closed loops of a robot whose description is a tree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from keygrasp.geometry.poses import Array, invert_pose, make_pose, rotation_from_quaternion, transform_points
from keygrasp.robots.delta_x.description import Closure
from keygrasp.sim.world import World

#: Newtons that hold a loop together at most.
_FORCE = 1e5


class Loops:
    """Holds points of a body's links together, and tells how well.

    Args:
        world: Where the body is.
        body: The robot's body.
        closures: Points that coincide.
    """

    def __init__(self, world: World, body: int, closures: Sequence[Closure]) -> None:
        self._world, self._body, self._closures = world, body, closures
        bullet, client = world.bullet, world.client
        count = bullet.getNumJoints(body, physicsClientId=client)
        names = (bullet.getJointInfo(body, index, physicsClientId=client)[12] for index in range(count))
        self._links = {name.decode(): index for index, name in enumerate(names)}
        for closure in closures:
            rod, platform = self._links[closure.rod], self._links[closure.platform]
            loop = bullet.createConstraint(
                body, rod, body, platform, bullet.JOINT_POINT2POINT, [0, 0, 0],
                self._from_mass_centre(rod, closure.rod_point),
                self._from_mass_centre(platform, closure.platform_point),
                physicsClientId=client,
            )  # fmt: skip
            bullet.changeConstraint(loop, maxForce=_FORCE, physicsClientId=client)

    def pose(self, link: str) -> Array:
        """Pose (4, 4) of a link in the workspace, by its name."""
        state = self._world.bullet.getLinkState(
            self._body, self._links[link], computeForwardKinematics=True, physicsClientId=self._world.client
        )
        return make_pose(state[4], rotation_from_quaternion(state[5]))

    def errors(self) -> Array:
        """Metres (n,) between the two points of each closure."""
        gaps = [
            transform_points(self.pose(closure.rod), np.array([closure.rod_point]))
            - transform_points(self.pose(closure.platform), np.array([closure.platform_point]))
            for closure in self._closures
        ]
        return np.asarray(np.linalg.norm(np.concatenate(gaps), axis=1))

    def _from_mass_centre(self, link: int, point: tuple[float, float, float]) -> list[float]:
        """A point of a link in the frame of its centre of mass, in which the engine wants it."""
        inertial = self._world.bullet.getDynamicsInfo(self._body, link, physicsClientId=self._world.client)[3:5]
        frame = make_pose(inertial[0], rotation_from_quaternion(inertial[1]))
        return [float(value) for value in transform_points(invert_pose(frame), np.array([point]))[0]]
