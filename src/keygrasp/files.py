"""Writing results so that nothing is lost: whole files or none, with errors that name the path."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keygrasp.errors import InputError, StorageError


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that replaces it only when the block succeeds.

    Raises:
        StorageError: If writing fails (disk full, no permission). The old file, if any, is intact.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        raise StorageError(
            f"can't write {path}: {error.strerror or error}",
            "Free some space or choose another place; what was written before is intact",
        ) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _umask() -> int:
    """Return this process's umask (POSIX offers no way to read it without setting it)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def ensure_writable(path: Path) -> None:
    """Find out before long work whether a file can be written there later; leaves nothing behind but its folder.

    Raises:
        StorageError: If it can't.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise StorageError(
            f"can't write {path}: {error.strerror or error}", "Choose another place; nothing was started"
        ) from error


def lock(descriptor: int, path: Path, remedy: str) -> None:
    """Keep other processes from writing ``path`` until ``descriptor``, which is open on it, is closed.

    Raises:
        InputError: If another process holds it; says ``remedy``.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InputError(f"another run is writing {path}", remedy) from error
    except OSError:
        return  # a file system without locks: go on unprotected


@contextlib.contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Find out before long work whether a folder can be written, and keep other runs out of it until the block ends.

    Raises:
        InputError: If another run writes into it.
        StorageError: If it can't be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        reason = "it is a file" if folder.is_file() else error.strerror or error
        raise StorageError(
            f"can't write into {folder}: {reason}", "Choose another 'out'; nothing was started"
        ) from error
    try:
        lock(descriptor, folder, "Wait for it or choose another folder")
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def folders_undone(*paths: Path) -> Iterator[None]:
    """Where the block fails, remove the folders above ``paths`` that it made, as far as nothing is in them."""
    absent = {folder for path in paths for folder in path.absolute().parents if not folder.exists()}
    try:
        yield
    except BaseException:
        for folder in sorted(absent, key=lambda folder: len(folder.parts), reverse=True):
            with contextlib.suppress(OSError):  # it was not made, or holds something
                folder.rmdir()
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all (UTF-8)."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, data: Any) -> None:
    """Write ``data`` as indented JSON, whole or not at all. NaN and infinity are refused."""
    write_text(path, json.dumps(data, indent=2, allow_nan=False) + "\n")


def read_json(path: Path, *, max_bytes: int = 64 * 2**20) -> Any:
    """Read a JSON file of bounded size.

    Raises:
        InputError: If it is missing, too large or not JSON.
    """
    try:
        if path.stat().st_size > max_bytes:
            raise InputError(f"{path} is larger than {max_bytes // 2**20} MiB", "Is it the right file?")
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"can't read {path}: {error.strerror or error}", "Check the path") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid JSON ({error})", "Write it anew or choose another file") from error
