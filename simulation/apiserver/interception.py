"""Between a client and the server: what a call is, and what may be done to it.

An interceptor is asked for the answer of every call, and usually gets it by calling `apply` once. It may wait
before or after, raise instead, or let the server act later; ready-made ones are in
`simulation.chaos.scripted`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from simulation.apiserver.kinds import Kind

Apply = Callable[[], bytes]
"""Carries the call out at the server, in one step. Raises what the server refuses."""

READING_VERBS = ("get", "list", "watch")


@dataclass(frozen=True)
class Request:
    """One call of one client. `verb` is RBAC's."""

    client: str
    number: int
    verb: str
    kind: Kind
    namespace: str
    name: str = ""
    subresource: str = ""
    body: Any = field(default=None, repr=False)

    @property
    def writes(self) -> bool:
        """Whether it changes something."""
        return self.verb not in READING_VERBS

    def __str__(self) -> str:
        """As in an audit log: who, what, where."""
        resource = f"{self.kind}/{self.subresource}" if self.subresource else str(self.kind)
        where = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.client} #{self.number} {self.verb} {resource} {where}".rstrip()


class Interceptor(Protocol):
    """Answers a call, by the server or without it."""

    async def __call__(self, request: Request, apply: Apply, /) -> bytes:
        """The answer; raises an `informers.errors.ApiError` for a call that has none."""


async def pass_through(_request: Request, apply: Apply) -> bytes:
    """Ask the server."""
    return apply()
