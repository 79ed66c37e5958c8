"""Raw HTTP requests to the embedded cluster, and objects to send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import ClientSession

from simulation.apiserver.documents import Document

NAMESPACE = "openrl-system"
WORKLOADS_PATH = f"/apis/openrl.io/v1alpha1/namespaces/{NAMESPACE}/workloads"
LEDGERS_PATH = f"/apis/openrl.io/v1alpha1/namespaces/{NAMESPACE}/claimledgers"
PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
MERGE, JSON_PATCH, STRATEGIC = (
    f"application/{name}+json" for name in ("merge-patch", "json-patch", "strategic-merge-patch")
)


@dataclass(frozen=True)
class Response:
    """A response."""

    status: int
    body: Any
    headers: dict[str, str]

    @property
    def refused(self) -> tuple[int, str]:
        """Return code and reason of a `Status`, whose code must equal the HTTP status."""
        assert self.body["kind"] == "Status"
        assert self.body["code"] == self.status
        return self.status, self.body["reason"]


class RawClient:
    """Sends requests and reads complete responses."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def __call__(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content: str = "application/json",
        accept: str = "application/json",
        host: str = "",
        **query: str,
    ) -> Response:
        headers = {"Accept": accept} | ({"Host": host} if host else {})
        data = None
        if body is not None:
            headers["Content-Type"] = content
            data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        async with self.session.request(method, path, data=data, headers=headers, params=query) as response:
            text = await response.read()
            is_json = response.content_type == "application/json"
            decoded = msgspec.json.decode(text) if is_json and text else text
            return Response(response.status, decoded, dict(response.headers))


def ledger(name: str = "ledger-a", **metadata: object) -> Document:
    return {"metadata": {"name": name, **metadata}, "spec": {"claimName": f"claim-of-{name}"}}


def pod(name: str = "pod-a", **spec: object) -> Document:
    """Return a Pod that no scheduler handles."""
    containers = [{"name": "main", "image": "main:1"}]
    return {"metadata": {"name": name}, "spec": {"schedulerName": "nobody", "containers": containers, **spec}}
