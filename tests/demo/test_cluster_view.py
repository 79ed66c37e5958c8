"""API objects become rows: the workers of each claim, and the waiting workers with their reasons."""

from __future__ import annotations

import pytest

from simulation.demo.cluster_view import ClaimRow, State, WaitingRow, read_view
from tests.demo.build import BUSY, FULL, claim, ledger, workload


def test_a_claim_is_shown_with_its_devices_and_the_seats_of_its_ledger() -> None:
    view = read_view([], [ledger("c", "fft-1", "fft-2")], [claim("c", "gpu-node-1", "gpu-1")])

    assert view.claims == (ClaimRow("c", "gpu-node-1", ("gpu-1",), ("fft-1", "fft-2"), exclusive=False),)


def test_a_claim_on_two_devices_is_one_row() -> None:
    view = read_view(
        [], [ledger("c", "pair-1", exclusive=True)], [claim("c", "gpu-node-0", "gpu-1", "gpu-0")]
    )

    assert view.claims == (ClaimRow("c", "gpu-node-0", ("gpu-0", "gpu-1"), ("pair-1",), exclusive=True),)
    assert view.devices_in_use == 2


def test_the_unallocated_claim_of_a_waiting_worker_has_no_row() -> None:
    view = read_view([], [ledger("c", "fft-1")], [claim("c")])

    assert view.claims == ()
    assert view.devices_in_use == 0


def test_a_claim_without_a_ledger_has_no_workers() -> None:
    (row,) = read_view([], [], [claim("c", "gpu-node-0")]).claims

    assert row.workers == ()


def test_claims_are_ordered_by_node_and_device() -> None:
    claims = [claim("a", "n-1", "gpu-0"), claim("b", "n-0", "gpu-1"), claim("c", "n-0", "gpu-0")]

    assert [row.claim for row in read_view([], [], claims).claims] == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        ("", State.NEW),
        ("Placing", State.STARTING),
        ("Running", State.RUNNING),
        ("Pending", State.WAITING),
        ("Succeeded", State.ENDED),
        ("Failed", State.ENDED),
    ],
)
def test_a_phase_is_shown_as_a_state(phase: str, state: State) -> None:
    (shown,) = read_view([workload("fft-1", phase)], [], []).workers

    assert shown.state is state


def test_a_terminating_workload_is_deleting_in_any_phase() -> None:
    view = read_view([workload("fft-1", "Running", deleting=True)], [], [])

    assert view.in_state(State.DELETING) == ("fft-1",)
    assert view.in_state(State.RUNNING) == ()


def test_waiting_workers_are_grouped_by_reason_with_the_oldest_first() -> None:
    view = read_view(
        [
            workload("fft-10", "Pending", reason=FULL),
            workload("lora-2", "Pending", reason=BUSY),
            workload("fft-9", "Pending", reason=FULL),
            workload("fft-1", "Running"),
            workload("pair-9", "Pending", reason=BUSY, created="2025-12-31T23:59:59Z"),
        ],
        [],
        [],
    )

    assert view.waiting == (WaitingRow(("pair-9", "lora-2"), BUSY), WaitingRow(("fft-9", "fft-10"), FULL))
