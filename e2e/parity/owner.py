"""The owner of a cluster in a case, who adds admission rules and removes them.

The real control plane gets the objects of the rules. A simulated one gets rules of its own
(`tests.simulation.simulated_owner`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import anyio

from e2e.parity.objects import (
    LIMIT_RANGES,
    PODS,
    POLICIES,
    POLICY_BINDINGS,
    QUOTAS,
    WEBHOOKS,
    AnyResource,
    pod,
)
from informers.api import Api
from informers.errors import ApiError

Document = dict[str, Any]

NAMESPACE = "openrl-system"
NAME = "rule-of-the-owner"
WORDS = "a cost centre is missing"
WEBHOOK = "check.example.com"
APPLIED_SECONDS = 30.0
POLL_SECONDS = 0.1

_POD_CREATIONS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}

Applied = AbstractAsyncContextManager[None]


class Owner(Protocol):
    """Makes rules for the Pods of the workers' namespace. Each rule lasts for a block."""

    def denying_policy(self, reason: str) -> Applied:
        """Deny Pods by a ValidatingAdmissionPolicy with this reason."""

    def failing_webhook(self) -> Applied:
        """Require a webhook that does not respond."""

    def quota(self, pods: int) -> Applied:
        """Limit the number of Pods."""

    def default_memory(self, memory: str) -> Applied:
        """Give containers a default request, by a LimitRange."""


class RealOwner:
    """The owner of a real cluster. Its API server reads rules through a watch, so each rule is awaited."""

    def __init__(self, api: Api) -> None:
        self._api = api

    @asynccontextmanager
    async def denying_policy(self, reason: str) -> AsyncIterator[None]:
        """See `Owner`."""
        validation = {"expression": "false", "message": WORDS, "reason": reason}
        policy = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [_POD_CREATIONS]},
            "validations": [validation],
        }
        binding = {"policyName": NAME, "validationActions": ["Deny"]}
        async with (
            self._created(POLICIES, {"spec": policy}),
            self._created(POLICY_BINDINGS, {"spec": binding}),
        ):
            await _until(self._refuses)
            yield
        await _until(self._accepts)

    @asynccontextmanager
    async def failing_webhook(self) -> AsyncIterator[None]:
        """See `Owner`."""
        webhook = {
            "name": WEBHOOK,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 1,
            "clientConfig": {"url": "https://127.0.0.1:1/none"},
            "rules": [_POD_CREATIONS],
        }
        async with self._created(WEBHOOKS, {"webhooks": [webhook]}):
            await _until(self._refuses)
            yield
        await _until(self._accepts)

    @asynccontextmanager
    async def quota(self, pods: int) -> AsyncIterator[None]:
        """See `Owner`."""

        async def has_status() -> bool:
            quota = await self._api.get(QUOTAS, NAME, NAMESPACE)
            return "hard" in (quota.document.get("status") or {})

        async with self._created(QUOTAS, {"spec": {"hard": {"count/pods": str(pods)}}}):
            await _until(has_status)
            yield

    @asynccontextmanager
    async def default_memory(self, memory: str) -> AsyncIterator[None]:
        """See `Owner`."""
        limit = {"type": "Container", "defaultRequest": {"memory": memory}}

        async def is_applied() -> bool:
            answer = await self._probe()
            return "resources" in answer["spec"]["containers"][0] and bool(
                answer["spec"]["containers"][0]["resources"]
            )

        async with self._created(LIMIT_RANGES, {"spec": {"limits": [limit]}}):
            await _until(is_applied)
            yield

    async def _probe(self) -> Document:
        body = {"apiVersion": "v1", "kind": "Pod", **pod("probe")}
        return (await self._api.create(PODS, body, NAMESPACE, dry_run=True)).document

    async def _accepts(self) -> bool:
        try:
            await self._probe()
        except ApiError:
            return False
        return True

    async def _refuses(self) -> bool:
        return not await self._accepts()

    @asynccontextmanager
    async def _created(self, resource: AnyResource, body: Document) -> AsyncIterator[None]:
        namespace = NAMESPACE if resource.namespaced else ""
        named = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": NAME},
            **body,
        }
        await self._api.create(resource, named, namespace)
        try:
            yield
        finally:
            await self._api.delete(resource, NAME, namespace)


async def _until(observe: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(APPLIED_SECONDS):
        while True:
            if await observe():
                return
            await anyio.sleep(POLL_SECONDS)
