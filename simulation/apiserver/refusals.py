"""Refusals of the server: `Status` objects with the wording of `k8s.io/apimachinery`.

The client maps them to the classes of `informers.errors` with the function that maps a real server's
responses. This module therefore does not depend on those classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

import msgspec

from simulation.apiserver.kinds import Kind

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


@dataclass
class Refusal(Exception):
    """A response with a `Status` object instead of the requested object."""

    code: HTTPStatus
    reason: str
    message: str
    details: Mapping[str, object] = field(default_factory=dict)
    """Machine-readable object and causes. kubectl builds its message from them."""

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}"

    @property
    def data(self) -> bytes:
        """The `Status` as sent over the wire."""
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code.value,
        }
        return msgspec.json.encode(status | ({"details": self.details} if self.details else {}))


def not_found(kind: Kind, name: str) -> Refusal:
    """Return 404: the object does not exist."""
    return Refusal(HTTPStatus.NOT_FOUND, "NotFound", f'{kind} "{name}" not found')


def namespace_not_found(name: str) -> Refusal:
    """Return 404: the namespace of a create request does not exist."""
    return Refusal(HTTPStatus.NOT_FOUND, "NotFound", f'namespaces "{name}" not found')


def namespace_terminating(kind: Kind, name: str, namespace: str) -> Refusal:
    """Return 403: the namespace of a create request is terminating."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    return forbidden(kind, name, why, cause)


def forbidden(kind: Kind, name: str, why: str, *causes: Mapping[str, str]) -> Refusal:
    """Return 403: admission, not RBAC, refuses the request."""
    details = {"name": name, "group": kind.group, "kind": kind.plural, "causes": causes}
    return Refusal(HTTPStatus.FORBIDDEN, "Forbidden", f'{kind} "{name}" is forbidden: {why}', details)


def not_served() -> Refusal:
    """Return 404: the resource is not served."""
    text = "the server could not find the requested resource"
    return Refusal(HTTPStatus.NOT_FOUND, "", text)


def already_exists(kind: Kind, name: str) -> Refusal:
    """Return 409: an object of that name exists."""
    return Refusal(HTTPStatus.CONFLICT, "AlreadyExists", f'{kind} "{name}" already exists')


def conflict(kind: Kind, name: str, why: str = MODIFIED) -> Refusal:
    """Return 409: a resource version or a precondition does not match."""
    text = f'Operation cannot be fulfilled on {kind} "{name}": {why}'
    return Refusal(HTTPStatus.CONFLICT, "Conflict", text)


def invalid(kind: Kind, name: str, errors: Sequence[str]) -> Refusal:
    """Return 422: the object is invalid."""
    listed = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
    subject = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    text = f'{subject} "{name}" is invalid: {listed}'
    causes = [_cause(error) for error in errors]
    details = {"name": name, "group": kind.group, "kind": kind.kind, "causes": causes}
    return Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", text, details)


def _cause(error: str) -> dict[str, str]:
    path, _, message = error.partition(": ")
    return {"reason": "FieldValueInvalid", "message": message, "field": path}


def unprocessable(message: str) -> Refusal:
    """Return 422: the patch cannot be applied."""
    return Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", message)


def bad_request(message: str) -> Refusal:
    """Return 400: the request is malformed."""
    return Refusal(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def expired(message: str) -> Refusal:
    """Return 410: the requested resource version is compacted."""
    return Refusal(HTTPStatus.GONE, "Expired", message)


def too_large(requested: int, current: int) -> Refusal:
    """Return 504: the requested resource version is not reached yet."""
    text = f"Too large resource version: {requested}, current: {current}"
    details = {"causes": [{"reason": "ResourceVersionTooLarge"}]}
    return Refusal(HTTPStatus.GATEWAY_TIMEOUT, "Timeout", text, details)


def unreadable_version(version: str) -> Refusal:
    """Return 500, as a watch does for a resource version that is not a number."""
    return Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "", f"strconv.ParseUint: parsing {version!r}")


def set_on_create() -> Refusal:
    """Return 500: a create request sets a resource version."""
    text = "resourceVersion should not be set on objects to be created"
    return Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "", text)
