"""Kinematics of a Delta robot with three equal legs, in closed form, vectorised over points.

Frame: origin in the middle of the base's joints, z up, so the platform is at z < 0. Leg 1 points along -y, legs 2 and 3
are turned by ±120° about z. Angles of the upper arms in radians: 0 horizontal, positive down. Metres.

Following R. Clavel, *Conception d'un robot parallèle rapide à 4 degrés de liberté* (EPFL, 1991): each leg closes where
the forearm's sphere about the platform's joint meets the circle of the upper arm's end.
"""

from __future__ import annotations

import math

import numpy as np

from keygrasp.geometry.poses import Array, rotation_z
from keygrasp.robots.delta_x.model import DeltaGeometry

#: (3, 3, 3) rotations that bring leg 1 onto each leg.
_LEGS = np.stack([rotation_z(angle) for angle in (0.0, 2 * math.pi / 3, -2 * math.pi / 3)])


def inverse(geometry: DeltaGeometry, points: Array) -> Array:
    """Angles (..., 3) of the upper arms that bring the platform to points (..., 3); NaN where a leg can't reach.

    In a leg's own frame, with (u, z) from the upper arm's joint to the platform's joint and x across, closing the leg
    is ``u cos θ + z sin θ = (re² - rf² - x² - u² - z²) / 2 rf``; of its two solutions the one with the elbow outside
    is taken. Points level with the base or above it have none.
    """
    points = np.asarray(points, dtype=float)
    local = np.einsum("kji,...j->...ki", _LEGS, points)
    x, z = local[..., 0], local[..., 2]
    u = local[..., 1] + geometry.base_radius - geometry.platform_radius
    rf, re = geometry.upper_arm, geometry.forearm
    side = (re**2 - rf**2 - x**2 - u**2 - z**2) / (2 * rf)
    length = np.hypot(u, z)
    with np.errstate(divide="ignore", invalid="ignore"):
        angles = np.arctan2(z, u) + np.arccos(side / length)
    return np.asarray(np.where(z < 0, angles, np.nan))


def forward(geometry: DeltaGeometry, angles: Array) -> Array:
    """Points (..., 3) of the platform for angles (..., 3) of the upper arms; NaN where the forearms can't meet.

    Three spheres of the forearms' length about the elbows, moved inwards by the platform's radius; the lower of the
    two points in which they meet.
    """
    centres = _centres(geometry, angles)
    first, second, third = centres[..., 0, :], centres[..., 1, :], centres[..., 2, :]
    a, b = second - first, third - first
    normal = np.cross(a, b)
    square = np.sum(normal**2, axis=-1, keepdims=True)
    a2, b2 = np.sum(a**2, axis=-1, keepdims=True), np.sum(b**2, axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Circumcentre of the triangle of centres, then along its normal to the common point.
        foot = np.cross(a2 * b - b2 * a, normal) / (2 * square)
        height = np.sqrt((geometry.forearm**2 - np.sum(foot**2, axis=-1, keepdims=True)) / square)
        down = np.where(normal[..., 2:] > 0, -1.0, 1.0)
        return np.asarray(first + foot + down * height * normal)


def jacobian(geometry: DeltaGeometry, points: Array) -> Array:
    """Jacobians (..., 3, 3), ∂point/∂angles in metres a radian, at points (..., 3); NaN out of reach or singular."""
    forearms, leverage = _closure(geometry, points)
    usable = np.asarray(np.isfinite(leverage).all(axis=-1) & (np.abs(np.linalg.det(np.nan_to_num(forearms))) > 1e-12))
    safe = np.where(usable[..., None, None], forearms, np.eye(3))
    drive = np.linalg.inv(safe) * (leverage * geometry.upper_arm)[..., None, :]
    return np.asarray(np.where(usable[..., None, None], drive, np.nan))


def singularity(geometry: DeltaGeometry, points: Array) -> tuple[Array, Array]:
    """How near points (..., 3) are to the two kinds of singularity (Gosselin and Angeles, 1990).

    Returns:
        (...,) condition number of the forearms' unit vectors (infinite where they lie in a plane: the platform is
        loose), and (...,) the smallest absolute sine between an upper arm and its forearm (0 where they are in line:
        the platform can't move along them). Both NaN out of reach.
    """
    forearms, leverage = _closure(geometry, points)
    reached = np.asarray(np.isfinite(leverage).all(axis=-1))
    condition = _condition(np.where(reached[..., None, None], forearms, np.eye(3)))
    smallest = np.abs(leverage).min(axis=-1)
    return np.where(reached, condition, np.nan), np.where(reached, smallest, np.nan)


def _condition(units: Array) -> Array:
    """Condition numbers (...,) of matrices (..., 3, 3) with unit rows; a hundredth of the time of numpy's.

    Their Gram matrices have ones on the diagonal, so that their eigenvalues are 1 plus the roots of a depressed cubic,
    which is solved by cosines (Smith, Comm. ACM 4, 1961).
    """
    first, second, third = units[..., 0, :], units[..., 1, :], units[..., 2, :]
    cosines = [np.sum(a * b, axis=-1) for a, b in ((first, second), (first, third), (second, third))]
    radius = np.sqrt((cosines[0] ** 2 + cosines[1] ** 2 + cosines[2] ** 2) / 3)
    product = cosines[0] * cosines[1] * cosines[2]
    third_of_turn = np.arccos(np.clip(product / np.maximum(radius**3, 1e-300), -1.0, 1.0)) / 3
    largest = 1 + 2 * radius * np.cos(third_of_turn)
    smallest = 1 + 2 * radius * np.cos(third_of_turn + 2 * np.pi / 3)
    with np.errstate(divide="ignore"):
        return np.asarray(np.sqrt(largest / np.maximum(smallest, 0.0)))


def _closure(geometry: DeltaGeometry, points: Array) -> tuple[Array, Array]:
    """Unit vectors (..., 3, 3) of the forearms in rows, and (..., 3) their components along the elbows' motion.

    With them ``forearms · v = rf · leverage · θ'``: the derivative of the three closing conditions.
    """
    points = np.asarray(points, dtype=float)
    angles = inverse(geometry, points)
    forearms = (points[..., None, :] - _centres(geometry, angles)) / geometry.forearm
    zero = np.zeros_like(angles)
    motion = np.stack([zero, np.sin(angles), -np.cos(angles)], axis=-1)
    motion = np.einsum("kij,...kj->...ki", _LEGS, motion)
    return forearms, np.sum(forearms * motion, axis=-1)


def _centres(geometry: DeltaGeometry, angles: Array) -> Array:
    """Elbows (..., 3, 3) for angles (..., 3), moved inwards by the platform's radius."""
    angles = np.asarray(angles, dtype=float)
    out = geometry.base_radius - geometry.platform_radius + geometry.upper_arm * np.cos(angles)
    local = np.stack([np.zeros_like(angles), -out, -geometry.upper_arm * np.sin(angles)], axis=-1)
    return np.asarray(np.einsum("kij,...kj->...ki", _LEGS, local))
