"""An upper bound: grasps found by trying them out in the physics, with the true geometry."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from keygrasp.errors import ConfigurationError
from keygrasp.geometry.poses import Array
from keygrasp.grasps import footprint_clear, grasps_from_array
from keygrasp.protocol.constants import PROTOCOL
from keygrasp.protocol.scenes import Perturbation, Scene
from keygrasp.scene import GraspPlan, GripperSpec, HeightMap, Outcome, PlanarGrasp, TrialOutcome

_CELL = 0.0025
_RAY_TOP = 0.5  # metres above the table from where vertical rays look down
_CLEARANCE = 0.001  # metres between tips and what lies under them
_LOWEST_TIPS = 0.002
_OVERLAP = 0.004  # metres that the pads must reach below the object's surface
_DRAWS_A_ROUND = 4096
_MAX_ROUNDS = 50
#: How far a local step goes, one standard deviation of x, y, z (m), yaw (rad) and width (m).
_LOCAL_STEP = np.array([0.005, 0.005, 0.005, math.radians(10), 0.008])
#: How near to success an execution came, worst first.
_PROGRESS = (Outcome.UNREACHABLE, Outcome.CONTACT_TOO_EARLY, Outcome.EMPTY, Outcome.SLIPPED, Outcome.SHAKEN)


@dataclass(frozen=True)
class OracleConfig:
    """How long the oracle searches.

    Attributes:
        samples: Random collision-free grasps.
        local_samples: Grasps near the best one, after those.
        executions: Executions in all, those that test robustness included.
    """

    samples: int = 1000
    local_samples: int = 100
    executions: int = 2000

    def __post_init__(self) -> None:
        if self.samples < 1 or self.local_samples < 0 or self.executions < 1:
            raise ConfigurationError("oracle: samples and executions must be positive", "Choose a larger budget")


def oracle(scene: Scene, config: OracleConfig, rng: np.random.Generator) -> GraspPlan:
    """Search for a grasp that succeeds robustly (nine of ten perturbed executions).

    Executes random collision-free grasps, then neighbours of the best one, and stops at the first robust success or
    at the end of its budget. Execute the plan with :meth:`Scene.execute`, which restores the state first.

    Returns:
        The robust grasp; else the one that succeeded most often; else none. ``evaluations`` counts executions.
    """
    start = time.perf_counter()
    scene.restore()
    grasps = random_grasps(scene, config.samples, rng)
    search = _Search(scene, config, rng)
    search.try_all(grasps)
    centre = search.best
    if centre is not None and not search.robust:
        scene.restore()
        height_map = true_height_map(scene)
        for _ in range(config.local_samples):
            if search.finished:
                break
            near = _neighbours(search.best or centre, rng, 64)
            clear = near[footprint_clear(height_map, near, scene.robot.gripper, clearance=_CLEARANCE)]
            search.try_all(grasps_of(clear[:1], scene.robot.gripper))
    timings = {"total": 1e3 * (time.perf_counter() - start)}
    if search.best is None or search.best_score[0] == 0:
        reason = (
            f"none of {search.executions} executions succeeded" if len(grasps) else "every random grasp would collide"
        )
        return GraspPlan(None, reason=reason, evaluations=search.executions, timings_ms=timings)
    return GraspPlan(search.best, (search.best,), evaluations=search.executions, timings_ms=timings)


class _Search:
    """Executes grasps within the budget and remembers the best."""

    def __init__(self, scene: Scene, config: OracleConfig, rng: np.random.Generator) -> None:
        self._scene, self._config, self._rng = scene, config, rng
        self.executions = 0
        self.best: PlanarGrasp | None = None
        #: Successes (1 + perturbed ones), then how near a failure came to success, then its rise.
        self.best_score: tuple[int, int, float] = (0, -1, 0.0)
        self.robust = False

    @property
    def finished(self) -> bool:
        return self.robust or self.executions >= self._config.executions

    def try_all(self, grasps: tuple[PlanarGrasp, ...]) -> None:
        for grasp in grasps:
            if self.finished:
                return
            score = self._score(grasp)
            if self.best is None or score > self.best_score:
                self.best, self.best_score = grasp, score

    def _score(self, grasp: PlanarGrasp) -> tuple[int, int, float]:
        outcome = self._execute(grasp, None)
        if not outcome.success:
            progress = _PROGRESS.index(outcome.outcome) if outcome.outcome in _PROGRESS else -1
            return 0, progress, outcome.rise
        successes = failures = 0
        allowed = PROTOCOL.robust_trials - PROTOCOL.robust_successes
        while successes + failures < PROTOCOL.robust_trials and failures <= allowed and not self.finished:
            if self._execute(grasp, Perturbation.sample(self._rng)).success:
                successes += 1
            else:
                failures += 1
        self.robust = successes >= PROTOCOL.robust_successes
        return 1 + successes, len(_PROGRESS), outcome.rise

    def _execute(self, grasp: PlanarGrasp, perturbation: Perturbation | None) -> TrialOutcome:
        self.executions += 1
        return self._scene.execute(grasp, perturbation)


def true_height_map(scene: Scene) -> HeightMap:
    """Heights of the object as the physics has it, seen by vertical rays, on a grid that surrounds it."""
    points = scene.handle.points @ scene.object_pose[:3, :3].T + scene.object_pose[:3, 3]
    low, high = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
    columns, rows = np.ceil((high - low) / _CELL).astype(int) + 1
    rows_at, columns_at = np.indices((rows, columns)).reshape(2, -1)
    xy = low + _CELL * np.stack([columns_at, rows_at], axis=1)
    heights = _ray_heights(scene, xy).reshape(rows, columns)
    return HeightMap(heights.astype(np.float32), np.ones((rows, columns), dtype=bool), low, _CELL)


def _ray_heights(scene: Scene, xy: Array) -> Array:
    """Height (n,) of the first thing under each point (n, 2)."""
    bullet, batch = scene.world.bullet, int(scene.world.bullet.MAX_RAY_INTERSECTION_BATCH_SIZE) - 1
    heights = np.zeros(len(xy))
    for first in range(0, len(xy), batch):
        part = xy[first : first + batch]
        origin = np.column_stack([part, np.full(len(part), _RAY_TOP)])
        target = np.column_stack([part, np.zeros(len(part))])
        hits = bullet.rayTestBatch(origin.tolist(), target.tolist(), physicsClientId=scene.world.client)
        heights[first : first + batch] = [hit[3][2] if hit[0] == scene.handle.body else 0.0 for hit in hits]
    return heights


def random_grasps(scene: Scene, count: int, rng: np.random.Generator) -> tuple[PlanarGrasp, ...]:
    """At most ``count`` random grasps that don't collide with the true geometry and have it between their pads."""
    height_map, gripper = true_height_map(scene), scene.robot.gripper
    cells = np.argwhere(height_map.heights > _LOWEST_TIPS + _OVERLAP)
    found: list[Array] = []
    if len(cells) == 0:
        return ()
    for _ in range(_MAX_ROUNDS):
        chosen = cells[rng.integers(0, len(cells), _DRAWS_A_ROUND)] + rng.uniform(-0.5, 0.5, (_DRAWS_A_ROUND, 2))
        xy = height_map.xy_of(chosen)
        surface = height_map.sample(xy).astype(float)
        z = rng.uniform(_LOWEST_TIPS, np.maximum(surface - _OVERLAP, _LOWEST_TIPS + 1e-4))
        yaw = rng.uniform(-np.pi / 2, np.pi / 2, _DRAWS_A_ROUND)
        width = rng.uniform(gripper.min_opening, gripper.max_opening, _DRAWS_A_ROUND)
        drawn = np.column_stack([xy, z, yaw, width])
        found.append(drawn[footprint_clear(height_map, drawn, gripper, clearance=_CLEARANCE)])
        if sum(map(len, found)) >= count:
            break
    return grasps_of(np.concatenate(found)[:count], gripper)


def _neighbours(grasp: PlanarGrasp, rng: np.random.Generator, count: int) -> Array:
    centre = np.array([grasp.x, grasp.y, grasp.z, grasp.yaw, grasp.width])
    near: Array = centre + rng.normal(size=(count, 5)) * _LOCAL_STEP
    near[:, 2] = np.maximum(near[:, 2], _LOWEST_TIPS)
    return near


def grasps_of(array: Array, gripper: GripperSpec) -> tuple[PlanarGrasp, ...]:
    """Grasps of rows (n, 5), with widths that the gripper can open to."""
    rows = array.copy()
    rows[:, 4] = np.clip(rows[:, 4], gripper.min_opening, gripper.max_opening)
    return tuple(grasps_from_array(rows, np.zeros(len(rows))))
