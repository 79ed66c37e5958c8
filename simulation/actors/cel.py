"""Evaluation of the CEL expressions of device selectors, in the few forms that this project writes.

Terms joined by `&&`, evaluated from left to right: a capacity or an attribute exists, a capacity compares to
a quantity, an attribute equals one of several literals, the driver has a name, the device does not allow
multiple allocations. An unguarded access to an absent capacity or attribute raises, as in the real evaluator.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from placement.quantity import parse_bytes

_TEXT = r'"(?:[^"\\]|\\.)*"'
_AND = re.compile(rf"((?:{_TEXT}|[^\"&]|&(?!&))+)(?:&&|$)")
_HAS = re.compile(r'"(?P<name>\w+)" in device\.(?P<kind>capacity|attributes)\["(?P<domain>[^"]+)"\]')
_EQUAL = re.compile(
    rf'(?P<literal>{_TEXT}|-?\d+|true|false) == device\.attributes\["(?P<domain>[^"]+)"\]\["(?P<name>\w+)"\]'
)
_ANY_EQUAL = re.compile(rf"\({_EQUAL.pattern}( \|\| {re.sub(r'[?]P<[a-z]+>', '?:', _EQUAL.pattern)})*\)")
_SINGLE_ALLOCATION = "!device.allowMultipleAllocations"
_COMPARE = re.compile(
    r'device\.capacity\["(?P<domain>[^"]+)"\]\.(?P<name>\w+)'
    r'\.compareTo\(quantity\("(?P<quantity>[^"]+)"\)\) (?P<operator>>=|<=|==|>|<) 0'
)
_DRIVER = re.compile(r"""device\.driver == (?P<quote>['"])(?P<driver>[^'"]+)(?P=quote)""")

_OPERATORS: Mapping[str, Callable[[int, int], bool]] = {
    ">=": lambda left, right: left >= right,
    "<=": lambda left, right: left <= right,
    "==": lambda left, right: left == right,
    ">": lambda left, right: left > right,
    "<": lambda left, right: left < right,
}


class CelError(Exception):
    """An expression cannot be evaluated, so every scheduling attempt with it fails."""


@dataclass(frozen=True)
class CelDevice:
    """The device as an expression sees it: capacities in the driver's own domain, in whole units.

    `attributes` has the texts, integers and booleans by name with domain.
    """

    driver: str
    capacity: Mapping[str, int]
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    multiple_allocations: bool = False

    def capacity_of(self, domain: str) -> Mapping[str, int]:
        """Return the capacities of a domain, none for an unknown domain."""
        return self.capacity if domain == self.driver else {}


Term = Callable[[CelDevice], bool]


def matches(expression: str, device: CelDevice) -> bool:
    """Return whether the expression holds for the device. Raises `CelError`."""
    return all(term(device) for term in _terms(expression))


@lru_cache(maxsize=1024)
def _terms(expression: str) -> tuple[Term, ...]:
    return tuple(_term(match[1].strip()) for match in _AND.finditer(expression))


def _term(text: str) -> Term:
    if match := _HAS.fullmatch(text):
        domain, name = match["domain"], match["name"]
        if match["kind"] == "attributes":
            return lambda device: f"{domain}/{name}" in device.attributes
        return lambda device: name in device.capacity_of(domain)
    if _ANY_EQUAL.fullmatch(text):
        name = next("{domain}/{name}".format(**found.groupdict()) for found in _EQUAL.finditer(text))
        return _equality(name, tuple(json.loads(found["literal"]) for found in _EQUAL.finditer(text)))
    if text == _SINGLE_ALLOCATION:
        return lambda device: not device.multiple_allocations
    if match := _COMPARE.fullmatch(text):
        return _comparison(match["domain"], match["name"], match["operator"], parse_bytes(match["quantity"]))
    if match := _DRIVER.fullmatch(text):
        driver = match["driver"]
        return lambda device: device.driver == driver
    raise CelError(f"unsupported CEL expression {text!r}")


def _equality(name: str, literals: tuple[str | int, ...]) -> Term:
    typed = {(type(literal), literal) for literal in literals}

    def equal(device: CelDevice) -> bool:
        if name not in device.attributes:
            raise CelError(f"no such key: {name}")
        value = device.attributes[name]
        return (type(value), value) in typed

    return equal


def _comparison(domain: str, name: str, operator: str, quantity: int) -> Term:
    def compare(device: CelDevice) -> bool:
        capacity = device.capacity_of(domain)
        if name not in capacity:
            raise CelError(f"no such key: {name}")
        return _OPERATORS[operator](capacity[name], quantity)

    return compare
