"""Names of functions, so that processes exchange specifications and never objects."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

from keygrasp.errors import ConfigurationError

_PATTERN = re.compile(r"keygrasp(\.[a-z_][a-z0-9_]*)+:[a-z_][a-z0-9_]*", re.IGNORECASE)


def load_factory(name: str) -> Callable[..., Any]:
    """Import the function that ``"module:function"`` names; only modules of this package are accepted.

    Raises:
        ConfigurationError: If the name has another form, or there is no such function.
    """
    if not _PATTERN.fullmatch(name):
        raise ConfigurationError(f"'{name}' is no factory", "Give 'keygrasp.<module>:<function>'")
    module_name, function_name = name.split(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise
        raise ConfigurationError(f"there is no module '{module_name}'", "Check the factory's name") from error
    factory = getattr(module, function_name, None)
    if not callable(factory):
        raise ConfigurationError(f"module '{module_name}' has no function '{function_name}'")
    return factory  # type: ignore[no-any-return]
