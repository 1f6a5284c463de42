"""The data format of executed grasps, ``kg-labels-2``: a folder with an index and numbered shards.

``index.json`` holds ``format``, ``camera`` (intrinsics and the 4×4 ``camera_in_workspace``), ``gripper`` and ``config``
(what was asked of the collector). Each ``shard-NNNNN.npz`` holds whole scenes:

========== ==================== ======================================================================
array      shape, type          meaning
========== ==================== ======================================================================
depth      (S, H, W) uint16     the noisy depth image the grasps were planned on, in 0.1 mm; 0 is invalid
object     (S,) str             name of the object
seed       (S,) int64           seed of the scene
pose       (S, 4, 4) float64    pose of the object's body frame in the workspace frame when the image was taken
first      (S + 1,) int64       grasps of scene i are rows first[i] to first[i + 1]
grasps     (N, 5) float32       x, y, z, yaw, width in the workspace frame (m, rad)
outcome    (N,) uint8           index into :data:`OUTCOMES`
proposal   (N,) uint8           index into :data:`PROPOSALS`: where the grasp came from
force      (N,) float32         largest contact force in newtons while descending; NaN where not measured
moved      (N,) float32         horizontal metres from where the object's centre of mass was before the execution to
                                where it was at its end; NaN where not measured
========== ==================== ======================================================================

Shards from before ``force`` and ``moved`` were kept are read with NaN in their place. No array holds Python objects:
shards are read with ``allow_pickle=False``.
"""

from __future__ import annotations

import dataclasses
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import InputError
from keygrasp.files import atomic_path, read_json, write_json
from keygrasp.geometry.cameras import Intrinsics
from keygrasp.objects import Rule
from keygrasp.scene import GripperSpec, Outcome, OverheadView

FORMAT = "kg-labels-2"
#: Outcomes by their number on disk; append only.
OUTCOMES = (
    Outcome.SUCCESS,
    Outcome.CONTACT_TOO_EARLY,
    Outcome.EMPTY,
    Outcome.SLIPPED,
    Outcome.SHAKEN,
    Outcome.UNREACHABLE,
    Outcome.ROBOT_FAULT,
)
#: Origins by their number on disk; append only.
PROPOSALS = ("random", "planner", "perturbed")
_DEPTH_UNIT = 1e-4
_MAX_SHARD_BYTES = 512 * 2**20
#: Arrays that older shards lack.
_MEASURED = ("force", "moved")
_NONE: NDArray[np.float32] = np.empty(0, np.float32)


@dataclass(frozen=True, eq=False)
class SceneLabels:
    """Executed grasps of one scene; arrays as in the module's table.

    Attributes:
        object_name: Name of the object.
        seed: Seed of the scene.
        pose: (4, 4) pose of the object's body frame in the workspace frame.
        depth: (H, W) float32 metres, NaN where invalid.
        grasps: (n, 5) float32.
        outcome: (n,) uint8.
        proposal: (n,) uint8.
        force: (n,) float32 newtons, NaN where not measured; all NaN where none is given.
        moved: (n,) float32 metres, likewise.
    """

    object_name: str
    seed: int
    pose: NDArray[np.float64]
    depth: NDArray[np.float32]
    grasps: NDArray[np.float32]
    outcome: NDArray[np.uint8]
    proposal: NDArray[np.uint8]
    force: NDArray[np.float32] = field(default_factory=lambda: _NONE)
    moved: NDArray[np.float32] = field(default_factory=lambda: _NONE)

    def __post_init__(self) -> None:
        for name in _MEASURED:
            if getattr(self, name) is _NONE:
                object.__setattr__(self, name, np.full(len(self.grasps), np.nan, np.float32))

    @property
    def success(self) -> NDArray[np.bool_]:
        """(n,) whether each grasp succeeded."""
        return np.asarray(self.outcome == OUTCOMES.index(Outcome.SUCCESS))


def write_index(folder: Path, view: OverheadView, gripper: GripperSpec, config: dict[str, Any]) -> None:
    """Write ``index.json`` for images that share ``view``'s camera."""
    write_json(
        folder / "index.json",
        {
            "format": FORMAT,
            "camera": {
                **dataclasses.asdict(view.intrinsics),
                "camera_in_workspace": view.camera_in_workspace.tolist(),
            },
            "gripper": dataclasses.asdict(gripper),
            "config": config,
        },
    )


def write_shard(path: Path, scenes: Sequence[SceneLabels]) -> None:
    """Write scenes as one shard, whole or not at all; one without scenes tells that none could be made."""
    depth = np.stack([s.depth for s in scenes]) if scenes else np.empty((0, 1, 1), np.float32)
    counts = [len(s.grasps) for s in scenes]
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(
            file,
            depth=np.nan_to_num(np.rint(depth / _DEPTH_UNIT), nan=0.0).astype(np.uint16),
            object=np.array([s.object_name for s in scenes], dtype=np.str_),
            seed=np.array([s.seed for s in scenes], dtype=np.int64),
            pose=np.array([s.pose for s in scenes], dtype=np.float64).reshape(-1, 4, 4),
            first=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            grasps=np.concatenate([np.empty((0, 5), np.float32), *(s.grasps for s in scenes)]).astype(np.float32),
            outcome=np.concatenate([np.empty(0, np.uint8), *(s.outcome for s in scenes)]).astype(np.uint8),
            proposal=np.concatenate([np.empty(0, np.uint8), *(s.proposal for s in scenes)]).astype(np.uint8),
            force=np.concatenate([np.empty(0, np.float32), *(s.force for s in scenes)]).astype(np.float32),
            moved=np.concatenate([np.empty(0, np.float32), *(s.moved for s in scenes)]).astype(np.float32),
        )


def read_shard(path: Path) -> list[SceneLabels]:
    """Read one shard.

    Raises:
        InputError: If it is missing, too large, torn, or its arrays don't fit each other.
    """
    remedy = "Delete it and run 'keygrasp collect' again: only missing shards are made anew"
    try:
        if path.stat().st_size > _MAX_SHARD_BYTES:
            raise InputError(f"{path} is larger than {_MAX_SHARD_BYTES // 2**20} MiB", remedy)
        with np.load(path, allow_pickle=False) as data:
            arrays = {
                name: data[name]
                for name in ("depth", "object", "seed", "pose", "first", "grasps", "outcome", "proposal")
            }
            unknown = np.full(len(arrays["grasps"]), np.nan, np.float32)
            arrays |= {name: data.get(name, unknown) for name in _MEASURED}
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise InputError(f"can't read the shard {path}: {error}", remedy) from error
    scenes, first, grasps = len(arrays["depth"]), arrays["first"], arrays["grasps"]
    fits = (
        first.shape == (scenes + 1,)
        and arrays["pose"].shape == (scenes, 4, 4)
        and grasps.ndim == 2
        and grasps.shape[1] == 5
        and first[0] == 0
        and first[-1] == len(grasps) == len(arrays["outcome"]) == len(arrays["proposal"])
        and bool(np.all(np.diff(first) >= 0))
        and bool(np.all(np.isfinite(grasps)) and np.all(np.isfinite(arrays["pose"])))
        and int(arrays["outcome"].max(initial=0)) < len(OUTCOMES)
        and all(arrays[name].shape == (len(grasps),) for name in _MEASURED)
    )
    if not fits:
        raise InputError(f"the arrays of the shard {path} don't fit each other", remedy)
    depth = arrays["depth"].astype(np.float32) * np.float32(_DEPTH_UNIT)
    depth[arrays["depth"] == 0] = np.nan
    return [
        SceneLabels(
            object_name=str(arrays["object"][i]),
            seed=int(arrays["seed"][i]),
            pose=arrays["pose"][i],
            depth=depth[i],
            grasps=grasps[first[i] : first[i + 1]],
            outcome=arrays["outcome"][first[i] : first[i + 1]],
            proposal=arrays["proposal"][first[i] : first[i + 1]],
            **{name: arrays[name][first[i] : first[i + 1]] for name in _MEASURED},
        )
        for i in range(scenes)
    ]


@dataclass(frozen=True, eq=False)
class LabelFolder:
    """A folder of labels: the index is read at once, shards when they are asked for.

    Attributes:
        path: The folder.
        intrinsics: Camera model of all its images.
        camera_in_workspace: (4, 4) pose of the camera.
        gripper: The gripper that executed.
        rule: Scaling rule of the objects.
    """

    path: Path
    intrinsics: Intrinsics
    camera_in_workspace: NDArray[np.float64]
    gripper: GripperSpec
    rule: Rule

    @classmethod
    def open(cls, path: Path) -> LabelFolder:
        """Open a folder.

        Raises:
            InputError: If its index is missing or not of this format.
        """
        index = read_json(path / "index.json")
        try:
            if index["format"] != FORMAT:
                raise InputError(f"{path} has format {index['format']!r}, this version reads {FORMAT!r}")
            camera = dict(index["camera"])
            pose = np.array(camera.pop("camera_in_workspace"), dtype=float)
            rule = {name: name for name in get_args(Rule)}[index["config"].get("rule", "E")]
            return cls(path, Intrinsics(**camera), pose, GripperSpec(**index["gripper"]), rule)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path / 'index.json'} is not an index of labels ({error})", "Collect anew") from error

    def shards(self) -> list[Path]:
        """Shards in order."""
        return sorted(self.path.glob("shard-*.npz"))

    def scenes(self) -> Iterator[SceneLabels]:
        """All scenes, shard by shard."""
        for path in self.shards():
            yield from read_shard(path)

    def view(self, scene: SceneLabels) -> OverheadView:
        """The image of a scene with its camera."""
        return OverheadView(scene.depth, self.intrinsics, self.camera_in_workspace)
