"""Optional dependencies: imported where they are used, with an error that names the extra."""

from __future__ import annotations

import importlib
from types import ModuleType

from keygrasp.errors import MissingExtraError


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
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] != module.split(".", maxsplit=1)[0]:
            raise
        raise MissingExtraError(
            f"this needs the package '{module}', which is not installed",
            f"Install it with: pip install 'keygrasp[{extra}]'",
        ) from error
