"""Reads a case and creates its objects on an API server.

The server chooses UIDs, but a fixture contains fixed ones, and names that contain their first eight
characters. As objects are created, each UID of the file is replaced by the real one wherever it occurs. A UID
without an object in the file belongs to a deleted object and is not replaced.

kube-scheduler binds the Pods, whose claims are already allocated. Objects that a fixture shows as ended or
terminating are ended or deleted only after every Pod is in place: see `create_objects` and `end_objects`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import yaml

FIXTURES = Path(__file__).with_name("fixtures")
KINDS = ("Workload", "ClaimLedger", "ResourceClaim", "Pod")
FINAL = ("Succeeded", "Failed")
SHORT_CHARACTERS = 8
"""The length of the UID prefix in a claim's name."""

Object = dict[str, Any]
T = TypeVar("T")


class Stage(Protocol):
    """An API server. Kinds are those of `KINDS`, all objects are in the workers' namespace."""

    def create(self, item: Object) -> str:
        """Create an object without its status, and return its UID."""

    def write_status(self, kind: str, name: str, status: Object) -> None:
        """Write the status of an object."""

    def delete(self, kind: str, name: str) -> None:
        """Delete an object."""

    def remove(self, kind: str, name: str) -> None:
        """Delete an object after its finalizers."""

    def items(self, kind: str) -> list[Object]:
        """Return all objects of a kind."""


@dataclass(frozen=True)
class Expectation:
    """The expected result, in the names of the file. Everything that is not named must stay unchanged."""

    writes_nothing: bool = False
    """The controller must not write."""
    swept: bool = False
    """The sweep is needed, which takes two minutes."""
    newcomer_gets_own_claim: bool = False
    """A new worker must not join a claim of this case."""
    phases: Mapping[str, str] | None = None
    """The phase of every worker, by default Running."""
    released: tuple[str, ...] = ()
    """Objects (`<kind>/<name>`) and seats (`seat/<claim>/<worker>`) that must be released."""
    created: tuple[str, ...] = ()
    """Objects that must be created."""
    restored_seats: tuple[str, ...] = ()
    """Seats that must be booked again."""
    moving: Mapping[str, str] | None = None
    """Workers that were moving, and the claims that they must end on (empty: any)."""
    ignored_violations: tuple[str, ...] = ()
    """Violations of the invariants that the controller cannot repair."""


@dataclass(frozen=True)
class Case:
    """One file."""

    name: str
    nodes: Mapping[str, int]
    """The number of devices of each node."""
    limit: int
    objects: tuple[Object, ...]
    removed: tuple[str, ...]
    """Objects that are deleted before the controller starts."""
    expectation: Expectation

    def __str__(self) -> str:
        return self.name


class Names:
    """The UIDs of a file and those that the server chose."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<Names uids={len(self._given)}>"

    def add(self, written: str, given: str) -> None:
        """Record the UID that the server chose for a UID of the file."""
        self._given[written] = given

    def translate(self, value: T) -> T:
        """Return a value with the server's UIDs, and with the names that contain them."""
        text = json.dumps(value)
        for written, given in self._given.items():
            text = text.replace(written, given)
            text = text.replace(f"-{written[:SHORT_CHARACTERS]}", f"-{given[:SHORT_CHARACTERS]}")
        answer: T = json.loads(text)
        return answer


def cases() -> list[Case]:
    """Return all cases, ordered by name."""
    return [load(path) for path in sorted(FIXTURES.glob("*.yaml"))]


def load(path: Path) -> Case:
    """Read one file. An unknown key is an error."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    nodes, objects = document.pop("nodes"), tuple(document.pop("objects"))
    limit, removed = document.pop("limit", 0), tuple(document.pop("removed", ()))
    lists = {key: tuple(value) for key, value in document.items() if isinstance(value, list)}
    return Case(path.stem, nodes, limit, objects, removed, Expectation(**{**document, **lists}))


def identity(item: Object) -> str:
    """Return `<kind>/<name>`."""
    return f"{item['kind']}/{item['metadata']['name']}"


def create_objects(case: Case, stage: Stage) -> Names:
    """Create the objects in order, and write the statuses of Workloads and claims."""
    names = Names()
    for written in case.objects:
        item = names.translate(written)
        status = item.pop("status", None) if item["kind"] != "ClaimLedger" else None
        uid = item["metadata"].pop("uid")
        item["metadata"].pop("deletionTimestamp", None)
        # A dedicated claim's name contains the UID of its Workload, so the Workload is created first.
        names.add(uid, stage.create(item))
        if status is not None and item["kind"] != "Pod":
            stage.write_status(item["kind"], item["metadata"]["name"], names.translate(status))
    return names


def pending_pods(case: Case, stage: Stage) -> Iterator[str]:
    """Yield the Pods that do not have the state of the fixture yet: Running, or unschedulable."""
    found = {pod["metadata"]["name"]: pod for pod in stage.items("Pod")}
    for written in case.objects:
        if written["kind"] != "Pod":
            continue
        status = found[written["metadata"]["name"]].get("status", {})
        if written["status"]["phase"] == "Pending":
            reasons = {c["type"]: c.get("reason") for c in status.get("conditions", [])}
            there = reasons.get("PodScheduled") == "Unschedulable"
        else:
            there = status.get("phase") == "Running"
        if not there:
            yield written["metadata"]["name"]


def misplaced_claims(case: Case, stage: Stage, names: Names) -> list[str]:
    """Return the claims whose allocation differs from the fixture, which makes the case invalid."""
    found = {claim["metadata"]["name"]: claim for claim in stage.items("ResourceClaim")}
    return [
        name
        for written in case.objects
        if written["kind"] == "ResourceClaim"
        and (name := names.translate(written["metadata"]["name"]))
        and _results(found[name]) != _results(written)
    ]


def end_objects(case: Case, stage: Stage, names: Names) -> None:
    """End, delete and remove the objects that the fixture shows as ended, terminating or removed."""
    for written in case.objects:
        kind, name = written["kind"], names.translate(written["metadata"]["name"])
        if kind == "Pod" and written["status"]["phase"] in FINAL:
            stage.write_status(kind, name, written["status"])
        if "deletionTimestamp" in written["metadata"]:
            stage.delete(kind, name)
    for each in names.translate(list(case.removed)):
        stage.remove(*each.split("/"))


def _results(claim: Object) -> list[tuple[str, str]]:
    """Return the allocated devices of a claim, with their pools."""
    allocation = claim.get("status", {}).get("allocation") or {"devices": {"results": []}}
    return [(result["pool"], result["device"]) for result in allocation["devices"]["results"]]
