"""Thousands of random events in any order that a network allows, compared with a model.

The model: at each key the store shows the server's state at the newest version that it received for the key.
Versions arrive by a list, the watch or the response to a write. A seed reproduces a whole run.
"""

from dataclasses import dataclass, field
from random import Random

import pytest

from informers.api import ObjectKey, UnreadableObject, version_number, version_of
from informers.cache.changes import Change, Synced
from informers.cache.pending_list import PendingList
from informers.cache.store import Store
from tests.informers.recorder import index_values, replace
from tests.informers.scripted_api import Thing, added, bad_thing, bookmark, deleted, modified, thing

NAMES = tuple(f"thing-{number}" for number in range(8))
COLOURS = ("red", "green", "blue")
STEPS = 10_000


@dataclass(frozen=True)
class Entry:
    """One write to the server: the object after it, or the deleted object."""

    version: int
    object: Thing
    is_deletion: bool = False
    unreadable: bool = False

    @property
    def name(self) -> str:
        return self.object.metadata.name

    def bad(self) -> UnreadableObject:
        return bad_thing(self.name, self.version, self.object.metadata.uid)


@dataclass
class Server:
    """The true history, which the watch delivers in order."""

    rng: Random
    unreadable_ratio: float
    history: list[Entry] = field(default_factory=list)
    version: int = 0
    by_name: dict[str, list[Entry]] = field(default_factory=lambda: {name: [] for name in NAMES})

    def at(self, name: str, version: int) -> Entry | None:
        """Return the last write to `name` up to `version`."""
        return next((entry for entry in reversed(self.by_name[name]) if entry.version <= version), None)

    def write(self, name: str) -> Entry:
        """Create or change the object; the version sometimes jumps, because other resources are written."""
        last = self.at(name, self.version)
        self.version += self.rng.choice((1, 1, 2, 5))
        uid = last.object.metadata.uid if last and not last.is_deletion else f"uid-{self.version}"
        colours = self.rng.sample(COLOURS, self.rng.randrange(3))
        written = thing(name, self.version, *colours, uid=uid)
        return self._keep(Entry(self.version, written, unreadable=self.rng.random() < self.unreadable_ratio))

    def delete(self, name: str) -> Entry | None:
        last = self.at(name, self.version)
        if last is None or last.is_deletion:
            return None
        self.version += 1
        final = thing(name, self.version, *last.object.colours, uid=last.object.metadata.uid)
        return self._keep(Entry(self.version, final, is_deletion=True))

    def _keep(self, entry: Entry) -> Entry:
        self.history.append(entry)
        self.by_name[entry.name].append(entry)
        return entry


class RandomRun:
    """A server, a store, the messages in flight between them, and a mirror kept by notifications."""

    def __init__(self, rng: Random, unreadable_ratio: float) -> None:
        self.rng = rng
        self.server = Server(rng, unreadable_ratio)
        self.store: Store[Thing] = Store({"colour": lambda found: found.colours}, slice_objects=1)
        self.mirror: dict[ObjectKey, Thing] = {}
        self.store.subscribe(self.notify)
        self.received = dict.fromkeys(NAMES, 0)
        self.position = 0
        self.responses: list[tuple[Thing | None, Entry]] = []

    def notify(self, change: Change[Thing]) -> None:
        """Apply a notification to the mirror; it must be consistent with the earlier ones."""
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

    def receive(self, name: str, version: int) -> None:
        self.received[name] = max(self.received[name], version)

    # Events.

    def another_client_writes(self) -> None:
        self.server.write(self.rng.choice(NAMES))

    def another_client_deletes(self) -> None:
        self.server.delete(self.rng.choice(NAMES))

    def we_write(self) -> None:
        entry = self.server.write(self.rng.choice(NAMES))
        if not entry.unreadable:
            self.responses.append((None, entry))

    def we_delete(self) -> None:
        """Delete by the UID that the store shows, which may belong to an earlier object."""
        held = self.store.get(ObjectKey("space", self.rng.choice(NAMES)))
        if held is None:
            return
        last = self.server.at(held.metadata.name, self.server.version)
        if last is not None and not last.is_deletion and last.object.metadata.uid == held.metadata.uid:
            self.server.delete(held.metadata.name)
        ends = (e for e in self.server.by_name[held.metadata.name] if e.is_deletion)
        self.responses.append((held, next(e for e in ends if e.object.metadata.uid == held.metadata.uid)))

    def a_response_arrives(self) -> None:
        if not self.responses:
            return
        held, entry = self.responses.pop(self.rng.randrange(len(self.responses)))
        self.receive(entry.name, entry.version)
        if held is None:
            self.store.apply_write(entry.object)
        else:
            self.store.apply_delete(held, answer=self.rng.choice((None, entry.object)))
        self.check_reported(entry.name)

    def the_watch_delivers(self) -> None:
        next_entry = self.next_entry()
        if next_entry is None:
            return
        self.position = next_entry.version
        self.receive(next_entry.name, next_entry.version)
        self.deliver_event(next_entry)

    def the_watch_replays(self) -> None:
        delivered = [entry for entry in self.server.history[-50:] if entry.version <= self.position]
        if delivered:
            self.deliver_event(self.rng.choice(delivered))

    def deliver_event(self, entry: Entry) -> None:
        if entry.is_deletion:
            self.store.apply_event(deleted(entry.bad() if self.rng.random() < 0.1 else entry.object))
        else:
            kind = self.rng.choice((added, modified))
            self.store.apply_event(kind(entry.bad() if entry.unreadable else entry.object))
        self.check_reported(entry.name)

    def a_bookmark_arrives(self) -> None:
        next_entry = self.next_entry()
        self.position = next_entry.version - 1 if next_entry is not None else self.server.version
        self.store.apply_event(bookmark(self.position))

    def a_list_arrives(self) -> None:
        """Apply a list of a version not older than the last; responses to writes arrive in between."""
        version = self.rng.randint(self.position, self.server.version)
        pending = self.store.begin_list()
        for name in NAMES:
            entry = self.server.at(name, version)
            if entry is None or entry.is_deletion:
                pass
            elif entry.unreadable:
                pending.add_unreadable(entry.bad())
            else:
                pending.add(entry.object)
            if self.rng.random() < 0.2:
                self.a_response_arrives()
        if self.rng.random() < 0.5:
            replace(self.store, pending, str(version))
        else:
            self.apply_in_slices(pending, version)
        self.position = version

    def apply_in_slices(self, pending: PendingList[Thing], version: int) -> None:
        """Apply a list with other events between its slices; the store shows one whole list at a time."""
        for _ in self.store.replace_in_slices(pending, str(version)):
            events = [
                self.a_response_arrives,
                self.the_watch_replays,
                self.another_client_writes,
                self.we_write,
            ]
            if version_number(self.store.resource_version) == version:
                # The list is in effect, and its changes are reported while the watch continues from there.
                self.position = version
                events += [self.we_delete, self.another_client_deletes]
            self.rng.choice(events)()
            self.check(reporting=True)

    def next_entry(self) -> Entry | None:
        """Return the first write that the watch has not delivered."""
        for back, entry in enumerate(reversed(self.server.history)):
            if entry.version <= self.position:
                return self.server.history[-back] if back else None
        return self.server.history[0] if self.server.history else None

    # Invariants after each event.

    def check(self, *, reporting: bool = False) -> None:
        assert version_number(self.store.resource_version) == self.position
        shown = {ObjectKey.of(found): found for found in self.store}
        assert reporting or shown == self.mirror
        assert bool(self.store.statistics().unreported) <= reporting
        for name in NAMES:
            self.check_key(name)
        for colour in COLOURS:
            expected = tuple(found for _, found in sorted(shown.items()) if colour in found.colours)
            assert self.store.by_index("colour", colour) == expected
        assert all(self.store.by_index("colour", value) for value in index_values(self.store, "colour"))

    def check_reported(self, name: str) -> None:
        """A change is reported in the step in which it arrives, also during the report of a list."""
        key = ObjectKey("space", name)
        assert self.mirror.get(key) is self.store.get(key)

    def check_key(self, name: str) -> None:
        key = ObjectKey("space", name)
        entry = self.server.at(name, max(self.received[name], self.position))
        held = self.store.get(key)
        if entry is not None and entry.unreadable:
            # Its content is unknown: the previous version stays if it was the same object.
            assert key in self.store.unreadable
            assert held is None or held.metadata.uid == entry.object.metadata.uid
        else:
            assert held == (None if entry is None or entry.is_deletion else entry.object)
            assert key not in self.store.unreadable


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("unreadable_ratio", [0.0, 0.1])
def test_s4_any_order_of_arrival_leads_to_the_newest_state_and_consistent_notifications(
    seed: int, unreadable_ratio: float
) -> None:
    rng = Random(seed)
    run = RandomRun(rng, unreadable_ratio)
    events = {
        run.another_client_writes: 20,
        run.another_client_deletes: 8,
        run.we_write: 15,
        run.we_delete: 8,
        run.a_response_arrives: 24,
        run.the_watch_delivers: 45,
        run.the_watch_replays: 10,
        run.a_bookmark_arrives: 2,
        run.a_list_arrives: 2,
    }
    for event in rng.choices(list(events), list(events.values()), k=STEPS):
        event()
        run.check()
    statistics = run.store.statistics()
    assert statistics.stale_total > STEPS / 100
    assert statistics.tombstones <= 4 * len(NAMES)
