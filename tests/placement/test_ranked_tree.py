"""The tree finds what a walk over the sorted cells finds, and looks at few of them."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from placement.claim_state import ClaimRank
from placement.host_resources import HostResources
from placement.ranked_tree import ClaimBucket, Query, RankedTree, _Item

small = st.integers(0, 4)
ranks = st.builds(ClaimRank, small, small, small)
rooms = st.builds(HostResources, small, small, small)
names = st.integers(0, 30).map("claim-{:02}".format)


class Step(NamedTuple):
    action: str
    name: str
    rank: ClaimRank
    room: HostResources


steps = st.builds(Step, st.sampled_from(("add", "add", "remove", "room")), names, ranks, rooms)
low, high = st.integers(0, 2), st.integers(2, 5)
queries = st.builds(
    Query, low, high, st.builds(HostResources, low, low, low), st.builds(HostResources, high, high, high)
)


def take(
    tree: RankedTree, cells: dict[ClaimRank, ClaimBucket], homes: dict[str, ClaimBucket], step: Step
) -> None:
    if step.action == "add" and step.name not in homes:
        cell = cells.get(step.rank)
        if cell is None:
            cell = cells[step.rank] = ClaimBucket(step.rank, step.room, step.name)
            tree.insert(cell)
        else:
            tree.add_name(cell, step.name)
        homes[step.name] = cell
    elif step.action == "remove" and step.name in homes:
        cell = homes.pop(step.name)
        tree.discard_name(cell, step.name)
        if not cell.names:
            del cells[cell.rank]
    elif step.action == "room" and step.name in homes:
        tree.set_room(homes[step.name], step.room)


def walk(cells: dict[ClaimRank, ClaimBucket], query: Query) -> ClaimBucket | None:
    for cell in sorted(cells.values(), key=lambda cell: cell.key):
        if (
            cell.rank.size_bytes >= query.size_bytes
            and cell.rank.seats < query.seats_below
            and all(have >= least for have, least in zip(cell.room, query.least, strict=True))
            and all(have < below for have, below in zip(cell.room, query.below, strict=True))
        ):
            return cell
    return None


def assert_sound(item: _Item | None) -> list[ClaimBucket]:
    """Order, heap and extremes hold in the subtree; its cells in order."""
    if item is None:
        return []
    cells = [*assert_sound(item.left), item.cell, *assert_sound(item.right)]
    assert all(child is None or child.priority <= item.priority for child in (item.left, item.right))
    assert item.key == item.cell.key
    assert item.lowest == tuple(map(min, zip(*(cell.room for cell in cells), strict=True)))
    assert item.highest == tuple(map(max, zip(*(cell.room for cell in cells), strict=True)))
    assert item.seats_min == min(cell.rank.seats for cell in cells)
    return cells


@settings(max_examples=200, deadline=None)
@given(happenings=st.lists(steps, min_size=5, max_size=60), query=queries)
def test_the_tree_answers_like_a_walk(happenings: list[Step], query: Query) -> None:
    tree = RankedTree()
    cells: dict[ClaimRank, ClaimBucket] = {}
    homes: dict[str, ClaimBucket] = {}
    for step in happenings:
        take(tree, cells, homes, step)
        found = assert_sound(tree._root)
        assert [cell.key for cell in found] == sorted(cell.key for cell in cells.values())
        assert len(tree) == len(cells)
        assert tree.first(query) is walk(cells, query)


def test_a_search_behind_a_key_goes_on_with_the_next_cell() -> None:
    tree = RankedTree()
    wanted = [
        ClaimBucket(ClaimRank(1, 1, seats), HostResources(1, 1, 1), f"claim-{seats}") for seats in range(5)
    ]
    for cell in reversed(wanted):
        tree.insert(cell)
    query = Query(1, 10)
    found = [tree.first(query)]
    while found[-1] is not None:
        found.append(tree.first(query, after=found[-1].key))
    assert found == [*wanted, None]


def test_cells_in_which_nothing_fits_are_not_walked_through() -> None:
    tree = RankedTree()
    for number in range(4096):
        room = HostResources(9, 9, 9) if number == 4000 else HostResources(1, 9, 9)
        tree.insert(ClaimBucket(ClaimRank(1, 1, 1), room, f"claim-{number:04}"))
    looks = 0

    class Counting(Query):
        def __getattribute__(self, name: str) -> object:
            nonlocal looks
            looks += name == "seats_below"
            return super().__getattribute__(name)

    found = tree.first(Counting(1, 10, HostResources(2, 2, 2)))
    assert found is not None
    assert found.names == ["claim-4000"]
    assert looks < 200
