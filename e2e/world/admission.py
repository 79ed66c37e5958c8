"""Rules of a cluster's owner: admission policies, webhooks that fail, and quotas.

Each is a context manager: the block starts once the API server applies the rule, and its end removes the
rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from e2e.controlplane import WORKER_NAMESPACE, Api, ApiRefused, Object, wait_until
from e2e.controlplane.fleet import TEST_LABEL
from e2e.harness.workloads import CLAIMS, LEDGERS, PODS

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{ADMISSION}/validatingadmissionpolicies"
BINDINGS = f"{ADMISSION}/validatingadmissionpolicybindings"
MUTATIONS = f"{ADMISSION}/mutatingadmissionpolicies"
MUTATION_BINDINGS = f"{ADMISSION}/mutatingadmissionpolicybindings"
WEBHOOKS = f"{ADMISSION}/validatingwebhookconfigurations"
QUOTAS = f"/api/v1/namespaces/{WORKER_NAMESPACE}/resourcequotas"

NAME = "rule-of-the-owner"
WORDS = "a cost centre is missing"
APPLIED_SECONDS = 30


@dataclass(frozen=True)
class Resource:
    """A kind that the controller creates, and a minimal object of it."""

    group: str
    version: str
    kind: str
    plural: str
    collection: str
    sample: Object

    @property
    def api_version(self) -> str:
        """The group and version, as objects name them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def rule(self) -> Object:
        """The creations of this kind, as a rule of a policy or webhook."""
        return {
            "apiGroups": [self.group],
            "apiVersions": [self.version],
            "resources": [self.plural],
            "operations": ["CREATE"],
        }


CONTAINERS = [{"name": "main", "image": "main:1"}]
REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
POD_RESOURCE = Resource("", "v1", "Pod", "pods", PODS, {"spec": {"containers": CONTAINERS}})
CLAIM_RESOURCE = Resource(
    "resource.k8s.io",
    "v1",
    "ResourceClaim",
    "resourceclaims",
    CLAIMS,
    {"spec": {"devices": {"requests": [REQUEST]}}},
)
LEDGER_RESOURCE = Resource(
    "openrl.io",
    "v1alpha1",
    "ClaimLedger",
    "claimledgers",
    LEDGERS,
    {"spec": {"claimName": "claim-probe"}},
)


def probe(resource: Resource) -> Object:
    """Return an object for a dry run. Without kind and version, a custom resource is refused anyway."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "probe"},
        **resource.sample,
    }


def answer_to_probe(api: Api, resource: Resource) -> Object | ApiRefused:
    """Return the answer to a dry run of a creation."""
    try:
        return api.request("POST", f"{resource.collection}?dryRun=All", probe(resource))
    except ApiRefused as refusal:
        return refusal


def await_probe(api: Api, resource: Resource, *, refused: bool) -> None:
    """Wait until the API server refuses this kind, or no longer does. It reads rules through a watch."""

    def is_as_wanted() -> bool:
        return isinstance(answer_to_probe(api, resource), ApiRefused) is refused

    wait_until(is_as_wanted, f"{resource.plural}: refused={refused}", timeout_seconds=APPLIED_SECONDS)


@contextmanager
def denying_policy(api: Api, resource: Resource, *, reason: str | None = None) -> Iterator[None]:
    """Deny the creation of a kind. The reason selects the code: 422 without one, 403 with `Forbidden`."""
    validation = {"expression": "false", "message": WORDS, **({"reason": reason} if reason else {})}
    policy = _rule(
        "ValidatingAdmissionPolicy",
        spec={
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [resource.rule]},
            "validations": [validation],
        },
    )
    binding = _rule(
        "ValidatingAdmissionPolicyBinding", spec={"policyName": NAME, "validationActions": ["Deny"]}
    )
    with _created(api, POLICIES, policy), _created(api, BINDINGS, binding):
        await_probe(api, resource, refused=True)
        yield
    await_probe(api, resource, refused=False)


@contextmanager
def failing_webhook(api: Api, resource: Resource) -> Iterator[None]:
    """Require the admission of a webhook that does not respond: the API server answers 500."""
    webhook = {
        "name": "check.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 1,
        "clientConfig": {"url": "https://127.0.0.1:1/none"},
        "rules": [resource.rule],
    }
    body = _rule("ValidatingWebhookConfiguration", webhooks=[webhook])
    with _created(api, WEBHOOKS, body):
        await_probe(api, resource, refused=True)
        yield
    await_probe(api, resource, refused=False)


@contextmanager
def changed_pods(api: Api, expression: str) -> Iterator[None]:
    """Change each new worker Pod by an `Object{…}` expression of CEL."""
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
    policy = _rule(
        "MutatingAdmissionPolicy",
        spec={
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [POD_RESOURCE.rule]},
            "mutations": [mutation],
        },
    )
    binding = _rule("MutatingAdmissionPolicyBinding", spec={"policyName": NAME})

    def is_changed() -> bool:
        answer = answer_to_probe(api, POD_RESOURCE)
        return isinstance(answer, dict) and _content(answer) != _content(unchanged)

    unchanged = api.request("POST", f"{PODS}?dryRun=All", probe(POD_RESOURCE))
    with _created(api, MUTATIONS, policy), _created(api, MUTATION_BINDINGS, binding):
        wait_until(is_changed, "Pods are not changed", timeout_seconds=APPLIED_SECONDS)
        yield
    wait_until(lambda: not is_changed(), "Pods are still changed", timeout_seconds=APPLIED_SECONDS)


def _content(pod: Object) -> tuple[Object, list[str]]:
    return pod["spec"], pod["metadata"].get("finalizers", [])


@contextmanager
def pod_quota(api: Api, pods: int) -> Iterator[None]:
    """Limit the Pods of the workers' namespace."""
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": NAME, "namespace": WORKER_NAMESPACE},
        "spec": {"hard": {"count/pods": str(pods)}},
    }
    with _created(api, QUOTAS, body):
        wait_until(
            lambda: "hard" in api.get(f"{QUOTAS}/{NAME}").get("status", {}),
            "the quota has no status",
            timeout_seconds=APPLIED_SECONDS,
        )
        yield


def _rule(kind: str, **content: object) -> Object:
    meta = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": NAME}}
    return {**meta, **content}


@contextmanager
def _created(api: Api, collection: str, body: Object) -> Iterator[None]:
    body["metadata"].setdefault("labels", {TEST_LABEL: "true"})
    api.create(collection, body)
    try:
        yield
    finally:
        with suppress(ApiRefused):
            api.delete(f"{collection}/{NAME}")
