"""Labels turned into tensors for training: perceived scenes, executed grasps, outcomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from keygrasp.errors import ImageError, InputError
from keygrasp.experience.labels import LabelFolder
from keygrasp.experience.solids import SolidScenes
from keygrasp.geometry.poses import Array
from keygrasp.objects import Catalog
from keygrasp.perception import perceive
from keygrasp.refine.state import SceneTensors
from keygrasp.refine.symbols import seen_object
from keygrasp.scene import GripperSpec, HeightMap, Keypoints

#: Told how many scenes are done, of how many.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class GraspEnds:
    """How executed grasps ended, beyond success.

    Attributes:
        outcome: (N,) int64 index into :data:`keygrasp.experience.labels.OUTCOMES`.
        force: (N,) float32 largest contact force in newtons while descending, NaN where it was not measured.
        moved: (N,) float32 metres by which the object was moved along the table, NaN where it was not measured.
    """

    outcome: Tensor
    force: Tensor
    moved: Tensor

    def to(self, device: torch.device) -> GraspEnds:
        """The same on another device."""
        return GraspEnds(self.outcome.to(device), self.force.to(device), self.moved.to(device))


@dataclass(frozen=True, eq=False)
class GraspDataset:
    """Executed grasps with the scenes they were executed in.

    Attributes:
        scenes: S perceived scenes.
        scene: (N,) scene of each grasp.
        grasps: (N, 5) float32.
        success: (N,) float32, 1 where the execution succeeded.
        gripper: The gripper that executed.
        objects: Name of the object of each scene, S of them.
        solids: Their true geometry, where it was asked for.
        symbols: (S, D) symbols of their objects as perceived, where they were asked for.
        ends: How the executions ended, for models that predict it.
    """

    scenes: SceneTensors
    scene: Tensor
    grasps: Tensor
    success: Tensor
    gripper: GripperSpec
    objects: tuple[str, ...]
    solids: SolidScenes | None = None
    symbols: Array | None = None
    ends: GraspEnds | None = None

    def to(self, device: torch.device) -> GraspDataset:
        """The same data on another device."""
        return GraspDataset(
            self.scenes.to(device),
            self.scene.to(device),
            self.grasps.to(device),
            self.success.to(device),
            self.gripper,
            self.objects,
            None if self.solids is None else self.solids.to(device),
            self.symbols,
            None if self.ends is None else self.ends.to(device),
        )


def load_dataset(
    folders: Sequence[Path], on_progress: Progress | None = None, *, solids: bool = False, symbols: bool = False
) -> GraspDataset:
    """Read label folders and perceive their images; with ``solids`` also build their scenes' true geometry.

    With ``symbols`` the objects' symbols are read off the images as well.

    Scenes in whose image no object is found carry no state and are left out.

    Raises:
        InputError: If a folder can't be read, there are no labels, or the folders' grippers differ.
    """
    opened = [LabelFolder.open(folder) for folder in folders]
    if len({folder.gripper for folder in opened}) > 1:
        raise InputError("the label folders were executed with different grippers", "Train on one gripper's labels")
    maps: list[HeightMap] = []
    keypoints: list[Keypoints] = []
    scene: list[int] = []
    names: list[str] = []
    grasps: list[np.ndarray] = []
    success: list[np.ndarray] = []
    ends: list[tuple[np.ndarray, ...]] = []
    solid: list[SolidScenes] = []
    rows: list[Array] = []
    catalog = Catalog()
    every = [(folder, labels) for folder in opened for labels in folder.scenes()]
    for done, (folder, labels) in enumerate(every):
        if on_progress is not None:
            on_progress(done, len(every))
        try:
            perceived = perceive(folder.view(labels))
        except ImageError:
            continue
        if not perceived.segments:
            continue
        scene.extend([len(maps)] * len(labels.grasps))
        maps.append(perceived.height_map)
        keypoints.append(perceived.keypoints[0])
        names.append(labels.object_name)
        grasps.append(labels.grasps)
        success.append(labels.success)
        ends.append((labels.outcome, labels.force, labels.moved))
        if symbols:
            rows.append(seen_object(perceived, 0).to_row())
        if solids:
            solid.append(SolidScenes.build([catalog.prepare(labels.object_name, folder.rule)], [labels.pose]))
    if not maps:
        raise InputError(f"no labels in {', '.join(str(f) for f in folders)}", "Run 'keygrasp collect' first")
    outcome, force, moved = (torch.from_numpy(np.concatenate(part)) for part in zip(*ends, strict=True))
    return GraspDataset(
        scenes=SceneTensors.build(maps, keypoints),
        scene=torch.tensor(scene, dtype=torch.long),
        grasps=torch.from_numpy(np.concatenate(grasps)),
        success=torch.from_numpy(np.concatenate(success).astype(np.float32)),
        gripper=opened[0].gripper,
        objects=tuple(names),
        solids=SolidScenes.join(solid) if solids else None,
        symbols=np.stack(rows) if symbols else None,
        ends=GraspEnds(outcome.long(), force, moved),
    )
