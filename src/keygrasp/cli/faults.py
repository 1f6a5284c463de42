"""What a user is told when something fails that the library didn't foresee."""

from __future__ import annotations

import errno
import os
import tempfile
import time
import traceback
from pathlib import Path

from keygrasp.errors import StorageError

_STORAGE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG, errno.EIO}
#: Exit status after a fault of the program itself (EX_SOFTWARE of sysexits.h).
EXIT_FAULT = 70


def describe(error: Exception, *, debug: bool) -> tuple[str, str, int]:
    """Problem, remedy and exit status of an unforeseen error; its traceback goes to a file.

    Args:
        error: What was raised.
        debug: Print the traceback here as well.
    """
    if debug:
        traceback.print_exception(error)
    if isinstance(error, OSError) and error.errno in _STORAGE:
        where = f" {error.filename}" if error.filename else ""
        return (
            f"can't read or write{where}: {error.strerror}",
            "Free some space or choose another place; what was written before is intact",
            StorageError.exit_code,
        )
    text = " ".join(str(error).split())
    problem = f"internal fault: {type(error).__name__}" + (f": {text[:300]}" if text else "")
    return problem, _remedy(_write_log(error), debug), EXIT_FAULT


def _remedy(log: Path | None, debug: bool) -> str:
    parts = [] if log is None else [f"The full traceback is in {log}"]
    if not debug:
        parts.append("set KEYGRASP_DEBUG=1 to see it here")
    return "; ".join(parts)


def _write_log(error: Exception) -> Path | None:
    """Write the traceback where logs are kept, else in the system's temporary folder; ``None`` where neither works."""
    text = "".join(traceback.format_exception(error))
    cache = Path(os.environ.get("KEYGRASP_CACHE") or Path("~/.cache/keygrasp").expanduser())
    for folder in (cache / "logs", Path(tempfile.gettempdir())):
        path = folder / f"keygrasp-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError:
            continue
        return path
    return None
