"""The DRA device request of a dedicated claim.

The claim has one request named `gpu`. Its `firstAvailable` alternatives are the device shapes, tightest
first. Each alternative accepts every size from the exact bytes requested up to its shape, so no size falls
between two alternatives. Each attribute that the worker requires is a selector of its own. This module does
not compare shapes with the fleet.

One device on which an expression fails ends every scheduling attempt of the Pod. So each expression first
checks that what it reads exists, and no expression fails on a value of another type.

Sources: contract §3; KEP-4816 (prioritized list); `DeviceRequest` of `resource.k8s.io/v1`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from placement.types import AcceptedValues, AttributeDemand, AttributeValue, DeviceShape

REQUEST_NAME: Final = "gpu"
"""Name of the request in the claim, and of the claim entry that the worker's container consumes."""

MAX_ALTERNATIVES: Final = 8
"""DRA's limit on `firstAvailable`."""

_DNS_SUBDOMAIN: Final = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)


MAX_ATTRIBUTES: Final = 8
MAX_ACCEPTED_VALUES: Final = 8
"""Limits of a demand for attributes. They keep each selector below DRA's limits on length and cost."""

_ATTRIBUTE_NAME: Final = re.compile(
    r"(?P<domain>[^/]{1,63})/(?P<identifier>[A-Za-z_][A-Za-z0-9_]{0,31})", re.ASCII
)
_UPPER_BOUND: Final = re.compile(r'\.compareTo\(quantity\("(\d+)Gi"\)\) <= 0', re.ASCII)
_MAX_VALUE_CHARACTERS: Final = 64
_MAX_INTEGER: Final = (1 << 63) - 1


def check_demand(demand: AttributeDemand) -> None:
    """Check that each attribute can exist on a device, and be written into a CEL expression.

    Raises:
        ValueError: names the attribute and what is allowed.
    """
    if len(demand) > MAX_ATTRIBUTES:
        raise ValueError(f"{len(demand)} attributes: at most {MAX_ATTRIBUTES} are allowed")
    for name, values in demand:
        match = _ATTRIBUTE_NAME.fullmatch(name)
        if match is None or not _DNS_SUBDOMAIN.fullmatch(match["domain"]):
            raise ValueError(
                f"{name!r} is not an attribute name: a DNS subdomain of at most 63 characters, /, "
                "and an identifier of at most 32 characters"
            )
        if not 1 <= len(values) <= MAX_ACCEPTED_VALUES:
            raise ValueError(f"{name}: {len(values)} values: 1 to {MAX_ACCEPTED_VALUES} are allowed")
        for value in values:
            _check_value(name, value)


def _check_value(name: str, value: AttributeValue) -> None:
    if value.type == "int" and abs(int(value.text)) > _MAX_INTEGER:
        raise ValueError(f"{name}: {value.text} has more than 64 bits")
    if value.type == "string" and not (len(value.text) <= _MAX_VALUE_CHARACTERS and value.text.isprintable()):
        raise ValueError(
            f"{name}: {value.text!r} is not a text of at most {_MAX_VALUE_CHARACTERS} printable characters"
        )


def device_requests(
    shapes: Sequence[DeviceShape],
    *,
    memory_bytes: int,
    device_class: str,
    driver: str,
    attributes: AttributeDemand = (),
    single_allocation: bool = False,
) -> list[dict[str, object]]:
    """Return the `spec.devices.requests` of a claim that accepts these shapes, tightest first.

    `single_allocation` excludes devices that allow multiple allocations. An API server without that feature
    refuses such a claim.

    Raises:
        ValueError: there is no shape, there are more than DRA allows, or the class or driver is not a DNS
            subdomain, or an attribute is invalid. All are copied into the claim, most into CEL expressions.
    """
    if not 1 <= len(shapes) <= MAX_ALTERNATIVES:
        raise ValueError(f"a claim has 1 to {MAX_ALTERNATIVES} device shapes, not {len(shapes)}")
    for field, name in (("device class", device_class), ("device driver", driver)):
        if not _DNS_SUBDOMAIN.fullmatch(name):
            raise ValueError(f"{field} {name!r} is not a DNS subdomain")
    check_demand(attributes)
    common = [attribute_selector(accepted) for accepted in attributes]
    if single_allocation:
        common.append(SINGLE_ALLOCATION)
    alternatives = [
        {
            "name": shape.name,
            "deviceClassName": device_class,
            "selectors": [
                {"cel": {"expression": expression}}
                for expression in (selector(shape, memory_bytes=memory_bytes, driver=driver), *common)
            ],
            "allocationMode": "ExactCount",
            "count": shape.count,
        }
        for shape in shapes
    ]
    return [{"name": REQUEST_NAME, "firstAvailable": alternatives}]


def selector(shape: DeviceShape, *, memory_bytes: int, driver: str) -> str:
    """Return the CEL expression that selects the devices of a shape."""
    capacity = f'device.capacity["{driver}"]'
    terms = [f'"memory" in {capacity}', f'{capacity}.memory.compareTo(quantity("{memory_bytes}")) >= 0']
    if not shape.open_upwards:
        terms.append(f'{capacity}.memory.compareTo(quantity("{shape.gib}Gi")) <= 0')
    return " && ".join(terms)


SINGLE_ALLOCATION = "!device.allowMultipleAllocations"
"""The CEL expression that leaves out devices which several claims may hold at once."""


def accepts(count: int, expressions: Sequence[str], shape: DeviceShape) -> bool:
    """Return whether an alternative of a dedicated claim accepts devices of this shape.

    It accepts every size from the memory requested up to its bound, so its bound decides, not its name.
    """
    bounds = [int(bound) for expression in expressions for bound in _UPPER_BOUND.findall(expression)]
    is_bounded_below = bool(bounds) and (shape.open_upwards or min(bounds) < shape.gib)
    return count == shape.count and not is_bounded_below


def attribute_selector(accepted: AcceptedValues) -> str:
    """Return the CEL expression that selects the devices with one of these values of an attribute.

    CEL compares with the operator of the left operand, and only the operators of literals accept every type.
    """
    domain, _, identifier = accepted.name.partition("/")
    attributes = f'device.attributes["{domain}"]'
    equal = " || ".join(f'{_literal(value)} == {attributes}["{identifier}"]' for value in accepted.values)
    return f'"{identifier}" in {attributes} && ({equal})'


def _literal(value: AttributeValue) -> str:
    return json.dumps(value.text, ensure_ascii=False) if value.type == "string" else value.text
