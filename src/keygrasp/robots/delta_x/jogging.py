"""Touching known points with the fingertips, guided by a person."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from keygrasp.errors import InputError
from keygrasp.geometry.poses import Array
from keygrasp.robots.base import Unreachable
from keygrasp.robots.delta_x.driver import SHORTEST_MOVE, DeltaX
from keygrasp.robots.delta_x.workspace import Limit, PathFault, check_path

#: Metres a second, and metres of the longest step.
_SPEED = 0.03
_LONGEST_STEP = 0.1
#: Millimetres to metres.
_MM = 1e-3
HELP = (
    "z -20, x 5, y -2.5: move the tip by millimetres (from home, down first); ok: it touches the point; stop: give up"
)


@dataclass(frozen=True)
class Step:
    """One line of a person: a displacement (3,) in metres, or that the point is touched.

    Attributes:
        offset: Where to go from here.
        done: Whether the tip touches the point.
    """

    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    done: bool = False


def parse_step(text: str) -> Step:
    """Read a step.

    Raises:
        InputError: If it is none.
        KeyboardInterrupt: If the person gives up.
    """
    words = text.lower().split()
    if words == ["ok"]:
        return Step(done=True)
    if words == ["stop"]:
        raise KeyboardInterrupt
    try:
        offset = [0.0, 0.0, 0.0]
        axis, value = words
        offset["xyz".index(axis)] = float(value) * _MM
    except ValueError as error:
        raise InputError(f"'{text.strip()}' is not a step", HELP) from error
    if not SHORTEST_MOVE <= abs(sum(offset)) <= _LONGEST_STEP:
        raise InputError(f"{value} mm is not within 0.3–{_LONGEST_STEP / _MM:.0f} mm", "Give several steps")
    return Step((offset[0], offset[1], offset[2]))


def touch_points(driver: DeltaX, points: Array, lines: Iterable[str], say: Callable[[str], None]) -> Array:
    """Let a person move the tip to each of points, and note where it is then.

    Args:
        driver: Connected.
        points: (n, 3) in the other frame, to be named.
        lines: What the person types.
        say: Shows a line of text.

    Returns:
        (n, 3) of the fingertips in the robot's frame.

    Raises:
        InputError: If the lines end before the last point.
    """
    tip = np.array([0.0, 0.0, -driver.config.tool.length])
    typed, touched = iter(lines), []
    say(HELP)
    for index, point in enumerate(points):
        say(f"point {index + 1} of {len(points)}: {', '.join(f'{value / _MM:.1f}' for value in point)} mm")
        while True:
            try:
                step = parse_step(next(typed))
                if step.done:
                    break
                _step(driver, driver.position + step.offset, tip)
            except StopIteration as error:
                raise InputError(
                    f"the input ended at point {index + 1} of {len(points)}", "Touch all points"
                ) from error
            except (InputError, Unreachable) as error:
                say(str(error))
                continue
            say(f"tip at {', '.join(f'{value / _MM:.2f}' for value in driver.position + tip)} mm")
        touched.append(driver.position + tip)
    return np.array(touched)


def _step(driver: DeltaX, goal: Array, tip: Array) -> None:
    """Go straight to a place (3,) of the platform, or say of the tip why not."""
    fault = check_path(driver.model, np.array([driver.position, goal]))
    if fault is not None:
        raise Unreachable(_refusal(fault, tip))
    driver.move(goal[None], speed=_SPEED)


def _refusal(fault: PathFault, tip: Array) -> str:
    """Why a step was not made, with the place of the tip rather than of the platform."""
    text = f"not moved: tip at {', '.join(f'{value / _MM:.2f}' for value in fault.point + tip)} mm: {fault.limit}"
    if fault.limit is Limit.FLOOR:
        return text  # the detail is a height of the platform
    text += f" ({fault.detail})" if fault.detail else ""
    return f"{text}; go down first: z -20" if fault.limit is Limit.ARM_ABOVE_HOME else text
