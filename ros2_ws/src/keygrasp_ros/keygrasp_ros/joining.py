"""Joining ROS 2: what can be wrong before a node lives is said in one line, and what can be done without is.

rclpy raises errors of its own for bad arguments, parameter files, names and environment variables, which would end a
process with a traceback.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import rclpy
from rclpy.context import Context
from rclpy.exceptions import NameValidationException
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.signals import SignalHandlerOptions

from keygrasp.errors import ConfigurationError, StorageError
from keygrasp.files import ensure_writable

#: Above, the ports of a domain would be too high (DDSI-RTPS 2.5, section 9.6.2).
_LAST_DOMAIN = 232
#: Where in ROS 2's sources an error was made.
_PLACE = re.compile(r",? at /\S+:\d+|failed to initialize rcl: |\n")


def join(arguments: Sequence[str] | None = None, context: Context | None = None) -> None:
    """Initialise a context; signals stay this project's own business.

    Args:
        arguments: Command line with ``--ros-args``; the process's own by default.
        context: The context, the default one where it is ``None``.

    Raises:
        ConfigurationError: If arguments, parameter files or environment variables can't be used.
    """
    _check_domain()
    given = list(sys.argv if arguments is None else arguments)
    with naming_faults():
        rclpy.init(
            args=[*given, *_without_log_files()], context=context, signal_handler_options=SignalHandlerOptions.NO
        )


@contextlib.contextmanager
def naming_faults() -> Iterator[None]:
    """While a context or a node is made: rclpy's own errors become the project's.

    Raises:
        ConfigurationError: For any of them.
    """
    try:
        yield
    except _rclpy.UnknownROSArgsError as error:
        raise ConfigurationError(f"unknown ROS arguments: {error}", "Known: -r, -p, --params-file, ...") from error
    except (_rclpy.RCLError, NameValidationException) as error:
        text = " ".join(_PLACE.sub(" ", str(error)).split())
        raise ConfigurationError(
            f"ROS 2 can't start: {text.rstrip(' .,')}", "Check arguments and environment"
        ) from error


def _check_domain() -> None:
    text = os.environ.get("ROS_DOMAIN_ID", "")
    if text and not (text.isdecimal() and int(text) <= _LAST_DOMAIN):
        raise ConfigurationError(f"ROS_DOMAIN_ID is '{text}'", f"It must be a whole number from 0 to {_LAST_DOMAIN}")


def _without_log_files() -> list[str]:
    """Arguments that keep ROS 2 from writing log files where it can't: it would refuse to start."""
    try:
        ensure_writable(_log_folder() / "log")
    except (StorageError, RuntimeError) as error:  # RuntimeError: there is no home
        print(f"keygrasp: ROS 2 writes no log files: {error} (ROS_LOG_DIR names another folder)", file=sys.stderr)
        return ["--ros-args", "--disable-external-lib-logs"]
    return []


def _log_folder() -> Path:
    """Where ROS 2 puts log files, by its own rules."""
    chosen = os.environ.get("ROS_LOG_DIR")
    if chosen:
        return Path(chosen).expanduser()
    if not os.environ.get("HOME"):
        raise RuntimeError("HOME is not set")
    return Path(os.environ.get("ROS_HOME") or "~/.ros").expanduser() / "log"
