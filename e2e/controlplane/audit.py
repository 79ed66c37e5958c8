"""Counting requests: the API server's own audit log, read as facts about each client.

The log is written by the server as each request ends, so it shows what a client really sent, which its own
metrics cannot prove. A watch counts when it begins (it may never end while the control plane lives);
everything else when its answer is complete, which may be an instant after the client has read it.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

LINE_BYTES_MAX = 1 << 17  # far more than a line of metadata has
ALLOWED_BY = re.compile(r'RBAC: allowed by (?P<kind>\w+) "(?P<name>[^"]+)" of ')


class RequestKind(NamedTuple):
    """What requests are counted by; `resource` carries its subresource, such as `pods/binding`."""

    user: str
    verb: str
    resource: str


@dataclass(frozen=True)
class Request:
    """One answered request; `code` is the HTTP status."""

    kind: RequestKind
    namespace: str
    name: str
    code: int
    user_agent: str
    received: str  # RFC 3339 with microseconds
    group: str = ""  # API group of the resource; empty for the core and for what is no resource
    of_resource: bool = True  # or of a path, such as /readyz or discovery's
    binding: str = ""  # what allowed it: `<kind> <name>[/<namespace>]`; empty if RBAC did not


class AuditLog:
    """Reads the log file of a running or ended API server."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __repr__(self) -> str:
        return f"<AuditLog {self._path.name} {self.mark()} bytes>"

    def mark(self) -> int:
        """Return a position to count from later: where the last complete line ends."""
        if not self._path.exists():
            return 0
        with self._path.open("rb") as log:
            size = log.seek(0, 2)
            start = log.seek(max(0, size - LINE_BYTES_MAX))
            return start + log.read(size - start).rfind(b"\n") + 1

    def requests(self, *, since: int = 0, user: str | None = None) -> Iterator[Request]:
        """Yield the requests that were answered after `since` (a mark), oldest first."""
        if not self._path.exists():
            return
        with self._path.open("rb") as log:
            log.seek(since)
            for line in log:
                if not line.endswith(b"\n"):
                    return  # still being written
                request = _request(line)
                if request is not None and user in {None, request.kind.user}:
                    yield request

    def counts(self, *, since: int = 0, user: str | None = None) -> Counter[RequestKind]:
        """Count requests by user, verb and resource."""
        return Counter(request.kind for request in self.requests(since=since, user=user))

    def count(
        self,
        *,
        since: int = 0,
        user: str | None = None,
        verb: str | None = None,
        resource: str | None = None,
    ) -> int:
        """Count the requests that match all that is given."""
        return sum(
            verb in {None, request.kind.verb} and resource in {None, request.kind.resource}
            for request in self.requests(since=since, user=user)
        )

    def refusals(self, *, since: int = 0, user: str | None = None) -> list[Request]:
        """Return the forbidden requests: a missing right shows here even if the client swallows it."""
        requests = self.requests(since=since, user=user)
        return [request for request in requests if request.code == HTTPStatus.FORBIDDEN]


def _request(line: bytes) -> Request | None:
    event = json.loads(line)
    verb = event.get("verb", "")
    answered = "ResponseStarted" if verb == "watch" else "ResponseComplete"
    if event.get("stage") not in {answered, "Panic"}:
        return None
    target = event.get("objectRef") or {}
    resource = target.get("resource") or event.get("requestURI", "").partition("?")[0]
    if subresource := target.get("subresource"):
        resource = f"{resource}/{subresource}"
    return Request(
        kind=RequestKind(event.get("user", {}).get("username", ""), verb, resource),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        user_agent=event.get("userAgent", ""),
        received=event.get("requestReceivedTimestamp", ""),
        group=target.get("apiGroup", ""),
        of_resource=bool(target.get("resource")),
        binding=_binding(event.get("annotations") or {}),
    )


def _binding(annotations: dict[str, str]) -> str:
    """Read the authorizer's own words on why it said yes."""
    if annotations.get("authorization.k8s.io/decision") != "allow":
        return ""
    found = ALLOWED_BY.match(annotations.get("authorization.k8s.io/reason", ""))
    return f"{found['kind']} {found['name']}" if found else ""
