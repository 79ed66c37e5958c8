"""Evaluation of the CEL expressions of device selectors, in the few forms that this project writes.

Terms joined by `&&`, evaluated from left to right: a capacity exists, a capacity compares to a quantity, the
driver has a name. An unguarded access to an absent capacity raises, as in the real evaluator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from placement.quantity import parse_bytes

_HAS = re.compile(r'"(?P<name>\w+)" in device\.capacity\["(?P<domain>[^"]+)"\]')
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
    """The device as an expression sees it: capacities in the driver's own domain, in whole units."""

    driver: str
    capacity: Mapping[str, int]

    def capacity_of(self, domain: str) -> Mapping[str, int]:
        """Return the capacities of a domain, none for an unknown domain."""
        return self.capacity if domain == self.driver else {}


Term = Callable[[CelDevice], bool]


def matches(expression: str, device: CelDevice) -> bool:
    """Return whether the expression holds for the device. Raises `CelError`."""
    return all(term(device) for term in _terms(expression))


@lru_cache(maxsize=1024)
def _terms(expression: str) -> tuple[Term, ...]:
    return tuple(_term(text.strip()) for text in expression.split("&&"))


def _term(text: str) -> Term:
    if match := _HAS.fullmatch(text):
        domain, name = match["domain"], match["name"]
        return lambda device: name in device.capacity_of(domain)
    if match := _COMPARE.fullmatch(text):
        return _comparison(match["domain"], match["name"], match["operator"], parse_bytes(match["quantity"]))
    if match := _DRIVER.fullmatch(text):
        driver = match["driver"]
        return lambda device: device.driver == driver
    raise CelError(f"unsupported CEL expression {text!r}")


def _comparison(domain: str, name: str, operator: str, quantity: int) -> Term:
    def compare(device: CelDevice) -> bool:
        capacity = device.capacity_of(domain)
        if name not in capacity:
            raise CelError(f"no such key: {name}")
        return _OPERATORS[operator](capacity[name], quantity)

    return compare
