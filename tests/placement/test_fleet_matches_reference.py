"""Whatever the events and their order, the indexed fleet decides as the plain one does."""

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
    claim,
    free_on,
    gpus,
    join_checks,
    node,
    request,
    seat,
    slice_of,
)
from tests.placement.reference import ReferenceFleet

NODES = ("node-a", "node-b", "node-c")
POOLS = ("pool-1", "pool-2")
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
devices = st.lists(
    st.builds(
        Device,
        name=st.sampled_from(DEVICES),
        memory_bytes=st.sampled_from((None, *(int(size * 2**30) for size in SIZES))),
        taints=device_taints,
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda device: device.name,
).map(tuple)
slices = st.builds(
    DeviceSlice,
    name=st.sampled_from([f"slice-{number}" for number in range(6)]),
    driver=st.sampled_from((DRIVER, DRIVER, DRIVER, DRIVER, "nic.example.com")),
    node=st.sampled_from((*NODES, *NODES, "")),
    pool=st.sampled_from(POOLS),
    generation=st.sampled_from((1, 1, 2)),
    slice_count=st.sampled_from((1, 1, 2)),
    devices=devices,
)
allocated = st.builds(
    AllocatedDevice,
    id=st.builds(
        DeviceID,
        st.sampled_from((DRIVER, DRIVER, DRIVER, DRIVER, "nic.example.com")),
        st.sampled_from(POOLS),
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
holds = st.builds(
    lambda worker, attempt, owner, exclusive, host: SeatInfo(
        worker, f"{worker}-uid", f"{worker}-{attempt}", owner, exclusive, host
    ),
    st.sampled_from(WORKERS),
    st.integers(0, 1),
    st.sampled_from(OWNERS),
    mostly_false,
    hosts,
)
seats = st.lists(holds, max_size=4, unique_by=lambda hold: hold.worker).map(tuple)


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
    event("remove_seats", claim_names),
    event("reserve", claim_names, holds),
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
)
refusals = st.frozensets(st.sampled_from([f"{name}-uid" for name in CLAIMS]), max_size=2)


def working_fleet() -> list[Event]:
    """A fleet on which much can be joined, so that what the events break shows."""
    start: list[Event] = []
    for number, name in enumerate(NODES):
        start.append(("set_node", (node(name, allocatable=amounts(52, 8 * CPU, 5)),)))
        start.append(
            ("set_slice", (slice_of(name, gpus(80, 80, 40), name=f"slice-{number}", pool="pool-1"),))
        )
    for number, name in enumerate(CLAIMS[:6]):
        home = NODES[number % 3]
        row = AllocatedDevice(DeviceID(DRIVER, "pool-1", DEVICES[number // 3]))
        start.append(("set_claim", (claim(name, node_name=home, devices=(row,)),)))
        start.append(("set_seats", (name, (seat(WORKERS[number], owner_key=OWNERS[number % 2]),))))
    return start


def apply(happening: Event, *fleets: Fleet | ReferenceFleet) -> None:
    name, arguments = happening
    for fleet in fleets:
        cast("Callable[..., object]", getattr(fleet, name))(*arguments)


def assert_same(
    fleet: Fleet, reference: ReferenceFleet, wanted: PlacementRequest, refused: frozenset[str]
) -> None:
    checks = reference.candidates(wanted, refused)
    assert join_checks(fleet, wanted, refused) == checks
    assert fleet.select(wanted, refused) == reference.select(wanted, refused)
    assert fleet.device_shapes(wanted) == reference.tiers(wanted)
    assert fleet.preferred_nodes(wanted) == reference.preferred_nodes(wanted)
    assert_same_causes(fleet, wanted, refused, checks)
    for name in NODES:
        room, expected = free_on(fleet, name), reference.room(name)
        assert (room is None) == (expected is None)
        if room is not None and expected is not None:
            no_memory = reference.nodes[name].allocatable.memory_bytes is None
            assert room[1:] == expected[1:]
            assert no_memory or room[0] == expected[0]


def assert_same_causes(
    fleet: Fleet, wanted: PlacementRequest, refused: frozenset[str], checks: dict[str, JoinCheck | None]
) -> None:
    """What the sentence names of a worker's own prospects is what the walk over all claims finds."""
    explanation = fleet.explain(wanted, refused)
    if not wanted.shareable or explanation.code is WaitCode.NO_CAPACITY:
        return
    personal = {
        JoinCheck.SEAT_LIMIT,
        JoinCheck.HOST_MEMORY,
        JoinCheck.HOST_CPU,
        JoinCheck.HOST_PODS,
        JoinCheck.REFUSED,
    }
    expected = {_CAUSES[check] for check in checks.values() if check in personal}
    assert {
        cause for cause in explanation.causes if cause in {_CAUSES[check] for check in personal}
    } == expected


@settings(max_examples=200, deadline=None)
@given(
    happenings=st.lists(events, min_size=8, max_size=30),
    wanted=st.lists(requests, min_size=1, max_size=3),
    refused=refusals,
)
def test_every_decision_equals_the_plain_one_after_every_event(
    happenings: list[Event], wanted: list[PlacementRequest], refused: frozenset[str]
) -> None:
    fleet, reference = Fleet(DRIVER), ReferenceFleet(DRIVER)
    for happening in working_fleet():
        apply(happening, fleet, reference)
    for happening in happenings:
        apply(happening, fleet, reference)
        for one in wanted:
            assert_same(fleet, reference, one, refused)


@settings(max_examples=100, deadline=None)
@given(
    happenings=st.lists(events, min_size=8, max_size=40),
    wanted=requests,
    refused=refusals,
    shuffle=st.randoms(),
)
def test_the_order_of_events_and_repeats_do_not_matter(
    happenings: list[Event], wanted: PlacementRequest, refused: frozenset[str], shuffle: Any
) -> None:
    facts = {
        (name, arguments[0] if isinstance(arguments[0], str) else _key(arguments[0])): (name, arguments)
        for name, arguments in [*working_fleet(), *happenings]
        if name.startswith("set_")
    }
    once, again = list(facts.values()), [*facts.values(), *facts.values()]
    shuffle.shuffle(again)
    ordered, shuffled = Fleet(DRIVER), Fleet(DRIVER)
    for happening in once:
        apply(happening, ordered)
    for happening in again:
        apply(happening, shuffled)
    assert join_checks(ordered, wanted, refused) == join_checks(shuffled, wanted, refused)
    assert ordered.select(wanted, refused) == shuffled.select(wanted, refused)
    assert ordered.explain(wanted, refused) == shuffled.explain(wanted, refused)
    assert [free_on(ordered, name) for name in NODES] == [free_on(shuffled, name) for name in NODES]
    assert ordered.statistics() == shuffled.statistics()


@settings(max_examples=100, deadline=None)
@given(happenings=st.lists(events, min_size=8, max_size=40))
def test_nothing_stays_behind_when_all_facts_are_gone(happenings: list[Event]) -> None:
    fleet = Fleet(DRIVER)
    for happening in [*working_fleet(), *happenings]:
        apply(happening, fleet)
    removals: list[Callable[[], object]] = [partial(fleet.remove_node, name) for name in NODES]
    removals += [partial(fleet.remove_slice, f"slice-{number}") for number in range(6)]
    removals += [partial(fleet.remove_pod, f"pod-{number}") for number in range(8)]
    for name in CLAIMS:
        removals += [partial(fleet.remove_claim, name), partial(fleet.remove_seats, name)]
        removals += [
            partial(fleet.cancel_reservation, name, f"{worker}-{attempt}")
            for worker in WORKERS
            for attempt in range(2)
        ]
    for remove in removals:
        remove()
    assert set(fleet.statistics()) == {0}
    assert set(fleet._index.statistics()) == {0}
    assert set(fleet._catalog.statistics()) == {0}
    assert set(fleet._inventory.statistics()) == {0}
    assert not fleet._sites
    assert not fleet._claims
    assert not fleet._claim_by_uid


def _key(fact: Any) -> str:
    return str(fact.uid) if isinstance(fact, PodUse) else str(fact.name)
