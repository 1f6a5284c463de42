"""Scores kept for good: a bounded memory in front of an SQLite file that processes may share."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keygrasp.errors import StorageError
from keygrasp.extras import require

#: Placeholders in one query; SQLite's own limit was 999 for long.
_CHUNK = 500
_TABLE = "scores"


def cache_key(model: str, prompt_version: str, state: bytes, goal: str) -> str:
    """Key of a score: a hash of everything that it depends on."""
    digest = hashlib.blake2b(digest_size=20)
    for part in (model.encode(), prompt_version.encode(), goal.encode(), state):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


class ScoreStore:
    """An SQLite file of scores by key; whoever stores a key first decides its score for good.

    Args:
        path: The file; made where it isn't there.

    Raises:
        StorageError: If it can't be opened, or isn't such a file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        utils = require("sqlite_utils", "llm")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, check_same_thread=False, timeout=30.0)
            self._database: Any = utils.Database(self._connection)
            self._database.enable_wal()
            self._database[_TABLE].create({"key": str, "score": float, "source": str}, pk="key", if_not_exists=True)
        except (OSError, sqlite3.Error) as error:
            raise self._failure(error) from error

    def read(self, keys: Sequence[str]) -> dict[str, float]:
        """Scores of those keys that are stored; one that isn't in [0, 1] counts as not stored."""
        found: dict[str, float] = {}
        try:
            with self._lock:
                for first in range(0, len(keys), _CHUNK):
                    part = list(keys[first : first + _CHUNK])
                    marks = ",".join("?" * len(part))
                    query = f"select key, score from {_TABLE} where key in ({marks})"  # noqa: S608 - marks only
                    for row in self._database.query(query, part):
                        if isinstance(row["score"], float) and 0.0 <= row["score"] <= 1.0:
                            found[row["key"]] = row["score"]
        except sqlite3.Error as error:
            raise self._failure(error) from error
        return found

    def add(self, scores: Mapping[str, tuple[float, str]]) -> dict[str, float]:
        """Store (score, source) by key where there is none yet; returns what is stored now."""
        rows = [{"key": key, "score": score, "source": source} for key, (score, source) in scores.items()]
        try:
            with self._lock:
                self._database[_TABLE].insert_all(rows, pk="key", ignore=True)
                self._connection.commit()
        except sqlite3.Error as error:
            raise self._failure(error) from error
        return {**{key: score for key, (score, _) in scores.items()}, **self.read(list(scores))}

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _failure(self, error: Exception) -> StorageError:
        return StorageError(
            f"the cache of scores {self._path} can't be used ({error})",
            "Free some space, delete the file if it is damaged, or choose another path",
        )
