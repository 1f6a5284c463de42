"""The journal of a run: one JSON line a trial, on disk before the next begins, so that a run can be resumed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from keygrasp.errors import ConfigurationError, InputError, StorageError
from keygrasp.files import lock

Json = dict[str, Any]

_KIND = "keygrasp-journal"
_VERSION = 1
_MAX_BYTES = 2 * 2**30
_REMEDY = "Free some space or choose another place; what was written before is intact"
_FIRST_BYTES = f'{{"kind": "{_KIND}"'.encode()


def config_hash(config: Json) -> str:
    """Hash of a JSON-ready configuration; the same for equal values in any order."""
    return hashlib.sha256(json.dumps(config, sort_keys=True, allow_nan=False).encode()).hexdigest()[:16]


def differing(old: Any, new: Json) -> str:
    """Names of the settings in which two JSON-ready configurations differ, for a message."""
    old = old if isinstance(old, dict) else {}
    return ", ".join(sorted(key for key in {*old, *new} if old.get(key) != new.get(key)))


class Journal:
    """Append-only JSON lines with a header that says for which configuration they hold.

    Opening an existing journal of the same configuration gives its :attr:`records`; a last line that was torn by a
    crash is cut off. One process at a time may hold a journal.

    Args:
        path: The file; made if it doesn't exist.
        config: JSON-ready configuration, of which the header holds a copy and the hash.

    Raises:
        ConfigurationError: If the file is of another configuration.
        InputError: If it is no journal, is damaged in the middle, or another process holds it.
        StorageError: If it can't be opened or written.
    """

    def __init__(self, path: Path, config: Json) -> None:
        config = json.loads(json.dumps(config, allow_nan=False))
        self.path = path
        self.records: list[Json] = []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._storage_error(error, "Choose another place; nothing was started") from error
        try:
            lock(self._fd, self.path, "Wait for it or name another journal")
            self._size = self._load(config)
            if self._size == 0:
                header = {"kind": _KIND, "version": _VERSION, "config_hash": config_hash(config), "config": config}
                self._write([header])
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file. Everything that was appended is on disk already."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def append(self, records: Sequence[Json]) -> None:
        """Write records, all or none, and wait until they are on disk.

        Raises:
            StorageError: If that fails (disk full); earlier records are intact.
        """
        self._write(records)
        self.records.extend(records)

    def _write(self, records: Sequence[Json]) -> None:
        data = "".join(json.dumps(record, allow_nan=False) + "\n" for record in records).encode()
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._fd, view) :]
            os.fsync(self._fd)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)
            raise self._storage_error(error) from error
        self._size += len(data)

    def _load(self, config: Json) -> int:
        """Read what is there; returns the size in bytes of its whole lines."""
        size = os.fstat(self._fd).st_size
        if size > _MAX_BYTES:
            raise InputError(f"{self.path} is larger than {_MAX_BYTES // 2**30} GiB", "Is it a journal?")
        with open(os.dup(self._fd), "rb") as stream:  # noqa: PTH123 - a descriptor
            stream.seek(0)
            data = stream.read(size)  # and no more: a device may have no end
        whole = data[: data.rfind(b"\n") + 1]
        if not whole and not _FIRST_BYTES.startswith(data[: len(_FIRST_BYTES)]):
            raise InputError(f"{self.path} is not a journal", "Name another file; this one is left as it is")
        lines = whole.splitlines()
        if lines:
            self._check_header(self._parsed(lines[0], 1), config)
            self.records = [self._parsed(line, number) for number, line in enumerate(lines[1:], start=2)]
        if len(whole) < size:
            os.ftruncate(self._fd, len(whole))
        return len(whole)

    def _parsed(self, line: bytes, number: int) -> Json:
        try:
            value = json.loads(line)
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{self.path}, line {number} is not JSON", "Mend that line or start a new one") from error
        if not isinstance(value, dict):
            raise InputError(f"{self.path}, line {number} is not a JSON object", "Mend that line or start a new one")
        return value

    def _check_header(self, header: Json, config: Json) -> None:
        if header.get("kind") != _KIND or header.get("version") != _VERSION:
            raise InputError(f"{self.path} is not a journal of this version", "Name another file")
        if header.get("config_hash") == config_hash(config):
            return
        changed = differing(header.get("config"), config)
        raise ConfigurationError(
            f"{self.path} holds a run with another configuration (different: {changed or 'its hash'})",
            "Resume with the same configuration or name another journal",
        )

    def _storage_error(self, error: OSError, remedy: str = _REMEDY) -> StorageError:
        return StorageError(f"can't write {self.path}: {error.strerror or error}", remedy)
