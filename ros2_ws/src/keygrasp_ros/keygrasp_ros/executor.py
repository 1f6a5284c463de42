"""An executor for nodes whose callbacks wait for each other: quick to wake up, and cheap while nothing happens.

rclpy's ``MultiThreadedExecutor`` gathers everything that it waits for anew whenever it wakes up, and wakes up about
three times a callback: each time milliseconds in which no other Python code of the process runs. This one gathers again
only what changed; and the thread that waited runs the callback itself, while the next one waits in its place.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

from rclpy.action import ActionClient
from rclpy.callback_groups import CallbackGroup, ReentrantCallbackGroup
from rclpy.context import Context
from rclpy.exceptions import InvalidHandle
from rclpy.executors import Executor, ExternalShutdownException
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.node import Node
from rclpy.task import Task
from rclpy.waitable import NumberOfEntities

#: What a wait set holds beside waitables, in its own words, and where a node keeps it.
_PLACES = {"timer": "timers", "service": "services", "client": "clients", "subscription": "subscriptions"}
_SUSPENDED = "a callback suspended itself; let it wait on its thread instead"


class LeanExecutor(Executor):
    """Runs the callbacks of nodes on a fixed number of threads; :meth:`spin` returns after :meth:`shutdown`.

    Callbacks may wait for answers of services and actions: those are taken at once, however many callbacks run. What is
    called by an answer (a future's callback, an action's feedback) must not wait for anything. Callbacks can't suspend:
    an ``async def`` may only await what is done.

    Args:
        threads: Callbacks that may run at the same time.
        context: Context of the nodes, the default one where it is ``None``.
    """

    def __init__(self, threads: int, *, context: Context | None = None) -> None:
        super().__init__(context=context)
        self._limit = threads
        self._threads: list[threading.Thread] = []
        self._lead = threading.Lock()  # who holds it waits for all of them
        self._stale = True
        self._waiting = _WaitList((), self._context)
        self._order = ["service", "timer", "waitable", "subscription"]
        self._lock = threading.Lock()  # guards what follows
        self._running = 0
        self._busy: set[CallbackGroup] = set()
        self._held_back = False
        self._given: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._faults: list[BaseException] = []
        self._over = threading.Event()

    def spin(self) -> None:
        """Run callbacks until the shutdown, or until one of them raises: then this does too.

        Raises:
            ExternalShutdownException: If the context ended.
        """
        # One more waits than may run callbacks: somebody has to take the answers that they wait for.
        work = [self._serve] * (self._limit + 1) + [self._do_given] * self._limit
        for target in work:
            thread = threading.Thread(target=target, daemon=True)
            thread.start()
            self._threads.append(thread)  # only now: a shutdown may come meanwhile, and joins those that it finds
        self._over.wait()
        if self._faults:
            raise self._faults[0]

    def create_task(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> Task:
        """Run something on one of the threads; what is called when it is done is called there too."""
        task = Task(callback, args, kwargs)
        self._given.put(task)
        return task

    def wake(self) -> None:
        """Something was created or destroyed."""
        self._stale = True
        super().wake()

    def add_node(self, node: Node) -> bool:
        """Run the callbacks of a node; false where that is so already."""
        added = super().add_node(node)
        self.wake()
        return added

    def remove_node(self, node: Node) -> None:
        """Run the callbacks of a node no more."""
        super().remove_node(node)
        self.wake()

    def shutdown(self, timeout_sec: float | None = None) -> bool:
        """Start no more callbacks, and wait for those that run; false if one runs on after the time."""
        deadline = None if timeout_sec is None else time.monotonic() + timeout_sec
        self._is_shutdown = True
        self._over.set()
        self.wake()
        for _ in range(self._limit):
            self._given.put(None)
        threads = list(self._threads)
        for thread in threads:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            return False
        with self._lead:
            self._waiting.close()
        return bool(super().shutdown(timeout_sec))

    def _serve(self) -> None:
        """Wait for callbacks and run them."""
        with self._reporting():
            while (callback := self._find()) is not None:
                callback()

    def _do_given(self) -> None:
        """Do what was given to :meth:`create_task`."""
        with self._reporting():
            while (task := self._given.get()) is not None and not self._is_shutdown:
                task()
                if not task.done():
                    raise RuntimeError(_SUSPENDED)
                task.result()  # raises what it raised

    @contextlib.contextmanager
    def _reporting(self) -> Iterator[None]:
        """Let :meth:`spin` raise what is raised inside."""
        try:
            yield
        except BaseException as error:
            self._faults.append(error)
            self._over.set()
            super().wake()

    def _find(self) -> Callable[[], None] | None:
        """Wait until a callback is due, while no other thread waits; ``None`` at the end."""
        with self._lead:
            while not self._is_shutdown and not self._faults:
                if self._stale:
                    self._stale = False
                    self._waiting.close()
                    self._waiting = _WaitList(self.get_nodes(), self._context, self._guard, self._sigint_gc)
                with self._lock:
                    full, busy = self._running == self._limit, frozenset(self._busy)
                    self._held_back = full or bool(busy)
                work = self._due(full, busy)
                if work is not None:
                    return work
        return None

    def _due(self, full: bool, busy: frozenset[CallbackGroup]) -> Callable[[], None] | None:
        """Wait once: take what clients wait for, and the first callback that is due."""
        waiting = self._waiting
        waiting.wait(full, busy)
        if not self._context.ok():
            raise ExternalShutdownException
        for client in waiting.ready("client"):
            self._answer(client)
        for kind in self._order:
            for entity in waiting.ready(kind):
                work = self._taken(kind, entity)
                if work is not None:
                    # Who was served goes to the end of the queue, so that nobody keeps the others waiting for ever.
                    self._order.remove(kind)
                    self._order.append(kind)
                    return work
        return None

    def _answer(self, client: Any) -> None:
        """Give an answer to its future, whose callbacks are called here and now."""
        try:
            with client.handle:
                header, response = client.handle.take_response(client.srv_type.Response)
            if header is None:
                return
            future = client.get_pending_request(header.request_id.sequence_number)
        except (InvalidHandle, KeyError):  # destroyed a moment ago, or nobody waits for it any more
            return
        future.set_result(response)

    def _taken(self, kind: str, entity: Any) -> Callable[[], None] | None:
        """Take what is ready, so that it is ready no more; the callback for it."""
        try:
            if isinstance(entity, ActionClient):
                _finish(entity.execute(entity.take_data()))
                return None
            if kind == "timer" and not entity.handle.is_timer_ready():
                return None
            callback = getattr(self, f"_take_{kind}")(entity)
        except InvalidHandle:  # destroyed a moment ago
            return None
        return None if callback is None else self._begun(entity.callback_group, lambda: _finish(callback()))

    def _begun(self, group: CallbackGroup | None, run: Callable[[], None]) -> Callable[[], None]:
        """Count a callback as running; what is returned runs it and counts it as ended."""
        exclusive = group is not None and not isinstance(group, ReentrantCallbackGroup)
        with self._lock:
            self._running += 1
            if exclusive:
                self._busy.add(group)

        def work() -> None:
            try:
                run()
            finally:
                with self._lock:
                    self._running -= 1
                    if exclusive:
                        self._busy.discard(group)
                    held_back = self._held_back
                if held_back:
                    super(LeanExecutor, self).wake()

        return work


class _WaitList:
    """Everything that nodes wait for, kept alive until it is closed.

    Args:
        nodes: The nodes.
        context: Their context.
        guards: Guard conditions that end a wait.
    """

    def __init__(self, nodes: Iterable[Node], context: Context, *guards: Any) -> None:
        self._nodes, self._kept = tuple(nodes), ExitStack()
        self._keep(context.handle)
        self._guards = [guard.handle for guard in guards if self._keep(guard.handle)]
        self._entities = {kind: self._gathered(place) for kind, place in _PLACES.items()}
        self._waitables = [w for node in self._nodes for w in node.waitables if self._keep(w)]
        counts = NumberOfEntities()
        for waitable in self._waitables:
            counts += waitable.get_num_entities()
        self._set = _rclpy.WaitSet(
            counts.num_subscriptions + len(self._entities["subscription"]),
            counts.num_guard_conditions + len(self._guards),
            counts.num_timers + len(self._entities["timer"]),
            counts.num_clients + len(self._entities["client"]),
            counts.num_services + len(self._entities["service"]),
            counts.num_events,
            context.handle,
        )
        self._awaited = self._waitables

    def wait(self, full: bool, busy: frozenset[CallbackGroup]) -> None:
        """Wait until something is ready.

        Args:
            full: Wait only for answers.
            busy: Groups of which one callback runs and no other may.
        """
        held = lambda entity: entity.callback_group in busy  # noqa: E731
        self._set.clear_entities()
        for guard in self._guards:
            self._set.add_guard_condition(guard)
        for client in self._entities["client"].values():
            self._set.add_client(client.handle)
        self._awaited = [
            waitable
            for waitable in self._waitables
            if (isinstance(waitable, ActionClient) or not (full or held(waitable))) and self._added(waitable)
        ]
        for kind in () if full else ("timer", "service", "subscription"):
            add = getattr(self._set, f"add_{kind}")
            for entity in self._entities[kind].values():
                if not busy or not held(entity):
                    add(entity.handle)
        self._set.wait(-1)

    def ready(self, kind: str) -> list[Any]:
        """The entities of a kind that became ready."""
        if kind == "waitable":
            return [waitable for waitable in self._awaited if waitable.is_ready(self._set)]
        known = self._entities[kind]
        return [known[pointer] for pointer in self._set.get_ready_entities(kind) if pointer in known]

    def close(self) -> None:
        """Let go of everything: what was destroyed meanwhile goes away now."""
        self._kept.close()

    def _gathered(self, place: str) -> dict[int, Any]:
        entities = [entity for node in self._nodes for entity in getattr(node, place)]
        return {entity.handle.pointer: entity for entity in entities if self._keep(entity.handle)}

    def _added(self, waitable: Any) -> bool:
        try:
            waitable.add_to_wait_set(self._set)
        except InvalidHandle:  # destroyed after the gathering; the next one comes at once
            return False
        return True

    def _keep(self, handle: Any) -> bool:
        try:
            self._kept.enter_context(handle)
        except InvalidHandle:  # destroyed already
            return False
        return True


def _finish(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine, which must not suspend, to its end."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise RuntimeError(_SUSPENDED)
