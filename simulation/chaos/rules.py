"""Random rules of admission: what they refuse, and how they change Pods."""

from __future__ import annotations

from http import HTTPStatus
from random import Random

from simulation.apiserver.admission import mutations
from simulation.apiserver.admission.chain import Rule
from simulation.apiserver.admission.denials import (
    POLICY_CODES,
    DenyingPolicy,
    DenyingWebhook,
    FailingWebhook,
)
from simulation.apiserver.admission.mutations import Edit
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import Kind
from simulation.engine.random_streams import happens

GATE = "example.com/hold"
FINALIZER = "example.com/hold"
ABSENT_SCHEDULER = "example-scheduler"

_CODES = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.CONFLICT,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.SERVICE_UNAVAILABLE,
)


def denial(rng: Random, *kinds: Kind, namespace: str) -> Rule:
    """Draw a rule that refuses every creation of some kinds in one namespace."""
    namespaces = (namespace,)
    match rng.choice(("policy", "webhook", "down")):
        case "policy":
            return DenyingPolicy(*kinds, reason=rng.choice(tuple(POLICY_CODES)), namespaces=namespaces)
        case "webhook":
            code, supports_dry_run = rng.choice(_CODES), happens(rng, 0.5)
            return DenyingWebhook(*kinds, code=code, supports_dry_run=supports_dry_run, namespaces=namespaces)
        case _:
            return FailingWebhook(*kinds, namespaces=namespaces)


def harmless_edits(rng: Random) -> list[Edit]:
    """Draw changes that a Pod survives: more requests, tolerations, labels or containers."""
    edits: tuple[Edit, ...] = (
        mutations.default_tolerations,
        mutations.toleration("example.com/maintenance"),
        mutations.label("team", "a"),
        mutations.overhead(memory=rng.choice(("1Gi", "8Gi"))),
        mutations.default_requests(memory="8Gi"),
        mutations.sidecar("proxy", requests={"memory": rng.choice(("1Gi", "8Gi"))}),
        mutations.container("agent", requests={"memory": "1Gi"}, first=happens(rng, 0.5)),
    )
    return rng.sample(edits, rng.randint(1, 3))


def hidden_need(rng: Random) -> Edit:
    """Draw a need for which nodes may refuse a Pod: a host port, disk space, or anti-affinity."""
    port = rng.choice((9100, 9101))
    return rng.choice(
        (
            mutations.sidecar("exporter", ports=[port]),
            mutations.sidecar("cache", requests={"ephemeral-storage": rng.choice(("300Gi", "600Gi"))}),
            _kept_apart,
        )
    )


def _kept_apart(pod: Document) -> None:
    """Require a node without another Pod of this rule."""
    mutations.label("apart", "yes")(pod)
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"apart": "yes"}}}
    affinity = pod["spec"].setdefault("affinity", {})
    affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
