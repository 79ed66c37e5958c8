"""What the server says when it refuses: `Status` objects, worded as `k8s.io/apimachinery` words them.

The client turns them into the classes of `informers.errors` with the very function that does so for a real
server's answers, so nothing here knows those classes.
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
    """A request is answered with a `Status` instead of an object."""

    code: HTTPStatus
    reason: str
    message: str
    details: Mapping[str, object] = field(default_factory=dict)
    """What it is about and why, for programs: kubectl words its message by them."""

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
    """404: there is no such object."""
    return Refusal(HTTPStatus.NOT_FOUND, "NotFound", f'{kind} "{name}" not found')


def namespace_not_found(name: str) -> Refusal:
    """404: the namespace to create in does not exist."""
    return Refusal(HTTPStatus.NOT_FOUND, "NotFound", f'namespaces "{name}" not found')


def namespace_terminating(kind: Kind, name: str, namespace: str) -> Refusal:
    """403: the namespace to create in is being deleted."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    return forbidden(kind, name, why, cause)


def forbidden(kind: Kind, name: str, why: str, *causes: Mapping[str, str]) -> Refusal:
    """403: a rule of the server's, not of rights, says no."""
    details = {"name": name, "group": kind.group, "kind": kind.plural, "causes": causes}
    return Refusal(HTTPStatus.FORBIDDEN, "Forbidden", f'{kind} "{name}" is forbidden: {why}', details)


def not_served() -> Refusal:
    """404: there is no such resource."""
    text = "the server could not find the requested resource"
    return Refusal(HTTPStatus.NOT_FOUND, "", text)


def already_exists(kind: Kind, name: str) -> Refusal:
    """409: an object of that name is there."""
    return Refusal(HTTPStatus.CONFLICT, "AlreadyExists", f'{kind} "{name}" already exists')


def conflict(kind: Kind, name: str, why: str = MODIFIED) -> Refusal:
    """409: a version or a precondition does not hold."""
    text = f'Operation cannot be fulfilled on {kind} "{name}": {why}'
    return Refusal(HTTPStatus.CONFLICT, "Conflict", text)


def invalid(kind: Kind, name: str, faults: Sequence[str]) -> Refusal:
    """422: the object breaks a rule."""
    listed = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
    subject = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    text = f'{subject} "{name}" is invalid: {listed}'
    causes = [_cause(fault) for fault in faults]
    details = {"name": name, "group": kind.group, "kind": kind.kind, "causes": causes}
    return Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", text, details)


def _cause(fault: str) -> dict[str, str]:
    path, _, message = fault.partition(": ")
    return {"reason": "FieldValueInvalid", "message": message, "field": path}


def unprocessable(message: str) -> Refusal:
    """422: a patch cannot be applied."""
    return Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", message)


def bad_request(message: str) -> Refusal:
    """400: the request makes no sense."""
    return Refusal(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def expired(message: str) -> Refusal:
    """410: the version asked for is no longer known."""
    return Refusal(HTTPStatus.GONE, "Expired", message)


def too_large(asked: int, current: int) -> Refusal:
    """504: the version asked for is not reached yet."""
    text = f"Too large resource version: {asked}, current: {current}"
    details = {"causes": [{"reason": "ResourceVersionTooLarge"}]}
    return Refusal(HTTPStatus.GATEWAY_TIMEOUT, "Timeout", text, details)


def unreadable_version(version: str) -> Refusal:
    """500: what a watch says to a version that is no number."""
    return Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "", f"strconv.ParseUint: parsing {version!r}")


def set_on_create() -> Refusal:
    """500: a version was given to an object that does not exist yet."""
    text = "resourceVersion should not be set on objects to be created"
    return Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "", text)
