"""How long ago something was, in kubectl's words. Source: `HumanDuration` of `k8s.io/apimachinery`."""

from __future__ import annotations

from datetime import datetime, timedelta

UNKNOWN = "<unknown>"

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def age(moment: str | None, now: datetime) -> str:
    """The time since an RFC 3339 moment; unknown for what is none."""
    try:
        return human_duration(now - datetime.fromisoformat(moment or ""))
    except ValueError:
        return UNKNOWN


def human_duration(span: timedelta) -> str:
    """A span with two or three digits' worth of meaning: `45s`, `3m20s`, `6h5m`, `4d`."""
    seconds = int(span.total_seconds())
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * _MINUTE:
        return f"{max(0, seconds)}s"
    if seconds < 3 * _HOUR:
        return _in_units(seconds, _MINUTE, "m", 1, "s", alone_from=10)
    if seconds < 2 * _DAY:
        return _in_units(seconds, _HOUR, "h", _MINUTE, "m", alone_from=8)
    if seconds < 2 * _YEAR:
        return _in_units(seconds, _DAY, "d", _HOUR, "h", alone_from=8)
    return _in_units(seconds, _YEAR, "y", _DAY, "d", alone_from=8)


def _in_units(seconds: int, unit: int, name: str, part: int, part_name: str, *, alone_from: int) -> str:
    whole, rest = divmod(seconds, unit)
    parts = rest // part
    return f"{whole}{name}" if whole >= alone_from or not parts else f"{whole}{name}{parts}{part_name}"
