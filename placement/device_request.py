"""The DRA device request of a dedicated claim.

The claim has one request named `gpu`. Its `firstAvailable` alternatives are the device shapes, tightest
first. Each alternative accepts every size from the exact bytes requested up to its shape, so no size falls
between two alternatives. This module does not compare shapes with the fleet.

Sources: contract §3; KEP-4816 (prioritized list); `DeviceRequest` of `resource.k8s.io/v1`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from placement.types import DeviceShape

REQUEST_NAME: Final = "gpu"
"""Name of the request in the claim, and of the claim entry that the worker's container consumes."""

MAX_ALTERNATIVES: Final = 8
"""DRA's limit on `firstAvailable`."""

_DNS_SUBDOMAIN: Final = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)


def device_requests(
    shapes: Sequence[DeviceShape], *, memory_bytes: int, device_class: str, driver: str
) -> list[dict[str, object]]:
    """Return the `spec.devices.requests` of a claim that accepts these shapes, tightest first.

    Raises:
        ValueError: there is no shape, there are more than DRA allows, or the class or driver is not a DNS
            subdomain. Both are copied into the claim, the driver into a CEL expression.
    """
    if not 1 <= len(shapes) <= MAX_ALTERNATIVES:
        raise ValueError(f"a claim has 1 to {MAX_ALTERNATIVES} device shapes, not {len(shapes)}")
    for field, name in (("device class", device_class), ("device driver", driver)):
        if not _DNS_SUBDOMAIN.fullmatch(name):
            raise ValueError(f"{field} {name!r} is not a DNS subdomain")
    alternatives = [
        {
            "name": shape.name,
            "deviceClassName": device_class,
            "selectors": [{"cel": {"expression": selector(shape, memory_bytes=memory_bytes, driver=driver)}}],
            "allocationMode": "ExactCount",
            "count": shape.count,
        }
        for shape in shapes
    ]
    return [{"name": REQUEST_NAME, "firstAvailable": alternatives}]


def selector(shape: DeviceShape, *, memory_bytes: int, driver: str) -> str:
    """Return the CEL expression that selects the devices of a shape.

    The first term is a guard. Without it, one device without `memory` on any node fails every scheduling
    attempt of the Pod.
    """
    capacity = f'device.capacity["{driver}"]'
    terms = [f'"memory" in {capacity}', f'{capacity}.memory.compareTo(quantity("{memory_bytes}")) >= 0']
    if not shape.open_upwards:
        terms.append(f'{capacity}.memory.compareTo(quantity("{shape.gib}Gi")) <= 0')
    return " && ".join(terms)
