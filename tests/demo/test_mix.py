"""The mix books every seat of any fleet, and overfills it with a worker of each kind."""

from __future__ import annotations

from functools import partial
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.types import GIB
from simulation.demo.mix import WORKERS_MAX, Mix, UnfitMix, WorkerShape, abbreviate_names, kind_of, manifest
from simulation.demo.plan import GPUS_MAX, LIMIT_MAX, NODES_MAX


def gpus_taken(names: tuple[str, ...]) -> int:
    return sum(2 if kind_of(name) is WorkerShape.PAIR else 1 for name in names)


def test_three_nodes_of_two_gpus_have_running_and_waiting_workers_of_each_kind() -> None:
    mix = Mix.for_fleet(nodes=3, gpus=2, limit=2)

    assert mix.exclusive == ("pair-1", "lora-1")
    assert mix.shared == ("fft-1", "fft-2", "fft-3", "fft-4", "fft-5", "fft-6")
    assert mix.late == ("fft-7", "fft-8", "lora-2", "pair-2")


@given(nodes=st.integers(1, 4), gpus=st.integers(1, 4), limit=st.integers(1, 4))
def test_every_seat_is_booked_and_each_kind_that_fits_the_fleet_waits(
    nodes: int, gpus: int, limit: int
) -> None:
    mix = Mix.for_fleet(nodes=nodes, gpus=gpus, limit=limit)

    assert len(mix.shared) == (nodes * gpus - gpus_taken(mix.exclusive)) * limit > 0
    assert {kind_of(name) for name in mix.late} == set(WorkerShape) - (
        set() if gpus > 1 else {WorkerShape.PAIR}
    )
    names = (*mix.exclusive, *mix.shared, *mix.late)
    assert len(set(names)) == len(names) == mix.total <= WORKERS_MAX


@given(nodes=st.integers(1, 4), gpus=st.integers(1, 3), extra=st.integers(-3, 3))
def test_the_number_of_workers_is_exact_or_refused_with_the_minimum(
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
def test_a_fleet_too_large_to_display_is_refused_for_any_number_of_workers(workers: int | None) -> None:
    message = (
        "--nodes 10, --gpus 8, --limit 2 need at least 159 workers, but the demo shows at most "
        f"{WORKERS_MAX}; lower one of them"
    )
    with pytest.raises(UnfitMix, match=message):
        Mix.for_fleet(nodes=10, gpus=8, limit=2, workers=workers)


def workers_min(nodes: int, gpus: int, limit: int) -> int:
    """Return the minimum number of workers: one per seat, and one of each kind that must wait."""
    devices = nodes * gpus
    pair = gpus > 1 and devices > 3
    lora = devices > 1
    return pair + lora + (devices - 2 * pair - lora) * limit + (3 if gpus > 1 else 2)


def test_a_fleet_is_refused_only_if_no_number_of_workers_is_allowed() -> None:
    # With one more node than the command allows, there is a fleet whose minimum is exactly the maximum.
    fleets = list(product(range(1, NODES_MAX + 2), range(1, GPUS_MAX + 1), range(1, LIMIT_MAX + 1)))
    assert WORKERS_MAX in {workers_min(*fleet) for fleet in fleets}
    for nodes, gpus, limit in fleets:
        fleet = partial(Mix.for_fleet, nodes=nodes, gpus=gpus, limit=limit)
        least = workers_min(nodes, gpus, limit)
        if least > WORKERS_MAX:
            for workers in (None, WORKERS_MAX, least):
                with pytest.raises(UnfitMix, match=f"need at least {least} workers, .*; lower one of them"):
                    fleet(workers=workers)
        else:
            assert fleet().total == min(least + 1, WORKERS_MAX)
            assert fleet(workers=least).total == least
            assert fleet(workers=WORKERS_MAX).total == WORKERS_MAX


def test_only_fft_workers_share_and_a_pair_requests_two_devices() -> None:
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
def test_long_runs_of_names_are_abbreviated(names: list[str], text: str) -> None:
    assert abbreviate_names(names) == text
