"""Thousands of random events in every order that a network allows, against a model of what must be shown.

The model is one sentence: at each key the store shows the server's state at the newest version that it was
shown for that key, by the list, the watch or the answer of a write. A seed names a whole run.
"""

from dataclasses import dataclass, field
from random import Random

import pytest

from informers.api import UnreadableObject, version_number, version_of
from informers.cache.changes import Change, Synced
from informers.cache.pending_list import PendingList
from informers.cache.store import ObjectKey, Store
from tests.informers.scripted_api import Thing, added, bad_thing, bookmark, deleted, modified, thing

NAMES = tuple(f"thing-{number}" for number in range(8))
COLOURS = ("red", "green", "blue")
STEPS = 10_000


@dataclass(frozen=True)
class Entry:
    """One write to the server: the object afterwards, or as it was deleted."""

    version: int
    object: Thing
    gone: bool = False
    unreadable: bool = False

    @property
    def name(self) -> str:
        return self.object.metadata.name

    def bad(self) -> UnreadableObject:
        return bad_thing(self.name, self.version, self.object.metadata.uid)


@dataclass
class Server:
    """The true history, which the watch tells in order from `shown` on."""

    rng: Random
    unreadable_ratio: float
    history: list[Entry] = field(default_factory=list)
    version: int = 0
    by_name: dict[str, list[Entry]] = field(default_factory=lambda: {name: [] for name in NAMES})

    def at(self, name: str, version: int) -> Entry | None:
        """The last write to `name` up to `version`."""
        return next((entry for entry in reversed(self.by_name[name]) if entry.version <= version), None)

    def write(self, name: str) -> Entry:
        """Create or change the object; sometimes the version jumps, as other resources are written."""
        last = self.at(name, self.version)
        self.version += self.rng.choice((1, 1, 2, 5))
        uid = last.object.metadata.uid if last and not last.gone else f"uid-{self.version}"
        colours = self.rng.sample(COLOURS, self.rng.randrange(3))
        written = thing(name, self.version, *colours, uid=uid)
        return self._keep(Entry(self.version, written, unreadable=self.rng.random() < self.unreadable_ratio))

    def delete(self, name: str) -> Entry | None:
        last = self.at(name, self.version)
        if last is None or last.gone:
            return None
        self.version += 1
        final = thing(name, self.version, *last.object.colours, uid=last.object.metadata.uid)
        return self._keep(Entry(self.version, final, gone=True))

    def _keep(self, entry: Entry) -> Entry:
        self.history.append(entry)
        self.by_name[entry.name].append(entry)
        return entry


class World:
    """A server, a store, what is on the way between them, and a handler's idea of the store."""

    def __init__(self, rng: Random, unreadable_ratio: float) -> None:
        self.rng = rng
        self.server = Server(rng, unreadable_ratio)
        self.store: Store[Thing] = Store({"colour": lambda found: found.colours}, slice_objects=1)
        self.mirror: dict[ObjectKey, Thing] = {}
        self.store.subscribe(self.hear)
        self.shown = dict.fromkeys(NAMES, 0)
        self.position = 0
        self.answers: list[tuple[Thing | None, Entry]] = []

    def hear(self, change: Change[Thing]) -> None:
        """Follow the notifications, each of which has to fit what the ones before it said."""
        if isinstance(change, Synced):
            return
        old, new = change.old, change.new
        if old is None:
            assert new is not None
            assert self.mirror.setdefault(ObjectKey.of(new), new) is new
        elif new is None:
            assert self.mirror.pop(ObjectKey.of(old)).metadata.uid == old.metadata.uid
        else:
            key = ObjectKey.of(new)
            assert self.mirror[key] is old
            assert old.metadata.uid == new.metadata.uid
            assert version_of(old) < version_of(new)
            self.mirror[key] = new

    def show(self, name: str, version: int) -> None:
        self.shown[name] = max(self.shown[name], version)

    # What can happen.

    def somebody_writes(self) -> None:
        self.server.write(self.rng.choice(NAMES))

    def somebody_deletes(self) -> None:
        self.server.delete(self.rng.choice(NAMES))

    def we_write(self) -> None:
        entry = self.server.write(self.rng.choice(NAMES))
        if not entry.unreadable:
            self.answers.append((None, entry))

    def we_delete(self) -> None:
        """Delete by the UID that the store shows, which may be another object's by now."""
        held = self.store.get(ObjectKey("space", self.rng.choice(NAMES)))
        if held is None:
            return
        last = self.server.at(held.metadata.name, self.server.version)
        if last is not None and not last.gone and last.object.metadata.uid == held.metadata.uid:
            self.server.delete(held.metadata.name)
        ends = (e for e in self.server.by_name[held.metadata.name] if e.gone)
        self.answers.append((held, next(e for e in ends if e.object.metadata.uid == held.metadata.uid)))

    def an_answer_arrives(self) -> None:
        if not self.answers:
            return
        held, entry = self.answers.pop(self.rng.randrange(len(self.answers)))
        self.show(entry.name, entry.version)
        if held is None:
            self.store.apply_write(entry.object)
        else:
            self.store.apply_delete(held, answer=self.rng.choice((None, entry.object)))
        self.check_told(entry.name)

    def the_watch_tells(self) -> None:
        following = self.following()
        if following is None:
            return
        self.position = following.version
        self.show(following.name, following.version)
        self.tell(following)

    def the_watch_repeats(self) -> None:
        told = [entry for entry in self.server.history[-50:] if entry.version <= self.position]
        if told:
            self.tell(self.rng.choice(told))

    def tell(self, entry: Entry) -> None:
        if entry.gone:
            self.store.apply_event(deleted(entry.bad() if self.rng.random() < 0.1 else entry.object))
        else:
            kind = self.rng.choice((added, modified))
            self.store.apply_event(kind(entry.bad() if entry.unreadable else entry.object))
        self.check_told(entry.name)

    def a_bookmark_comes(self) -> None:
        following = self.following()
        self.position = following.version - 1 if following is not None else self.server.version
        self.store.apply_event(bookmark(self.position))

    def a_list_comes(self) -> None:
        """A list of some version not older than seen; answers of writes arrive while it is taken in."""
        version = self.rng.randint(self.position, self.server.version)
        listed = self.store.begin_replacement()
        for name in NAMES:
            entry = self.server.at(name, version)
            if entry is None or entry.gone:
                pass
            elif entry.unreadable:
                listed.add_unreadable(entry.bad())
            else:
                listed.add(entry.object)
            if self.rng.random() < 0.2:
                self.an_answer_arrives()
        if self.rng.random() < 0.5:
            self.store.replace(listed, str(version))
        else:
            self.take_in_slices(listed, version)
        self.position = version

    def take_in_slices(self, listed: PendingList[Thing], version: int) -> None:
        """News of all kinds comes between the slices; what is shown is the old list or the new one, whole."""
        for _ in self.store.replacing(listed, str(version)):
            happenings = [self.an_answer_arrives, self.the_watch_repeats, self.somebody_writes, self.we_write]
            if version_number(self.store.resource_version) == version:
                # The exchange is done, and what follows is told while the watch goes on from there.
                self.position = version
                happenings += [self.we_delete, self.somebody_deletes]
            self.rng.choice(happenings)()
            self.check(telling=True)

    def following(self) -> Entry | None:
        """The first write that the watch has not told."""
        for back, entry in enumerate(reversed(self.server.history)):
            if entry.version <= self.position:
                return self.server.history[-back] if back else None
        return self.server.history[0] if self.server.history else None

    # What must hold after each of them.

    def check(self, *, telling: bool = False) -> None:
        assert version_number(self.store.resource_version) == self.position
        shown = {ObjectKey.of(found): found for found in self.store}
        assert telling or shown == self.mirror
        assert bool(self.store.statistics().untold) <= telling
        for name in NAMES:
            self.check_key(name)
        for colour in COLOURS:
            expected = tuple(found for _, found in sorted(shown.items()) if colour in found.colours)
            assert self.store.by_index("colour", colour) == expected
        assert all(self.store.by_index("colour", value) for value in self.store.index_values("colour"))

    def check_told(self, name: str) -> None:
        """News of an object is told in the step in which it comes, whatever a list has still to tell."""
        key = ObjectKey("space", name)
        assert self.mirror.get(key) is self.store.get(key)

    def check_key(self, name: str) -> None:
        key = ObjectKey("space", name)
        entry = self.server.at(name, max(self.shown[name], self.position))
        held = self.store.get(key)
        if entry is not None and entry.unreadable:
            # Its content is unknown: what was there before stays, if it was the same object.
            assert key in self.store.unreadable
            assert held is None or held.metadata.uid == entry.object.metadata.uid
        else:
            assert held == (None if entry is None or entry.gone else entry.object)
            assert key not in self.store.unreadable


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("unreadable_ratio", [0.0, 0.1])
def test_s4_any_order_of_news_leads_to_the_newest_state_and_consistent_notifications(
    seed: int, unreadable_ratio: float
) -> None:
    rng = Random(seed)
    world = World(rng, unreadable_ratio)
    happenings = {
        world.somebody_writes: 20,
        world.somebody_deletes: 8,
        world.we_write: 15,
        world.we_delete: 8,
        world.an_answer_arrives: 24,
        world.the_watch_tells: 45,
        world.the_watch_repeats: 10,
        world.a_bookmark_comes: 2,
        world.a_list_comes: 2,
    }
    for happening in rng.choices(list(happenings), list(happenings.values()), k=STEPS):
        happening()
        world.check()
    statistics = world.store.statistics()
    assert statistics.stale_total > STEPS / 100
    assert statistics.tombstones <= 4 * len(NAMES)
