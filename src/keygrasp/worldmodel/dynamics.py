"""What the ensemble knows before it learns: the gripper's frame, and that what is held moves with the gripper.

Networks see each object from the gripper, and predict *changes* in the gripper's frame: what they learn at one place
on the table, or of one colour, holds at every other. The commanded motions of gripper and fingers are known and count
as prediction; networks add what differs from them. By its *hold*, which is learned, an object moves as a body that is
fixed to the gripper, or as one that falls to the table, plus a learned rest; the force is a learned share of what the
pads are told to press with, plus a learned rest.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from keygrasp.scene import GripperSpec
from keygrasp.scene.predicates import LIFTED_HEIGHT
from keygrasp.scene.symbols import STABLE_STEPS
from keygrasp.scene.tabletop import (
    DECISION_SECONDS,
    FINGER_SPEED,
    GRIP_FORCE,
    MOTION_SCALE,
    REACH_HIGH,
    REACH_LOW,
)
from keygrasp.worldmodel.layout import GRIPPER_SYMBOLS, MAX_FORCE, OBJECT_SYMBOLS

_G = {s.name.removeprefix("gripper_"): i for i, s in enumerate(GRIPPER_SYMBOLS)}
_O = {s.name.removeprefix("object_"): i for i, s in enumerate(OBJECT_SYMBOLS) if s.name != "height"}
#: Column of an object's rise; ``object_height`` is its size.
_RISE = [s.name for s in OBJECT_SYMBOLS].index("height")
GRIPPER, OBJECT = len(GRIPPER_SYMBOLS), len(OBJECT_SYMBOLS)
#: What is predicted of the gripper: rest of its motion along, across, up and turning, and of its opening; force after.
GRIPPER_TARGETS = 6
#: What is predicted of an object: change along, across, up and turning; change of its three sizes.
OBJECT_TARGETS = 7
#: What one stands for in those: metres, radians, newtons.
GRIPPER_SCALE = (0.01, 0.01, 0.01, 0.1, 0.01, 10.0)
OBJECT_SCALE = (0.01, 0.01, 0.01, 0.1, 0.01, 0.01, 0.01)
#: Numbers that a network sees of one object and the gripper.
INPUTS = 33
_FAR = 0.05
#: Newtons about which it is decided whether a grip holds: a block weighs one or two.
_WEAK = 1.0
#: Metres that something falls in one decision.
_FALL = 0.5 * 9.81 * DECISION_SECONDS**2
#: Metres between fully opened pads, and from a pad's inner face to its middle.
_WIDEST = GripperSpec().max_opening
_PAD_MIDDLE = GripperSpec().pad_thickness / 2


class Changes(NamedTuple):
    """Changes in one decision, in the gripper's frame before it, over their scales.

    Attributes:
        gripper: (..., 6) see :data:`GRIPPER_TARGETS`.
        objects: (..., O, 7) see :data:`OBJECT_TARGETS`.
        contacts: (..., O, 2) whether left and right pad touch after it: 0 or 1, or a probability.
    """

    gripper: Tensor
    objects: Tensor
    contacts: Tensor


@dataclass(frozen=True, eq=False)
class Frame:
    """Rows split up, with the commanded motion in the gripper's frame.

    Attributes:
        gripper: (..., 6).
        objects: (..., O, 13).
        cos: (...,) of the gripper's yaw.
        sin: (...,).
        offset: (..., O, 2) metres, an object's middle along and across.
        motion: (..., 6) commanded metres along, across and up, radians, metres of opening, and newtons of pressing.
        fall: (..., O) metres, negative, that an object falls in a decision if nothing holds it.
    """

    gripper: Tensor
    objects: Tensor
    cos: Tensor
    sin: Tensor
    offset: Tensor
    motion: Tensor
    fall: Tensor


def frame_of(rows: Tensor, actions: Tensor) -> Frame:
    """Split rows (..., D) and turn actions (..., 5) into the gripper's frame; motions end where its reach ends."""
    gripper, objects = rows[..., :GRIPPER], _by_object(rows)
    yaw = gripper[..., _G["yaw"]]
    cos, sin = yaw.cos(), yaw.sin()
    place = gripper[..., :3]
    goal = place + actions[..., :3] * _constant(MOTION_SCALE[:3], rows)
    # A gripper that is a hair outside its reach must not be pulled back by the clipping.
    goal = goal.clamp(_constant(REACH_LOW, rows), _constant(REACH_HIGH, rows))
    move = goal - place
    motion = torch.stack(
        [
            cos * move[..., 0] + sin * move[..., 1],
            cos * move[..., 1] - sin * move[..., 0],
            move[..., 2],
            actions[..., 3] * MOTION_SCALE[3],
            _opening(gripper[..., _G["width"]], actions[..., 4]),
            actions[..., 4].clamp(min=0) * GRIP_FORCE,
        ],
        dim=-1,
    )
    x = objects[..., 0] - gripper[..., 0:1]
    y = objects[..., 1] - gripper[..., 1:2]
    c, s = cos[..., None], sin[..., None]
    fall = -_bottom(objects).clamp(0, _FALL)
    return Frame(gripper, objects, cos, sin, torch.stack([c * x + s * y, c * y - s * x], dim=-1), motion, fall)


def inputs_of(frame: Frame, actions: Tensor) -> Tensor:
    """What a network sees: (..., O, INPUTS)."""
    objects, gripper = frame.objects, frame.gripper
    turn = 2 * (objects[..., _O["yaw"]] - gripper[..., _G["yaw"], None])
    sizes = objects[..., _O["length"] : _O["height"] + 1] / 0.05
    tips = gripper[..., _G["z"], None]
    bottom = _bottom(objects)
    top = bottom + objects[..., _O["height"]]
    width = gripper[..., _G["width"], None]
    # Free space between a pad and the object: what a closing pad, or one that comes from the side, meets first.
    half = (
        objects[..., _O["length"]] * turn.mul(0.5).cos().abs() + objects[..., _O["width"]] * turn.mul(0.5).sin().abs()
    ) / 2
    own = torch.stack(
        [
            torch.tanh((tips - top) / 0.03),
            torch.tanh((tips - bottom) / 0.03),
            bottom / 0.05,
            turn.sin(),
            turn.cos(),
            (width / 2 - frame.offset[..., 0] - half) / 0.03,
            (width / 2 + frame.offset[..., 0] - half) / 0.03,
        ],
        dim=-1,
    )
    grip = actions[..., 4]
    lower = torch.tanh((tips + frame.motion[..., 2, None] - top) / 0.01)
    pads = (_pad_distances(frame, turn / 2) / 0.02).clamp(-2, 2)
    scale = _constant((*MOTION_SCALE, 0.03, GRIP_FORCE), frame.motion)
    common = torch.cat(
        [
            frame.motion / scale,
            torch.tanh(frame.motion[..., 5:] / _WEAK),
            grip.clamp(max=0)[..., None],
            (gripper[..., _G["width"]] / 0.05)[..., None],
            (gripper[..., _G["force"]] / 20)[..., None],
            (gripper[..., _G["z"]] / 0.1)[..., None],
        ],
        dim=-1,
    )
    shared = common[..., None, :].expand(*objects.shape[:-1], common.shape[-1])
    contacts = objects[..., _O["contact_left"] : _O["contact_right"] + 1]
    near = torch.tanh(frame.offset / _FAR)
    return torch.cat(
        [
            near,
            (frame.offset / 0.1).clamp(-3, 3),
            own,
            sizes,
            contacts,
            shared,
            contacts[..., :1] * contacts[..., 1:],
            pads,
            lower[..., None],
        ],
        dim=-1,
    )


def _pad_distances(frame: Frame, turn: Tensor) -> Tensor:
    """Metres (..., O, 4) from the middle of left and right pad to the object's rectangle, before and after the motion.

    Negative inside; seen from above, along the rectangle's axes. Fingers count as moving freely.

    Args:
        frame: The frame.
        turn: (..., O) radians from the closing axis to the object's longer side.
    """
    width, motion = frame.gripper[..., _G["width"]], frame.motion
    first, then = width / 2 + _PAD_MIDDLE, (width + motion[..., 4]) / 2 + _PAD_MIDDLE
    none = torch.zeros_like(first)
    x, y = then * motion[..., 3].cos(), then * motion[..., 3].sin()
    along = torch.stack([first, -first, motion[..., 0] + x, motion[..., 0] - x], dim=-1)
    across = torch.stack([none, none, motion[..., 1] + y, motion[..., 1] - y], dim=-1)
    off_x = along[..., None, :] - frame.offset[..., 0:1]
    off_y = across[..., None, :] - frame.offset[..., 1:2]
    cos, sin = turn.cos()[..., None], turn.sin()[..., None]
    length, broad = frame.objects[..., _O["length"], None] / 2, frame.objects[..., _O["width"], None] / 2
    return torch.maximum((cos * off_x + sin * off_y).abs() - length, (cos * off_y - sin * off_x).abs() - broad)


def changes_between(frame: Frame, after: Tensor) -> Changes:
    """The true changes from a frame to rows (..., D): what networks learn."""
    gripper, objects = after[..., :GRIPPER], _by_object(after)
    moved = _into(frame, gripper[..., :2] - frame.gripper[..., :2])
    turned = _half_turn(gripper[..., _G["yaw"]] - frame.gripper[..., _G["yaw"]])
    raw = torch.stack(
        [
            moved[..., 0] - frame.motion[..., 0],
            moved[..., 1] - frame.motion[..., 1],
            gripper[..., 2] - frame.gripper[..., 2] - frame.motion[..., 2],
            turned - frame.motion[..., 3],
            gripper[..., _G["width"]] - frame.gripper[..., _G["width"]] - frame.motion[..., 4],
            gripper[..., _G["force"]],
        ],
        dim=-1,
    )
    shift = objects[..., :2] - frame.objects[..., :2]
    c, s = frame.cos[..., None], frame.sin[..., None]
    own = torch.stack(
        [
            c * shift[..., 0] + s * shift[..., 1],
            c * shift[..., 1] - s * shift[..., 0],
            objects[..., 2] - frame.objects[..., 2],
            _half_turn(objects[..., _O["yaw"]] - frame.objects[..., _O["yaw"]]),
        ],
        dim=-1,
    )
    sizes = slice(_O["length"], _O["height"] + 1)
    own = torch.cat([own, objects[..., sizes] - frame.objects[..., sizes]], dim=-1)
    contacts = objects[..., _O["contact_left"] : _O["contact_right"] + 1]
    crossed = _crossed(frame.gripper[..., _G["yaw"]] + turned)[..., None, None]
    return Changes(
        raw / _constant(GRIPPER_SCALE, raw),
        own / _constant(OBJECT_SCALE, own),
        torch.where(crossed, contacts.flip(-1), contacts),
    )


def fixed_to_gripper(motion: Tensor, offset: Tensor, rest: Tensor) -> Tensor:
    """Changes (..., O, 7) of objects that are held, as a body does that is fixed to the gripper.

    Args:
        motion: (..., 6) and
        offset: (..., O, 2) of a frame.
        rest: (..., 6) predicted changes of the gripper.
    """
    motion = motion[..., :4] + rest[..., :4] * _constant(GRIPPER_SCALE[:4], rest)
    turn = motion[..., 3, None]
    cos, sin = turn.cos() - 1, turn.sin()
    along = motion[..., 0, None] + cos * offset[..., 0] - sin * offset[..., 1]
    across = motion[..., 1, None] + sin * offset[..., 0] + cos * offset[..., 1]
    up = motion[..., 2, None].expand_as(along)
    moved = torch.stack([along, across, up, turn.expand_as(along)], dim=-1) / _constant(OBJECT_SCALE[:4], rest)
    return torch.cat([moved, moved.new_zeros((*moved.shape[:-1], 3))], dim=-1)


def falling(fall: Tensor) -> Tensor:
    """Changes (..., O, 7) of objects that nothing holds, for a frame's ``fall`` (..., O)."""
    none = torch.zeros_like(fall)
    return torch.stack([none, none, fall / OBJECT_SCALE[2], none, none, none, none], dim=-1)


def pressing(motion: Tensor, share: Tensor) -> Tensor:
    """Changes (..., 6) of a gripper whose pads press with a share (...,) of what a frame's motion (..., 6) tells."""
    none = torch.zeros_like(share)
    return torch.stack([none, none, none, none, none, share * motion[..., 5] / GRIPPER_SCALE[5]], dim=-1)


def apply(frame: Frame, changes: Changes) -> Tensor:
    """Rows (..., D) after changes; contacts above a half are made, and what follows from the rest is computed."""
    g = changes.gripper * _constant(GRIPPER_SCALE, changes.gripper)
    o = changes.objects * _constant(OBJECT_SCALE, changes.objects)
    along, across = frame.motion[..., 0] + g[..., 0], frame.motion[..., 1] + g[..., 1]
    yaw = frame.gripper[..., _G["yaw"]] + frame.motion[..., 3] + g[..., 3]
    gripper = torch.stack(
        [
            frame.gripper[..., 0] + frame.cos * along - frame.sin * across,
            frame.gripper[..., 1] + frame.sin * along + frame.cos * across,
            (frame.gripper[..., 2] + frame.motion[..., 2] + g[..., 2]).clamp(0, REACH_HIGH[2] + 0.01),
            _half_turn(yaw),
            (frame.gripper[..., _G["width"]] + frame.motion[..., 4] + g[..., 4]).clamp(0, 0.2),
            g[..., 5].clamp(0, MAX_FORCE),
        ],
        dim=-1,
    )
    before = frame.objects
    c, s = frame.cos[..., None], frame.sin[..., None]
    made = (changes.contacts > 0.5).to(g.dtype)
    made = torch.where(_crossed(yaw)[..., None, None], made.flip(-1), made)
    rise = before[..., _RISE] + o[..., 2]
    held = (made[..., 0] * made[..., 1] > 0) & (rise > LIFTED_HEIGHT)
    steps = torch.where(held, (before[..., _O["held_steps"]] + 1).clamp(max=STABLE_STEPS), 0.0)
    objects = torch.stack(
        [
            before[..., 0] + c * o[..., 0] - s * o[..., 1],
            before[..., 1] + s * o[..., 0] + c * o[..., 1],
            before[..., 2] + o[..., 2],
            _half_turn(before[..., _O["yaw"]] + o[..., 3]),
            *((before[..., _O["length"] + k] + o[..., 4 + k]).clamp(0.005, 0.5) for k in range(3)),
            before[..., _O["shape"]],
            before[..., _O["colour"]],
            made[..., 0],
            made[..., 1],
            rise,
            steps,
        ],
        dim=-1,
    )
    return torch.cat([gripper, objects.flatten(-2)], dim=-1)


def deviation(gripper: Tensor, objects: Tensor, contacts: Tensor) -> Tensor:
    """Deviations (..., D) of a row's symbols from those of changes; what is never predicted has none."""
    g = gripper * _constant(GRIPPER_SCALE, gripper)
    o = objects * _constant(OBJECT_SCALE, objects)
    sideways, none = torch.hypot(g[..., 0], g[..., 1]), torch.zeros_like(o[..., 0])
    level = torch.hypot(o[..., 0], o[..., 1])
    own = [level, level, o[..., 2], o[..., 3], o[..., 4], o[..., 5], o[..., 6], none, none]
    own += [contacts[..., 0], contacts[..., 1], o[..., 2], none]
    return torch.cat(
        [torch.stack([sideways, sideways, *g[..., 2:].unbind(-1)], dim=-1), torch.stack(own, dim=-1).flatten(-2)],
        dim=-1,
    )


def _constant(values: tuple[float, ...], like: Tensor) -> Tensor:
    """A tensor of constants, made once for each device and type."""
    return _constants(values, like.device, like.dtype)


@functools.lru_cache(maxsize=64)
def _constants(values: tuple[float, ...], device: torch.device, kind: torch.dtype) -> Tensor:
    with torch.inference_mode(mode=False):  # made while planning, they serve training too
        return torch.tensor(values, device=device, dtype=kind)


def _by_object(rows: Tensor) -> Tensor:
    """The objects' symbols (..., O, 13)."""
    return rows[..., GRIPPER:].reshape(*rows.shape[:-1], -1, OBJECT)


def _bottom(objects: Tensor) -> Tensor:
    """Metres (..., O) of the objects' lowest points above the table."""
    return objects[..., _O["z"]] - objects[..., _O["height"]] / 2


def _opening(width: Tensor, grip: Tensor) -> Tensor:
    """Metres by which free fingers open: up to their end, the faster the more negative the grip, and close likewise."""
    most = 2 * FINGER_SPEED * DECISION_SECONDS
    return (width - most * torch.where(grip < 0, grip, 1.0)).clamp(0, _WIDEST) - width


def _into(frame: Frame, shift: Tensor) -> Tensor:
    """A displacement (..., 2) of the workspace in the gripper's frame."""
    along = frame.cos * shift[..., 0] + frame.sin * shift[..., 1]
    return torch.stack([along, frame.cos * shift[..., 1] - frame.sin * shift[..., 0]], dim=-1)


def _half_turn(angle: Tensor) -> Tensor:
    """Angles wrapped to [-π/2, π/2)."""
    return torch.remainder(angle + math.pi / 2, math.pi) - math.pi / 2


def _crossed(yaw: Tensor) -> Tensor:
    """Whether a yaw that was not wrapped yet leaves the half turn, whereupon left and right change their names."""
    return torch.remainder(torch.floor((yaw + math.pi / 2) / math.pi), 2) > 0
