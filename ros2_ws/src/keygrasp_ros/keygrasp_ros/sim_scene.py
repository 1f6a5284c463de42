"""The scene that the simulator's node owns: loading objects, executing grasps, getting ready for the next one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from keygrasp.errors import InputError
from keygrasp.protocol.scenes import Scene, SceneSpec, build_scene
from keygrasp.robots import CancelCheck, StageCallback
from keygrasp.scene import OverheadView, PlanarGrasp, Stage, TrialOutcome

RULES = ("E", "A", "none")
SOURCES = ("embedded", "ycb")
#: Stream of randomness of images after a failed attempt.
_AGAIN = 2


class SimScene:
    """One KG-1 scene that can be exchanged for another; use it from one thread at a time.

    Args:
        robot: ``"ur5"`` or ``"gripper"``.
    """

    def __init__(self, robot: str) -> None:
        self._robot_name = robot
        self._scene: Scene | None = None
        self._attempts = 0

    @property
    def scene(self) -> Scene:
        """The scene.

        Raises:
            InputError: Before the first :meth:`load`.
        """
        if self._scene is None:
            raise InputError("no object was loaded", "Call load_object")
        return self._scene

    @property
    def view(self) -> OverheadView:
        """The camera's image of the scene as it is now."""
        return self.scene.view

    @property
    def opening(self) -> float:
        """Metres between the pads."""
        return float(self.scene.robot.fingers.opening)

    def load(self, name: str, rule: str, seed: int, source: str) -> None:
        """Put another object on the table; the scene before stays where that fails.

        Raises:
            InputError: If the object, rule or source is unknown.
            KeygraspError: If the object can't be used.
        """
        if rule not in RULES or source not in SOURCES:
            raise InputError(f"rule '{rule}' or source '{source}' is unknown", f"Rules: {RULES}; sources: {SOURCES}")
        scene = build_scene(SceneSpec(name, rule, seed, source), robot=self._robot_name)
        self.close()
        self._scene = scene
        self.reset()

    def reset(self) -> None:
        """Put the object back where it lay at first."""
        self.scene.reset()
        self._attempts = 0

    def execute(
        self, grasp: PlanarGrasp, *, on_stage: StageCallback, cancelled: CancelCheck, on_step: Callable[[Stage], None]
    ) -> TrialOutcome:
        """Execute a grasp on the scene as it is now."""
        robot = self.scene.robot
        robot.on_step = on_step
        try:
            return robot.execute(grasp, on_stage=on_stage, cancelled=cancelled)
        finally:
            robot.on_step = None

    def prepare_next(self, outcome: TrialOutcome) -> None:
        """Park the arm and take a new image.

        A lifted object goes back to where it lay at first; another stays where it fell, unless it left the camera's view.
        """
        self._attempts += 1
        rng = np.random.default_rng([self.scene.spec.seed, _AGAIN, self._attempts])
        if outcome.success or self.scene.again(rng) is None:
            self.reset()

    def close(self) -> None:
        """Free the physics world."""
        if self._scene is not None:
            self._scene.close()
            self._scene = None
