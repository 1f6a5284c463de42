"""Steps of the set-up: one line each on the screen, everything they print in one log file."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parent.parent
LOG = ROOT / ".cache" / "setup.log"
SHOWN_LINES = 25
SIGN_OF_LIFE_S = 60.0
STOPPING_S = 10.0


class SetupError(Exception):
    """The set-up can't go on.

    Args:
        problem: What went wrong.
        remedy: What the person can do about it.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy


def say(text: str) -> None:
    """Print one line of progress at once, also into a pipe."""
    print(text, flush=True)


def start_log() -> None:
    """Empty the log file."""
    LOG.parent.mkdir(parents=True, exist_ok=True)
    LOG.write_text("", encoding="utf-8")


def run(command: Sequence[str | Path], remedy: str, environment: Mapping[str, str] | None = None) -> None:
    """Run a command with its output in the log.

    Args:
        command: Program and arguments; no shell is involved.
        remedy: What to tell the person if it fails.
        environment: The whole environment of the command; this process's own by default.

    Raises:
        SetupError: If the command fails; its last lines have been printed to stderr by then.
    """
    words = [str(word) for word in command]
    with LOG.open("a", encoding="utf-8") as log:
        log.write(f"$ {' '.join(words)}\n")
        log.flush()
        start = log.tell()
        code = _wait(words, environment, log)
    if code == 0:
        return
    with LOG.open("rb") as log:
        log.seek(start)
        tail = log.read().decode("utf-8", "replace").splitlines()[-SHOWN_LINES:]
    for line in tail:
        print(f"    {line}", file=sys.stderr)
    raise SetupError(f"'{' '.join(words[:4])} …' ended with exit status {code} (whole output: {LOG})", remedy)


def _wait(words: list[str], environment: Mapping[str, str] | None, log: TextIO) -> int:
    """Run to the end, with a sign of life each minute; a stop of this process stops the command too."""
    began = time.monotonic()
    with subprocess.Popen(words, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT) as process:
        while True:
            try:
                return process.wait(timeout=SIGN_OF_LIFE_S)
            except subprocess.TimeoutExpired:
                say(f"[setup]   still at it after {(time.monotonic() - began) / 60:.0f} min; details: {LOG}")
            except BaseException:
                process.terminate()
                try:
                    process.wait(timeout=STOPPING_S)  # left alone, Popen waits a quarter of a second after Ctrl-C
                except subprocess.TimeoutExpired:
                    process.kill()
                raise


class Step:
    """Context manager that announces a step and says how long it took."""

    def __init__(self, title: str) -> None:
        self._title = title

    def __enter__(self) -> None:
        self._start = time.monotonic()
        say(f"[setup] {self._title} ...")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            say(f"[setup] {self._title}: done in {time.monotonic() - self._start:.0f} s")


def without_ros(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment less what an activated ROS 2 or venv puts there.

    Paths of one ROS 2 in the build of another would mix two copies of the same libraries.
    """
    dropped = {"PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "ROS_DISTRO", "VIRTUAL_ENV", "COLCON_PREFIX_PATH"}
    dropped |= {"AMENT_PREFIX_PATH", "CMAKE_PREFIX_PATH"}
    return {name: value for name, value in environment.items() if name not in dropped}
