"""What a Delta X model is: its geometry, its limits and which dialect it speaks; two built in, others from YAML."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Literal

import numpy as np

from keygrasp.configuration import load_config
from keygrasp.errors import ConfigurationError

Convention = Literal["side", "vertex", "radius"]
#: Metres a unit.
_UNITS = {"mm": 1e-3, "m": 1.0}
#: Distance of a joint from the middle of its triangle, for a side (or radius) of 1. ``side``: arms at the middle of the
#: sides (the inscribed circle); ``vertex``: arms at the corners (the circumscribed circle).
_RADIUS_OF: dict[str, float] = {"side": 0.5 / math.sqrt(3), "vertex": 1 / math.sqrt(3), "radius": 1.0}
#: Metres by which a model's stated home height may differ from the one that its geometry gives.
_HOME_TOLERANCE = 1e-3
#: Metres between which an upper arm must lie, to catch wrong units.
_PLAUSIBLE_ARM = (0.02, 3.0)
#: Radians of arm motion while homing besides the range itself: off the end stops and on again.
_HOMING_EXTRA = math.radians(40)


class Dialect(StrEnum):
    """Families of firmware that differ in commands and answers."""

    X1 = "x1"  # no software stop; servo gripper; positions as bare CSV
    X2 = "x2"  # as X1, with an emergency stop and a state query
    XS = "xs"  # XS and X3: numbered outputs instead of an end effector; M203 sets the jerk


@dataclass(frozen=True)
class DeltaGeometry:
    """Four lengths that the kinematics need, in metres.

    Attributes:
        base_radius: From the middle of the base to the axis of each upper arm's joint.
        platform_radius: From the middle of the moving platform to each forearm's joint.
        upper_arm: Length of the driven arms.
        forearm: Length of the parallelograms.
    """

    base_radius: float
    platform_radius: float
    upper_arm: float
    forearm: float

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (math.isfinite(value) and value > 0):
                raise ConfigurationError(f"delta geometry: {field.name} must be positive, not {value} m")

    def height(self, angle: float) -> float:
        """Height of the platform with all arms at an angle: three equal spheres that meet on the axis; else NaN."""
        reach = self.base_radius - self.platform_radius + self.upper_arm * math.cos(angle)
        square = self.forearm**2 - reach**2
        return -self.upper_arm * math.sin(angle) - math.sqrt(square) if square > 0 else math.nan


@dataclass(frozen=True)
class DeltaModel:
    """A robot: geometry, limits, dialect. Metres, radians, seconds, kilograms; the origin is the base's middle, z up.

    Attributes:
        name: Name of the model.
        geometry: Its four lengths.
        home_angle: Angle of the upper arms at their end stops; 0 is horizontal, positive is down.
        floor: Lowest z of the platform.
        radius: Largest distance of the platform from the axis.
        dialect: What its firmware understands.
        max_angle: Largest angle of an upper arm. 90° is the constant in X1's firmware, which doesn't check it: where
            an arm of X1 turns further, the condition number below grows from 10 to beyond 90.
        max_speed: Highest speed of the platform.
        max_acceleration: Highest acceleration of the platform.
        max_condition: Largest condition number of the forearms' directions that counts as regular.
        min_leverage: Smallest sine between an upper arm and its forearm that counts as regular.
        payload: Most that it carries, tool included.
        home_speed: Radians a second of the arms while homing.
    """

    name: str
    geometry: DeltaGeometry
    home_angle: float
    floor: float
    radius: float
    dialect: Dialect = Dialect.X1
    max_angle: float = math.pi / 2
    max_speed: float = 0.85
    max_acceleration: float = 30.0
    max_condition: float = 10.0
    min_leverage: float = 0.2
    payload: float = 0.5
    home_speed: float = math.radians(50)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ConfigurationError(f"delta model {self.name}: {field.name} is {value}")
        for name in ("radius", "max_speed", "max_acceleration", "max_condition", "min_leverage", "home_speed"):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"delta model {self.name}: {name} must be positive, not {getattr(self, name)}")
        if not -math.pi / 2 < self.home_angle < self.max_angle:
            raise ConfigurationError(
                f"delta model {self.name}: home_angle {math.degrees(self.home_angle):.1f}° must lie above -90° and "
                f"below max_angle {math.degrees(self.max_angle):.1f}°"
            )
        if not self.floor < self.home_z:
            raise ConfigurationError(
                f"delta model {self.name}: the floor at {self.floor * 1e3:.1f} mm is not below home at "
                f"{self.home_z * 1e3:.1f} mm",
                "z points up and the base is at 0, so both are negative",
            )

    @property
    def home_z(self) -> float:
        """Height of the platform with all arms at home."""
        return self.geometry.height(self.home_angle)

    @property
    def home(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """(3,) where the platform is with all arms at home."""
        return np.array([0.0, 0.0, self.home_z])

    @property
    def homing_seconds(self) -> float:
        """The longest that homing takes: from the lowest arm position."""
        return (self.max_angle - self.home_angle + _HOMING_EXTRA) / self.home_speed

    @property
    def soft_stop(self) -> bool:
        """Whether the firmware can stop a move that has begun."""
        return self.dialect is not Dialect.X1


@dataclass(frozen=True)
class ModelFile:
    """A model in a YAML file, in the file's own unit; see :func:`load_model`.

    Attributes:
        name: Name of the model.
        units: Unit of every length in the file.
        convention: What ``base`` and ``effector`` are: the side of a triangle with the arms at the middle of its sides
            (``side``, as Delta X states them) or at its corners (``vertex``), or the joints' distance from the middle
            (``radius``).
        base: Base triangle.
        effector: Platform triangle.
        upper_arm: Driven arm.
        forearm: Parallelogram.
        home_angle: Degrees.
        home_z: Height at home as the maker states it or the robot answers; checked against the geometry.
        floor: Lowest z.
        radius: Largest distance from the axis.
        dialect: ``x1``, ``x2`` or ``xs``.
        max_angle: Degrees.
        max_speed: Lengths a second.
        max_acceleration: Lengths a second squared.
        payload: Kilograms.
        home_speed: Degrees a second.
    """

    name: str
    units: Literal["mm", "m"]
    convention: Convention
    base: float
    effector: float
    upper_arm: float
    forearm: float
    home_angle: float
    home_z: float
    floor: float
    radius: float
    max_speed: float
    max_acceleration: float
    dialect: Literal["x1", "x2", "xs"] = "x1"
    max_angle: float = 90.0
    payload: float = 0.5
    home_speed: float = 50.0

    def model(self) -> DeltaModel:
        """The model in metres and radians.

        Raises:
            ConfigurationError: If the lengths are implausible, or don't give the stated home height: then another
                convention or unit that would is named.
        """
        scale = _UNITS[self.units]
        low, high = _PLAUSIBLE_ARM
        if not low <= self.upper_arm * scale <= high:
            raise ConfigurationError(
                f"delta model {self.name}: an upper arm of {self.upper_arm} {self.units} is "
                f"{self.upper_arm * scale:g} m, not within {low}–{high} m",
                "Check 'units'",
            )
        self._check_home()
        return DeltaModel(
            name=self.name,
            geometry=self._geometry(self.convention),
            home_angle=math.radians(self.home_angle),
            floor=self.floor * scale,
            radius=self.radius * scale,
            dialect=Dialect(self.dialect),
            max_angle=math.radians(self.max_angle),
            max_speed=self.max_speed * scale,
            max_acceleration=self.max_acceleration * scale,
            payload=self.payload,
            home_speed=math.radians(self.home_speed),
        )

    def _geometry(self, convention: Convention) -> DeltaGeometry:
        scale, ratio = _UNITS[self.units], _RADIUS_OF[convention] * _UNITS[self.units]
        return DeltaGeometry(self.base * ratio, self.effector * ratio, self.upper_arm * scale, self.forearm * scale)

    def _check_home(self) -> None:
        """Refuse a convention with which the stated home height is not where the geometry puts it."""
        stated, angle = self.home_z * _UNITS[self.units], math.radians(self.home_angle)
        conventions: tuple[Convention, ...] = ("side", "vertex", "radius")
        found = {name: self._geometry(name).height(angle) for name in conventions}
        own = found[self.convention]
        if abs(own - stated) <= _HOME_TOLERANCE:
            return
        fitting = [name for name, value in found.items() if abs(value - stated) <= _HOME_TOLERANCE]
        gives = "no assembled robot" if math.isnan(own) else f"home at z = {own * 1e3:.2f} mm"
        raise ConfigurationError(
            f"delta model {self.name}: convention '{self.convention}' gives {gives}, but the file states "
            f"{stated * 1e3:.2f} mm",
            f"With convention '{fitting[0]}' it fits"
            if fitting
            else "Check the unit, the convention and the four lengths",
        )


def _built_in(name: str, base: float, upper_arm: float, forearm: float, home: float, home_z: float) -> DeltaModel:
    return ModelFile(
        name=name, units="mm", convention="side", base=base, effector=120.0, upper_arm=upper_arm, forearm=forearm,
        home_angle=home, home_z=home_z, floor=-402.0, radius=170.0, max_speed=850.0, max_acceleration=30000.0,
    ).model()  # fmt: skip


#: Models that are known without a file (Delta X's firmware and documentation). V2 has X1's limits in that firmware.
MODELS = {
    "X1": _built_in("X1", 259.04, 130.0, 315.0, -38.5, -200.31),
    "V2": _built_in("V2", 260.0, 120.0, 305.0, -34.25, -203.64),
}


def load_model(name: str) -> DeltaModel:
    """A built-in model by name, or one from a YAML file with the keys of :class:`ModelFile`.

    Raises:
        ConfigurationError: If there is neither, or the file contradicts itself.
    """
    if name in MODELS:
        return MODELS[name]
    if not Path(name).suffix:
        raise ConfigurationError(f"unknown Delta model '{name}'", f"Built in: {', '.join(MODELS)}; or name a YAML file")
    return load_config(Path(name), ModelFile).model()
