"""Optional dependencies: imported where they are used, with an error that names the extra."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from types import ModuleType

from keygrasp.errors import MissingExtraError

#: How lines begin that modules write on stderr whenever they are imported, which tell a user nothing.
_CHATTER = {"pybullet": b"pybullet build time"}
_stderr = threading.Lock()


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency.

    Args:
        module: Name of the module, such as ``"pybullet"``.
        extra: Extra of this package that installs it, such as ``"grasp"``.

    Returns:
        The imported module.

    Raises:
        MissingExtraError: If it is not installed; the message names the command that installs it.
    """
    try:
        with _without_chatter(module):
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] != module.split(".", maxsplit=1)[0]:
            raise
        raise MissingExtraError(
            f"this needs the package '{module}', which is not installed",
            f"Install it with: pip install 'keygrasp[{extra}]'",
        ) from error


@contextlib.contextmanager
def _without_chatter(module: str) -> Iterator[None]:
    """Leave out what a module written in C says of itself while it is imported; all else on stderr comes after it."""
    if module not in _CHATTER or module in sys.modules or sys.stderr is None:
        yield
        return
    with _stderr, tempfile.TemporaryFile() as kept:
        sys.stderr.flush()
        try:
            stderr = os.dup(2)
        except OSError:  # closed
            yield
            return
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            kept.seek(0)
            for line in kept:
                if not line.startswith(_CHATTER[module]):
                    os.write(stderr, line)
            os.close(stderr)
