"""A cache of the objects of one resource, with indexes, that reads its own writes.

Guarantees:
- Per key, the newest version wins in any order of arrival: an outdated watch event, list or late response to
  a write never replaces a newer object.
- The response to a write takes effect at once (`apply_write`). The response to a delete hides the object
  (`apply_delete`), as does an object outside the selection. Tombstones keep older events from restoring it.
- A list takes effect completely or not at all. Keys that it lacks are deleted, unless written after it.
- Objects and indexes change together, before subscribers are notified. Each change is reported once, whether
  a watch, a list or a write made it. While the changes of a list are reported, the store already holds the
  whole list. A long list is reported in slices. If an object in it changes meanwhile, the list's change of
  that object and then the new change are reported at once.
- An object that cannot be decoded is marked unreadable, which neither updates nor deletes it.

Not guaranteed: every intermediate version, a meaningful order across keys, or agreement with the server at
any moment. Objects are shared, not copied, so their type must be immutable. All methods are synchronous and
belong to one event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic
from weakref import ref

from informers.api import (
    Key,
    ObjectKey,
    T,
    UnreadableObject,
    WatchEvent,
    WatchEventType,
    version_number,
    version_of,
)
from informers.cache.changes import Change, Synced, Transition
from informers.cache.indexer import Indexer, IndexFunction
from informers.cache.pending_list import SLICE, PendingList, is_same_version
from informers.cache.tombstones import ALL_VERSIONS, Tombstones

Subscriber = Callable[[Change[T]], None]


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    """Sizes and counts of one store."""

    objects: int
    unreadable: int
    tombstones: int
    """Deletions not confirmed by the watch yet."""
    synced: bool
    unreported: int
    """Objects changed by the last list whose change has not been reported yet."""
    stale_total: int
    """Arrivals ignored as outdated."""


class Store(Generic[T]):
    """Objects by key and by index. See the module for its guarantees.

    `indexes` maps index names to pure, total functions from an object to its values. `selects` decides which
    objects list and watch return. `slice_objects` are processed before other tasks run.
    """

    def __init__(
        self,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        *,
        selects: Callable[[T], bool] = lambda _: True,
        slice_objects: int = SLICE,
    ) -> None:
        self._selects = selects
        self._slice_objects = slice_objects
        self._contents: Indexer[T] = Indexer(indexes or {})
        self._unreadable: dict[ObjectKey, UnreadableObject] = {}
        self.on_unreadable: Callable[[UnreadableObject], object] = lambda _: None
        """Called for each object that is marked unreadable, again for each list. Must not raise."""
        self._tombstones = Tombstones()
        self._resource_version = ""
        self._synced = False
        self._stale_total = 0
        # The list being prepared; weak, so that an abandoned one is freed and void.
        self._pending_list: ref[PendingList[T]] | None = None
        self._subscribers: list[Subscriber[T]] = []
        self._notifying = False
        self._queue: deque[Change[T]] = deque()
        # Unreported changes of the last list, by key: a later change of an object is reported after its own.
        self._list_changes: dict[Key, Transition[T]] = {}

    def __repr__(self) -> str:
        return (
            f"<Store objects={len(self)} unreadable={len(self._unreadable)} "
            f"resource_version={self._resource_version or 'none'} synced={self._synced}>"
        )

    def __len__(self) -> int:
        return len(self._contents.objects)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._contents.objects

    def __iter__(self) -> Iterator[T]:
        """Iterate over a snapshot of the objects in no particular order."""
        return iter(tuple(self._contents.objects.values()))

    def get(self, key: ObjectKey) -> T | None:
        """Return the object with this key, or `None`."""
        return self._contents.objects.get(key)

    def by_index(self, index: str, value: str) -> tuple[T, ...]:
        """Return the objects under `value`, sorted by key. Raises `KeyError` for an unknown index."""
        return self._contents.bucket(index, value)

    @property
    def unreadable(self) -> Mapping[ObjectKey, UnreadableObject]:
        """Objects whose newest version cannot be decoded. `get` may return an older version."""
        return MappingProxyType(self._unreadable)

    @property
    def resource_version(self) -> str:
        """Version that list and watch have reached, empty before the first list. Writes do not move it."""
        return self._resource_version

    @property
    def synced(self) -> bool:
        """Whether a first list has been applied."""
        return self._synced

    def statistics(self) -> StoreStatistics:
        """Return current sizes and counts."""
        return StoreStatistics(
            objects=len(self),
            unreadable=len(self._unreadable),
            tombstones=len(self._tombstones),
            synced=self._synced,
            unreported=len(self._list_changes),
            stale_total=self._stale_total,
        )

    @property
    def notifying(self) -> bool:
        """Whether a subscriber is being called."""
        return self._notifying

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Call `subscriber` for each later change, in the step that made it. It must not raise."""
        self._subscribers.append(subscriber)

    def apply_event(self, event: WatchEvent[T]) -> None:
        """Apply one watch event, for the reflector only. A bookmark just moves the version."""
        changes: list[Change[T]] = []
        version = version_number(event.resource_version)
        subject = event.object if event.object is not None else event.unreadable
        if subject is not None:
            self._before_change(ObjectKey.of(subject))
        if event.type is WatchEventType.DELETED and subject is not None:
            key = ObjectKey.of(subject)
            uid = subject.uid if isinstance(subject, UnreadableObject) else subject.metadata.uid
            changes = self._remove(key, uid, version, version, event.object)
            self._tombstones.confirm(key, uid)
        elif event.object is not None:
            changes = self._put(event.object)
        elif event.unreadable is not None:
            changes = self._mark_unreadable(event.unreadable)
        if version > version_number(self._resource_version):
            self._resource_version = event.resource_version
        if event.type is WatchEventType.BOOKMARK:
            self._tombstones.drop_until(version)
        self._notify(changes)

    def begin_list(self) -> PendingList[T]:
        """Return an empty list to fill and pass to `replace_in_slices`; an earlier one becomes void."""
        pending = PendingList(self._contents, self._needs_merge, self._slice_objects)
        self._pending_list = ref(pending)
        return pending

    def replace_in_slices(
        self, pending: PendingList[T], resource_version: str, *, restored: bool = False
    ) -> Iterator[None]:
        """Apply a complete list of `resource_version`; the caller lets other tasks run at each `yield`.

        The list takes effect in one step; preparing and reporting it are sliced. `restored` means that the
        server's version regressed (etcd was restored from a backup): the list then also replaces newer
        versions, and known deletions are ignored. Raises `RuntimeError` for a void list.
        """
        yield from self._report_list()
        version = version_number(resource_version)
        yield from pending.find_deleted(version, restored=restored)
        self._exchange(pending, version, restored=restored)
        self._resource_version = resource_version
        yield from self._report_list()
        if not self._synced:
            self._synced = True
            self._notify([Synced()])

    def finish_report(self) -> None:
        """Report the remaining changes of the last list now."""
        for _ in self._report_list():
            pass

    def apply_write(self, obj: T) -> None:
        """Apply the response to a create, update or patch, or to a delete that does not remove the object."""
        if not self._selects(obj):
            return self.apply_delete(obj, answer=obj)
        self._before_change(ObjectKey.of(obj))
        return self._notify(self._put(obj))

    def apply_delete(self, obj: T, *, answer: T | None = None) -> None:
        """Apply the deletion of `obj`. An object that is only terminating is a write instead.

        `answer` is the object in the server's response, if any: a newer event of the same UID shows that it
        still exists. Without `answer` (a bare `Status`, a 404, a UID that no longer matched) the UID is
        deleted for good. Its events are ignored until the watch confirms the deletion.
        """
        key, last = ObjectKey.of(obj), obj if answer is None else answer
        seen, until = version_of(last), ALL_VERSIONS if answer is None else version_of(answer)
        self._before_change(key)
        marked = key in self._unreadable
        changes = self._remove(key, obj.metadata.uid, seen, until, answer)
        if key not in self and (changes or marked or not self._is_past(key, seen)):
            self._tombstones.add(last, until)
        self._notify(changes)

    # Decisions: each changes objects and indexes together and returns the changes to report.

    def _is_stale(self, key: ObjectKey, uid: str, version: int) -> bool:
        """Whether an equal or newer version of the key or the UID is known."""
        current, marked = self.get(key), self._unreadable.get(key)
        stale = self._tombstones.cover(key, uid, version)
        stale = stale or (current is not None and version <= version_of(current))
        # With the same UID, an older readable version is still useful.
        if marked is not None and marked.uid != uid:
            stale = stale or version <= version_number(marked.resource_version)
        self._stale_total += stale
        return stale

    def _is_past(self, key: ObjectKey, version: int) -> bool:
        """Whether list and watch have passed `version` without an object at `key`."""
        absent = key not in self and key not in self._unreadable
        past = absent and version <= version_number(self._resource_version)
        self._stale_total += past
        return past

    def _put(self, obj: T) -> list[Change[T]]:
        key, version = ObjectKey.of(obj), version_of(obj)
        if self._is_past(key, version) or self._is_stale(key, obj.metadata.uid, version):
            return []
        current = self.get(key)
        self._contents.put(key, obj)
        self._clear_unreadable(key, version)
        return _split(Transition(current, obj))

    def _remove(self, key: ObjectKey, uid: str, seen: int, until: int, last: T | None) -> list[Change[T]]:
        """Remove the object at `key` if its version is at most `until` (same `uid`) or `seen` (other UID)."""
        self._clear_unreadable(key, seen, uid)
        current = self.get(key)
        if current is None:
            return []
        same_uid = current.metadata.uid == uid
        if version_of(current) > (until if same_uid else seen):
            self._stale_total += 1
            return []
        self._contents.discard(key)
        return [Transition(last if same_uid and last is not None else current, None)]

    def _mark_unreadable(self, unreadable: UnreadableObject) -> list[Change[T]]:
        key, version = ObjectKey.of(unreadable), version_number(unreadable.resource_version)
        if self._is_past(key, version) or self._is_stale(key, unreadable.uid, version):
            return []
        self._unreadable[key] = unreadable
        self.on_unreadable(unreadable)
        current = self.get(key)
        if current is None or current.metadata.uid == unreadable.uid:
            return []
        # Whatever the new object contains, the old one of that name is deleted.
        self._contents.discard(key)
        return [Transition(current, None)]

    def _clear_unreadable(self, key: ObjectKey, version: int, uid: str | None = None) -> None:
        marked = self._unreadable.get(key)
        if marked is not None and (marked.uid == uid or version_number(marked.resource_version) <= version):
            del self._unreadable[key]

    def _needs_merge(self, key: Key) -> bool:
        """Whether more is known about `key` than the object that is shown."""
        return key in self._unreadable or key in self._tombstones

    def _exchange(self, pending: PendingList[T], version: int, *, restored: bool) -> None:
        """Resolve the remaining keys, then show the list. Its changes wait in `_list_changes`."""
        if self._pending_list is None or self._pending_list() is not pending:
            raise RuntimeError("this list was applied already, or another one was begun after it")
        if restored:
            self._tombstones.clear()
        self._tombstones.drop_listed(pending.uids_at, version)
        for key, obj in pending.unresolved.items():
            pending.resolve(key, self._merge(pending, ObjectKey(*key), obj, version, restored=restored))
        self._pending_list = None
        self._contents = pending.contents
        self._unreadable = pending.unreadable
        for unreadable in self._unreadable.values():
            self.on_unreadable(unreadable)
        self._list_changes = {**pending.deleted, **pending.changed} if pending.deleted else pending.changed

    def _merge(
        self, pending: PendingList[T], key: ObjectKey, obj: T | None, version: int, *, restored: bool
    ) -> T | None:
        """Return the object to hold at `key`, where a list of `version` has `obj` or an unreadable one."""
        current, unreadable = self.get(key), pending.unreadable.get(key)
        if unreadable is not None:
            # Keep the last readable version; drop the mark if it is outdated.
            marked = version_number(unreadable.resource_version)
            stale = not restored and self._is_stale(key, unreadable.uid, marked)
            if stale:
                del pending.unreadable[key]
            if current is not None and (stale or current.metadata.uid == unreadable.uid):
                return current
        if obj is None:
            written_since = current is not None and not restored and version_of(current) > version
            return current if written_since else None
        if current is not None and is_same_version(current, obj):
            return current
        return obj if restored or not self._is_stale(key, obj.metadata.uid, version_of(obj)) else current

    def _report_list(self) -> Iterator[None]:
        changes = self._list_changes
        for number, key in enumerate(tuple(changes), 1):
            change = changes.pop(key, None)
            if change is not None:
                self._notify(_split(change))
            if number % self._slice_objects == 0:
                yield

    def _before_change(self, key: Key) -> None:
        """Report the list's own change of `key` first, and have a list in preparation resolve it again."""
        pending = self._pending_list() if self._pending_list is not None else None
        if pending is not None:
            pending.mark_unresolved(key)
        change = self._list_changes.pop(key, None)
        if change is not None:
            self._notify(_split(change))

    def _notify(self, changes: list[Change[T]]) -> None:
        # Queued, so that all subscribers see a change before any change made in response to it.
        self._queue.extend(changes)
        if self._notifying:
            return
        self._notifying = True
        try:
            while self._queue:
                change = self._queue.popleft()
                for subscriber in self._subscribers:
                    subscriber(change)
        finally:
            self._notifying = False


def _split(change: Transition[T]) -> list[Change[T]]:
    """Report an object that replaced another of its name as a deletion and an addition."""
    old, new = change.old, change.new
    if old is None or new is None or old.metadata.uid == new.metadata.uid:
        return [change]
    return [Transition(old, None), Transition(None, new)]
