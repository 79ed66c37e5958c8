"""CPU time and memory of a process from Linux's /proc.

The kernel scales user and system time to the exact run time. Their sum is accurate to one tick (10 ms), but
the split is not. Threads count, child processes do not: contenders have none.
"""

from __future__ import annotations

import os
from pathlib import Path

from bench.errors import NotMeasurable

KIB = 1024
# Fields of /proc/<pid>/stat after the command's closing parenthesis (proc(5) counts from 1, "state" is 3).
_UTIME, _STIME = 14 - 3, 15 - 3


def parse_cpu_ticks(stat: str) -> int:
    """Return user plus system time in clock ticks from /proc/<pid>/stat. A command may contain any text."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[_UTIME]) + int(fields[_STIME])


def parse_peak_bytes(status: str) -> int:
    """Return the peak resident set from /proc/<pid>/status, 0 for a process without one."""
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == "VmHWM":
            return int(value.split()[0]) * KIB
    return 0


def parse_wait_nanoseconds(schedstat: str) -> int:
    """Return how long a thread was runnable without a CPU, from its schedstat."""
    return int(schedstat.split()[1])


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of the process so far. Raises `NotMeasurable`."""
    return parse_cpu_ticks(_read(pid, "stat")) / os.sysconf("SC_CLK_TCK")


def cpu_wait_seconds(pid: int) -> float:
    """Return how long all threads of the process were runnable without a CPU so far.

    Raises `NotMeasurable`.
    """
    threads = Path(f"/proc/{pid}/task")
    try:
        texts = [path.read_text(encoding="utf-8") for path in threads.glob("*/schedstat")]
    except OSError as error:
        raise _unreadable(pid) from error
    if not texts:
        raise _unreadable(pid)
    return sum(map(parse_wait_nanoseconds, texts)) / 1e9


def rss_peak_bytes(pid: int) -> int:
    """Return the peak resident set of the process. Raises `NotMeasurable`."""
    return parse_peak_bytes(_read(pid, "status"))


def own_rss_peak_bytes() -> int:
    """Return the peak resident set of this process. Raises `NotMeasurable`."""
    return rss_peak_bytes(os.getpid())


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8")
    except OSError as error:
        raise _unreadable(pid) from error


def _unreadable(pid: int) -> NotMeasurable:
    return NotMeasurable(f"process {pid}: cannot read its CPU time and memory from /proc")
