"""The latency of a hand-off: it passes from worker to worker and ends with a booking, or is dropped."""

from __future__ import annotations

import anyio
import pytest

from controller.observe.handoff_latency import HandOffLatency
from informers.api import ObjectKey
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend

pytestmark = pytest.mark.anyio

OLD, YOUNG = ObjectKey("ns", "old"), ObjectKey("ns", "young")


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


@pytest.fixture
def hand_offs() -> HandOffLatency:
    latency = HandOffLatency()
    latency.start()
    return latency


async def test_a_skipped_worker_passes_its_time_on(hand_offs: HandOffLatency) -> None:
    hand_offs.record_freed(1)
    hand_offs.record_activated([OLD])
    await anyio.sleep(2)
    hand_offs.record_skipped(OLD)
    hand_offs.record_activated([YOUNG])
    await anyio.sleep(1)
    hand_offs.record_booked(YOUNG)

    assert hand_offs.statistics().count == 1
    assert hand_offs.statistics().sum == pytest.approx(3.0)


async def test_a_second_activation_does_not_restart_the_time(hand_offs: HandOffLatency) -> None:
    hand_offs.record_freed(1)
    hand_offs.record_activated([OLD])
    await anyio.sleep(2)
    hand_offs.record_freed(1)
    hand_offs.record_activated([OLD, YOUNG])
    await anyio.sleep(1)
    hand_offs.record_booked(YOUNG)
    hand_offs.record_booked(OLD)

    assert hand_offs.statistics().count == 2
    assert hand_offs.statistics().sum == pytest.approx(1.0 + 3.0)


async def test_a_seat_without_a_taker_does_not_count_for_a_later_worker(hand_offs: HandOffLatency) -> None:
    hand_offs.record_freed(1)
    hand_offs.record_activated([])
    await anyio.sleep(60)
    hand_offs.record_activated([OLD])
    hand_offs.record_booked(OLD)

    assert hand_offs.statistics().count == 0


async def test_pending_hand_offs_are_dropped_when_another_process_leads(hand_offs: HandOffLatency) -> None:
    hand_offs.record_freed(1)
    hand_offs.record_activated([OLD])
    hand_offs.stop()
    hand_offs.record_booked(OLD)
    hand_offs.record_freed(1)
    hand_offs.record_activated([YOUNG])
    hand_offs.record_booked(YOUNG)

    assert hand_offs.statistics().count == 0
