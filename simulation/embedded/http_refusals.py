"""Refusals of the HTTP layer: unreadable bodies, unacceptable media types, unsupported methods."""

from __future__ import annotations

from http import HTTPStatus

from simulation.apiserver.refusals import Refusal


def unsupported_media_type(found: str, accepted: tuple[str, ...]) -> Refusal:
    """Return 415: the body has an unsupported format."""
    text = f"the body of the request was in an unknown format ({found}) - accepted media types include: "
    return Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", f"{text}{', '.join(accepted)}")


def not_acceptable(accepted: str) -> Refusal:
    """Return 406: the client accepts only unsupported formats."""
    text = f"only application/json is available, not {accepted}"
    return Refusal(HTTPStatus.NOT_ACCEPTABLE, "NotAcceptable", text)


def method_not_allowed(method: str, what: str) -> Refusal:
    """Return 405: the path exists, but not with this method."""
    text = f"{method} is not supported on {what} by this server"
    return Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "MethodNotAllowed", text)


def invalid_option(name: str, value: str, allowed: str) -> Refusal:
    """Return 422: a parameter or option has an invalid value."""
    text = f'{name}: Unsupported value: "{value}": supported values: {allowed}'
    return Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", text)


def forbidden_host(host: str) -> Refusal:
    """Return 403: a browser may have been redirected here by DNS rebinding."""
    text = f"the host of a request must be a loopback address, not {host!r}"
    return Refusal(HTTPStatus.FORBIDDEN, "Forbidden", text)


def internal(error: Exception) -> Refusal:
    """Return 500: an unexpected error of this server."""
    text = f"Internal error occurred: {type(error).__name__}: {error}"
    return Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", text)
