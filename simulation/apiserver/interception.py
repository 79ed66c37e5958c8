"""Calls between a client and the server, and the interceptors that may disturb them.

An interceptor returns the response of every call, usually by calling `apply` once. It may also wait before or
after that, raise instead, or apply the call later. `simulation.chaos.scripted` has ready-made interceptors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from simulation.apiserver.kinds import Kind

Apply = Callable[[], bytes]
"""Applies the call at the server in one step, and raises the server's refusal."""

READING_VERBS = ("get", "list", "watch")


@dataclass(frozen=True)
class Request:
    """One call of one client. `verb` is an RBAC verb."""

    client: str
    number: int
    verb: str
    kind: Kind
    namespace: str
    name: str = ""
    subresource: str = ""
    body: Any = field(default=None, repr=False)
    dry_run: bool = False

    @property
    def writes(self) -> bool:
        """Whether it changes an object."""
        return self.verb not in READING_VERBS and not self.dry_run

    @property
    def action(self) -> str:
        """The verb, marked if the call is a dry run."""
        return f"dry-run {self.verb}" if self.dry_run else self.verb

    def __str__(self) -> str:
        """Return client, verb and object, as in an audit log."""
        resource = f"{self.kind}/{self.subresource}" if self.subresource else str(self.kind)
        where = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.client} #{self.number} {self.action} {resource} {where}".rstrip()


class Interceptor(Protocol):
    """Responds to a call, with or without the server."""

    async def __call__(self, request: Request, apply: Apply, /) -> bytes:
        """Return the response, or raise an `informers.errors.ApiError` if there is none."""


async def pass_through(_request: Request, apply: Apply) -> bytes:
    """Apply the call at the server."""
    return apply()
