"""A picture of what the Rerun viewer shows, made without a display; a software renderer is enough."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from keygrasp.errors import KeygraspError
from keygrasp.extras import require
from keygrasp.files import atomic_path
from keygrasp.trials.drawing_canvas import encode_png

_COMMAND = (sys.executable, "-m", "rerun")
#: Seconds in which the viewer must have started, and those that it gets for drawing and for taking its notices down.
_START_SECONDS, _DRAW_SECONDS = 30.0, 3.0
_POLL_SECONDS = 0.2
#: Rows of the window's own title bar, which is empty in the layout for pictures.
_TITLE_ROWS = 36
_REMEDY = "A software renderer is enough: sudo apt-get install mesa-vulkan-drivers"


def screenshot(recording: Path, picture: Path, size: tuple[int, int]) -> None:
    """Write a PNG picture of the end of a recording, in the layout that the recording holds.

    Args:
        recording: An ``.rrd`` file.
        picture: Where to write.
        size: Width and height of the viewer's window in pixels.

    Raises:
        MissingExtraError: If Rerun is not installed.
        KeygraspError: If the viewer can't draw here; says what is missing.
        StorageError: If the picture can't be written.
    """
    require("rerun", "viz")
    port = _free_port()
    with tempfile.TemporaryDirectory(prefix="keygrasp-") as folder:
        environment = {"XDG_RUNTIME_DIR": folder, **os.environ, "RUST_LOG": "error"}
        command = [*_COMMAND, str(recording), "--headless", "--port", str(port)]
        command += ["--window-size", f"{size[0]}x{size[1]}", "--hide-welcome-screen"]
        log = Path(folder) / "viewer.log"
        with log.open("wb") as output:
            viewer = subprocess.Popen(  # noqa: S603 - this interpreter, a module of an extra
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            png = _take(viewer, port, log)
        finally:
            _end(viewer)
    shown = np.asarray(require("PIL.Image", "viz").open(io.BytesIO(png)).convert("RGB"))
    with atomic_path(picture) as temporary:
        temporary.write_bytes(encode_png(shown[_TITLE_ROWS:], colours=256))


def _end(viewer: subprocess.Popen[bytes]) -> None:
    """End the viewer and whatever it started: the module is a launcher, and the program that draws is its child."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(viewer.pid, signal.SIGKILL)  # it holds nothing that is worth an orderly end
    viewer.wait()


def _take(viewer: subprocess.Popen[bytes], port: int, log: Path) -> bytes:
    client = _connect(viewer, port, log)
    try:
        time.sleep(_DRAW_SECONDS)
        client.set_time(play_state="following")
        time.sleep(_DRAW_SECONDS)
        png: bytes = client.take_screenshot()
    except Exception as error:  # the viewer's client raises whatever its connection raises
        raise KeygraspError(f"the Rerun viewer took no picture: {error}", _REMEDY) from error
    return png


def _connect(viewer: subprocess.Popen[bytes], port: int, log: Path) -> Any:
    """A client of the viewer, once it shows something."""
    client_class = require("rerun.experimental", "viz").ViewerClient
    deadline = time.monotonic() + _START_SECONDS
    while True:
        if viewer.poll() is not None:
            last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise KeygraspError(f"the Rerun viewer ended at once: {' '.join(last)}", _REMEDY)
        try:
            client = client_class.connect(f"rerun+http://127.0.0.1:{port}/proxy")
            client.get_state()
        except Exception as error:  # the client gives no class for a viewer that isn't there yet
            if time.monotonic() > deadline:
                raise KeygraspError(
                    f"the Rerun viewer did not start in {_START_SECONDS:g} s: {error}", _REMEDY
                ) from error
            time.sleep(_POLL_SECONDS)
        else:
            return client


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
