"""What a Delta X answers, line by line, whatever else comes down the wire."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum

#: Bytes without a line end after which input is noise. The longest answer known has about 60.
MOST_LINE_BYTES = 200
#: Millimetres or degrees beyond which a number in an answer is noise.
_MOST_VALUE = 1e5
_NUMBER = r"[-+]?\d{1,7}(?:\.\d{0,7})?"
_CSV = re.compile(rf"(?:Position:\s*)?({_NUMBER}(?:,\s*{_NUMBER}){{2,5}})")
_LETTERED = re.compile(rf"(?:Position:\s*)?X({_NUMBER})\s+Y({_NUMBER})\s+Z({_NUMBER})(?:\s+[WUV]{_NUMBER}){{0,3}}")
_STATES = frozenset({"Free", "Running", "Wait", "Almostdone", "Done"})


class Kind(StrEnum):
    """Kinds of answers."""

    OK = "ok"  # a queued command is complete
    REJECTED = "rejected"  # a queued command was refused
    READY = "ready"  # the answer to IsDelta
    BOOTED = "booted"  # the firmware has just started
    POSITION = "position"
    STATE = "state"
    OTHER = "other"  # something else in plain text
    NOISE = "noise"  # not a line that this firmware sends


@dataclass(frozen=True)
class Reply:
    """One line.

    Attributes:
        kind: What it is.
        text: The line without its end.
        position: Millimetres (x, y, z) of an answer with a position, else empty.
    """

    kind: Kind
    text: str = ""
    position: tuple[float, ...] = ()


_FIXED = {"Ok": Kind.OK, "YesDelta": Kind.READY, "Init Success!": Kind.BOOTED}


def parse_reply(line: bytes) -> Reply:
    """Tell what a line is; never raises.

    Anything but an exact answer counts as noise or other text: an ``Ok`` with a stray byte is not an acknowledgement.
    """
    try:
        text = line.decode("ascii").strip("\r")
    except UnicodeDecodeError:
        return Reply(Kind.NOISE, line.decode("ascii", "backslashreplace"))
    if not text.isprintable():
        return Reply(Kind.NOISE, text.encode("unicode_escape").decode("ascii"))
    if text in _FIXED:
        return Reply(_FIXED[text], text)
    # X1 says 'Unknown'; the maker's client library waits for 'Unknow:'.
    if text == "Unknown" or text.startswith(("Unknow:", "Unknown:")):
        return Reply(Kind.REJECTED, text)
    if text.removeprefix("DeltaState:").strip() in _STATES:
        return Reply(Kind.STATE, text.removeprefix("DeltaState:").strip())
    position = _position(text)
    return Reply(Kind.POSITION, text, position) if position else Reply(Kind.OTHER, text)


def _position(text: str) -> tuple[float, ...]:
    """The first three numbers of a position in either form; empty where there is none."""
    if match := _CSV.fullmatch(text):
        values = [float(part) for part in match.group(1).split(",")[:3]]
    elif match := _LETTERED.fullmatch(text):
        values = [float(part) for part in match.groups()]
    else:
        return ()
    usable = all(math.isfinite(value) and abs(value) < _MOST_VALUE for value in values)
    return tuple(values) if usable else ()


class LineReader:
    """Cuts a stream of bytes into lines, of bounded length, however the bytes arrive."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._discarding = False

    def feed(self, data: bytes) -> list[Reply]:
        """Take bytes; return the answers that they complete. Empty lines are none."""
        replies = []
        for part in _lines(data):
            self._pending += part
            ended = part.endswith(b"\n")
            if len(self._pending) > MOST_LINE_BYTES:
                self._discarding = True
                self._pending.clear()
            if not ended:
                continue
            line = bytes(self._pending).strip(b"\r\n")
            self._pending.clear()
            if self._discarding:
                self._discarding = False
                replies.append(Reply(Kind.NOISE, "a line without end"))
            elif line:
                replies.append(parse_reply(line))
        return replies

    def reset(self) -> None:
        """Forget what has arrived of an unfinished line."""
        self._pending.clear()
        self._discarding = False


def _lines(data: bytes) -> list[bytes]:
    """Pieces that end with a line feed, and what follows the last one."""
    pieces = [piece + b"\n" for piece in data.split(b"\n")]
    pieces[-1] = pieces[-1][:-1]
    return [piece for piece in pieces if piece]
