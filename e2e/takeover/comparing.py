"""What changed between two looks at the workers' namespace, and should not have.

Everything that a case does not name must be the same object as before (by its UID), with the same seats to
the last unknown field, the same allocation, and the same Pods that nobody restarted. Each fault is one
sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from e2e.takeover.case import KINDS, Case, Names, Object, Stage, identity

VOLATILE = ("resourceVersion", "generation", "managedFields")


@dataclass(frozen=True)
class Picture:
    """The workers' namespace at one time, by `<kind>/<name>`."""

    objects: Mapping[str, Object]

    @classmethod
    def of(cls, stage: Stage) -> Picture:
        """Look at everything now."""
        items = [{**item, "kind": kind} for kind in KINDS for item in stage.items(kind)]
        return cls({identity(item): item for item in items})

    def seats(self) -> dict[str, Object]:
        """Every seat, by `seat/<claim>/<worker>`."""
        return {
            f"seat/{ledger['spec']['claimName']}/{seat['workload']}": seat
            for ledger in self.objects.values()
            if ledger["kind"] == "ClaimLedger"
            for seat in ledger["spec"].get("seats") or ()
        }

    def phases(self) -> dict[str, str]:
        """The phase of every worker."""
        return {
            item["metadata"]["name"]: item.get("status", {}).get("phase", "")
            for item in self.objects.values()
            if item["kind"] == "Workload"
        }


def faults(case: Case, names: Names, before: Picture, after: Picture) -> list[str]:
    """What is not as the case wants it."""
    expected = case.expectation
    phases = expected.phases or dict.fromkeys(before.phases(), "Running")
    moving = names.of(dict(expected.moving or {}))
    comparison = _Comparison(
        goes=frozenset(names.of(list(expected.goes))),
        created=frozenset(names.of([*expected.created, *expected.restored])),
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
    goes: frozenset[str]
    created: frozenset[str]
    moving: Mapping[str, str]

    def objects(self, before: Picture, after: Picture) -> Iterator[str]:
        for name, old in before.objects.items():
            new = after.objects.get(name)
            if name in self.goes:
                if new is not None:
                    yield f"{name} is there still"
            elif not self._moves(old):
                yield from self._changes(name, old, new)
        for name, new in after.objects.items():
            if name not in before.objects and name not in self.created and not self._moves(new):
                yield f"{name} came"

    def seats(self, before: Picture, after: Picture) -> Iterator[str]:
        old, new = before.seats(), after.seats()
        for name in sorted({*old, *new}):
            if name.rpartition("/")[2] in self.moving or name in self.created:
                continue
            ledger = name.split("/")[1].replace("claim-", "ClaimLedger/ledger-", 1)
            released = name in self.goes or ledger in self.goes
            if released is (name in new) or (not released and old.get(name) != new.get(name)):
                yield f"{name} was {old.get(name)} and is {new.get(name)}"

    def _moves(self, item: Object) -> bool:
        """Whether an object belongs to a worker that is on its way."""
        name = item["metadata"]["name"]
        workers = {owner["name"] for owner in item["metadata"].get("ownerReferences", ())}
        own = any(name.startswith((f"claim-{worker}-", f"ledger-{worker}-")) for worker in self.moving)
        return own or (item["kind"] == "Workload" and name in self.moving) or bool(workers & {*self.moving})

    def _changes(self, name: str, old: Object, new: Object | None) -> Iterator[str]:
        if new is None:
            yield f"{name} went"
            return
        if old["metadata"]["uid"] != new["metadata"]["uid"]:
            yield f"{name} is another one"
        if "deletionTimestamp" in new["metadata"] and "deletionTimestamp" not in old["metadata"]:
            yield f"{name} is being deleted"
        for what, view in _VIEWS[old["kind"]].items():
            if view(old) not in (view(new), None):
                yield f"{what} of {name} was {view(old)} and is {view(new)}"


def _assignment(workload: Object) -> object:
    """`None` where the status lost it."""
    status = workload.get("status", {})
    named = (status.get("claimName"), status.get("assignmentID"))
    return named if all(named) else None


def _spec(item: Object) -> object:
    return item.get("spec")


def beside_the_seats(ledger: Object) -> object:
    """All of a ledger but its seats and what the server counts."""
    metadata = {key: value for key, value in ledger["metadata"].items() if key not in VOLATILE}
    spec = {key: value for key, value in ledger["spec"].items() if key != "seats"}
    return {**ledger, "metadata": metadata, "spec": spec}


def _allocation(claim: Object) -> object:
    return claim.get("status", {}).get("allocation")


def _restarts(pod: Object) -> object:
    return [status.get("restartCount", 0) for status in pod.get("status", {}).get("containerStatuses", ())]


_VIEWS: Mapping[str, Mapping[str, Callable[[Object], object]]] = {
    "Workload": {"spec": _spec, "assignment": _assignment},
    "ClaimLedger": {"what is beside the seats": beside_the_seats},
    "ResourceClaim": {"spec": _spec, "allocation": _allocation},
    "Pod": {"spec": _spec, "restarts": _restarts},
}
