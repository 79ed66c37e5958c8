"""Request counts from the audit log of the API server.

The log shows the requests that a client really sent, independent of the client's own metrics. A watch counts
when it starts. Any other request counts when its answer is complete, which may be slightly after the client
read it.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

LINE_BYTES_MAX = 1 << 17  # much longer than any line
ALLOWED_BY = re.compile(r'RBAC: allowed by (?P<kind>\w+) "(?P<name>[^"]+)" of ')


class RequestKind(NamedTuple):
    """The key of request counts. `resource` includes the subresource, such as `pods/binding`."""

    user: str
    verb: str
    resource: str


@dataclass(frozen=True)
class Request:
    """An answered request. `code` is the HTTP status."""

    kind: RequestKind
    namespace: str
    name: str
    code: int
    user_agent: str
    received: str  # RFC 3339 with microseconds
    group: str = ""  # API group of the resource; empty for the core group and for paths
    of_resource: bool = True  # false for a path such as /readyz
    binding: str = ""  # the binding that allowed it: `<kind> <name>[/<namespace>]`; empty without RBAC


class AuditLog:
    """The audit log of a running or ended API server."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __repr__(self) -> str:
        return f"<AuditLog {self._path.name} {self.mark()} bytes>"

    def mark(self) -> int:
        """Return the current position: the end of the last complete line."""
        if not self._path.exists():
            return 0
        with self._path.open("rb") as log:
            size = log.seek(0, 2)
            start = log.seek(max(0, size - LINE_BYTES_MAX))
            return start + log.read(size - start).rfind(b"\n") + 1

    def requests(self, *, since: int = 0, user: str | None = None) -> Iterator[Request]:
        """Yield the requests after the position `since`, oldest first."""
        if not self._path.exists():
            return
        with self._path.open("rb") as log:
            log.seek(since)
            for line in log:
                if not line.endswith(b"\n"):
                    return  # incomplete
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
        """Count the requests that match all given arguments."""
        return sum(
            verb in {None, request.kind.verb} and resource in {None, request.kind.resource}
            for request in self.requests(since=since, user=user)
        )

    def refusals(self, *, since: int = 0, user: str | None = None) -> list[Request]:
        """Return the forbidden requests. They reveal a missing right even if the client hides it."""
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
    """Return the binding from the authorizer's reason."""
    if annotations.get("authorization.k8s.io/decision") != "allow":
        return ""
    found = ALLOWED_BY.match(annotations.get("authorization.k8s.io/reason", ""))
    return f"{found['kind']} {found['name']}" if found else ""
