"""The placement decision in this process, without a cluster: its cost by the number of claims.

All fleets exist at once and are measured in turn, so that a change of the machine's speed affects all of
them. `reserve` is part of a selection. It is cancelled afterwards, so that every decision starts from the
same fleet.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import cycle
from random import Random
from typing import ClassVar

from bench.observer import now
from bench.samples import Sample
from placement.fleet import Fleet
from placement.types import (
    EVERY_ROLE,
    GIB,
    AllocatedDevice,
    Amounts,
    Claim,
    Device,
    DeviceID,
    DeviceSlice,
    Node,
    PlacementRequest,
    Role,
    SeatInfo,
)

DRIVER = "gpu.example.com"
GPUS_PER_NODE = 4
DEVICE_GIB = (24, 40, 80)
"""Device sizes of successive nodes."""

SEAT_LIMIT = 4
OWNERS = 50
REQUESTS = 64
"""Number of distinct requests per batch."""

HOST = Amounts(4 * GIB, 500)
CONTENDER = "fleet"

Query = Callable[[PlacementRequest], object]


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A scenario with fleets of these sizes. Each batch runs `REQUESTS` decisions on each fleet."""

    name: str
    title: str
    claims: tuple[int, ...]
    batches: int
    seed: int = 1

    chosen: ClassVar[str] = "select and reserve a seat"
    full: ClassVar[str] = "select on a full fleet"
    explained: ClassVar[str] = "explain a wait on a full fleet"

    def measure(self) -> list[Sample]:
        """Return one sample per size. A latency is the mean of one batch."""
        samples: dict[int, dict[str, list[float]]] = {size: {} for size in self.claims}
        requests = cycle([request(f"new-{number}") for number in range(REQUESTS)])
        for full in (False, True):
            fleets = {size: build_fleet(size, Random(self.seed), full=full) for size in self.claims}
            for _ in range(self.batches):
                for size, fleet in fleets.items():
                    for label, query in self._queries(fleet, full=full):
                        samples[size].setdefault(label, []).append(time_batch(query, requests))
        return [
            Sample(
                scenario=self.name,
                contender=CONTENDER,
                workers=size,
                round=1,
                operations=self.batches * REQUESTS,
                seconds=sum(sum(times) for times in latencies.values()) * REQUESTS,
                latencies=latencies,
            )
            for size, latencies in samples.items()
        ]

    def _queries(self, fleet: Fleet, *, full: bool) -> Iterator[tuple[str, Query]]:
        if not full:
            yield self.chosen, lambda wanted: choose(fleet, wanted)
            return
        yield self.full, fleet.select
        yield self.explained, fleet.explain

    def quick(self) -> Decision:
        """Return a variant with few batches on smaller fleets."""
        return replace(self, claims=tuple(size // 10 for size in self.claims), batches=3)


def choose(fleet: Fleet, wanted: PlacementRequest) -> None:
    """Select and reserve in one step, then cancel the reservation."""
    offer = fleet.select(wanted)
    if offer is None:
        raise AssertionError("a fleet with free seats offers none")
    reservation = seat(wanted.worker, wanted.owner_key)
    fleet.reserve(offer.claim, reservation)
    fleet.cancel_reservation(offer.claim, reservation.assignment_id)


def time_batch(query: Query, requests: Iterator[PlacementRequest]) -> float:
    """Return the mean seconds per decision."""
    with no_garbage_collection():
        started = now()
        for _ in range(REQUESTS):
            query(next(requests))
        return (now() - started) / REQUESTS


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Disable the garbage collector, which would walk the other fleets, during the block."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def build_fleet(claims: int, rng: Random, *, full: bool) -> Fleet:
    """Return a fleet of allocated, shared claims, one per device. In a full fleet no seat is free."""
    fleet = Fleet(DRIVER)
    for number in range(-(-claims // GPUS_PER_NODE)):
        _add_node(fleet, f"node-{number}", DEVICE_GIB[number % len(DEVICE_GIB)])
    for number in range(claims):
        name, node = f"claim-{number}", f"node-{number // GPUS_PER_NODE}"
        device = AllocatedDevice(DeviceID(DRIVER, node, f"gpu-{number % GPUS_PER_NODE}"))
        fleet.set_claim(Claim(name, f"{name}-uid", True, node, (device,), True))
        seats = SEAT_LIMIT if full else rng.randint(1, SEAT_LIMIT)
        workers = ((f"{name}-{place}", f"owner-{rng.randrange(OWNERS)}") for place in range(seats))
        fleet.set_seats(name, tuple(seat(worker, owner) for worker, owner in workers))
    return fleet


def _add_node(fleet: Fleet, name: str, device_gib: int) -> None:
    allocatable = Amounts(512 * GIB, 64_000, 110)
    fleet.set_node(
        Node(
            name=name,
            enabled=True,
            roles=EVERY_ROLE,
            ready=True,
            cordoned=False,
            taints=(),
            allocatable=allocatable,
        )
    )
    devices = tuple(Device(f"gpu-{index}", device_gib * GIB) for index in range(GPUS_PER_NODE))
    fleet.set_slice(DeviceSlice(f"{name}-slice", DRIVER, name, name, 1, 1, devices))


def seat(worker: str, owner: str) -> SeatInfo:
    """Return a shared seat."""
    return SeatInfo(worker, f"{worker}-uid", f"{worker}-assignment", owner, False, HOST)


def request(worker: str) -> PlacementRequest:
    """Return the request of a shared worker that fits every device."""
    return PlacementRequest(
        worker=worker,
        worker_uid=f"{worker}-uid",
        role=Role.TRAINER,
        memory_bytes=20 * GIB,
        devices=0,
        exclusive=False,
        owner_key=worker,
        host=HOST,
        tolerations=(),
        seat_limit=SEAT_LIMIT,
        seat_limit_is_set=True,
    )


def sizes_of(samples: Sequence[Sample]) -> dict[int, Sample]:
    """Return the samples by the number of claims, ascending."""
    return {sample.workers: sample for sample in sorted(samples, key=lambda sample: sample.workers)}
