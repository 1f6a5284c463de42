"""A worker process of :mod:`keygrasp.trials.pool`; run as ``python -m keygrasp.trials.worker``."""

from __future__ import annotations

import errno
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import IO, Any

from keygrasp.errors import KeygraspError, MissingExtraError, StorageError
from keygrasp.trials.factories import load_factory

Json = dict[str, Any]
Task = Callable[[Json], Json]

#: No room to write: no result of the task, and what a run would keep as one stays wrong when it is resumed.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}


def main() -> int:
    """Read what to build and then tasks from standard input, answer on standard output, until the input ends."""
    # Libraries print to descriptor 1 (PyBullet does, from C): move our answers off it, and theirs to stderr.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    requests = sys.stdin
    try:
        hello = json.loads(requests.readline())
        handler: Task = load_factory(hello["handler"])(hello["setup"])
        limit_threads()
    except Exception as error:
        _answer(answers, {"fatal": _described(error)})
        return 1
    _answer(answers, {"ready": True})
    for line in requests:
        _answer(answers, _done(handler, json.loads(line)))
    return 0


def limit_threads() -> None:
    """Hold the libraries that are loaded to one thread (environment variables don't reach all of them)."""
    if "cv2" in sys.modules:
        sys.modules["cv2"].setNumThreads(1)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def _done(handler: Task, message: Json) -> Json:
    try:
        return {"id": message["id"], "result": handler(message["task"])}
    except (StorageError, MissingExtraError) as error:
        return {"fatal": _described(error)}
    except KeygraspError as error:
        return {"id": message["id"], "problem": str(error)}
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _FULL:
            problem = f"can't write {error.filename or tempfile.gettempdir()}: {error.strerror}"
            return {"fatal": _described(StorageError(problem, "Free some space, or let TMPDIR name another folder"))}
        traceback.print_exc()
        return {"id": message["id"], "problem": f"{type(error).__name__}: {error}"}


def _described(error: Exception) -> Json:
    if isinstance(error, KeygraspError):
        return {"kind": type(error).__name__, "problem": error.problem, "remedy": error.remedy}
    traceback.print_exc()
    return {"kind": "WorkerError", "problem": f"{type(error).__name__}: {error}", "remedy": ""}


def _answer(stream: IO[str], message: Json) -> None:
    stream.write(json.dumps(message) + "\n")
    stream.flush()


if __name__ == "__main__":
    sys.exit(main())
