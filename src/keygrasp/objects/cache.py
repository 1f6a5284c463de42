"""Prepared objects and convex decompositions on disk, so that each is computed once a machine.

One npz file an entry, named by a hash of what went in. Entries are written whole or not at all and never changed, so
parallel processes can share the folder: at worst two compute the same entry and one of the two equal files stays. An
entry that can't be read is computed again. Where the folder can't be written (disk full, no permission) the work goes
on uncached, with one warning a process: a cache only saves time.
"""

from __future__ import annotations

import hashlib
import logging
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import StorageError
from keygrasp.files import atomic_path

Entry = dict[str, NDArray[Any]]

#: Part of every key: change it when the same input would give another result.
CACHE_VERSION = "2"

_MAX_ENTRY_BYTES = 512 * 2**20
_log = logging.getLogger(__name__)
_warned: set[Path] = set()


def cache_directory() -> Path:
    """Folder of the cache: ``$KEYGRASP_CACHE``, else ``$XDG_CACHE_HOME/keygrasp``, else ``~/.cache/keygrasp``."""
    chosen = os.environ.get("KEYGRASP_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "keygrasp"


def content_key(*parts: bytes | str | float | NDArray[Any] | None) -> str:
    """Hash of a content and its options, in order, together with the cache's version."""
    digest = hashlib.sha256(CACHE_VERSION.encode())
    for part in parts:
        if isinstance(part, np.ndarray):
            data = f"{part.dtype}{part.shape}".encode() + np.ascontiguousarray(part).tobytes()
        elif isinstance(part, bytes):
            data = part
        else:
            data = repr(part).encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def cached(
    kind: str,
    key: str,
    required: frozenset[str],
    compute: Callable[[], Mapping[str, NDArray[Any]]],
    *,
    worth_keeping: Callable[[Entry], bool] = bool,
) -> Entry:
    """Return the entry ``key`` of the folder ``kind``, computing and storing it where it is missing or broken.

    Args:
        kind: Name of a sub-folder, such as ``"objects"``.
        key: From ``content_key``.
        required: Array names without which a stored entry counts as broken.
        compute: Makes the arrays; what it raises goes to the caller and nothing is stored.
        worth_keeping: Whether a computed entry is stored; a makeshift one, which a later call could better, is not.
    """
    path = cache_directory() / kind / f"{key}.npz"
    stored = _read(path, required)
    if stored is not None:
        return stored
    entry = dict(compute())
    if not worth_keeping(entry):
        return entry
    try:
        with atomic_path(path) as temporary:
            np.savez_compressed(temporary, allow_pickle=False, **entry)
    except StorageError as error:
        if path.parent not in _warned:
            _warned.add(path.parent)
            _log.warning("%s; going on without a cache (KEYGRASP_CACHE names another folder)", error.problem)
    return entry


def _read(path: Path, required: frozenset[str]) -> Entry | None:
    """Arrays of a stored entry; None where it is missing, too large, broken or lacks an array."""
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > _MAX_ENTRY_BYTES:
                return None
        with np.load(path, allow_pickle=False) as archive:
            entry = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, NotImplementedError):
        return None
    except Exception as error:  # zlib.error is not exported by every build under one name
        if type(error).__module__ != "zlib":
            raise
        return None
    return entry if required <= entry.keys() else None
