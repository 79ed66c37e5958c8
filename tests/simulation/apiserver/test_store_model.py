"""The server in memory against a dictionary: any order of writes, and every watch of them."""

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
from simulation.cluster.simulated import SimulatedCluster
from simulation.engine.wall_clock import EPOCH
from tests.virtualtime import run_virtual

NAMES = st.sampled_from(["ledger-a", "ledger-b", "ledger-c"])
LABELS = st.sampled_from(["gold", "silver"])
SEATS = st.lists(st.sampled_from(["x", "y", "z"]), unique=True)
WHICH_VERSION = st.sampled_from(["current", "stale", "none"])
GOLD = Selectors(labels="tier=gold")


@dataclass
class Known:
    """What the model knows of one ledger."""

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
        self.known: dict[str, Known] = {}
        self.last_revision = self.server.store.revision
        self.marks: list[tuple[int, dict[str, Document]]] = []

    # What is done.

    @rule(name=NAMES, tier=LABELS)
    def create(self, name: str, tier: str) -> None:
        body = {"metadata": {"name": name, "labels": {"tier": tier}}, "spec": {"claimName": "claim"}}
        if name in self.known:
            assert self.refused(lambda: self.server.create(LEDGERS, "default", body)) == "AlreadyExists"
            return
        record = self.server.create(LEDGERS, "default", body)
        self.known[name] = Known(record.uid, tier)

    @rule(name=NAMES, tier=LABELS, which=WHICH_VERSION)
    def label(self, name: str, tier: str, which: str) -> None:
        if self.patched(name, {"metadata": {"labels": {"tier": tier}}}, which):
            self.known[name].tier = tier

    @rule(name=NAMES, seats=SEATS, which=WHICH_VERSION)
    def seat(self, name: str, seats: list[str], which: str) -> None:
        patch = {"spec": {"seats": [{"workload": seat} for seat in seats] or None}}
        if self.patched(name, patch, which) and self.known[name].seats != seats:
            self.known[name].seats = seats
            self.known[name].generation += 1

    @precondition(lambda self: self.known)
    @rule(name=NAMES)
    def hold(self, name: str) -> None:
        known = self.known.get(name)
        if known is not None and not known.deleting:
            self.patched(name, {"metadata": {"finalizers": ["example.com/hold"]}}, "current")
            known.held = True

    @rule(name=NAMES)
    def let_go(self, name: str) -> None:
        if self.patched(name, {"metadata": {"finalizers": []}}, "none"):
            known = self.known[name]
            known.held = False
            if known.deleting:
                del self.known[name]

    @rule(name=NAMES, which=WHICH_VERSION)
    def delete(self, name: str, which: str) -> None:
        known = self.known.get(name)
        version = None if which == "none" else self.version(name, which)

        def act() -> object:
            wanted = Preconditions(resource_version=version)
            return self.server.delete(LEDGERS, name, "default", preconditions=wanted)

        if known is None:
            assert self.refused(act) == "NotFound"
        elif which == "stale":
            assert self.refused(act) == "Conflict"
        else:
            act()
            if known.held:
                known.generation += not known.deleting
                known.deleting = True
            else:
                del self.known[name]

    @rule()
    def mark(self) -> None:
        """Remember a moment from which a watch is opened at the end."""
        self.marks.append((self.server.store.revision, self.listed()))

    # What must hold.

    @invariant()
    def the_server_holds_what_the_model_holds(self) -> None:
        held = {name: content_of(document) for name, document in self.listed().items()}
        assert held == {name: known.content() for name, known in self.known.items()}

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
        """A list and the watch from it, or from later, always end in what a list shows now."""
        watches = Watches(self.server.store)
        for selectors in (Selectors(), GOLD):
            page = self.server.list_page(LEDGERS, selectors=selectors)
            final = {record.key.name: record.document for record in page.records}
            for revision, before in self.marks:
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
        """Whether the patch was applied; it must be refused exactly where the model says so."""
        metadata = dict(patch.get("metadata") or {})
        if which != "none":
            metadata["resourceVersion"] = self.version(name, which)

        def act() -> object:
            return self.server.patch(LEDGERS, name, "default", {**patch, "metadata": metadata})

        if name not in self.known:
            assert self.refused(act) == "NotFound"
            return False
        if which == "stale":
            assert self.refused(act) == "Conflict"
            return False
        act()
        return True

    @staticmethod
    def refused(act: object) -> str:
        assert callable(act)
        try:
            act()
        except Refusal as refusal:
            return refusal.reason
        return ""


TestLedgersOfOneServer = LedgersOfOneServer.TestCase
TestLedgersOfOneServer.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
