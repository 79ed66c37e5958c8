"""A small client of the Kubernetes API for the driver and for tests.

It is synchronous, because it does not run inside the system under test. It keeps one connection and does not
retry: the caller handles a lost answer. It detects a connection that the server closed while idle, so that a
restart of the API server causes no error.
"""

import http.client
import json
import select
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

from e2e.controlplane.errors import ApiRefused, ApiUnreachable
from e2e.controlplane.kubeconfig import Access, read_access

Object = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
NOT_FOUND = 404
CONFLICT = 409


class Api:
    """A client for one user. Methods take the paths of the API server, such as `/api/v1/nodes`."""

    def __init__(self, access: Access, *, timeout_seconds: float = 15) -> None:
        address = urlsplit(access.server)
        self._access = access
        self._prefix = address.path.rstrip("/")
        self._host = address.hostname or ""
        self._port = address.port
        self._timeout_seconds = timeout_seconds
        self._connection: http.client.HTTPConnection | None = None
        self._lock = threading.Lock()  # the connection carries one request at a time

    @classmethod
    def from_kubeconfig(cls, path: Path, *, context: str | None = None) -> Self:
        return cls(read_access(path, context=context))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Api {self._access.server} {'connected' if self._connection else 'idle'}>"

    def close(self) -> None:
        with self._lock:
            self._drop_connection()

    def get(self, path: str, **query: str) -> Object:
        return self.request("GET", _with_query(path, query))

    def find(self, path: str) -> Object | None:
        """Get an object that may be absent."""
        try:
            return self.get(path)
        except ApiRefused as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def items(self, path: str, **query: str) -> list[Object]:
        items = self.get(path, **query).get("items") or []
        return list(items)

    def create(self, path: str, body: Object) -> Object:
        return self.request("POST", path + "?fieldValidation=Strict", body)

    def replace(self, path: str, body: Object) -> Object:
        return self.request("PUT", path, body)

    def patch(self, path: str, body: Object) -> Object:
        """Apply a JSON merge patch."""
        return self.request("PATCH", path, body, content_type=MERGE_PATCH)

    def delete(self, path: str, *, grace_seconds: int | None = None) -> bool:
        """Request a deletion, which may complete later. Returns False if the object does not exist."""
        body: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        try:
            self.request("DELETE", path, body)
        except ApiRefused as error:
            if error.status == NOT_FOUND:
                return False
            raise
        return True

    def request(
        self, method: str, path: str, body: Object | None = None, *, content_type: str = "application/json"
    ) -> Object:
        status, reason, payload = self.send(method, path, body, content_type=content_type)
        if status >= http.HTTPStatus.BAD_REQUEST:
            raise _refusal(method, path, status, reason, payload)
        answer = json.loads(payload)
        return answer if isinstance(answer, dict) else {}

    def send(
        self, method: str, path: str, body: Object | None = None, *, content_type: str = "application/json"
    ) -> tuple[int, str, bytes]:
        """Send one request and return status, reason and body."""
        headers = {"Accept": "application/json"}
        if self._access.token:
            headers["Authorization"] = f"Bearer {self._access.token}"
        if body is not None:
            headers["Content-Type"] = content_type
        payload = json.dumps(body) if body is not None else None
        with self._lock:
            try:
                connection = self._connected()
                connection.request(method, self._prefix + path, payload, headers)
                response = connection.getresponse()
                return response.status, response.reason, response.read()
            except (OSError, http.client.HTTPException) as error:
                self._drop_connection()
                raise ApiUnreachable(
                    f"{method} {path}: no answer from {self._access.server}: {error}"
                ) from error
            except BaseException:
                self._drop_connection()  # an answer may be partially read, so the connection is unusable
                raise

    def _connected(self) -> http.client.HTTPConnection:
        connection = self._connection
        if connection is not None and connection.sock is not None:
            # Without a pending request, a readable socket means that the server closed the connection.
            readable, _, _ = select.select([connection.sock], [], [], 0)
            if not readable:
                return connection
        self._drop_connection()
        if self._access.tls is None:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_seconds)
        else:
            connection = http.client.HTTPSConnection(
                self._host, self._port, timeout=self._timeout_seconds, context=self._access.tls
            )
        self._connection = connection
        return connection

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _with_query(path: str, query: dict[str, str]) -> str:
    return f"{path}?{urlencode(query, quote_via=quote)}" if query else path


def _refusal(method: str, path: str, status: int, reason: str, payload: bytes) -> ApiRefused:
    try:
        answer = json.loads(payload)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        answer = {"message": payload.decode(errors="replace").strip()}
    message = " ".join(str(answer.get("message", "")).split())
    return ApiRefused(method, path, status, str(answer.get("reason") or reason), message)
