"""One list and watch of a resource, kept in a store and shared by any number of handlers.

What is promised:
1. `store` holds the objects of the resource as the server showed them at some moment not long ago, and
   our own writes as soon as they are applied to it (see `informers.cache.store`).
2. Each handler is told of every change of the store exactly once, whether the watch, a list or a write of
   our own made it; those of one object in the order in which they were made.
3. A handler added at any time is first told of all that is there, flagged `initial`; then it has synced.
4. When a handler is called, store and indexes already show that change, and perhaps later ones.
5. An object that was replaced by another of its name is told as a delete and an add, never as an update.
6. A slow or failing handler stops neither the store nor the others; no failure of the server ends `run`.

What is not promised: that every version is seen (states between may be missed, and so may an object that
came and went during a disconnection), any order between objects or resources, or the very last state of an
object at its deletion. Act on the state of the store; take a change as a hint to look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final, Generic, NoReturn

import anyio
from anyio.abc import TaskGroup

from informers.api import Api, Resource, Selectors, T
from informers.cache.changes import Added, Change, EventHandler, Synced
from informers.cache.dispatch import HandlerStatistics, InlineRegistration, QueuedRegistration, Registration
from informers.cache.indexer import IndexFunction
from informers.cache.reflector import EVERYTHING, Reflector
from informers.cache.reflector_state import BackingOff, Problem, ReflectorStatistics
from informers.cache.store import Store, StoreStatistics

SYNC_DEADLINE_SECONDS: Final = 120.0
"""How long a start may wait for its caches: client-go-based managers use two minutes too."""


STUCK_SECONDS: Final = 300.0
"""Longer than any wait for the server that a reader allows itself: after that it is stuck."""


class NotSynced(Exception):
    """A deadline passed before the first list had reached every handler; `missing` names who lacks it."""

    def __init__(self, missing: tuple[str, ...], deadline_seconds: float) -> None:
        super().__init__(f"not synced after {deadline_seconds:g} s: {'; '.join(missing)}")
        self.missing = missing


class WatcherEnded(Exception):
    """The task that watches was cancelled from within: a store that nobody updates must not be read on."""


@dataclass(frozen=True, slots=True)
class InformerStatistics:
    """The statistics of an informer's parts. `resource` is `plural.group`."""

    resource: str
    store: StoreStatistics
    reflector: ReflectorStatistics
    handlers: tuple[HandlerStatistics, ...]


class SharedInformer(Generic[T]):
    """The objects of one resource, in `namespace` (all of them if empty), that `selectors` select.

    `selects` says of an object whether these do: answers of writes come without being asked for by them.
    `indexes` are those of its store. `rng` spreads time-outs and pauses. Example::

        pods = SharedInformer(api, PODS, rng=rng, indexes={"node": lambda pod: [pod.node_name]})
        pods.add_handler(handler)
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
            raise ValueError("selectors and selects go together: neither can say what the other does")
        self.store: Store[T] = Store(indexes, selects=selects or (lambda _: True))
        """Read it at will, and give it the answers of writes."""
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
        """Whether the first list is in the store and has reached every handler."""
        return not self.missing()

    @property
    def problem(self) -> Problem | None:
        """What keeps the store from being up to date; `None` while all is well."""
        return self._reflector.problem

    def missing(self) -> tuple[str, ...]:
        """What is not synced yet, in words for people: the resource with its problem, or its handlers."""
        if not self.store.synced:
            return (f"{self._reflector} ({self.problem or 'first list not complete'})",)
        return tuple(
            f"handler {registration} ({registration.backlog} changes to go)"
            for registration in self._registrations
            if not registration.has_synced
        )

    def stuck(self) -> str | None:
        """For a liveness probe: that the reader shows no sign of life although it waits for nothing known.

        `None` while all is well, while it backs off, and while it does not run.
        """
        reading = self._reflector.statistics()
        seconds = reading.last_step_age_seconds
        if self._tasks is None or isinstance(reading.state, BackingOff) or seconds <= STUCK_SECONDS:
            return None
        return f"{self._reflector} shows no sign of life for {seconds:.0f} s in {reading.state}"

    def statistics(self) -> InformerStatistics:
        """Counts of this moment."""
        return InformerStatistics(
            resource=str(self._resource),
            store=self.store.statistics(),
            reflector=self._reflector.statistics(),
            handlers=tuple(registration.statistics() for registration in self._registrations),
        )

    def add_handler(
        self, handler: EventHandler[T], *, name: str = "", inline: bool = False
    ) -> Registration[T]:
        """Tell `handler` of what is there and of every change from now on. Returns its registration.

        `inline`: in the step that changes the store, for state that must never lag it; else from a task of
        its own. `name` is used in logs and statistics, the handler's type if empty. Raises `RuntimeError`
        when called by an inline handler, to which what is there has not all been told yet.
        """
        if self.store.telling:
            raise RuntimeError("a handler cannot be added by an inline handler: add it from a task")
        # The others first: this handler will find in the store what a list has still to tell them.
        self.store.finish_telling()
        kind = InlineRegistration if inline else QueuedRegistration
        registration: Registration[T] = kind(name or type(handler).__name__, str(self._reflector), handler)
        for obj in self.store:
            registration.offer(Added(obj, initial=True))
        if self.store.synced:
            registration.offer(Synced())
        self._registrations.append(registration)
        if self._tasks is not None:
            self._start(registration, self._tasks)
        return registration

    async def run(self) -> None:
        """Keep the store up to date and the handlers told, until cancelled. Raises whatever ends that."""
        if self._tasks is not None:
            raise RuntimeError(f"the informer of {self._reflector} is running already")
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
            # Nobody cancelled us: a cancelled future leaked out of the client. A task group would take
            # that for a task that was told to stop, and the store would grow old without a word.
            raise WatcherEnded(f"the watch of {self._reflector} was cancelled from within") from cancelled
