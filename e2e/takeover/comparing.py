"""Finds unexpected changes between two snapshots of the workers' namespace.

Everything that a case does not name must be the same object as before (by UID), with the same seats including
unknown fields, the same allocation, and the same Pods without restarts. Each difference is one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from e2e.takeover.case import KINDS, Case, Names, Object, Stage, identity

VOLATILE = ("resourceVersion", "generation", "managedFields")


@dataclass(frozen=True)
class Snapshot:
    """The objects of the workers' namespace at one time, by `<kind>/<name>`."""

    objects: Mapping[str, Object]

    @classmethod
    def of(cls, stage: Stage) -> Snapshot:
        """Read all objects."""
        items = [{**item, "kind": kind} for kind in KINDS for item in stage.items(kind)]
        return cls({identity(item): item for item in items})

    def seats(self) -> dict[str, Object]:
        """Return every seat, by `seat/<claim>/<worker>`."""
        return {
            f"seat/{ledger['spec']['claimName']}/{seat['workload']}": seat
            for ledger in self.objects.values()
            if ledger["kind"] == "ClaimLedger"
            for seat in ledger["spec"].get("seats") or ()
        }

    def phases(self) -> dict[str, str]:
        """Return the phase of every worker."""
        return {
            item["metadata"]["name"]: item.get("status", {}).get("phase", "")
            for item in self.objects.values()
            if item["kind"] == "Workload"
        }


def differences(case: Case, names: Names, before: Snapshot, after: Snapshot) -> list[str]:
    """Return the differences from the expected result."""
    expected = case.expectation
    phases = expected.phases or dict.fromkeys(before.phases(), "Running")
    moving = names.translate(dict(expected.moving or {}))
    comparison = _Comparison(
        released=frozenset(names.translate(list(expected.released))),
        created=frozenset(names.translate([*expected.created, *expected.restored_seats])),
        moving=moving,
    )
    found = [*comparison.objects(before, after), *comparison.seats(before, after)]
    if after.phases() != phases:
        found.append(f"phases are {after.phases()}, expected {phases}")
    for worker, claim in moving.items():
        status = after.objects[f"Workload/{worker}"]["status"]
        if claim and status.get("claimName") != claim:
            found.append(f"{worker} is on {status.get('claimName')}, expected {claim}")
    return found


@dataclass(frozen=True)
class _Comparison:
    released: frozenset[str]
    created: frozenset[str]
    moving: Mapping[str, str]

    def objects(self, before: Snapshot, after: Snapshot) -> Iterator[str]:
        for name, old in before.objects.items():
            new = after.objects.get(name)
            if name in self.released:
                if new is not None:
                    yield f"{name} still exists"
            elif not self._moves(old):
                yield from self._changes(name, old, new)
        for name, new in after.objects.items():
            if name not in before.objects and name not in self.created and not self._moves(new):
                yield f"{name} was created"

    def seats(self, before: Snapshot, after: Snapshot) -> Iterator[str]:
        old, new = before.seats(), after.seats()
        for name in sorted({*old, *new}):
            if name.rpartition("/")[2] in self.moving or name in self.created:
                continue
            ledger = name.split("/")[1].replace("claim-", "ClaimLedger/ledger-", 1)
            released = name in self.released or ledger in self.released
            if released is (name in new) or (not released and old.get(name) != new.get(name)):
                yield f"{name} was {old.get(name)} and is {new.get(name)}"

    def _moves(self, item: Object) -> bool:
        """Whether an object belongs to a worker that was moving."""
        name = item["metadata"]["name"]
        workers = {owner["name"] for owner in item["metadata"].get("ownerReferences", ())}
        own = any(name.startswith((f"claim-{worker}-", f"ledger-{worker}-")) for worker in self.moving)
        return own or (item["kind"] == "Workload" and name in self.moving) or bool(workers & {*self.moving})

    def _changes(self, name: str, old: Object, new: Object | None) -> Iterator[str]:
        if new is None:
            yield f"{name} was deleted"
            return
        if old["metadata"]["uid"] != new["metadata"]["uid"]:
            yield f"{name} was replaced"
        if "deletionTimestamp" in new["metadata"] and "deletionTimestamp" not in old["metadata"]:
            yield f"{name} is being deleted"
        for what, view in _VIEWS[old["kind"]].items():
            if view(old) not in (view(new), None):
                yield f"{what} of {name} was {view(old)} and is {view(new)}"


def _assignment(workload: Object) -> object:
    """Return claim and assignment ID, or `None` if the status has lost them."""
    status = workload.get("status", {})
    named = (status.get("claimName"), status.get("assignmentID"))
    return named if all(named) else None


def _spec(item: Object) -> object:
    return item.get("spec")


def without_seats(ledger: Object) -> object:
    """Return a ledger without its seats and server-managed fields."""
    metadata = {key: value for key, value in ledger["metadata"].items() if key not in VOLATILE}
    spec = {key: value for key, value in ledger["spec"].items() if key != "seats"}
    return {**ledger, "metadata": metadata, "spec": spec}


def _allocation(claim: Object) -> object:
    return claim.get("status", {}).get("allocation")


def _restarts(pod: Object) -> object:
    return [status.get("restartCount", 0) for status in pod.get("status", {}).get("containerStatuses", ())]


_VIEWS: Mapping[str, Mapping[str, Callable[[Object], object]]] = {
    "Workload": {"spec": _spec, "assignment": _assignment},
    "ClaimLedger": {"everything except seats": without_seats},
    "ResourceClaim": {"spec": _spec, "allocation": _allocation},
    "Pod": {"spec": _spec, "restarts": _restarts},
}
