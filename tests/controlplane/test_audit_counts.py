"""Tests of request counts from the audit log."""

import json
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane.audit import AuditLog, RequestKind


def event(verb: str, resource: str, *, user: str = "me", **more: Any) -> str:
    line = {
        "stage": "ResponseComplete",
        "verb": verb,
        "user": {"username": user},
        "objectRef": {"resource": resource},
        "responseStatus": {"code": 200},
        **more,
    }
    return json.dumps(line) + "\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


def test_requests_are_counted_by_user_verb_and_resource(path: Path) -> None:
    path.write_text(
        event("create", "pods")
        + event("create", "pods")
        + event("create", "pods", objectRef={"resource": "pods", "subresource": "binding"})
        + event("get", "", objectRef=None, requestURI="/readyz?verbose")
        + event("list", "pods", user="you")
    )
    log = AuditLog(path)
    assert log.counts() == {
        RequestKind("me", "create", "pods"): 2,
        RequestKind("me", "create", "pods/binding"): 1,
        RequestKind("me", "get", "/readyz"): 1,
        RequestKind("you", "list", "pods"): 1,
    }
    assert log.count(user="me") == 4
    assert log.count(verb="create", resource="pods") == 2
    assert log.count(user="you", verb="create") == 0


def test_a_watch_counts_once_at_its_start(path: Path) -> None:
    path.write_text(event("watch", "pods", stage="ResponseStarted") + event("watch", "pods"))
    assert AuditLog(path).count() == 1


def test_counts_since_a_mark_exclude_earlier_requests(path: Path) -> None:
    log = AuditLog(path)
    assert (log.mark(), log.count()) == (0, 0)
    path.write_text(event("get", "nodes"))
    mark = log.mark()
    with path.open("a") as file:
        file.write(event("get", "pods"))
    assert log.counts(since=mark) == {RequestKind("me", "get", "pods"): 1}


def test_an_incomplete_line_is_skipped(path: Path) -> None:
    line = event("get", "pods")
    path.write_text(line + line[:20])
    log = AuditLog(path)
    assert log.count() == 1
    path.write_text(line + line)
    assert log.count() == 2


def test_a_line_that_was_incomplete_at_the_mark_counts_later(path: Path) -> None:
    line = event("get", "pods")
    path.write_text(line + line[:20])
    log = AuditLog(path)
    mark = log.mark()
    path.write_text(line + line)
    assert mark == len(line)
    assert log.count(since=mark) == 1


def test_refusals_are_the_forbidden_requests(path: Path) -> None:
    denied = event("list", "secrets", responseStatus={"code": 403})
    path.write_text(event("get", "pods") + denied + event("get", "pods", responseStatus={"code": 404}))
    (refusal,) = AuditLog(path).refusals(user="me")
    assert refusal.kind == RequestKind("me", "list", "secrets")
    assert AuditLog(path).refusals(user="you") == []


def test_a_request_names_the_binding_that_allowed_it(path: Path) -> None:
    reason = 'RBAC: allowed by RoleBinding "ours/workers" of Role "ours" to ServiceAccount "ours/home"'
    allowed = {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": reason}
    ledgers = {"resource": "claimledgers", "apiGroup": "openrl.io"}
    path.write_text(
        event("get", "", objectRef=ledgers, annotations=allowed)
        + event(
            "get", "", objectRef=ledgers, annotations={**allowed, "authorization.k8s.io/decision": "forbid"}
        )
        + event("get", "", objectRef=None, requestURI="/apis", annotations=allowed)
    )

    found = [(r.group, r.of_resource, r.binding) for r in AuditLog(path).requests()]

    assert found == [
        ("openrl.io", True, "RoleBinding ours/workers"),
        ("openrl.io", True, ""),
        ("", False, "RoleBinding ours/workers"),
    ]
