"""The scene that the simulator's node owns: loading objects, executing grasps, getting ready for the next one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import get_args

from keygrasp.errors import InputError
from keygrasp.objects import Rule, Source
from keygrasp.protocol.scenes import Scene, SceneSpec, build_scene
from keygrasp.robots import CancelCheck, StageCallback, pick_and_place
from keygrasp.scene import OverheadView, PlanarGrasp, Stage, TrialOutcome
from keygrasp.scene.pushes import PlanarPush
from keygrasp.sim.pushing import push_stages
from keygrasp.skills.clutter import ClutterScene, ClutterSpec

#: Source of scenes in which an object lies close to another or to a wall; their names are those of ``clutter.Kind``.
CLUTTER = "clutter"
#: Stream of randomness of images after a failed attempt.
_AGAIN = 2


def _clutter(kind: str, seed: int, robot: str) -> Scene:
    """A carton with something close beside it."""
    made = ClutterScene(ClutterSpec(kind, seed), robot)
    return Scene(SceneSpec("carton", "none", seed, "file"), made.world, made.target, made.robot)


class SimScene:
    """One KG-1 scene that can be exchanged for another; use it from one thread at a time.

    Args:
        robot: ``"ur5"`` or ``"gripper"``.
        full_motion: Move the arm from where it waits to the object, instead of beginning above it.
    """

    def __init__(self, robot: str, *, full_motion: bool) -> None:
        self._robot_name, self._full_motion = robot, full_motion
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
    def attempts(self) -> int:
        """Executions since the object was put where it lay at first."""
        return self._attempts

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
        for what, value, known in (("rule", rule, get_args(Rule)), ("source", source, (*get_args(Source), CLUTTER))):
            if value not in known:
                raise InputError(f"{what} '{value}' is unknown", f"Choose one of {', '.join(known)}")
        if source == CLUTTER:
            scene = _clutter(name, seed, self._robot_name)
        else:
            scene = build_scene(SceneSpec(name, rule, seed, source), robot=self._robot_name)
        if self._full_motion and hasattr(scene.robot, "full_motion"):
            scene.robot.full_motion = True
        self.close()
        self._scene = scene
        self.reset()

    def reset(self) -> None:
        """Put the object back where it lay at first."""
        self.scene.reset()
        self._attempts = 0

    def execute(
        self,
        grasp: PlanarGrasp,
        place_at: PlanarGrasp | None,
        *,
        on_stage: StageCallback,
        cancelled: CancelCheck,
        on_step: Callable[[Stage], None],
    ) -> TrialOutcome:
        """Execute a grasp on the scene as it is now, and put the object down where that is asked for."""
        robot = self.scene.robot
        if place_at is not None and not hasattr(robot, "place"):
            raise InputError(f"the robot '{robot.name}' can lift but not place", "Send the goal with place = false")
        profile = robot.profile
        robot.on_step = on_step
        robot.profile = dataclasses.replace(profile, shake=profile.shake and place_at is None)
        try:
            return pick_and_place(robot, grasp, place_at, on_stage=on_stage, cancelled=cancelled)
        finally:
            robot.on_step, robot.profile = None, profile

    def push(self, push: PlanarPush, cancelled: CancelCheck) -> TrialOutcome:
        """Push on the scene as it is now, and take a new image."""
        outcome = push_stages(self.scene.robot, push, self.scene.robot.profile, cancelled=cancelled)
        self.prepare_next(lifted=False)
        return outcome

    def prepare_next(self, *, lifted: bool) -> None:
        """Park the arm and take a new image.

        A lifted object goes back to where it lay at first; another stays where it is, unless it left the camera's view.
        """
        self._attempts += 1
        rng = self.scene.spec.stream(_AGAIN, self._attempts)
        if lifted or self.scene.again(rng) is None:
            self.reset()

    def close(self) -> None:
        """Free the physics world."""
        if self._scene is not None:
            self._scene.close()
            self._scene = None
