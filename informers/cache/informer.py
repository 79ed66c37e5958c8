"""One list and watch of a resource, kept in a store and shared by any number of handlers.

Guarantees:
1. `store` holds the objects as the server returned them recently, and our own writes as soon as they are
   applied to it (see `informers.cache.store`).
2. Each handler receives every change of the store exactly once, whether a watch, a list or one of our own
   writes made it. Changes of one object arrive in the order in which they were made.
3. A handler can be added at any time. It first receives every existing object as an addition; then
   `has_synced` of its registration becomes true.
4. When a handler is called, the store and its indexes already show that change, and perhaps later ones.
5. An object that replaced another of its name is reported as a deletion and an addition, never as an update.
6. A slow or failing handler stops neither the store nor other handlers. No server failure ends `run`.

Not guaranteed: every version (intermediate versions may be missed, as may an object created and deleted
during a disconnection), any order between objects or resources, the very last version of a deleted object.
Use a change as a trigger, and act on the state of the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final, Generic, NoReturn

import anyio
from anyio.abc import TaskGroup

from informers.api import EVERYTHING, Api, Resource, Selectors, T
from informers.cache.changes import Change, ChangeCallback, Synced, Transition
from informers.cache.dispatch import InlineRegistration, QueuedRegistration, Registration
from informers.cache.indexer import IndexFunction
from informers.cache.reflector import Reflector
from informers.cache.reflector_state import BackingOff, Problem, ReflectorStatistics
from informers.cache.store import Store, StoreStatistics

SYNC_DEADLINE_SECONDS: Final = 120.0
"""Default deadline for the first list: client-go-based managers use two minutes too."""

STUCK_SECONDS: Final = 300.0
"""Longer than any wait for the server that the reflector allows itself: after that it is stuck."""


class NotSynced(Exception):
    """The deadline passed before every handler had the first list. `missing` names what has not synced."""

    def __init__(self, missing: tuple[str, ...], deadline_seconds: float) -> None:
        super().__init__(f"not synced after {deadline_seconds:g} s: {'; '.join(missing)}")
        self.missing = missing


class WatcherEnded(Exception):
    """The watching task was cancelled from within: a store that is no longer updated must not be read."""


@dataclass(frozen=True, slots=True)
class InformerStatistics:
    """Statistics of an informer's parts. `resource` is `plural.group`."""

    resource: str
    store: StoreStatistics
    reflector: ReflectorStatistics
    handler_failures_total: int
    """Changes for which a handler raised an exception."""


class SharedInformer(Generic[T]):
    """The objects of one resource, in `namespace` (empty: all namespaces), that `selectors` select.

    `selects` is the same selection as a predicate, for the objects in responses to writes. `indexes` are the
    store's. `rng` adds jitter to timeouts and pauses. Example::

        pods = SharedInformer(api, PODS, rng=rng, indexes={"node": lambda pod: [pod.node_name]})
        pods.on_change(lambda old, new: print(old, "->", new))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pods.run)
            await pods.wait_for_sync()
            on_node = pods.store.by_index("node", "worker-1")
    """

    def __init__(
        self,
        api: Api,
        resource: Resource[T],
        *,
        rng: Random,
        namespace: str = "",
        selectors: Selectors = EVERYTHING,
        selects: Callable[[T], bool] | None = None,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
    ) -> None:
        if (selects is None) is not (selectors == EVERYTHING):
            raise ValueError("selectors and selects go together: pass both or neither")
        self.store: Store[T] = Store(indexes, selects=selects or (lambda _: True))
        """Read it at any time, and apply the answers of your own writes to it."""
        self._resource = resource
        self._reflector = Reflector(
            api, resource, self.store, rng=rng, namespace=namespace, selectors=selectors
        )
        self._registrations: list[Registration[T]] = []
        self._listed = anyio.Event()
        self._tasks: TaskGroup | None = None
        self.store.subscribe(self._dispatch)

    def __repr__(self) -> str:
        return f"<SharedInformer {self._reflector} handlers={len(self._registrations)} {self.store!r}>"

    @property
    def has_synced(self) -> bool:
        """Whether the first list is in the store and every handler has received it."""
        return not self.missing()

    @property
    def problem(self) -> Problem | None:
        """What keeps the store from being up to date, if anything."""
        return self._reflector.problem

    def missing(self) -> tuple[str, ...]:
        """Describe what has not synced: the resource and its problem, or the handlers that lag."""
        if not self.store.synced:
            return (f"{self._reflector} ({self.problem or 'first list not complete'})",)
        return tuple(
            f"handler {registration} ({registration.backlog} changes pending)"
            for registration in self._registrations
            if not registration.has_synced
        )

    def stuck(self) -> str | None:
        """Describe a reflector that makes no progress, for a liveness probe.

        Return `None` while it works, while it backs off, and while it is not running.
        """
        now = self._reflector.statistics()
        seconds = now.last_step_age_seconds
        if self._tasks is None or isinstance(now.state, BackingOff) or seconds <= STUCK_SECONDS:
            return None
        return f"{self._reflector} has made no progress for {seconds:.0f} s in {now.state}"

    def statistics(self) -> InformerStatistics:
        """Return the current counts."""
        return InformerStatistics(
            resource=str(self._resource),
            store=self.store.statistics(),
            reflector=self._reflector.statistics(),
            handler_failures_total=sum(registration.failures for registration in self._registrations),
        )

    def on_change(
        self, callback: ChangeCallback[T], *, name: str = "", inline: bool = False
    ) -> Registration[T]:
        """Call `callback(old, new)` for each existing object and for every later change.

        An addition has no `old`, a deletion no `new`; an update has both. An `inline` callback runs in the
        step that changes the store, any other one in its own task. `name` appears in logs and statistics.
        Raises `RuntimeError` inside an inline handler: existing objects may not have been reported to it yet.
        """
        if self.store.notifying:
            raise RuntimeError("a handler cannot be added by an inline handler: add it from a task")
        # Existing handlers first: the store shows the new one what a list has not yet reported to them.
        self.store.finish_report()
        kind = InlineRegistration if inline else QueuedRegistration
        name = name or getattr(callback, "__qualname__", repr(callback))
        registration: Registration[T] = kind(name, str(self._reflector), callback)
        for obj in self.store:
            registration.offer(Transition(None, obj))
        if self.store.synced:
            registration.offer(Synced())
        self._registrations.append(registration)
        if self._tasks is not None:
            self._start(registration, self._tasks)
        return registration

    async def run(self) -> None:
        """Keep the store up to date and notify the handlers until cancelled. Raises any other error."""
        if self._tasks is not None:
            raise RuntimeError(f"the informer of {self._reflector} is already running")
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                for registration in self._registrations:
                    self._start(registration, tasks)
                await self._reflect()
        finally:
            self._tasks = None

    async def wait_for_sync(self, deadline_seconds: float = SYNC_DEADLINE_SECONDS) -> None:
        """Return once `has_synced` is true. Raises `NotSynced` at the deadline, naming what is missing."""
        with anyio.move_on_after(deadline_seconds):
            await self._listed.wait()
            for registration in tuple(self._registrations):
                await registration.wait_synced()
        if missing := self.missing():
            raise NotSynced(missing, deadline_seconds)

    def _start(self, registration: Registration[T], tasks: TaskGroup) -> None:
        if isinstance(registration, QueuedRegistration):
            tasks.start_soon(registration.run, name=f"handler {registration}")

    def _dispatch(self, change: Change[T]) -> None:
        for registration in self._registrations:
            registration.offer(change)
        if isinstance(change, Synced):
            self._listed.set()

    async def _reflect(self) -> NoReturn:
        try:
            await self._reflector.run()
        except asyncio.CancelledError as cancelled:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Nobody cancelled this task: a cancelled future leaked out of the client. A task group would
            # treat that as an ordinary cancellation, and the store would silently grow stale.
            raise WatcherEnded(f"the watch of {self._reflector} was cancelled from within") from cancelled
