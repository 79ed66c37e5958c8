"""Refusals that only HTTP knows: what cannot be read, cannot be sent, or is not done here."""

from __future__ import annotations

from http import HTTPStatus

from simulation.apiserver.refusals import Refusal


def unsupported_media_type(found: str, accepted: tuple[str, ...]) -> Refusal:
    """415: a body in a form that is not read."""
    text = f"the body of the request was in an unknown format ({found}) - accepted media types include: "
    return Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", f"{text}{', '.join(accepted)}")


def not_acceptable(accepted: str) -> Refusal:
    """406: an answer in a form that is not written."""
    text = f"only application/json can be answered, not {accepted}"
    return Refusal(HTTPStatus.NOT_ACCEPTABLE, "NotAcceptable", text)


def method_not_allowed(method: str, what: str) -> Refusal:
    """405: the path is known, the method is not served there."""
    text = f"{method} is not supported on {what} by this server"
    return Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "MethodNotAllowed", text)


def invalid_option(name: str, value: str, allowed: str) -> Refusal:
    """422: a parameter or option that is not allowed."""
    text = f'{name}: Unsupported value: "{value}": supported values: {allowed}'
    return Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", text)


def forbidden_host(host: str) -> Refusal:
    """403: a browser was talked into a request under another name for this machine."""
    text = f"requests must name a loopback address as their host, not {host!r}"
    return Refusal(HTTPStatus.FORBIDDEN, "Forbidden", text)


def internal(error: Exception) -> Refusal:
    """500: a fault of this server."""
    text = f"Internal error occurred: {type(error).__name__}: {error}"
    return Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", text)
