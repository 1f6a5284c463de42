"""The serial link in Python: frames as in ``firmware/core/link.h``, written independently of it."""

from __future__ import annotations

import ctypes
import enum
import struct
from dataclasses import dataclass

from keygrasp.errors import InputError
from keygrasp.skills.core import (
    LEARNERS,
    NO_SKILL,
    ONE,
    SKILLS,
    STRATEGIES,
    Decision,
    Pose,
    RawDecision,
    RawPose,
    decision_of,
    fixed,
)

FIRST = 0xA5
VERSION = 1
MOST_PAYLOAD = 32
_OVERHEAD = 7


class Kind(enum.IntEnum):
    """Types of frames."""

    HELLO = 1
    ASK = 2
    DECISION = 3
    STORED = 4
    POSE = 16
    START = 17
    FORGET = 18
    HALT = 19
    STORE = 20


@dataclass(frozen=True)
class Frame:
    """One frame.

    Attributes:
        kind: Its type; an unknown one is its number.
        sequence: Number of the question that it belongs to, 0 to 255.
        payload: At most 32 bytes.
    """

    kind: int
    sequence: int = 0
    payload: bytes = b""


def crc16(data: bytes) -> int:
    """CRC-16/CCITT-FALSE."""
    check = 0xFFFF
    for byte in data:
        check ^= byte << 8
        for _ in range(8):
            check = (check << 1 ^ 0x1021 if check & 0x8000 else check << 1) & 0xFFFF
    return check


def encode(frame: Frame) -> bytes:
    """The bytes of a frame.

    Raises:
        InputError: If the payload is too long.
    """
    if len(frame.payload) > MOST_PAYLOAD:
        raise InputError(f"a payload has at most {MOST_PAYLOAD} bytes, not {len(frame.payload)}")
    body = bytes([VERSION, frame.kind, frame.sequence, len(frame.payload)]) + frame.payload
    return bytes([FIRST]) + body + struct.pack("<H", crc16(body))


class Parser:
    """Finds the frames in a stream of bytes; what is damaged is dropped and counted."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        #: Places where a frame seemed to begin and didn't, or was damaged.
        self.dropped = 0

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes in; returns the frames that are complete."""
        self._bytes += data
        frames: list[Frame] = []
        while True:
            begin = self._bytes.find(FIRST)
            del self._bytes[: len(self._bytes) if begin < 0 else begin]
            if len(self._bytes) < _OVERHEAD:
                return frames
            version, kind, sequence, length = self._bytes[1:5]
            if version != VERSION or length > MOST_PAYLOAD:
                self._drop()
                continue
            end = _OVERHEAD + length
            if len(self._bytes) < end:
                return frames
            if crc16(bytes(self._bytes[1 : end - 2])) != struct.unpack_from("<H", self._bytes, end - 2)[0]:
                self._drop()
                continue
            frames.append(Frame(kind, sequence, bytes(self._bytes[5 : end - 2])))
            del self._bytes[:end]

    def _drop(self) -> None:
        self.dropped += 1
        del self._bytes[0]


def pose_frame(pose: Pose | None, sequence: int) -> Frame:
    """The answer to a question: a pose, or nothing where the camera doesn't see the robot."""
    payload = b"" if pose is None else struct.pack("<iii", fixed(pose.x), fixed(pose.y), fixed(pose.heading))
    return Frame(Kind.POSE, sequence, payload)


def pose_in(frame: Frame) -> Pose | None:
    """The pose that a frame tells of, as the robot reads it; ``None`` for an unseen robot.

    Raises:
        InputError: If the frame is none.
    """
    if frame.kind != Kind.POSE or len(frame.payload) not in (0, ctypes.sizeof(RawPose)):
        raise InputError(f"a frame of type {frame.kind} with {len(frame.payload)} bytes is no pose")
    return Pose(*(value / ONE for value in struct.unpack("<iii", frame.payload))) if frame.payload else None


def start_frame(
    seed: int,
    *,
    strategy: str = "motivated",
    learner: str = "regression",
    only: str | None = None,
    forget: bool = False,
) -> Frame:
    """Begin: with what is in flash, or with nothing learned."""
    index = NO_SKILL if only is None else SKILLS.index(only)
    payload = struct.pack("<IBBBx", seed, STRATEGIES.index(strategy), LEARNERS.index(learner), index)
    return Frame(Kind.FORGET if forget else Kind.START, 0, payload)


def decision_in(frame: Frame) -> Decision:
    """The decision that a frame tells of.

    Raises:
        InputError: If the frame is none.
    """
    if frame.kind != Kind.DECISION or len(frame.payload) != ctypes.sizeof(RawDecision):
        raise InputError(f"a frame of type {frame.kind} with {len(frame.payload)} bytes is no decision")
    raw = RawDecision.from_buffer_copy(frame.payload)
    if not all(index == NO_SKILL or index < len(SKILLS) for index in (raw.skill, raw.ended)):
        raise InputError(f"a decision names the unknown skill {raw.skill} or {raw.ended}", "Is the firmware newer?")
    return decision_of(raw)
