"""The named terms that rewards are made of: pure functions of symbols before, actions and symbols after.

Every term returns (B,) values; most lie in [0, 1]. ``TERMS`` and ``CONDITIONS`` are the whole vocabulary of task files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from keygrasp.scene import GripperSpec, predicates
from keygrasp.scene.tabletop import LOST_DISTANCE, REACH_HIGH, REACH_LOW
from keygrasp.worldmodel.layout import MAX_FORCE, Layout

#: Metres between fully opened pads.
_WIDEST = GripperSpec().max_opening


@dataclass(frozen=True, eq=False)
class Step:
    """B transitions: the row before an action, the action, and the row after it.

    Attributes:
        layout: Which symbol stands where.
        before: (B, D) rows.
        actions: (B, 5).
        after: (B, D) rows.
    """

    layout: Layout
    before: Tensor
    actions: Tensor
    after: Tensor
    _scenes: dict[str, Tensor] = field(default_factory=dict, init=False, repr=False)

    def scene(self, name: str) -> Tensor:
        """Rows (B, 19) of an object after the action, as predicates read them."""
        if name not in self._scenes:
            self._scenes[name] = self.layout.scene_rows(self.after, name)
        return self._scenes[name]

    def value(self, name: str, object: str = "") -> Tensor:  # noqa: A002 - the word of the task files
        """(B,) values of one symbol after the action: ``gripper_x``, or ``object_x`` of an object."""
        return self.after[..., self.layout.columns[f"{object}.{name}" if object else name]]


Term = Callable[..., Tensor]


def closeness(step: Step, *, object: str, length: float = 0.1, above: float = 0.0) -> Tensor:  # noqa: A002
    """1 where the fingertips are at the object's middle, falling as exp(−distance / ``length``) around it.

    Args:
        step: The transitions.
        object: The object that is meant.
        length: Metres at which 1 has fallen to 0.37.
        above: Metres above the object's lowest point at which the tips should be.
    """
    x = step.value("gripper_x") - step.value("object_x", object)
    y = step.value("gripper_y") - step.value("object_y", object)
    bottom = step.value("object_z", object) - step.value("object_height", object) / 2
    z = step.value("gripper_z") - bottom - above
    return torch.exp(-torch.sqrt(x * x + y * y + z * z) / length)


def alignment(step: Step, *, object: str) -> Tensor:  # noqa: A002
    """1 where the fingers would close over the object's shorter side, 0 a right angle off."""
    off: Tensor = predicates.misalignment(step.scene(object))
    return off.cos()


def between(step: Step, *, object: str) -> Tensor:  # noqa: A002
    """1 where the object's middle is between the pads and the tips are below its top."""
    inside: Tensor = predicates.between_fingers(step.scene(object))
    return inside.to(step.after.dtype)


def openness(step: Step) -> Tensor:
    """The opening over the widest one."""
    return step.value("gripper_width") / _WIDEST


def grasped(step: Step, *, object: str) -> Tensor:  # noqa: A002
    """1 where both pads touch the object."""
    both: Tensor = predicates.grasped(step.scene(object))
    return both.to(step.after.dtype)


def touched(step: Step, *, object: str) -> Tensor:  # noqa: A002
    """1 where a pad touches the object."""
    any_pad: Tensor = predicates.touched(step.scene(object))
    return any_pad.to(step.after.dtype)


def raised(step: Step, *, object: str, top: float = 0.08) -> Tensor:  # noqa: A002
    """How far a grasped object has risen, over ``top`` metres, at most 1."""
    return grasped(step, object=object) * (step.value("height", object) / top).clamp(0, 1)


def closeness_to(step: Step, *, object: str, x: float, y: float, length: float = 0.1) -> Tensor:  # noqa: A002
    """1 where the object's middle is above the point (x, y), falling as exp(−distance / ``length``) around it."""
    return torch.exp(-_distance(step, object, x, y) / length)


def inside(step: Step, *, object: str, x: float, y: float, radius: float = 0.05) -> Tensor:  # noqa: A002
    """1 where the object's middle is in the circle."""
    return (_distance(step, object, x, y) <= radius).to(step.after.dtype)


def resting(step: Step, *, object: str, height: float = 0.02) -> Tensor:  # noqa: A002
    """1 where the object has risen by less than ``height`` metres, falling to 0 at three times that."""
    return 1 - ((step.value("height", object) - height) / (2 * height)).clamp(0, 1)


def trespass(step: Step, *, x: float, y: float, radius: float = 0.05) -> Tensor:
    """1 where the gripper is inside the circle, falling to 0 within two centimetres outside it."""
    away = torch.hypot(step.value("gripper_x") - x, step.value("gripper_y") - y)
    return (1 - (away - radius) / 0.02).clamp(0, 1)


def force(step: Step, *, limit: float = MAX_FORCE) -> Tensor:
    """The gripper's force over ``limit`` newtons, at most 1."""
    return (step.value("gripper_force") / limit).clamp(0, 1)


def end_closeness(step: Step, *, object: str, length: float = 0.03, inset: float = 0.012) -> Tensor:  # noqa: A002
    """1 where the tips are around one end of the object, 2 cm below its top, falling as exp(−distance / ``length``).

    Args:
        step: The transitions.
        object: The object that is meant.
        length: Metres at which 1 has fallen to 0.37.
        inset: Metres from the very end at which the pads' middle should be.
    """
    x = step.value("gripper_x") - step.value("object_x", object)
    y = step.value("gripper_y") - step.value("object_y", object)
    yaw = step.value("object_yaw", object)
    along, across = yaw.cos() * x + yaw.sin() * y, yaw.cos() * y - yaw.sin() * x
    off_end = along.abs() - (step.value("object_length", object) / 2 - inset)
    above = (-predicates.tips_below_top(step.scene(object)) + 0.02).clamp(min=0)
    return torch.exp(-torch.sqrt(off_end**2 + across**2 + above**2) / length)


def side(step: Step, *, object: str, x: float) -> Tensor:  # noqa: A002
    """1 where the object is beyond the line at ``x`` (to its right for positive x, to its left for negative).

    It falls with the metres that are missing, over the reach of the gripper.
    """
    sign = 1.0 if x >= 0 else -1.0
    missing = (sign * (x - step.value("object_x", object))).clamp(min=0)
    return 1 - (missing / (REACH_HIGH[0] - REACH_LOW[0])).clamp(0, 1)


def pending(step: Step, *, object: str, x: float, length: float = 0.1) -> Tensor:  # noqa: A002
    """1 where the object is beyond the line at ``x`` as :func:`side` means it; before that, how nearly it is held.

    That is 0.2 for the tips' closeness, 0.2 where it is between the pads and 0.5 where they hold it: less than 1, so
    that nothing is held for its own sake.
    """
    near = 0.2 * closeness(step, object=object, length=length, above=0.01)
    held = 0.2 * between(step, object=object) + 0.5 * grasped(step, object=object)
    return torch.where(side(step, object=object, x=x) >= 1, 1.0, near + held)


def effort(step: Step) -> Tensor:
    """Mean square of the action's motions."""
    return step.actions[..., :4].square().mean(dim=-1)


def _distance(step: Step, name: str, x: float, y: float) -> Tensor:
    return torch.hypot(step.value("object_x", name) - x, step.value("object_y", name) - y)


#: Every term by its name in task files.
TERMS: dict[str, Term] = {
    f.__name__: f
    for f in (
        closeness, alignment, between, openness, grasped, touched, raised, closeness_to, inside, resting, trespass,
        force, end_closeness, side, pending, effort,
    )
}  # fmt: skip


def lost(rows: Tensor) -> Tensor:
    """Whether the object of rows (B, 19) has left the gripper's surroundings, where the workspace ends an episode."""
    far = torch.hypot(predicates.column(rows, "object_x"), predicates.column(rows, "object_y"))
    return far > LOST_DISTANCE


#: Every condition that may end a task, by its name in task files: the scene's predicates, and a loss.
CONDITIONS: dict[str, Callable[[Tensor], Tensor]] = {**predicates.PREDICATES, "lost": lost}
