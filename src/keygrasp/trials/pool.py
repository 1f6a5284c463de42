"""Worker processes for long runs: dead ones are replaced, hung ones stopped, Ctrl-C loses nothing.

A worker is ``python -m keygrasp.trials.worker``: a fresh interpreter (spawned, never forked) that is told by JSON
lines on its standard input what to build and which tasks to do, and answers by JSON lines. It gets names and plain
data only, so nothing has to be pickled, and it works alike from scripts, notebooks and the command line.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from keygrasp import errors
from keygrasp.errors import InputError, KeygraspError, WorkerError

Json = dict[str, Any]

#: Longest wait in seconds for a worker to import and build what it needs.
START_SECONDS = 180.0
#: A task on which a worker died or hung is tried so often in all.
TRIES = 2
_STARTS = 3  # start-ups that may fail in a row
_MAX_LINE = 64 * 2**20  # bytes of one answer
_MAX_NAP = 0.5  # seconds between looks at the clock
_STDERR_TAIL = 2000

#: One thread a worker: its timings are then of one core, and workers don't fight over cores.
SINGLE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)


@dataclass(frozen=True)
class Done:
    """One task's end.

    Attributes:
        index: Place of the task in the list that was given.
        result: What the worker answered, ``None`` where it failed.
        problem: Why there is no result (an error in the task, a worker that died twice, a time-out).
    """

    index: int
    result: Json | None
    problem: str = ""


@dataclass(eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    stderr: IO[bytes]
    deadline: float
    ready: bool = False
    task: int | None = None
    buffer: bytearray = field(default_factory=bytearray)

    @property
    def stdout_fd(self) -> int:
        assert self.process.stdout is not None  # noqa: S101 - opened as a pipe
        return self.process.stdout.fileno()

    def send(self, message: Json) -> None:
        assert self.process.stdin is not None  # noqa: S101 - opened as a pipe
        with contextlib.suppress(BrokenPipeError):  # its death is noticed where its answers end
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()

    def receive(self) -> tuple[list[Json], bool]:
        """Whole messages that have come, and whether the stream has ended."""
        chunk = os.read(self.stdout_fd, 1 << 16)
        self.buffer += chunk
        if len(self.buffer) > _MAX_LINE:
            return [], True
        *lines, rest = self.buffer.split(b"\n")
        self.buffer = bytearray(rest)
        return [json.loads(line) for line in lines], not chunk

    def stop(self) -> str:
        """Kill it if it lives, and return how it ended in words."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        code = self.process.wait()
        with self.stderr as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - _STDERR_TAIL))
            tail = stream.read().decode(errors="replace").strip().splitlines()
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return how + (f": {tail[-1]}" if tail else "")


class _Pool:
    def __init__(self, handler: str, setup: Json, tasks: Sequence[Json], timeout_s: float) -> None:
        self._hello = {"handler": handler, "setup": setup}
        self._tasks = tasks
        self._timeout = timeout_s
        self._waiting = deque(range(len(tasks)))
        self._tries = [0] * len(tasks)
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._failed_starts = 0

    def run(self, workers: int) -> Generator[Done, None, None]:
        try:
            for _ in range(min(workers, len(self._tasks))):
                self._start()
            while self._workers:
                yield from self._wait()
        finally:
            for worker in list(self._workers):
                self._remove(worker)
            self._selector.close()

    def _start(self) -> None:
        try:
            process, stderr = _spawn()
        except OSError as error:  # too many open files or processes, no memory
            raise WorkerError(
                f"can't start worker process {len(self._workers) + 1}: {error.strerror or error}",
                "Ask for fewer workers, or raise the shell's limits ('ulimit -n 1024' for open files)",
            ) from error
        worker = _Worker(process, stderr, time.monotonic() + START_SECONDS)
        self._workers.append(worker)
        self._selector.register(worker.stdout_fd, selectors.EVENT_READ, worker)
        worker.send(self._hello)

    def _remove(self, worker: _Worker) -> str:
        self._workers.remove(worker)
        self._selector.unregister(worker.stdout_fd)
        return worker.stop()

    def _assign(self, worker: _Worker) -> None:
        if not self._waiting:
            self._remove(worker)
            return
        worker.task = self._waiting.popleft()
        worker.deadline = time.monotonic() + self._timeout
        self._tries[worker.task] += 1
        worker.send({"id": worker.task, "task": self._tasks[worker.task]})

    def _wait(self) -> Iterator[Done]:
        nearest = min(worker.deadline for worker in self._workers)
        nap = min(_MAX_NAP, max(0.0, nearest - time.monotonic()))
        for key, _ in self._selector.select(nap):
            worker: _Worker = key.data
            messages, ended = worker.receive()
            for message in messages:
                yield from self._handle(worker, message)
            if ended and worker in self._workers:
                yield from self._lost(worker, "a worker process died")
        for worker in list(self._workers):
            if time.monotonic() > worker.deadline:
                limit = self._timeout if worker.ready else START_SECONDS
                yield from self._lost(worker, f"no answer within {limit:.0f} s")

    def _handle(self, worker: _Worker, message: Json) -> Iterator[Done]:
        if "fatal" in message:
            raise _rebuilt(message["fatal"])
        if not worker.ready:
            worker.ready, self._failed_starts = True, 0
        else:
            index, worker.task = worker.task, None
            if index is not None:
                yield Done(index, message.get("result"), message.get("problem", ""))
        self._assign(worker)

    def _lost(self, worker: _Worker, why: str) -> Iterator[Done]:
        """Replace a worker that died or hung; its task is tried again, then given up."""
        index = worker.task
        how = self._remove(worker)
        if not worker.ready:
            self._failed_starts += 1
            if self._failed_starts >= _STARTS:
                raise WorkerError(
                    f"worker processes don't start ({why}, {how})",
                    "Run 'python -c \"import keygrasp\"' with the same interpreter to see why",
                )
        elif index is not None:
            if self._tries[index] < TRIES:
                self._waiting.appendleft(index)
            else:
                yield Done(index, None, f"{why} {TRIES} times ({how})")
        if self._waiting:
            self._start()


def _spawn() -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """A new worker process, and what it writes on its standard error."""
    with contextlib.ExitStack() as stack:
        stderr = stack.enter_context(tempfile.TemporaryFile())
        process = subprocess.Popen(
            [sys.executable, "-m", "keygrasp.trials.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, **SINGLE_THREAD},
            start_new_session=True,  # Ctrl-C reaches this process only, which then stops its workers
        )
        stack.pop_all()  # closed when the worker is stopped
    return process, stderr


def run_tasks(
    handler: str, setup: Json, tasks: Sequence[Json], *, workers: int, timeout_s: float = 600.0
) -> Generator[Done, None, None]:
    """Do independent tasks in worker processes; yields each one's end as it comes, in any order.

    Close the iterator (or let an exception such as KeyboardInterrupt pass through it) to stop the workers at once.

    Args:
        handler: ``"module:function"`` under ``keygrasp.``; the function takes ``setup`` and returns a callable from a
            task to its result (both JSON objects). Called once in each worker.
        setup: What ``handler`` needs, JSON-ready.
        tasks: JSON-ready tasks.
        workers: Most processes at a time.
        timeout_s: Longest time in seconds for one task.

    Raises:
        InputError: If ``workers`` or ``timeout_s`` isn't positive.
        WorkerError: If workers can't be started.
        KeygraspError: What ``handler`` raised in a worker; also a task's StorageError or MissingExtraError, which
            would hit every task alike.
    """
    if workers < 1 or not timeout_s > 0:
        raise InputError(f"workers={workers} and timeout_s={timeout_s} must be positive")
    return _Pool(handler, setup, tasks, timeout_s).run(workers)


def _rebuilt(fatal: Json) -> KeygraspError:
    """The worker's error in this process, of the same class."""
    kind = getattr(errors, str(fatal.get("kind")), None)
    if isinstance(kind, type) and issubclass(kind, KeygraspError):
        return kind(str(fatal["problem"]), str(fatal["remedy"]))
    return WorkerError(f"a worker failed: {fatal['problem']}", str(fatal["remedy"]))
