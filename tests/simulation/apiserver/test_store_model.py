"""Property tests of the simulated server against a dictionary: any order of writes, and their watches."""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio
import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from informers.api import Preconditions, Selectors, WatchEventType
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import LEDGERS
from simulation.apiserver.refusals import Refusal
from simulation.apiserver.server import ApiServer
from simulation.apiserver.watches import Watches
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.engine.wall_clock import EPOCH
from tests.virtualtime import run_virtual

NAMES = st.sampled_from(["ledger-a", "ledger-b", "ledger-c"])
LABELS = st.sampled_from(["gold", "silver"])
SEATS = st.lists(st.sampled_from(["x", "y", "z"]), unique=True)
WHICH_VERSION = st.sampled_from(["current", "stale", "none"])
GOLD = Selectors(labels="tier=gold")


@dataclass
class Expected:
    """The expected state of one ledger."""

    uid: str
    tier: str
    seats: list[str] = field(default_factory=list)
    held: bool = False
    deleting: bool = False
    generation: int = 1

    def content(self) -> tuple[object, ...]:
        return (self.uid, self.tier, tuple(self.seats), self.held, self.deleting, self.generation)


def content_of(document: Document) -> tuple[object, ...]:
    metadata = document["metadata"]
    seats = tuple(seat["workload"] for seat in document["spec"].get("seats") or ())
    held, deleting = bool(metadata.get("finalizers")), "deletionTimestamp" in metadata
    return (metadata["uid"], metadata["labels"]["tier"], seats, held, deleting, metadata["generation"])


class LedgersOfOneServer(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.server = ApiServer(
            now=lambda: EPOCH, new_uid=SimulatedCluster.identifiers("0"), namespaces=("default",)
        )
        self.expected: dict[str, Expected] = {}
        self.last_revision = self.server.store.revision
        self.remembered: list[tuple[int, dict[str, Document]]] = []

    # Rules.

    @rule(name=NAMES, tier=LABELS)
    def create(self, name: str, tier: str) -> None:
        body = {"metadata": {"name": name, "labels": {"tier": tier}}, "spec": {"claimName": "claim"}}
        if name in self.expected:
            assert self.refused(lambda: self.server.create(LEDGERS, "default", body)) == "AlreadyExists"
            return
        record = self.server.create(LEDGERS, "default", body)
        self.expected[name] = Expected(record.uid, tier)

    @rule(name=NAMES, tier=LABELS, which=WHICH_VERSION)
    def label(self, name: str, tier: str, which: str) -> None:
        if self.patched(name, {"metadata": {"labels": {"tier": tier}}}, which):
            self.expected[name].tier = tier

    @rule(name=NAMES, seats=SEATS, which=WHICH_VERSION)
    def seat(self, name: str, seats: list[str], which: str) -> None:
        patch = {"spec": {"seats": [{"workload": seat} for seat in seats] or None}}
        if self.patched(name, patch, which) and self.expected[name].seats != seats:
            self.expected[name].seats = seats
            self.expected[name].generation += 1

    @precondition(lambda self: self.expected)
    @rule(name=NAMES)
    def hold(self, name: str) -> None:
        expected = self.expected.get(name)
        if expected is not None and not expected.deleting:
            self.patched(name, {"metadata": {"finalizers": ["example.com/hold"]}}, "current")
            expected.held = True

    @rule(name=NAMES)
    def release(self, name: str) -> None:
        if self.patched(name, {"metadata": {"finalizers": []}}, "none"):
            expected = self.expected[name]
            expected.held = False
            if expected.deleting:
                del self.expected[name]

    @rule(name=NAMES, which=WHICH_VERSION)
    def delete(self, name: str, which: str) -> None:
        expected = self.expected.get(name)
        version = None if which == "none" else self.version(name, which)

        def write() -> object:
            wanted = Preconditions(resource_version=version)
            return self.server.delete(LEDGERS, name, "default", preconditions=wanted)

        if expected is None:
            assert self.refused(write) == "NotFound"
        elif which == "stale":
            assert self.refused(write) == "Conflict"
        else:
            write()
            if expected.held:
                expected.generation += not expected.deleting
                expected.deleting = True
            else:
                del self.expected[name]

    @rule()
    def remember(self) -> None:
        """Remember a revision to open a watch from at the end."""
        self.remembered.append((self.server.store.revision, self.listed()))

    # Invariants.

    @invariant()
    def the_server_matches_the_model(self) -> None:
        held = {name: content_of(document) for name, document in self.listed().items()}
        assert held == {name: expected.content() for name, expected in self.expected.items()}

    @invariant()
    def every_write_takes_a_new_revision(self) -> None:
        changes = list(self.server.store.changes_after(self.last_revision))
        expected = list(range(self.last_revision + 1, self.server.store.revision + 1))
        assert [change.revision for change in changes] == expected
        for change in changes:
            assert (change.before is None) is (change.type is WatchEventType.ADDED)
            assert change.record.version == str(change.revision)
        self.last_revision = self.server.store.revision

    def teardown(self) -> None:
        run_virtual(self.check_watches)

    async def check_watches(self) -> None:
        """Check that a watch from any remembered revision ends in the current list."""
        watches = Watches(self.server.store)
        for selectors in (Selectors(), GOLD):
            page = self.server.list_page(LEDGERS, selectors=selectors)
            final = {record.key.name: record.document for record in page.records}
            for revision, before in self.remembered:
                gold = selectors is GOLD
                seen = {n: d for n, d in before.items() if not gold or content_of(d)[1] == "gold"}
                watch = watches.open("test", LEDGERS, "", selectors, str(revision))
                while (line := await watch.read(anyio.current_time())) is not None:
                    self.follow(seen, msgspec.json.decode(line))
                assert seen == final

    @staticmethod
    def follow(seen: dict[str, Document], event: Document) -> None:
        name = event["object"]["metadata"]["name"]
        match event["type"]:
            case "ADDED":
                assert name not in seen
                seen[name] = event["object"]
            case "MODIFIED":
                assert seen[name]["metadata"]["uid"] == event["object"]["metadata"]["uid"]
                seen[name] = event["object"]
            case "DELETED":
                del seen[name]

    # Helpers.

    def listed(self) -> dict[str, Document]:
        return {each["metadata"]["name"]: each for each in self.server.documents(LEDGERS)}

    def version(self, name: str, which: str) -> str:
        document = self.server.document(LEDGERS, name, "default")
        current = document["metadata"]["resourceVersion"] if document else "1"
        return current if which == "current" else "1"

    def patched(self, name: str, patch: Document, which: str) -> bool:
        """Return whether the patch was applied; it must be refused exactly where the model expects it."""
        metadata = dict(patch.get("metadata") or {})
        if which != "none":
            metadata["resourceVersion"] = self.version(name, which)

        def write() -> object:
            return self.server.patch(LEDGERS, name, "default", {**patch, "metadata": metadata})

        if name not in self.expected:
            assert self.refused(write) == "NotFound"
            return False
        if which == "stale":
            assert self.refused(write) == "Conflict"
            return False
        write()
        return True

    @staticmethod
    def refused(write: object) -> str:
        assert callable(write)
        try:
            write()
        except Refusal as refusal:
            return refusal.reason
        return ""


TestLedgersOfOneServer = LedgersOfOneServer.TestCase
TestLedgersOfOneServer.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
