"""The kinds of value that a setting can have: how its text is read, written and described.

A kind's `parse` accepts exactly what its `allowed` sentence says and raises `ValueError` for the rest, so
that one sentence serves the help, the documentation and the error message. Nothing here knows a flag.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from controller.config.durations import format_duration, parse_duration

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

_WHOLE_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_BIND_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+(%\w+)?\]|[0-9A-Za-z.-]*):(?P<port>0|[1-9][0-9]{0,4})")
_MAX_PORT = 65535
_MAX_LABEL = 63
_MAX_SUBDOMAIN = 253


@dataclass(frozen=True)
class ValueType(Generic[T]):
    """How values of one kind are read and written.

    `parse` raises `ValueError` for what `allowed` does not describe; `format` writes what `parse` reads.
    `bare` is the text that a flag without a value stands for, empty where the value is required.
    """

    metavar: str
    allowed: str
    parse: Callable[[str], T]
    format: Callable[[T], str] = str
    choices: tuple[str, ...] = ()
    bare: str = ""


@dataclass(frozen=True)
class BindAddress:
    """Where a server listens. An empty `host` means every interface."""

    host: str
    port: int

    def __str__(self) -> str:
        """`host:port`, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _true_or_false(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(text)
    return text == "true"


def _dns_label(text: str) -> str:
    if len(text) > _MAX_LABEL or not _DNS_LABEL.fullmatch(text):
        raise ValueError(text)
    return text


def _dns_subdomain(text: str) -> str:
    if len(text) > _MAX_SUBDOMAIN or not all(map(_DNS_LABEL.fullmatch, text.split("."))):
        raise ValueError(text)
    return text


def _bind_address(text: str) -> BindAddress | None:
    if text == "0":
        return None
    match = _BIND_ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > _MAX_PORT:
        raise ValueError(text)
    return BindAddress(host=match["host"].strip("[]"), port=int(match["port"]))


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError(text)
    return text


def whole_number(low: int, high: int, allowed: str) -> ValueType[int]:
    """A whole number of `low` to `high`, in plain decimal digits."""

    def parse(text: str) -> int:
        if not _WHOLE_NUMBER.fullmatch(text) or not low <= int(text) <= high:
            raise ValueError(text)
        return int(text)

    return ValueType("N", allowed, parse)


def duration(*, least_seconds: float = 0.0, zero: str = "") -> ValueType[float]:
    """A duration in seconds: at least `least_seconds`, else above 0, and 0 itself where it means `zero`."""

    def parse(text: str) -> float:
        seconds = parse_duration(text)
        if seconds < least_seconds or (seconds == 0 and not zero):
            raise ValueError(text)
        return seconds

    bound = f"of at least {format_duration(least_seconds)}" if least_seconds else "above 0"
    allowed = f"a duration {bound} with a unit (ns, us, ms, s, m, h), such as 10s or 1h30m"
    return ValueType("DURATION", f"{allowed}, or 0 ({zero})" if zero else allowed, parse, format_duration)


def choice(enum: type[E]) -> ValueType[E]:
    """One of the values of `enum`, spelled as there."""
    choices = tuple(str(member.value) for member in enum)
    return ValueType("|".join(choices), " or ".join(choices), enum, lambda member: str(member.value), choices)


BOOLEAN = ValueType("true|false", "true or false", _true_or_false, lambda value: str(value).lower(),
               ("true", "false"), bare="true")  # fmt: skip
DNS_LABEL = ValueType(
    "NAME", "a DNS label: at most 63 of a-z, 0-9 and '-', with a letter or digit at both ends", _dns_label
)
DNS_SUBDOMAIN = ValueType(
    "NAME",
    "a DNS subdomain: at most 253 of a-z, 0-9, '-' and '.', with a letter or digit at both ends of each part",
    _dns_subdomain,
)
BIND_ADDRESS: ValueType[BindAddress | None] = ValueType(
    "ADDRESS",
    "host:port with a port up to 65535, such as :8081 or 127.0.0.1:8081, or 0 (off)",
    _bind_address,
    lambda address: "0" if address is None else str(address),
)
TEXT = ValueType("TEXT", "printable text", _printable)
PATH = ValueType("PATH", "the path of a file", _printable)
