"""The verdict of an API server's answer, by messages of real API servers."""

from __future__ import annotations

import json

import pytest

from controller.api.verdicts import CreationVerdict, group_text, is_refused_write, stable_words, verdict_of
from informers.client.responses import error_for_response
from informers.errors import ApiError
from tests.controller.build import workload

POD = 'pods "orw-a" is forbidden: '
POLICY = f"{POD}ValidatingAdmissionPolicy 'cost' with binding 'cost' denied request: a cost centre is missing"
WEBHOOK = 'admission webhook "check.example.com" denied the request: not now'
QUOTA = f"{POD}exceeded quota: team, requested: pods=1, used: pods=10, limited: pods=10"

REFUSED, MALFORMED = CreationVerdict.REFUSED, CreationVerdict.MALFORMED
FAILED, UNKNOWN = CreationVerdict.SERVER_FAILED, CreationVerdict.UNKNOWN


def answer(code: int, message: str, *, reason: str = "", field: str = "") -> ApiError:
    """Return the error for a `Status` as the API server sends it."""
    causes = [{"message": message, "field": field}] if field else [{"message": message}]
    status = {
        "kind": "Status",
        "code": code,
        "reason": reason,
        "message": message,
        "details": {"causes": causes},
    }
    return error_for_response("POST /pods", code, None, json.dumps(status).encode())


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        *((answer(code, POLICY), REFUSED) for code in (401, 403, 413, 422)),
        *((answer(code, WEBHOOK), REFUSED) for code in (400, 401, 404, 409, 418, 422, 429, 500, 503)),
        (answer(400, 'admission webhook "check.example.com" does not support dry run'), REFUSED),
        (answer(422, WEBHOOK, field="spec.containers[0].image"), REFUSED),
        (
            answer(
                500,
                'Internal error occurred: failed calling webhook "check.example.com": '
                'failed to call webhook: Post "https://check.svc:443/?timeout=10s": dial tcp 10.0.0.1:443: '
                "connect: connection refused",
            ),
            REFUSED,
        ),
        (answer(403, QUOTA), REFUSED),
        (answer(403, f"{POD}status unknown for quota: team, resources: pods"), REFUSED),
        (answer(500, "Internal error occurred: resource quota evaluation timed out"), REFUSED),
        (
            answer(
                409,
                'Operation cannot be fulfilled on resourcequotas "team": the object has been modified; '
                "please apply your changes to the latest version and try again",
            ),
            REFUSED,
        ),
        (
            answer(
                403,
                f'{POD}violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false '
                '(container "worker" must set securityContext.allowPrivilegeEscalation=false)',
            ),
            REFUSED,
        ),
        (
            answer(
                403,
                f"{POD}unable to create new content in namespace openrl-system because it is being "
                "terminated",
            ),
            REFUSED,
        ),
        (answer(404, 'namespaces "openrl-system" not found', reason="NotFound"), REFUSED),
        (answer(403, f'{POD}error looking up service account a/b: serviceaccount "b" not found'), REFUSED),
        (answer(403, f"{POD}no PriorityClass with name urgent was found"), REFUSED),
        (answer(403, f'{POD}pod rejected: RuntimeClass "kata" not found'), REFUSED),
        (answer(403, 'pods is forbidden: User "scheduler" cannot create resource "pods"'), REFUSED),
        (answer(500, "etcdserver: request timed out"), FAILED),
        (answer(500, "etcdserver: leader changed"), FAILED),
        (answer(500, "etcdserver: mvcc: database space exceeded"), FAILED),
        (answer(504, "Timeout: request did not complete within requested timeout"), FAILED),
        (answer(503, "the server is currently unable to handle the request"), FAILED),
        (answer(429, "too many requests, please try again later"), UNKNOWN),
        (answer(401, "Unauthorized"), UNKNOWN),
        (
            answer(
                422,
                'Pod "orw-a" is invalid: spec.containers[0].image: Required value',
                reason="Invalid",
                field="spec.containers[0].image",
            ),
            MALFORMED,
        ),
        (
            answer(
                400,
                'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field '
                '"spec.containers[0].imagee"',
            ),
            MALFORMED,
        ),
        (
            answer(
                400,
                'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into Go '
                "struct field Container.spec.containers.ports of type []v1.ContainerPort",
            ),
            MALFORMED,
        ),
        (answer(400, "the API server of another release has other words"), REFUSED),
        (answer(422, "the request is invalid: words without a field"), REFUSED),
    ],
    ids=lambda value: value.message[:60] if isinstance(value, ApiError) else value.name,
)
def test_an_answer_to_a_creation_has_one_verdict(error: ApiError, verdict: CreationVerdict) -> None:
    assert verdict_of(error) is verdict


@pytest.mark.parametrize(
    ("error", "is_refused"),
    [
        *((answer(code, WEBHOOK), True) for code in (400, 404, 409, 429, 500)),
        (answer(422, POLICY), True),
        (answer(403, 'workloads.openrl.io "a" is forbidden: User "scheduler" cannot patch'), True),
        (answer(500, 'Internal error occurred: failed calling webhook "check.example.com": EOF'), True),
        (answer(404, 'workloads.openrl.io "a" not found', reason="NotFound"), False),
        (answer(409, "the object has been modified; please apply your changes", reason="Conflict"), False),
        (answer(409, 'claimledgers.openrl.io "a" already exists', reason="AlreadyExists"), False),
        (answer(422, 'Workload "a" is invalid: spec: Required value', field="spec"), False),
        (answer(500, "etcdserver: request timed out"), False),
        (answer(429, "too many requests"), False),
    ],
    ids=lambda value: value.message[:60] if isinstance(value, ApiError) else str(value),
)
def test_a_patch_or_deletion_is_refused_by_rules_only(error: ApiError, is_refused: bool) -> None:
    assert is_refused_write(error) is is_refused


def test_the_words_of_a_status_do_not_change_while_a_quota_fills() -> None:
    later = QUOTA.replace("used: pods=10", "used: pods=9").replace("requested: pods=1", "requested: pods=2")
    assert stable_words(QUOTA, workload("a")) == stable_words(later, workload("a"))


@pytest.mark.parametrize("message", [QUOTA, POLICY, 'denied: Workload "orw-a" is late'])
def test_refusals_of_two_workers_are_alike_without_their_names(message: str) -> None:
    other = message.replace("orw-a", "orw-b-7")
    assert group_text(message, workload("a")) == group_text(other, workload("b-7"))


def test_refusals_by_different_rules_are_not_alike() -> None:
    assert group_text(QUOTA, workload("a")) != group_text(POLICY, workload("a"))
