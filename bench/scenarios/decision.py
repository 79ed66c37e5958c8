"""The decision alone, in this process: what choosing a seat costs by the number of claims, no cluster
involved.

Fleets of all sizes are held at once and asked in turn, so that a change of the machine's speed meets all
of them. `reserve` is part of choosing (and is taken back, so that every question meets the same fleet).
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
"""Sizes of the nodes' devices, in turn."""

SEAT_LIMIT = 4
OWNERS = 50
QUESTIONS = 64
"""Different requests that are asked one after the other."""

HOST = Amounts(4 * GIB, 500)
CONTENDER = "fleet"

Question = Callable[[PlacementRequest], object]


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Asks fleets of these sizes; each batch is `QUESTIONS` questions to each fleet."""

    name: str
    title: str
    claims: tuple[int, ...]
    batches: int
    seed: int = 1

    chosen: ClassVar[str] = "select and reserve a seat"
    full: ClassVar[str] = "select on a full fleet"
    explained: ClassVar[str] = "explain a wait on a full fleet"

    def measure(self) -> list[Sample]:
        """One sample for each size; a latency is the mean of one batch."""
        samples: dict[int, dict[str, list[float]]] = {size: {} for size in self.claims}
        requests = cycle([request(f"new-{number}") for number in range(QUESTIONS)])
        for full in (False, True):
            fleets = {size: build_fleet(size, Random(self.seed), full=full) for size in self.claims}
            for _ in range(self.batches):
                for size, fleet in fleets.items():
                    for label, ask in self._questions(fleet, full=full):
                        samples[size].setdefault(label, []).append(time_batch(ask, requests))
        return [
            Sample(
                scenario=self.name,
                contender=CONTENDER,
                workers=size,
                round=1,
                operations=self.batches * QUESTIONS,
                seconds=sum(sum(times) for times in latencies.values()) * QUESTIONS,
                latencies=latencies,
            )
            for size, latencies in samples.items()
        ]

    def _questions(self, fleet: Fleet, *, full: bool) -> Iterator[tuple[str, Question]]:
        if not full:
            yield self.chosen, lambda asked: choose(fleet, asked)
            return
        yield self.full, fleet.select
        yield self.explained, fleet.explain

    def quick(self) -> Decision:
        """Few batches on smaller fleets."""
        return replace(self, claims=tuple(size // 10 for size in self.claims), batches=3)


def choose(fleet: Fleet, asked: PlacementRequest) -> None:
    """Select and reserve as one step, then take the reservation back."""
    offer = fleet.select(asked)
    if offer is None:
        raise AssertionError("a fleet with free seats offers none")
    hold = seat(asked.worker, asked.owner_key)
    fleet.reserve(offer.claim, hold)
    fleet.cancel_reservation(offer.claim, hold.assignment_id)


def time_batch(ask: Question, requests: Iterator[PlacementRequest]) -> float:
    """Mean seconds of one question."""
    with no_garbage_collection():
        started = now()
        for _ in range(QUESTIONS):
            ask(next(requests))
        return (now() - started) / QUESTIONS


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Keep the collector, which walks all that the other fleets hold, out of a batch."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def build_fleet(claims: int, rng: Random, *, full: bool) -> Fleet:
    """A fleet of allocated, shared claims, one for each device; in a full one every seat is taken."""
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
    """A shared seat."""
    return SeatInfo(worker, f"{worker}-uid", f"{worker}-assignment", owner, False, HOST)


def request(worker: str) -> PlacementRequest:
    """A shared worker that fits every device."""
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
    """The samples by the number of claims, smallest first."""
    return {sample.workers: sample for sample in sorted(samples, key=lambda sample: sample.workers)}
