"""The indexed fleet and the reference fleet make equal decisions after any events in any order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from placement.explain import _CAUSES
from placement.fleet import Fleet
from placement.types import (
    EVERY_ROLE,
    AllocatedDevice,
    Claim,
    Device,
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
    WaitCode,
)
from tests.placement.builders import (
    CPU,
    DRIVER,
    TAINT,
    TOLERATES_ALL,
    TOLERATION,
    amounts,
    attributes,
    claim,
    demand,
    free_on,
    gpus,
    join_checks,
    node,
    request,
    seat,
    sizes_of,
    slice_of,
)
from tests.placement.reference import ReferenceFleet

NODES = ("node-a", "node-b", "node-c")
POOLS = {"pool-a": "node-a", "pool-a-2": "node-a", "pool-b": "node-b", "pool-c": "node-c"}
"""The node of each pool. Sometimes another node publishes a pool of that name."""
DEVICES = ("gpu-0", "gpu-1", "gpu-2")
CLAIMS = tuple(f"claim-{number}" for number in range(7))
WORKERS = tuple(f"worker-{number}" for number in range(8))
OWNERS = ("ann", "bob", "cy")
SIZES = (24, 40, 79.65, 80, 80, 80, 141)

Event = tuple[str, tuple[Any, ...]]

hosts = st.builds(
    amounts,
    st.sampled_from((None, 0, 1, 16, 16, 40)),
    st.sampled_from((0, CPU, CPU, 8 * CPU)),
)
mostly_true = st.sampled_from((True, True, True, True, False))
mostly_false = mostly_true.map(lambda value: not value)
device_taints = st.sampled_from(
    ((), (), (), (TAINT,), (Taint("hot", "", TaintEffect.NONE), Taint("hot", "", TaintEffect.NO_EXECUTE)))
)
node_taints = st.sampled_from(((), (), (), (TAINT,), (Taint("x", "", TaintEffect.PREFER_NO_SCHEDULE),)))

nodes = st.builds(
    Node,
    name=st.sampled_from(NODES),
    enabled=mostly_true,
    roles=st.sampled_from(
        (EVERY_ROLE, EVERY_ROLE, frozenset({Role.TRAINER}), frozenset({Role.SAMPLER}), frozenset())
    ),
    ready=mostly_true,
    cordoned=mostly_false,
    taints=node_taints,
    allocatable=st.builds(
        amounts,
        st.sampled_from((None, 64, 64, 128)),
        st.sampled_from((4 * CPU, 16 * CPU)),
        st.sampled_from((4, 110)),
    ),
)
PRODUCT_A, PRODUCT_B = (attributes(product=value) for value in ("a", "b"))
demands = st.sampled_from(
    ((), (), (), demand(product=["a"]), demand(product=["b"]), demand(product=["a", "b"]), demand(zone=["z"]))
)
devices = st.lists(
    st.builds(
        Device,
        name=st.sampled_from(DEVICES),
        memory_bytes=st.sampled_from((None, *(int(size * 2**30) for size in SIZES))),
        taints=device_taints,
        attributes=st.sampled_from((PRODUCT_A, PRODUCT_A, PRODUCT_B, ())),
        multiple_allocations=mostly_false,
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda device: device.name,
).map(tuple)
slices = st.builds(
    lambda pool, node, **fields: DeviceSlice(pool=pool, node=POOLS[pool] if node is None else node, **fields),
    name=st.sampled_from([f"slice-{number}" for number in range(6)]),
    driver=st.sampled_from((DRIVER, DRIVER, DRIVER, DRIVER, "nic.example.com")),
    node=st.sampled_from((*[None] * 12, *NODES, "")),
    pool=st.sampled_from(list(POOLS)),
    generation=st.sampled_from((1, 1, 2)),
    slice_count=st.sampled_from((1, 1, 2)),
    devices=devices,
)
allocated = st.builds(
    AllocatedDevice,
    id=st.builds(
        DeviceID,
        st.sampled_from((DRIVER, DRIVER, DRIVER, DRIVER, "nic.example.com")),
        st.sampled_from(list(POOLS)),
        st.sampled_from(DEVICES),
    ),
    admin_access=mostly_false,
    tolerations=st.sampled_from(((), (), (TOLERATION,))),
)
claims = st.builds(
    lambda name, generation, **fields: Claim(name, f"{name}-uid{generation}", **fields),
    st.sampled_from(CLAIMS),
    st.sampled_from(("", "-next")),
    allocated=mostly_true,
    node=st.sampled_from((*NODES, *NODES, "")),
    devices=st.lists(allocated, min_size=0, max_size=2).map(tuple)
    | allocated.map(lambda row: (row,))
    | allocated.map(lambda row: (row,)),
    joinable=mostly_true,
)
pods = st.builds(
    PodUse,
    uid=st.sampled_from([f"pod-{number}" for number in range(8)]),
    node=st.sampled_from(("", *NODES)),
    requests=hosts,
    worker_uid=st.sampled_from(("", *(f"{worker}-uid" for worker in WORKERS))),
    claims=st.lists(st.sampled_from(CLAIMS), max_size=2).map(tuple),
    owner_key=st.sampled_from(("", *OWNERS)),
    exclusive=mostly_false,
)
reservations = st.builds(
    lambda worker, attempt, owner, exclusive, host: SeatInfo(
        worker, f"{worker}-uid", f"{worker}-{attempt}", owner, exclusive, host
    ),
    st.sampled_from(WORKERS),
    st.integers(0, 1),
    st.sampled_from(OWNERS),
    mostly_false,
    hosts,
)
seats = st.lists(reservations, max_size=4, unique_by=lambda seat: seat.worker).map(tuple)


def event(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Event]:
    return st.tuples(st.just(name), st.tuples(*arguments))


claim_names = st.sampled_from(CLAIMS)
events = st.one_of(
    event("set_node", nodes),
    event("remove_node", st.sampled_from(NODES)),
    event("set_slice", slices),
    event("remove_slice", st.sampled_from([f"slice-{number}" for number in range(6)])),
    event("set_pod", pods),
    event("set_pod", pods),
    event("remove_pod", st.sampled_from([f"pod-{number}" for number in range(8)])),
    event("set_claim", claims),
    event("remove_claim", claim_names),
    event("set_seats", claim_names, seats),
    event("set_seats", claim_names, seats),
    event("set_seats", claim_names, st.just(())),
    event("reserve", claim_names, reservations),
    event(
        "cancel_reservation",
        claim_names,
        st.builds("{}-{}".format, st.sampled_from(WORKERS), st.integers(0, 1)),
    ),
)
requests = st.builds(
    request,
    worker=st.sampled_from(WORKERS),
    role=st.sampled_from(Role),
    memory_bytes=st.sampled_from([int(size * 2**30) for size in (1, 24, 40, 79.65, 80, 200)]),
    devices=st.sampled_from((0, 0, 0, 0, 2, 3)),
    exclusive=mostly_false,
    host=hosts,
    tolerations=st.sampled_from(((), (TOLERATION,), (TOLERATES_ALL,))),
    seat_limit=st.sampled_from((3, 1, 2, 4, 256)),
    attributes=demands,
)
refusals_of_a_worker = st.builds(
    Refusals,
    claims=st.frozensets(st.sampled_from([f"{name}-uid" for name in CLAIMS]), max_size=2),
    nodes=st.frozensets(st.sampled_from(NODES), max_size=1),
    counts=st.dictionaries(st.sampled_from(NODES), st.integers(1, 3), max_size=2),
)


def joinable_fleet() -> list[Event]:
    """Return events that build a fleet with many claims to join, so that later events have an effect."""
    start: list[Event] = []
    for number, name in enumerate(NODES):
        start.append(("set_node", (node(name, allocatable=amounts(52, 8 * CPU, 5)),)))
        start.append(
            ("set_slice", (slice_of(name, gpus(80, 80, 40), name=f"slice-{number}", pool="pool-1"),))
        )
    for number, name in enumerate(CLAIMS[:6]):
        node_name = NODES[number % 3]
        row = AllocatedDevice(DeviceID(DRIVER, "pool-1", DEVICES[number // 3]))
        start.append(("set_claim", (claim(name, node_name=node_name, devices=(row,)),)))
        start.append(("set_seats", (name, (seat(WORKERS[number], owner_key=OWNERS[number % 2]),))))
    return start


def apply(one_event: Event, *fleets: Fleet | ReferenceFleet) -> None:
    name, arguments = one_event
    for fleet in fleets:
        cast("Callable[..., object]", getattr(fleet, name))(*arguments)


def assert_equal_decisions(
    fleet: Fleet, reference: ReferenceFleet, wanted: PlacementRequest, refusals: Refusals
) -> None:
    checks = reference.join_checks(wanted, refusals)
    assert join_checks(fleet, wanted, refusals) == checks
    assert fleet.select(wanted, refusals) == reference.select(wanted, refusals)
    assert fleet.device_shapes(wanted) == reference.device_shapes(wanted)
    assert fleet.preferred_nodes(wanted) == reference.preferred_nodes(wanted)
    assert_equal_causes(fleet, wanted, refusals, checks)
    for name in NODES:
        free, expected = free_on(fleet, name), reference.free(name)
        assert (free is None) == (expected is None)
        if free is not None and expected is not None:
            no_memory = reference.nodes[name].allocatable.memory_bytes is None
            assert free[1:] == expected[1:]
            assert no_memory or free[0] == expected[0]


def assert_equal_causes(
    fleet: Fleet, wanted: PlacementRequest, refusals: Refusals, checks: dict[str, JoinCheck | None]
) -> None:
    """Check that the causes that depend on the worker equal those found by a walk over all claims."""
    explanation = fleet.explain(wanted, refusals)
    if not wanted.shareable or explanation.code is WaitCode.NO_CAPACITY:
        return
    own = {
        JoinCheck.SEAT_LIMIT,
        JoinCheck.HOST_MEMORY,
        JoinCheck.HOST_CPU,
        JoinCheck.HOST_PODS,
        JoinCheck.REFUSED,
    }
    expected = {_CAUSES[check] for check in checks.values() if check in own}
    assert {cause for cause in explanation.causes if cause in {_CAUSES[check] for check in own}} == expected


@settings(max_examples=200, deadline=None)
@given(
    sequence=st.lists(events, min_size=8, max_size=30),
    wanted=st.lists(requests, min_size=1, max_size=3),
    refusals=refusals_of_a_worker,
)
def test_every_decision_equals_the_reference_after_every_event(
    sequence: list[Event], wanted: list[PlacementRequest], refusals: Refusals
) -> None:
    fleet, reference = Fleet(DRIVER), ReferenceFleet(DRIVER)
    for one_event in joinable_fleet():
        apply(one_event, fleet, reference)
    for one_event in sequence:
        apply(one_event, fleet, reference)
        for each in wanted:
            assert_equal_decisions(fleet, reference, each, refusals)


@settings(max_examples=100, deadline=None)
@given(
    sequence=st.lists(events, min_size=8, max_size=40),
    wanted=requests,
    refusals=refusals_of_a_worker,
    shuffle=st.randoms(),
)
def test_event_order_and_repeats_do_not_change_decisions(
    sequence: list[Event], wanted: PlacementRequest, refusals: Refusals, shuffle: Any
) -> None:
    facts = {
        (name, arguments[0] if isinstance(arguments[0], str) else _key(arguments[0])): (name, arguments)
        for name, arguments in [*joinable_fleet(), *sequence]
        if name.startswith("set_")
    }
    once, again = list(facts.values()), [*facts.values(), *facts.values()]
    shuffle.shuffle(again)
    ordered, shuffled = Fleet(DRIVER), Fleet(DRIVER)
    for one_event in once:
        apply(one_event, ordered)
    for one_event in again:
        apply(one_event, shuffled)
    assert join_checks(ordered, wanted, refusals) == join_checks(shuffled, wanted, refusals)
    assert ordered.select(wanted, refusals) == shuffled.select(wanted, refusals)
    assert ordered.explain(wanted, refusals) == shuffled.explain(wanted, refusals)
    assert [free_on(ordered, name) for name in NODES] == [free_on(shuffled, name) for name in NODES]
    assert sizes_of(ordered) == sizes_of(shuffled)


@settings(max_examples=100, deadline=None)
@given(sequence=st.lists(events, min_size=8, max_size=40))
def test_the_fleet_is_empty_after_all_facts_are_removed(sequence: list[Event]) -> None:
    fleet = Fleet(DRIVER)
    for one_event in [*joinable_fleet(), *sequence]:
        apply(one_event, fleet)
    removals: list[Callable[[], object]] = [partial(fleet.remove_node, name) for name in NODES]
    removals += [partial(fleet.remove_slice, f"slice-{number}") for number in range(6)]
    removals += [partial(fleet.remove_pod, f"pod-{number}") for number in range(8)]
    for name in CLAIMS:
        removals += [partial(fleet.remove_claim, name), partial(fleet.set_seats, name, ())]
        removals += [
            partial(fleet.cancel_reservation, name, f"{worker}-{attempt}")
            for worker in WORKERS
            for attempt in range(2)
        ]
    for remove in removals:
        remove()
    assert set(sizes_of(fleet)) == {0}
    assert not list(fleet._index.groups())
    assert not fleet._catalog
    assert set(fleet.capacity()) == {0}
    assert not fleet._inventory._slices
    assert not fleet._inventory._devices
    assert not fleet._nodes
    assert not fleet._claims
    assert not fleet._claim_by_uid


def _key(fact: Any) -> str:
    return str(fact.uid) if isinstance(fact, PodUse) else str(fact.name)
