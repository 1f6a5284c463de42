"""Objects with known shape, mass and inertia."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import trimesh

from keygrasp.objects import PreparedObject
from keygrasp.sim import World


def _prepared(meshes: list[trimesh.Trimesh], mass: float) -> PreparedObject:
    mesh = trimesh.util.concatenate(meshes)
    mesh.density = mass / mesh.volume
    extents = np.sort(mesh.extents)
    frame = mesh.principal_inertia_transform
    mesh.apply_transform(frame)
    hulls = tuple(trimesh.transform_points(part.vertices, frame) for part in meshes)
    return PreparedObject(
        name="test object",
        source="file",
        category="test",
        vertices=np.array(mesh.vertices),
        faces=np.array(mesh.faces),
        hulls=hulls,
        mass=mass,
        inertia=np.diag(mesh.moment_inertia).copy(),
        volume=float(mesh.volume),
        extents=extents,
    )


@pytest.fixture
def box() -> Callable[..., PreparedObject]:
    """Factory of boxes whose axes may be permuted by the principal frame: (x, y, z) ascending moments."""

    def make(x: float = 0.10, y: float = 0.06, z: float = 0.04, mass: float = 0.1) -> PreparedObject:
        corners = np.array([[i, j, k] for i in (-x, x) for j in (-y, y) for k in (-z, z)]) / 2
        hull = trimesh.convex.convex_hull(corners)
        inertia = mass / 12 * np.array([y * y + z * z, x * x + z * z, x * x + y * y])
        return PreparedObject(
            name="box",
            source="file",
            category="box",
            vertices=np.array(hull.vertices),
            faces=np.array(hull.faces),
            hulls=(corners,),
            mass=mass,
            inertia=inertia,
            volume=x * y * z,
            extents=np.sort([x, y, z]),
        )

    return make


@pytest.fixture
def shape() -> Callable[..., PreparedObject]:
    """Factory of objects from convex parts."""
    return lambda *parts, mass=0.1: _prepared(list(parts), mass)


@pytest.fixture
def world() -> Iterator[World]:
    with World() as made:
        yield made
