"""The mix fills any fleet to the last seat, and overfills it with a worker of every kind."""

from __future__ import annotations

from functools import partial
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.types import GIB
from simulation.demo.mix import WORKERS_MAX, Mix, UnfitMix, WorkerShape, kind_of, listed, manifest
from simulation.demo.plan import GPUS_MAX, LIMIT_MAX, NODES_MAX


def gpus_taken(names: tuple[str, ...]) -> int:
    return sum(2 if kind_of(name) is WorkerShape.PAIR else 1 for name in names)


def test_three_nodes_of_two_gpus_get_a_worker_of_each_kind_seated_and_waiting() -> None:
    mix = Mix.for_fleet(nodes=3, gpus=2, limit=2)

    assert mix.alone == ("pair-1", "lora-1")
    assert mix.sharing == ("fft-1", "fft-2", "fft-3", "fft-4", "fft-5", "fft-6")
    assert mix.late == ("fft-7", "fft-8", "lora-2", "pair-2")


@given(nodes=st.integers(1, 4), gpus=st.integers(1, 4), limit=st.integers(1, 4))
def test_every_seat_is_filled_and_each_kind_that_fits_the_fleet_waits(
    nodes: int, gpus: int, limit: int
) -> None:
    mix = Mix.for_fleet(nodes=nodes, gpus=gpus, limit=limit)

    assert len(mix.sharing) == (nodes * gpus - gpus_taken(mix.alone)) * limit > 0
    assert {kind_of(name) for name in mix.late} == set(WorkerShape) - (
        set() if gpus > 1 else {WorkerShape.PAIR}
    )
    names = (*mix.alone, *mix.sharing, *mix.late)
    assert len(set(names)) == len(names) == mix.total <= WORKERS_MAX


@given(nodes=st.integers(1, 4), gpus=st.integers(1, 3), extra=st.integers(-3, 3))
def test_the_number_of_workers_is_met_exactly_or_refused_with_the_least_that_will_do(
    nodes: int, gpus: int, extra: int
) -> None:
    wanted = Mix.for_fleet(nodes=nodes, gpus=gpus, limit=2).total - 1 + extra

    if extra < 0:
        with pytest.raises(
            UnfitMix, match=f"--workers: {wanted} is not allowed: {wanted - extra} to {WORKERS_MAX} for"
        ):
            Mix.for_fleet(nodes=nodes, gpus=gpus, limit=2, workers=wanted)
    else:
        assert Mix.for_fleet(nodes=nodes, gpus=gpus, limit=2, workers=wanted).total == wanted


@pytest.mark.parametrize("workers", [None, 50, 500])
def test_a_fleet_that_nobody_can_watch_is_refused_whatever_the_number_of_workers(workers: int | None) -> None:
    said = (
        f"--nodes 10, --gpus 8, --limit 2 need at least 159 workers: at most {WORKERS_MAX} are shown; "
        "lower one of them"
    )
    with pytest.raises(UnfitMix, match=said):
        Mix.for_fleet(nodes=10, gpus=8, limit=2, workers=workers)


def least_that_will_do(nodes: int, gpus: int, limit: int) -> int:
    """A worker for every seat, and one of each kind that has to wait."""
    devices = nodes * gpus
    pair = gpus > 1 and devices > 3
    lora = devices > 1
    return pair + lora + (devices - 2 * pair - lora) * limit + (3 if gpus > 1 else 2)


def test_a_fleet_is_refused_only_if_no_number_of_workers_would_do() -> None:
    # With one node more than the command allows there is a fleet for which exactly the most will do.
    fleets = list(product(range(1, NODES_MAX + 2), range(1, GPUS_MAX + 1), range(1, LIMIT_MAX + 1)))
    assert WORKERS_MAX in {least_that_will_do(*fleet) for fleet in fleets}
    for nodes, gpus, limit in fleets:
        fleet = partial(Mix.for_fleet, nodes=nodes, gpus=gpus, limit=limit)
        least = least_that_will_do(nodes, gpus, limit)
        if least > WORKERS_MAX:
            for workers in (None, WORKERS_MAX, least):
                with pytest.raises(UnfitMix, match=f"need at least {least} workers: .*; lower one of them"):
                    fleet(workers=workers)
        else:
            assert fleet().total == min(least + 1, WORKERS_MAX)
            assert fleet(workers=least).total == least
            assert fleet(workers=WORKERS_MAX).total == WORKERS_MAX


def test_only_fft_workers_share_and_a_pair_asks_for_two_devices() -> None:
    names = ("fft-1", "lora-1", "pair-1")
    specs = {name: manifest(name, gpu_memory_bytes=80 * GIB)["spec"] for name in names}

    assert [spec["exclusive"] for spec in specs.values()] == [False, True, True]
    assert specs["pair-1"]["accelerator"]["devices"] == 2
    assert "devices" not in specs["fft-1"]["accelerator"]
    assert [spec["accelerator"]["memory"] for spec in specs.values()] == ["60Gi", "20Gi", "60Gi"]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["fft-1"], "fft-1"),
        (["fft-1", "fft-2"], "fft-1, fft-2"),
        (["fft-8", "fft-9", "fft-10", "lora-1"], "fft-8 to fft-10, lora-1"),
        (["fft-1", "fft-3", "lora-4"], "fft-1, fft-3, lora-4"),
    ],
)
def test_long_runs_of_names_are_drawn_together(names: list[str], text: str) -> None:
    assert listed(names) == text
