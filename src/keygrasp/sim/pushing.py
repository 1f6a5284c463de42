"""Pushing with closed fingers, written once for every simulated robot."""

from __future__ import annotations

import numpy as np

from keygrasp.geometry.poses import Array
from keygrasp.robots import CancelCheck, Unreachable
from keygrasp.robots.motion import MotionProfile, straight
from keygrasp.scene import Outcome, TrialOutcome
from keygrasp.scene.pushes import PlanarPush
from keygrasp.sim.stages import ToolDriver

#: Share of the carrying speed at which the tips push: 8 cm/s, slow enough that what is pushed stops with them.
_SPEED = 0.32
#: Metres by which the tips stay higher than all objects before and after, as in a grasp.
_CLEARANCE = 0.02
#: Newtons that end a stroke: what is pushed doesn't give way.
MOST_FORCE = 20.0
#: Time steps between two looks at the force, which must be too large twice: an impact isn't a wall.
_LOOK_STEPS = 6


def push_stages(
    driver: ToolDriver, push: PlanarPush, profile: MotionProfile, *, cancelled: CancelCheck | None = None
) -> TrialOutcome:
    """Close the fingers, descend beside an object, stroke, and rise.

    Args:
        driver: The robot, empty-handed.
        push: The stroke.
        profile: How to descend.
        cancelled: Asked after each step; true stops the robot where it is.

    Returns:
        ``SUCCESS`` after the whole stroke, ``CONTACT_TOO_EARLY`` where the tips met something while descending or what
        was pushed did not give way, ``UNREACHABLE`` where nothing moved; its ``contact_force`` is the largest one.
    """
    world = driver.world
    began = world.time
    force = 0.0
    top = max((world.top_of(handle) for handle in world.objects), default=0.0)
    low = np.array([push.x, push.y, push.z, push.yaw])
    high = low.copy()
    high[2] = max(top, push.z) + _CLEARANCE
    end = np.array([*push.end, push.z, push.yaw])
    ways = [straight(high, low, world.time_step), straight(low, end, world.time_step, _SPEED)]
    try:
        driver.plan(np.concatenate([high[None], *ways]))
        driver.approach(driver.plan(high[None])[0], driver.gripper.min_opening, world.step)
    except Unreachable as reason:
        return TrialOutcome(Outcome.UNREACHABLE, message=str(reason))
    verdict, message = Outcome.SUCCESS, "pushed"
    here = high
    for stage, way in zip(("descending", "pushing"), ways, strict=True):
        limit = profile.contact_limit if stage == "descending" else MOST_FORCE
        here, most, stopped = _follow(driver, here, way, limit, cancelled)
        force = max(force, most)
        if stopped:
            verdict, message = stopped, f"met {most:.0f} N while {stage}"
            break
    if verdict is not Outcome.CANCELLED:
        rise = here.copy()
        rise[2] = high[2]
        _follow(driver, here, straight(here, rise, world.time_step), np.inf, None)
    return TrialOutcome(verdict, contact_force=force, seconds=world.time - began, message=message)


def _follow(
    driver: ToolDriver, start: Array, way: Array, limit: float, cancelled: CancelCheck | None
) -> tuple[Array, float, Outcome | None]:
    """Follow a way; returns where it ended, the largest lasting force, and why it ended early."""
    commands = driver.plan(np.concatenate([start[None], way]), from_here=True)[1:]
    most, before = 0.0, 0.0
    for index, command in enumerate(commands):
        driver.follow(command)
        driver.world.step()
        if cancelled is not None and cancelled():
            driver.stop()
            return way[index], most, Outcome.CANCELLED
        if index % _LOOK_STEPS == 0:
            now = _force(driver)
            most = max(most, min(now, before))
            if min(now, before) > limit:
                return way[index], most, Outcome.CONTACT_TOO_EARLY
            before = now
    return way[-1], most, None


def _force(driver: ToolDriver) -> float:
    """Newtons with which the robot presses on anything but itself."""
    points = driver.world.bullet.getContactPoints(driver.body, physicsClientId=driver.world.client)
    return float(sum(point[9] for point in points if point[2] != driver.body))
