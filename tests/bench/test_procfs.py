from __future__ import annotations

import os

import pytest

from bench import procfs
from bench.errors import NotMeasurable

STAT = "4242 (open-rl) sched) S 1 4242 4242 0 -1 4194560 9000 0 3 0 731 45 0 0 20 0 4 0 99 1000 200"
STATUS = "Name:\topen-rl\nVmPeak:\t  900000 kB\nVmHWM:\t  101376 kB\nVmRSS:\t  90000 kB\n"


def test_cpu_time_is_user_plus_system_time_for_any_command_name() -> None:
    assert procfs.parse_cpu_ticks(STAT) == 731 + 45


def test_the_peak_is_the_high_water_mark() -> None:
    assert procfs.parse_peak_bytes(STATUS) == 101376 * 1024
    assert procfs.parse_peak_bytes("Name:\tzombie\n") == 0


def test_cpu_wait_is_the_second_number_of_schedstat() -> None:
    assert procfs.parse_wait_nanoseconds("957087 7000 2\n") == 7000


def test_this_process_can_be_measured() -> None:
    assert procfs.cpu_seconds(os.getpid()) > 0
    assert procfs.rss_peak_bytes(os.getpid()) > 1 << 20
    assert procfs.cpu_wait_seconds(os.getpid()) >= 0


def test_a_process_that_does_not_exist_cannot_be_measured() -> None:
    for measure in (procfs.cpu_seconds, procfs.cpu_wait_seconds, procfs.rss_peak_bytes):
        with pytest.raises(NotMeasurable, match="process 0"):
            measure(0)
