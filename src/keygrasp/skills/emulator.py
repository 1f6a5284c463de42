"""The RP2040 image in the emulator rp2040js, closed-loop with a simulated robot over the emulated serial line."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from keygrasp.errors import KeygraspError, MissingExtraError
from keygrasp.files import write_json
from keygrasp.objects.cache import cache_directory
from keygrasp.skills.building import FIRMWARE, build_image, symbols
from keygrasp.skills.core import Decision
from keygrasp.skills.link import Frame, Kind, Parser, decision_in, encode, pose_frame, start_frame
from keygrasp.skills.millirobot import Millirobot

_EMULATOR = FIRMWARE / "emulator"
_INSTALL_SECONDS = 180.0
#: Seconds that the robot stands still where it was told to, as in ``development.steps``.
_IDLE_S = 1.0


class EmulatorError(KeygraspError):
    """The emulated robot broke."""

    exit_code = 8


def prepare() -> Path:
    """Folder with the emulator, installed with npm where that hasn't been done.

    Raises:
        MissingExtraError: If node or npm is missing, or the package can't be installed.
    """
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            raise MissingExtraError(
                f"the emulator needs '{tool}', which is not installed", "Install it with: apt-get install -y nodejs npm"
            )
    digest = hashlib.sha256(b"".join((_EMULATOR / name).read_bytes() for name in ("package-lock.json", "run.mjs")))
    folder = cache_directory() / "firmware" / f"emulator-{digest.hexdigest()[:16]}"
    done = folder / "done"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json", "run.mjs"):
            shutil.copy(_EMULATOR / name, folder)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        try:
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=_INSTALL_SECONDS)  # noqa: S603
        except (OSError, subprocess.SubprocessError) as error:
            raise MissingExtraError(f"npm can't install the emulator: {error}", f"Try it in {folder}") from error
        done.touch()
    return folder


class EmulatedRobot:
    """The firmware in an emulated RP2040 whose motor pins drive a simulated robot.

    Args:
        robot: The simulated robot and its camera.
        image: Folder of the image; built by default.
    """

    def __init__(self, robot: Millirobot, image: Path | None = None) -> None:
        folder = image or build_image()
        emulator = prepare()
        table = folder / "symbols.json"
        write_json(table, symbols(folder / "keygrasp.elf"))
        self.robot = robot
        self.parser = Parser()
        #: Emulated seconds since the start or the last reset.
        self.clock = 0.0
        #: Motions that the motor pins have shown: left, right (thousandths), milliseconds.
        self.motions: list[tuple[int, int, int]] = []
        self._running = (0.0, 0, 0)
        self._answered: tuple[int, Frame] | None = None
        self._process = subprocess.Popen(  # noqa: S603 - the emulator that was just prepared
            [shutil.which("node") or "node", "run.mjs", str(folder / "keygrasp.bin"), str(table)],
            cwd=emulator,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> EmulatedRobot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def hear(self) -> list[Frame]:
        """Wait for what the robot sends next; emulated time then stands still until :meth:`say`."""
        line = self._read()
        self.clock = line["us"] / 1e6
        for at, left, right in line["motors"]:
            began, before_left, before_right = self._running
            milliseconds = round((at - began) / 1000)
            if (before_left or before_right) and milliseconds:  # one motor is set a moment before the other
                self.motions.append((before_left, before_right, milliseconds))
                self.robot.move(before_left, before_right, milliseconds)
            self._running = (at, left, right)
        return self.parser.feed(bytes.fromhex(line["sent"]))

    def say(self, *frames: Frame, raw: bytes = b"", after: float = 0.02, **faults: Any) -> None:
        """Let emulated time go on, with an answer or with none.

        Args:
            *frames: What to send.
            raw: Bytes to send before them.
            after: Emulated seconds until the first byte.
            **faults: ``reset=True``, ``hang=True``, ``worn=[slot, …]``; see ``run.mjs``.
        """
        data = raw + b"".join(encode(frame) for frame in frames)
        answer = {"send": data.hex(), "after_us": round(after * 1e6), **faults}
        assert self._process.stdin is not None  # noqa: S101 - a pipe, as asked for
        try:
            self._process.stdin.write(json.dumps(answer) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._broken() from error

    def decisions(
        self, seed: int, count: int, *, line: Callable[[bytes], bytes] = bytes, **settings: Any
    ) -> Iterator[Decision]:
        """Start the learner and answer all its questions, until it has made so many decisions.

        Args:
            seed: Of the learner.
            count: How many decisions.
            line: What the serial line makes of the bytes to the robot; loses nothing by default.
            **settings: As of :func:`keygrasp.skills.link.start_frame`.
        """
        made = 0
        while made < count:
            answers: list[Frame] = []
            for frame in self.hear():
                if frame.kind == Kind.HELLO:
                    answers.append(start_frame(seed, **settings))
                elif frame.kind == Kind.ASK:
                    answers.append(self._answer(frame.sequence))
                elif frame.kind == Kind.DECISION:
                    decision = decision_in(frame)
                    if not decision.milliseconds:
                        self.robot.wait(_IDLE_S)
                    made += 1
                    yield decision
            self.say(raw=line(b"".join(encode(frame) for frame in answers)))

    def _answer(self, sequence: int) -> Frame:
        """Where the robot is; a question that is repeated gets the same answer."""
        if self._answered is None or self._answered[0] != sequence:
            self._answered = (sequence, pose_frame(self.robot.look(), sequence))
        return self._answered[1]

    def stop(self) -> dict[str, float]:
        """End the emulation; returns its figures: cycles of decisions, deepest stack, instructions, and speed."""
        self.hear()
        self.say(stop=True)
        return {name: float(value) for name, value in self._read().items()}

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101 - a pipe, as asked for
        line = self._process.stdout.readline()
        if not line:
            raise self._broken()
        parsed: dict[str, Any] = json.loads(line)
        return parsed

    def _broken(self) -> EmulatorError:
        time.sleep(0.1)
        text = self._process.communicate()[1].strip().splitlines()
        reason = next((line for line in text if re.match(r"\w*Error", line)), text[-1] if text else "no message")
        return EmulatorError(f"the emulated robot broke: {reason}", "It ran the image that was just built")
