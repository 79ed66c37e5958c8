"""Builders of fleets and their objects. Each default is valid and ready to use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from placement.fleet import Fleet
from placement.host_resources import HostResources
from placement.types import (
    EVERY_ROLE,
    GIB,
    MAX_SEATS,
    NO_REFUSALS,
    AcceptedValues,
    AllocatedDevice,
    Amounts,
    AttributeDemand,
    AttributeValue,
    Claim,
    Device,
    DeviceAttribute,
    DeviceID,
    DeviceSlice,
    JoinCheck,
    Node,
    PlacementRequest,
    PodUse,
    Refusals,
    Role,
    SeatInfo,
    Taint,
    TaintEffect,
    Toleration,
)

DRIVER = "gpu.example.com"
CPU = 1000

TAINT = Taint("dedicated", "training", TaintEffect.NO_SCHEDULE)
TOLERATION = Toleration("dedicated", exists=False, value="training", effect=TaintEffect.NO_SCHEDULE)
TOLERATES_ALL = Toleration("", exists=True, value="", effect=None)


def amounts(memory_gib: float | None = 0, cpu_millis: int = 0, pods: int = 1) -> Amounts:
    return Amounts(None if memory_gib is None else int(memory_gib * GIB), cpu_millis, pods)


def request(worker: str = "new", **changes: Any) -> PlacementRequest:
    fields: dict[str, Any] = {
        "worker": worker,
        "worker_uid": f"{worker}-uid",
        "role": Role.TRAINER,
        "memory_bytes": 60 * GIB,
        "devices": 0,
        "exclusive": False,
        "owner_key": worker,
        "host": amounts(16, CPU),
        "tolerations": (),
        "seat_limit": MAX_SEATS,
        "seat_limit_is_set": False,
    }
    if "seat_limit" in changes:
        fields["seat_limit_is_set"] = True
    return PlacementRequest(**(fields | changes))


def seat(worker: str = "first", **changes: Any) -> SeatInfo:
    fields: dict[str, Any] = {
        "worker": worker,
        "worker_uid": f"{worker}-uid",
        "assignment_id": f"{worker}-assignment",
        "owner_key": worker,
        "exclusive": False,
        "host": amounts(16, CPU),
    }
    return SeatInfo(**(fields | changes))


def node(name: str = "node", **changes: Any) -> Node:
    fields: dict[str, Any] = {
        "name": name,
        "enabled": True,
        "roles": EVERY_ROLE,
        "ready": True,
        "cordoned": False,
        "taints": (),
        "allocatable": amounts(256, 64 * CPU, 110),
    }
    return Node(**(fields | changes))


def slice_of(node_name: str, devices: tuple[Device, ...], **changes: Any) -> DeviceSlice:
    fields: dict[str, Any] = {
        "name": f"{node_name}-slice",
        "driver": DRIVER,
        "node": node_name,
        "pool": node_name,
        "generation": 1,
        "slice_count": 1,
        "devices": devices,
    }
    return DeviceSlice(**(fields | changes))


def claim(name: str, device: str = "gpu-0", node_name: str = "node", **changes: Any) -> Claim:
    fields: dict[str, Any] = {
        "name": name,
        "uid": f"{name}-uid",
        "allocated": True,
        "node": node_name,
        "devices": (AllocatedDevice(DeviceID(DRIVER, node_name, device)),),
        "joinable": True,
    }
    return Claim(**(fields | changes))


def pod(worker: str, *, node_name: str = "", claims: tuple[str, ...] = (), **changes: Any) -> PodUse:
    fields: dict[str, Any] = {
        "uid": f"{worker}-pod",
        "node": node_name,
        "requests": amounts(16, CPU),
        "worker_uid": f"{worker}-uid",
        "claims": claims,
        "owner_key": worker,
    }
    return PodUse(**(fields | changes))


def attributes(**values: str) -> tuple[DeviceAttribute, ...]:
    """Return attributes of a device in the domain of the driver."""
    return tuple(
        DeviceAttribute(f"{DRIVER}/{name}", AttributeValue("string", value))
        for name, value in sorted(values.items())
    )


def demand(**values: list[str]) -> AttributeDemand:
    """Return a demand for attributes in the domain of the driver."""
    return tuple(
        AcceptedValues(
            f"{DRIVER}/{name}", tuple(AttributeValue("string", value) for value in sorted(accepted))
        )
        for name, accepted in sorted(values.items())
    )


def gpus(*sizes_gib: float | None) -> tuple[Device, ...]:
    """Return devices `gpu-0`, `gpu-1`, … of these sizes."""
    return tuple(
        Device(f"gpu-{number}", None if size is None else int(size * GIB))
        for number, size in enumerate(sizes_gib)
    )


class FleetSizes(NamedTuple):
    """Number of facts in a fleet, by kind."""

    nodes: int
    """Nodes that count: enabled, with a complete pool."""
    pods: int
    claims: int
    seats: int
    reservations: int


def sizes_of(fleet: Fleet) -> FleetSizes:
    """Return the number of facts in a fleet."""
    return FleetSizes(
        nodes=sum(info.node_class is not None for info in fleet._nodes.values()),
        pods=len(fleet._pods),
        claims=sum(state.claim is not None for state in fleet._claims.values()),
        seats=sum(len(state.seats) for state in fleet._claims.values()),
        reservations=sum(len(state.reservations) for state in fleet._claims.values()),
    )


def free_on(fleet: Fleet, node_name: str) -> HostResources | None:
    """Return the free host resources of a node, None if the fleet has no such node."""
    info = fleet._nodes.get(node_name)
    return None if info is None or info.node is None else info.free


def join_checks(
    fleet: Fleet, wanted: PlacementRequest, refusals: Refusals = NO_REFUSALS
) -> dict[str, JoinCheck | None]:
    """Return the first condition that each claim fails, by claim name."""
    return {
        name: fleet.check(wanted, name, refusals)
        for name, state in sorted(fleet._claims.items())
        if state.claim is not None
    }


@dataclass
class Scene:
    """A fleet under construction. Each method adds one object and returns the scene."""

    fleet: Fleet = field(default_factory=lambda: Fleet(DRIVER))

    def node(self, name: str = "node", *sizes_gib: float | None, **changes: Any) -> Scene:
        """Add a node with a complete pool of devices of these sizes."""
        self.fleet.set_node(node(name, **changes))
        self.fleet.set_slice(slice_of(name, gpus(*sizes_gib)))
        return self

    def shared(
        self, name: str, *seats: SeatInfo, device: str = "gpu-0", on: str = "node", **changes: Any
    ) -> Scene:
        """Add a claim allocated on a device of the node, with these seats (one if none is given)."""
        self.fleet.set_claim(claim(name, device, on, **changes))
        self.fleet.set_seats(name, seats or (seat(f"{name}-creator"),))
        return self

    def choice(self, **changes: Any) -> str | None:
        """Return the name of the claim that a new worker can join."""
        offer = self.fleet.select(request(**changes))
        return None if offer is None else offer.claim


def one_claim(**node_changes: Any) -> Scene:
    """Return a fleet of one node, one 80 GiB device and a claim on it that any worker can join."""
    return Scene().node("node", 80, **node_changes).shared("claim")
