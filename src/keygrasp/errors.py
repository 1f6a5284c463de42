"""The library's errors: each says what is wrong, with which input, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable


def suggestion(name: object, known: Iterable[object], otherwise: str = "") -> str:
    """A remedy for an unknown name: the known one that is really near, whatever its case.

    Args:
        name: What was given.
        known: What there is.
        otherwise: What to say where none is near; where left out, all of them are listed.
    """
    import difflib

    names = {str(one).lower(): str(one) for one in known}
    near = difflib.get_close_matches(str(name).lower(), names, n=1)
    if near:
        return f"Did you mean '{names[near[0]]}'?"
    return otherwise or (f"Known: {', '.join(names.values())}" if names else "")


class KeygraspError(Exception):
    """Base of every error that the library raises on purpose.

    Args:
        problem: What is wrong, naming the input (a path, an argument, a value with its unit).
        remedy: What the caller can do about it; printed on a line of its own by the command line.
    """

    #: Exit status of a command that ends with this error.
    exit_code = 1

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem if not remedy else f"{problem}. {remedy}")
        self.problem = problem
        self.remedy = remedy


class InputError(KeygraspError):
    """Something that the caller gave (file, image, option, message) can't be used."""

    exit_code = 2


class ImageError(InputError):
    """A depth image or its camera model can't be used."""


class MeshError(InputError):
    """A mesh can't be used as an object (missing, empty, NaN, wrong unit, not repairable)."""


class DatabaseError(InputError):
    """An object database can't be read."""


class ConfigurationError(InputError):
    """A configuration file or value is unknown, of the wrong type or out of range."""


class MissingExtraError(KeygraspError):
    """An optional dependency is not installed."""

    exit_code = 3


class StorageError(KeygraspError):
    """Results can't be written (disk full, no permission); what was written before is intact."""

    exit_code = 4


class WorkerError(KeygraspError):
    """Worker processes died more often than a retry can mend."""

    exit_code = 5


class RobotError(KeygraspError):
    """A robot can't do what was asked, or has lost its connection."""

    exit_code = 6


#: Exit status after Ctrl-C (128 + SIGINT), by the shell's convention.
EXIT_INTERRUPTED = 130
