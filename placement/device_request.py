"""The device request of a dedicated claim, as DRA writes it.

One request named `gpu` whose `firstAvailable` alternatives are the tiers, tightest first. A subrequest takes
any device from the exact bytes asked for up to its shape, so alternatives overlap downwards and never leave a
gap. Nothing is checked against the fleet here.

Sources: contract §3; KEP-4816 (prioritized list); `DeviceRequest` of `resource.k8s.io/v1`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from placement.types import DeviceShape

REQUEST_NAME: Final = "gpu"
"""The request's name in the claim: the worker's container consumes it by that name."""

MAX_ALTERNATIVES: Final = 8
"""DRA's bound on `firstAvailable`."""

_DNS_SUBDOMAIN: Final = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)


def device_requests(
    tiers: Sequence[DeviceShape], *, memory_bytes: int, device_class: str, driver: str
) -> list[dict[str, object]]:
    """The `spec.devices.requests` of a claim that takes the first tier that can be had.

    Raises:
        ValueError: there is no tier or more than DRA allows, or the class or driver is no DNS subdomain
            (both enter the claim, the driver as part of a CEL expression).
    """
    if not 1 <= len(tiers) <= MAX_ALTERNATIVES:
        raise ValueError(f"a claim has 1 to {MAX_ALTERNATIVES} tiers, not {len(tiers)}")
    _require_subdomain("device class", device_class)
    _require_subdomain("device driver", driver)
    alternatives = [
        {
            "name": tier.name,
            "deviceClassName": device_class,
            "selectors": [{"cel": {"expression": selector(tier, memory_bytes=memory_bytes, driver=driver)}}],
            "allocationMode": "ExactCount",
            "count": tier.count,
        }
        for tier in tiers
    ]
    return [{"name": REQUEST_NAME, "firstAvailable": alternatives}]


def selector(tier: DeviceShape, *, memory_bytes: int, driver: str) -> str:
    """The CEL expression that a tier's devices satisfy.

    It begins with a guard: without it one device without `memory`, on any node, fails every attempt to
    schedule the Pod.
    """
    capacity = f'device.capacity["{driver}"]'
    terms = [f'"memory" in {capacity}', f'{capacity}.memory.compareTo(quantity("{memory_bytes}")) >= 0']
    if not tier.open_upwards:
        terms.append(f'{capacity}.memory.compareTo(quantity("{tier.gib}Gi")) <= 0')
    return " && ".join(terms)


def _require_subdomain(what: str, name: str) -> None:
    if not _DNS_SUBDOMAIN.fullmatch(name):
        raise ValueError(f"{what} {name!r} is not a DNS subdomain")
