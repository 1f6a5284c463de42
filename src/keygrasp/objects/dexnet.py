"""Reading a Dex-Net 2.0 object database (HDF5): meshes, stable poses and grasps, as its users have it.

The layout is that of BerkeleyAutomation/dex-net. Files written by Python 2 hold strings as bytes; both are read. Links
that lead to other files, and data kept outside the file, are refused, and every size is checked before it is read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from keygrasp.errors import DatabaseError, MeshError
from keygrasp.extras import require
from keygrasp.geometry.meshes import Faces
from keygrasp.geometry.poses import Array
from keygrasp.objects.cache import cached, content_key
from keygrasp.objects.decomposition import was_cut
from keygrasp.objects.meshfiles import in_metres, prepare_mesh
from keygrasp.objects.objfile import MAX_ELEMENTS
from keygrasp.objects.prepared import STORED, PreparedObject, Rule, from_arrays, to_arrays

_MAX_ENTRIES = 1_000_000
_MAX_ATTRIBUTE = 4096
_REMEDY = "Copy the database anew, or rebuild it with Dex-Net's own tools"


@dataclass(frozen=True, eq=False)
class DexNetObject:
    """A mesh of the database.

    Attributes:
        dataset: Name of its data set.
        key: Its name there.
        vertices: (V, 3) in metres.
        faces: (F, 3).
        normals: (V, 3), or None where the database has none.
        mass: Kilograms as stored (Dex-Net takes 4000 kg/m³; KG-1 computes its own), or None.
        category: As stored, or ``""``.
    """

    dataset: str
    key: str
    vertices: Array
    faces: Faces
    normals: Array | None
    mass: float | None
    category: str


@dataclass(frozen=True, eq=False)
class StablePose:
    """A pose in which the object rests on the table.

    Attributes:
        probability: Of coming to rest so when dropped.
        rotation: (3, 3) from the object's frame to the table's.
        contact: (3,) point of the object that touches the table, in the object's frame; zeros where not stored.
    """

    probability: float
    rotation: Array
    contact: Array


@dataclass(frozen=True, eq=False)
class DexNetGrasp:
    """A parallel-jaw grasp in the object's frame (``ParallelJawPtGrasp3D``).

    Attributes:
        identifier: As stored.
        gripper: Name of the gripper that it was computed for.
        center: (3,) middle between the jaws, metres.
        axis: (3,) unit vector along which the jaws close.
        max_width: Opening before closing, metres.
        approach_angle: Radians about ``axis``.
        jaw_width: Metres.
        min_width: Opening at which the jaws stop; 0 where the configuration has nine numbers.
        frame: Name of the frame, as stored.
        metrics: Quality by metric.
    """

    identifier: int
    gripper: str
    center: Array
    axis: Array
    max_width: float
    approach_angle: float
    jaw_width: float
    min_width: float
    frame: str
    metrics: dict[str, float]


class DexNetDatabase:
    """A database opened for reading; use it in a ``with`` block.

    Args:
        path: The HDF5 file.

    Raises:
        DatabaseError: If it is missing, damaged, truncated or not a Dex-Net database. Every method raises it too, when
            what it needs is missing or damaged.
        MissingExtraError: If h5py is not installed.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._h5py: Any = require("h5py", "dexnet")
        with self._reading("open the database"):
            self._file: Any = self._h5py.File(self.path, "r")
        try:
            self._group("datasets")
        except DatabaseError:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def datasets(self) -> tuple[str, ...]:
        """Names of the data sets, sorted."""
        return self._children("datasets")

    def objects(self, dataset: str) -> tuple[str, ...]:
        """Keys of a data set's objects, sorted."""
        return self._children("datasets", dataset, "objects")

    def grippers(self, dataset: str, key: str) -> tuple[str, ...]:
        """Names of the grippers that an object has grasps for; empty where it has none."""
        parent = self._group("datasets", dataset, "objects", key)
        return self._children("datasets", dataset, "objects", key, "grasps") if "grasps" in parent else ()

    def object(self, dataset: str, key: str) -> DexNetObject:
        """Mesh, mass and category of an object."""
        where = ("datasets", dataset, "objects", key)
        group, mesh = self._group(*where), self._group(*where, "mesh")
        with self._reading(f"read the mesh of {dataset}/{key}"):
            return DexNetObject(
                dataset=dataset,
                key=key,
                vertices=self._array(mesh, "vertices").astype(float),
                faces=self._array(mesh, "triangles").astype(np.int64),
                normals=self._array(mesh, "normals").astype(float) if "normals" in mesh else None,
                mass=float(self._attribute(group, "mass")) if "mass" in group.attrs else None,
                category=_text(self._attribute(group, "category")) if "category" in group.attrs else "",
            )

    def stable_poses(self, dataset: str, key: str) -> tuple[StablePose, ...]:
        """Stable poses of an object, most probable first; empty where none are stored."""
        where = ("datasets", dataset, "objects", key)
        if "stable_poses" not in self._group(*where):
            return ()
        poses = []
        for name in self._children(*where, "stable_poses"):
            group = self._group(*where, "stable_poses", name)
            with self._reading(f"read the stable pose {name} of {dataset}/{key}"):
                contact = self._floats(group, "x0", 3) if "x0" in group.attrs else np.zeros(3)
                rotation = self._floats(group, "r", 9).reshape(3, 3)
                if not np.allclose(rotation @ rotation.T, np.eye(3), atol=1e-3):
                    raise ValueError("r is not a rotation")
                poses.append(StablePose(float(self._floats(group, "p", 1)[0]), rotation, contact))
        return tuple(sorted(poses, key=lambda pose: -pose.probability))

    def grasps(self, dataset: str, key: str, gripper: str) -> tuple[DexNetGrasp, ...]:
        """Grasps of an object for a gripper, by identifier."""
        where = ("datasets", dataset, "objects", key, "grasps", gripper)
        grasps = []
        for name in self._children(*where):
            group = self._group(*where, name)
            with self._reading(f"read the grasp {name} of {dataset}/{key}"):
                grasps.append(self._grasp(group, gripper))
        return tuple(sorted(grasps, key=lambda grasp: grasp.identifier))

    def _grasp(self, group: Any, gripper: str) -> DexNetGrasp:
        kind = _text(self._attribute(group, "type")) if "type" in group.attrs else "ParallelJawPtGrasp3D"
        if kind != "ParallelJawPtGrasp3D":
            raise ValueError(f"grasps of type {kind} are not known")
        numbers = np.asarray(self._attribute(group, "configuration"), dtype=float).reshape(-1)
        if numbers.size not in {9, 10} or not np.isfinite(numbers).all():
            raise ValueError(f"its configuration has {numbers.size} numbers, not 9 or 10 finite ones")
        length = float(np.linalg.norm(numbers[3:6]))
        if abs(length - 1) > 1e-2:
            raise ValueError(f"its axis has length {length:.3g}, not 1")
        metrics = {}
        if "metrics" in group:
            self._check_link(group, "metrics")
            metrics = {name: float(self._attribute(group["metrics"], name)) for name in group["metrics"].attrs}
        return DexNetGrasp(
            identifier=int(self._attribute(group, "id")),
            gripper=gripper,
            center=numbers[:3],
            axis=numbers[3:6] / length,
            max_width=float(numbers[6]),
            approach_angle=float(numbers[7]),
            jaw_width=float(numbers[8]),
            min_width=float(numbers[9]) if numbers.size == 10 else 0.0,
            frame=_text(self._attribute(group, "frame")) if "frame" in group.attrs else "",
            metrics=metrics,
        )

    @contextlib.contextmanager
    def _reading(self, what: str) -> Iterator[None]:
        """Turn what h5py raises on missing or damaged data into an error that names the file and the remedy."""
        try:
            yield
        except (OSError, KeyError, ValueError, TypeError, RuntimeError, AttributeError, OverflowError) as error:
            remedy = _REMEDY if self.path.exists() else "Check the path"
            raise DatabaseError(f"can't {what} in {self.path}: {str(error)[:200]}", remedy) from error

    def _group(self, *names: str) -> Any:
        """Group at a path, walked one name at a time so that no link leads out of the file."""
        with self._reading(f"find {'/'.join(names)}"):
            group = self._file
            for name in names:
                if "/" in name or name in {"", ".", ".."} or name not in group:
                    raise KeyError(f"there is no {name!r}; there are {', '.join(list(group)[:8]) or 'none'}")
                self._check_link(group, name)
                group = group[name]
                if not isinstance(group, self._h5py.Group):
                    raise TypeError(f"{name!r} is not a group")
            return group

    def _children(self, *names: str) -> tuple[str, ...]:
        group = self._group(*names)
        with self._reading(f"list {'/'.join(names)}"):
            if len(group) > _MAX_ENTRIES:
                raise ValueError(f"{len(group)} entries are more than {_MAX_ENTRIES}")
            return tuple(sorted(str(name) for name in group))

    def _check_link(self, group: Any, name: str) -> None:
        kind = group.get(name, getclass=True, getlink=True)
        if kind is not self._h5py.HardLink:
            raise ValueError(f"{name!r} is a link to elsewhere, which is not followed")

    def _array(self, group: Any, name: str) -> Any:
        """(N, 3) array of bounded size that lies in the file itself."""
        self._check_link(group, name)
        data = group[name]
        if data.external or data.is_virtual:
            raise ValueError(f"{name!r} keeps its data in another file, which is not followed")
        if data.ndim != 2 or data.shape[1] != 3 or data.shape[0] > MAX_ELEMENTS or data.dtype.kind not in "fiu":
            raise ValueError(f"{name!r} has shape {data.shape}, not (N, 3) numbers with N up to {MAX_ELEMENTS:,}")
        return data[()]

    def _attribute(self, group: Any, name: str) -> Any:
        shape = group.attrs.get_id(name).shape
        if int(np.prod(shape)) > _MAX_ATTRIBUTE:
            raise ValueError(f"attribute {name!r} is too large: {shape}")
        return group.attrs[name]

    def _floats(self, group: Any, name: str, count: int) -> Array:
        numbers = np.asarray(self._attribute(group, name), dtype=float).reshape(-1)
        if numbers.size != count or not np.isfinite(numbers).all():
            raise ValueError(f"{name!r} has {numbers.size} numbers, not {count} finite ones")
        return numbers


def prepare(path: Path, dataset: str, key: str, rule: Rule) -> PreparedObject:
    """Prepare an object of a database for physics.

    Dex-Net scales meshes when it builds a database (by default until the smallest side of the axis-aligned box is
    4 cm), so rule ``"none"`` takes the stored metres as they are; a database of meshes that were never scaled is
    refused as in ``meshfiles.in_metres``. Mass and inertia are KG-1's, not the stored ones.

    Raises:
        DatabaseError: If it can't be read.
        MeshError: If the mesh can't be used.
    """
    with DexNetDatabase(path) as database:
        found = database.object(dataset, key)
    name = f"{dataset}/{key}"
    stored = content_key("dexnet", name, rule, found.category, found.vertices, found.faces)

    def compute() -> PreparedObject:
        vertices = in_metres(found.vertices, None)
        return prepare_mesh(vertices, found.faces, name, "dexnet", rule=rule, category=found.category or None)

    try:
        return from_arrays(cached("objects", stored, STORED, lambda: to_arrays(compute()), worth_keeping=was_cut))
    except MeshError as error:
        raise MeshError(f"{path}, {name}: {error.problem}", error.remedy) from error


def _text(value: Any) -> str:
    """A stored string, be it text, bytes (Python 2) or an array of one of them."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)
