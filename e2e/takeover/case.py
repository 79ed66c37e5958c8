"""Reading a case and laying its objects down on an API server.

UIDs are the server's to give. In a fixture they are written out all the same, and so are the names that hold
the first eight characters of one: as objects are created, each UID of the file is replaced by the real one,
wherever it stands. A UID that no object of the file has belongs to something that is gone, and stays.

Pods are left to kube-scheduler, which finds their claims allocated already. What a fixture shows ended or
being deleted is ended or deleted only when every Pod is where it shall be: see `lay_down` and `finish`.
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
"""So much of a UID is in the name of a claim."""

Object = dict[str, Any]
T = TypeVar("T")


class Stage(Protocol):
    """An API server, seen from outside. Kinds are those of `KINDS`, all in the workers' namespace."""

    def create(self, item: Object) -> str:
        """Create an object, without its status; return its UID."""

    def write_status(self, kind: str, name: str, status: Object) -> None:
        """Write the status of an object."""

    def delete(self, kind: str, name: str) -> None:
        """Ask for the deletion of an object."""

    def remove(self, kind: str, name: str) -> None:
        """Delete an object, its finalizers first."""

    def items(self, kind: str) -> list[Object]:
        """All objects of a kind."""


@dataclass(frozen=True)
class Expectation:
    """What becomes of a case, in the names of its file. Whatever is not named here must stay as it is."""

    writes_nothing: bool = False
    """The controller finds nothing to do."""
    swept: bool = False
    """It takes the sweep, and with it two minutes."""
    newcomer_on_its_own: bool = False
    """A worker that comes now is not seated on a claim of this case."""
    phases: Mapping[str, str] | None = None
    """The phase of every worker; without it all run."""
    goes: tuple[str, ...] = ()
    """Objects (`<kind>/<name>`) and seats (`seat/<claim>/<worker>`) that are released."""
    created: tuple[str, ...] = ()
    """Objects that come."""
    restored: tuple[str, ...] = ()
    """Seats that come."""
    moving: Mapping[str, str] | None = None
    """Workers that were on their way, and the claims where they end (empty: any)."""
    excused: tuple[str, ...] = ()
    """Violations of the invariants that are not ours to end."""


@dataclass(frozen=True)
class Case:
    """One file."""

    name: str
    nodes: Mapping[str, int]
    """The devices of each node."""
    limit: int
    objects: tuple[Object, ...]
    removed: tuple[str, ...]
    """Objects that were there, and are gone when the controller comes."""
    expectation: Expectation

    def __str__(self) -> str:
        return self.name


class Names:
    """From the UIDs of a file to those that a server gave."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<Names uids={len(self._given)}>"

    def learn(self, written: str, given: str) -> None:
        """The object with this UID in the file got that one."""
        self._given[written] = given

    def of(self, value: T) -> T:
        """The value with every UID, and every name made of one, as the server has it."""
        text = json.dumps(value)
        for written, given in self._given.items():
            text = text.replace(written, given)
            text = text.replace(f"-{written[:SHORT_CHARACTERS]}", f"-{given[:SHORT_CHARACTERS]}")
        answer: T = json.loads(text)
        return answer


def cases() -> list[Case]:
    """Every case, by name."""
    return [load(path) for path in sorted(FIXTURES.glob("*.yaml"))]


def load(path: Path) -> Case:
    """Read one file. An unknown key is an error."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    nodes, objects = document.pop("nodes"), tuple(document.pop("objects"))
    limit, removed = document.pop("limit", 0), tuple(document.pop("removed", ()))
    lists = {key: tuple(value) for key, value in document.items() if isinstance(value, list)}
    return Case(path.stem, nodes, limit, objects, removed, Expectation(**{**document, **lists}))


def identity(item: Object) -> str:
    """`<kind>/<name>`."""
    return f"{item['kind']}/{item['metadata']['name']}"


def lay_down(case: Case, stage: Stage) -> Names:
    """Create the objects in their order, and write the statuses of Workloads and claims."""
    names = Names()
    for written in case.objects:
        item = names.of(written)
        status = item.pop("status", None) if item["kind"] != "ClaimLedger" else None
        uid = item["metadata"].pop("uid")
        item["metadata"].pop("deletionTimestamp", None)
        # The name of an own claim is made of the UID that its Workload is about to get: nothing else is.
        names.learn(uid, stage.create(item))
        if status is not None and item["kind"] != "Pod":
            stage.write_status(item["kind"], item["metadata"]["name"], names.of(status))
    return names


def pods_to_come(case: Case, stage: Stage) -> Iterator[str]:
    """The Pods that are not yet where the fixture has them: running, or refused by kube-scheduler."""
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


def moved_claims(case: Case, stage: Stage, names: Names) -> list[str]:
    """Claims that are not allocated as the fixture has them: what is to be taken over is something else."""
    found = {claim["metadata"]["name"]: claim for claim in stage.items("ResourceClaim")}
    return [
        name
        for written in case.objects
        if written["kind"] == "ResourceClaim"
        and (name := names.of(written["metadata"]["name"]))
        and _results(found[name]) != _results(written)
    ]


def finish(case: Case, stage: Stage, names: Names) -> None:
    """End, delete and remove what the fixture shows ended, being deleted or gone."""
    for written in case.objects:
        kind, name = written["kind"], names.of(written["metadata"]["name"])
        if kind == "Pod" and written["status"]["phase"] in FINAL:
            stage.write_status(kind, name, written["status"])
        if "deletionTimestamp" in written["metadata"]:
            stage.delete(kind, name)
    for each in names.of(list(case.removed)):
        stage.remove(*each.split("/"))


def _results(claim: Object) -> list[tuple[str, str]]:
    """The devices of a claim's allocation, by pool."""
    allocation = claim.get("status", {}).get("allocation") or {"devices": {"results": []}}
    return [(result["pool"], result["device"]) for result in allocation["devices"]["results"]]
