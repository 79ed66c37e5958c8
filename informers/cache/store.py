"""A cache of the objects of one resource, with indexes, that reads its own writes.

What is promised:
- Per key, the newest version wins, whatever the order of arrival: an older watch event, list or late
  answer of a write never takes the place of a newer object.
- The answer of a write is here at once (`apply_write`). That of a delete hides the object (`apply_delete`),
  as does one that is not selected, and nothing older brings it back: tombstones remember what lies ahead.
- A list takes effect whole or not at all. Keys that it lacks are deleted, unless written after it.
- Objects and indexes change together, then the change is told, once, whoever brought it: watch, list or
  write. While a list's changes are told the store already holds all of it: ahead of the news, never behind.
  A long list is told in slices; news of an object that comes meanwhile is told at once, after the list's.
- An object that cannot be decoded is marked unreadable and is neither updated nor deleted by that.

What is not promised: every version in between, an order across keys that means anything, or agreement
with the server at this moment. Objects are shared, not copied: their type has to be immutable.
All methods are synchronous and belong to one event loop.
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
from informers.cache.pending_list import SLICE, PendingList, same
from informers.cache.tombstones import FOR_EVER, Tombstones

__all__ = ["ObjectKey", "PendingList", "Store", "StoreStatistics"]

Subscriber = Callable[[Change[T]], None]


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    """Sizes and counts of one store."""

    objects: int
    unreadable: int
    """Objects that exist but could not be decoded."""
    tombstones: int
    """Deletions remembered that the watch has not confirmed yet."""
    buckets: Mapping[str, int]
    """Values that have objects, by index."""
    resource_version: str
    """How far the list and the watch have come; writes do not move it."""
    synced: bool
    """Whether a first list has been taken in."""
    untold: int
    """Objects that the last list changed and that subscribers have not heard of yet."""
    stale_total: int
    """Arrivals that were ignored because something newer was known."""


class Store(Generic[T]):
    """Objects by key and by index. See the module for what it promises.

    `indexes` maps the name of each index to its pure, total function from an object to its values; `selects`
    says which objects list and watch show; `slice_objects` are handled between two chances for others.
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
        self._tombstones = Tombstones()
        self._resource_version = ""
        self._synced = False
        self._stale_total = 0
        # The list that is being made ready; weak, so that one that failed is freed and void.
        self._listing: ref[PendingList[T]] | None = None
        self._subscribers: list[Subscriber[T]] = []
        self._telling = False
        self._untold: deque[Change[T]] = deque()
        # What the last list brought and has not told yet.
        self._untold_steps: dict[Key, Transition[T]] = {}

    def __repr__(self) -> str:
        return (
            f"<Store objects={len(self)} unreadable={len(self._unreadable)} "
            f"resource_version={self._resource_version or 'none'} synced={self._synced}>"
        )

    # Reading.

    def __len__(self) -> int:
        return len(self._contents.objects)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._contents.objects

    def __iter__(self) -> Iterator[T]:
        """The objects of this moment in an order that means nothing; the store may change meanwhile."""
        return iter(tuple(self._contents.objects.values()))

    def get(self, key: ObjectKey) -> T | None:
        """The object that has this key, `None` where there is none."""
        return self._contents.objects.get(key)

    def keys(self) -> tuple[ObjectKey, ...]:
        """All keys, sorted."""
        return tuple(ObjectKey(*key) for key in sorted(self._contents.objects))

    def by_index(self, index: str, value: str) -> tuple[T, ...]:
        """The objects under `value`, in the order of their keys. Raises `KeyError` for an unknown index."""
        return self._contents.bucket(index, value)

    def index_values(self, index: str) -> tuple[str, ...]:
        """The values that have objects, sorted. Raises `KeyError` for an unknown index."""
        return self._contents.values(index)

    @property
    def unreadable(self) -> Mapping[ObjectKey, UnreadableObject]:
        """The objects that exist in a version that we cannot decode. `get` may hold an older version."""
        return MappingProxyType(self._unreadable)

    @property
    def resource_version(self) -> str:
        """How far the list and the watch have come, empty before the first list. Writes do not move it."""
        return self._resource_version

    @property
    def synced(self) -> bool:
        """Whether a first list has been taken in."""
        return self._synced

    def statistics(self) -> StoreStatistics:
        """Sizes and counts of this moment."""
        return StoreStatistics(
            objects=len(self),
            unreadable=len(self._unreadable),
            tombstones=len(self._tombstones),
            buckets=self._contents.bucket_counts(),
            resource_version=self._resource_version,
            synced=self._synced,
            untold=len(self._untold_steps),
            stale_total=self._stale_total,
        )

    # Telling.

    @property
    def telling(self) -> bool:
        """Whether a subscriber is being called at this moment."""
        return self._telling

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Call `subscriber` for each change from now on, in the step that made it. It must not raise."""
        self._subscribers.append(subscriber)

    # What the server says: one caller, the reflector.

    def apply_event(self, event: WatchEvent[T]) -> None:
        """Take in one line of the watch. A bookmark moves the version only."""
        changes: list[Change[T]] = []
        version = version_number(event.resource_version)
        subject = event.object if event.object is not None else event.unreadable
        if subject is not None:
            self._about_to_learn(ObjectKey.of(subject))
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
            self._tombstones.pass_version(version)
        self._tell(changes)

    def begin_replacement(self) -> PendingList[T]:
        """An empty list to be filled aside and given to `replace`; one that was begun before is void."""
        listed = PendingList(self._contents, self._is_suspect, self._slice_objects)
        self._listing = ref(listed)
        return listed

    def replace(self, listed: PendingList[T], resource_version: str, *, restored: bool = False) -> None:
        """Take in a whole list of `resource_version`, and tell all of it, in one step. See `replacing`."""
        for _ in self.replacing(listed, resource_version, restored=restored):
            pass

    def replacing(
        self, listed: PendingList[T], resource_version: str, *, restored: bool = False
    ) -> Iterator[None]:
        """The same in slices: the caller lets others run at each `yield`. The list counts all at once.

        `restored` says that the server went back in time (etcd was restored from a backup): then the list
        is the truth even where we know newer versions, and nothing that we saw deleted counts as such.
        Raises `RuntimeError` for a list that is void.
        """
        yield from self._tell_listed()
        version = version_number(resource_version)
        yield from listed.find_gone(version, restored=restored)
        self._exchange(listed, version, restored=restored)
        self._resource_version = resource_version
        yield from self._tell_listed()
        if not self._synced:
            self._synced = True
            self._tell([Synced()])

    def finish_telling(self) -> None:
        """Tell at once what a list that was taken in has still to tell."""
        for _ in self._tell_listed():
            pass

    # What our own writes say: any caller.

    def apply_write(self, obj: T) -> None:
        """Take in the answer of a create, update or patch, or of a delete that leaves the object there."""
        if not self._selects(obj):
            return self.apply_delete(obj, answer=obj)
        self._about_to_learn(ObjectKey.of(obj))
        return self._tell(self._put(obj))

    def apply_delete(self, obj: T, *, answer: T | None = None) -> None:
        """Take in that `obj` is gone, by the answer to its delete; one left terminating is a write.

        `answer` is the object that the server sent, if it did: news of the UID that is newer than that
        shows that it lives on after all. Without it (a bare `Status`, a 404, a UID that did not match any
        more) the UID is gone for good, and its news is ignored until the watch confirms and ever after.
        """
        key, last = ObjectKey.of(obj), obj if answer is None else answer
        seen, until = version_of(last), FOR_EVER if answer is None else version_of(answer)
        self._about_to_learn(key)
        marked = key in self._unreadable
        changes = self._remove(key, obj.metadata.uid, seen, until, answer)
        if key not in self and (changes or marked or not self._is_past(key, seen)):
            self._tombstones.bury(last, until)
        self._tell(changes)

    # Decisions: each changes objects and indexes together and returns what is to be told.

    def _is_stale(self, key: ObjectKey, uid: str, version: int) -> bool:
        """Whether something at least as new is known, of the key or of the UID."""
        current, marked = self.get(key), self._unreadable.get(key)
        stale = (
            self._tombstones.cover(key, uid, version)
            or (current is not None and version <= version_of(current))
            # The same UID: an older version that can be read is still worth having.
            or (
                marked is not None
                and marked.uid != uid
                and version <= version_number(marked.resource_version)
            )
        )
        self._stale_total += stale
        return stale

    def _is_past(self, key: ObjectKey, version: int) -> bool:
        """Whether list and watch have gone past `version` without leaving an object at `key`."""
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
        self._forget_unreadable(key, version)
        return _split(Transition(current, obj))

    def _remove(self, key: ObjectKey, uid: str, seen: int, until: int, last: T | None) -> list[Change[T]]:
        """Remove what `key` has, if it is `uid` of up to version `until` or another from before `seen`."""
        self._forget_unreadable(key, seen, uid)
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
        current = self.get(key)
        if current is None or current.metadata.uid == unreadable.uid:
            return []
        # Whatever the new object holds, the old one of that name is gone.
        self._contents.discard(key)
        return [Transition(current, None)]

    def _forget_unreadable(self, key: ObjectKey, version: int, uid: str | None = None) -> None:
        marked = self._unreadable.get(key)
        if marked is None:
            return
        if marked.uid == uid or version_number(marked.resource_version) <= version:
            del self._unreadable[key]

    # Exchanging the contents for those of a list.

    def _is_suspect(self, key: Key) -> bool:
        """Whether more is known of `key` than the object that is shown."""
        return key in self._unreadable or key in self._tombstones

    def _exchange(self, listed: PendingList[T], version: int, *, restored: bool) -> None:
        """Settle what is in doubt, then show the list. What it has to tell waits in `_untold_steps`."""
        if self._listing is None or self._listing() is not listed:
            raise RuntimeError("this list was taken in already, or another one was begun after it")
        if restored:
            self._tombstones.clear()
        self._tombstones.pass_list(listed.uids_at, version)
        for key, obj in listed.doubtful.items():
            listed.settle(key, self._merge(listed, ObjectKey(*key), obj, version, restored=restored))
        self._listing = None
        self._contents = listed.contents
        self._unreadable = listed.unreadable
        self._untold_steps = listed.changed if not listed.gone else {**listed.gone, **listed.changed}

    def _merge(
        self, listed: PendingList[T], key: ObjectKey, obj: T | None, version: int, *, restored: bool
    ) -> T | None:
        """What to hold at `key`, where a list of `version` has `obj` and perhaps an unreadable object."""
        current, unreadable = self.get(key), listed.unreadable.get(key)
        if unreadable is not None:
            # Keep the last readable version, drop the mark if it is out of date.
            marked = version_number(unreadable.resource_version)
            stale = not restored and self._is_stale(key, unreadable.uid, marked)
            if stale:
                del listed.unreadable[key]
            if current is not None and (stale or current.metadata.uid == unreadable.uid):
                return current
        if obj is None:
            written_since = current is not None and not restored and version_of(current) > version
            return current if written_since else None
        if current is not None and same(current, obj):
            return current
        return obj if restored or not self._is_stale(key, obj.metadata.uid, version_of(obj)) else current

    # Telling: what a list brought waits by key, so that a write to an object is told after that.

    def _tell_listed(self) -> Iterator[None]:
        steps = self._untold_steps
        for number, key in enumerate(tuple(steps), 1):
            step = steps.pop(key, None)
            if step is not None:
                self._tell(_split(step))
            if number % self._slice_objects == 0:
                yield

    def _about_to_learn(self, key: Key) -> None:
        """News of `key` is here: a list that is being made ready and one that is being told have to know."""
        listed = self._listing() if self._listing is not None else None
        if listed is not None:
            listed.doubt(key)
        step = self._untold_steps.pop(key, None)
        if step is not None:
            self._tell(_split(step))

    def _tell(self, changes: list[Change[T]]) -> None:
        # A subscriber that writes to the store must not have the others hear of that first.
        self._untold.extend(changes)
        if self._telling:
            return
        self._telling = True
        try:
            while self._untold:
                change = self._untold.popleft()
                for subscriber in self._subscribers:
                    subscriber(change)
        finally:
            self._telling = False


def _split(change: Transition[T]) -> list[Change[T]]:
    """Report an object that replaced another of its name as a delete and an add."""
    old, new = change.old, change.new
    if old is None or new is None or old.metadata.uid == new.metadata.uid:
        return [change]
    return [Transition(old, None), Transition(None, new)]
