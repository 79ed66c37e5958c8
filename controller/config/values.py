"""The types of setting values: how to parse, format and describe them.

Invariant: `parse` accepts what `allowed` describes and raises `ValueError` for other text. The same sentence
can therefore serve the help, the documentation and the error message.
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
_DNS_PART = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(rf"(?=.{{1,63}}$){_DNS_PART}")
_DNS_SUBDOMAIN = re.compile(rf"(?=.{{1,253}}$){_DNS_PART}(\.{_DNS_PART})*")
_BIND_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+(%\w+)?\]|[0-9A-Za-z.-]*):(?P<port>0|[1-9][0-9]{0,4})")
_MAX_PORT = 65535


@dataclass(frozen=True)
class ValueType(Generic[T]):
    """The syntax of one type of value. `format` is the inverse of `parse`."""

    metavar: str
    allowed: str
    parse: Callable[[str], T]
    format: Callable[[T], str] = str
    choices: tuple[str, ...] = ()
    bare: str = ""
    """The text for a flag without a value; empty if the value is required."""


@dataclass(frozen=True)
class BindAddress:
    """A listen address. An empty `host` means all interfaces."""

    host: str
    port: int

    def __str__(self) -> str:
        """`host:port`, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _valid(text: str, *, valid: object) -> str:
    if not valid:
        raise ValueError(text)
    return text


def _bind_address(text: str) -> BindAddress | None:
    if text == "0":
        return None
    match = _BIND_ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > _MAX_PORT:
        raise ValueError(text)
    return BindAddress(host=match["host"].strip("[]"), port=int(match["port"]))


def whole_number(low: int, high: int, allowed: str) -> ValueType[int]:
    """Return the type of whole numbers from `low` to `high`, in plain decimal digits."""

    def parse(text: str) -> int:
        return int(_valid(text, valid=_WHOLE_NUMBER.fullmatch(text) and low <= int(text) <= high))

    return ValueType("N", allowed, parse)


def duration(*, least_seconds: float = 0.0, zero: str = "") -> ValueType[float]:
    """Return the type of durations in seconds. `zero` is the meaning of 0; if empty, 0 is not allowed."""

    def parse(text: str) -> float:
        seconds = parse_duration(text)
        if seconds < least_seconds or (seconds == 0 and not zero):
            raise ValueError(text)
        return seconds

    bound = f"of at least {format_duration(least_seconds)}" if least_seconds else "above 0"
    allowed = f"a duration {bound} with a unit (ns, us, ms, s, m, h), such as 10s or 1h30m"
    return ValueType("DURATION", f"{allowed}, or 0 ({zero})" if zero else allowed, parse, format_duration)


def choice(enum: type[E]) -> ValueType[E]:
    """Return the type of the values of `enum`."""
    choices = tuple(str(member.value) for member in enum)
    return ValueType("|".join(choices), " or ".join(choices), enum, lambda member: str(member.value), choices)


BOOLEAN = ValueType(
    "true|false",
    "true or false",
    lambda text: _valid(text, valid=text in {"true", "false"}) == "true",
    lambda value: str(value).lower(),
    ("true", "false"),
    bare="true",
)
DNS_LABEL = ValueType(
    "NAME",
    "a DNS label: at most 63 of a-z, 0-9 and '-', with a letter or digit at both ends",
    lambda text: _valid(text, valid=_DNS_LABEL.fullmatch(text)),
)
DNS_SUBDOMAIN = ValueType(
    "NAME",
    "a DNS subdomain: at most 253 of a-z, 0-9, '-' and '.', with a letter or digit at both ends of each part",
    lambda text: _valid(text, valid=_DNS_SUBDOMAIN.fullmatch(text)),
)
BIND_ADDRESS: ValueType[BindAddress | None] = ValueType(
    "ADDRESS",
    "host:port with a port up to 65535, such as :8081 or 127.0.0.1:8081, or 0 (off)",
    _bind_address,
    lambda address: "0" if address is None else str(address),
)
TEXT = ValueType("TEXT", "printable text", lambda text: _valid(text, valid=text.isprintable()))
PATH = ValueType("PATH", "the path of a file", TEXT.parse)
