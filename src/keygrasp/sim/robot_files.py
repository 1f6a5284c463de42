"""Files that describe robots, for engines and viewers that read such things from disk alone.

They lie in the user's cache; where that can't be written, in a folder of this process's own: a robot needs them, but
not that they stay.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import tempfile
from pathlib import Path

from keygrasp.errors import StorageError
from keygrasp.files import atomic_path
from keygrasp.objects.cache import cache_directory

_log = logging.getLogger(__name__)


def robot_file(name: str, data: bytes) -> Path:
    """Path of a file that holds ``data``; written once, whole, safe under parallel processes.

    A file with other content (a crash, a full disk) is written anew.

    Args:
        name: Name with its ending; a hash of the content is put before the ending.
        data: What it holds.

    Raises:
        StorageError: If it can be written neither in the cache nor in the system's temporary folder.
    """
    ending = Path(name).suffix
    file = f"{name.removesuffix(ending)}-{hashlib.sha256(data).hexdigest()[:16]}{ending}"
    try:
        return _kept(cache_directory() / "robots" / file, data)
    except StorageError as error:
        return _kept(_own_folder(error.problem) / file, data)


def _kept(path: Path, data: bytes) -> Path:
    with contextlib.suppress(OSError):
        if path.read_bytes() == data:
            return path
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)
    return path


@functools.cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    """A folder that goes when the process ends."""
    return tempfile.TemporaryDirectory(prefix="keygrasp-robots-")


def _own_folder(problem: str) -> Path:
    try:
        if not _temporary.cache_info().currsize:
            _log.warning("%s; going on without a cache (KEYGRASP_CACHE names another folder)", problem)
        return Path(_temporary().name)
    except OSError as error:
        remedy = "Free some space, or let KEYGRASP_CACHE name another folder"
        raise StorageError(f"{problem}; nor in a temporary folder: {error.strerror or error}", remedy) from error
