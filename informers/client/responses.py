"""What a failure means: the one place where HTTP codes, `Status` objects and foreign exceptions become ours.

Two tables decide. An answer that is not a success is judged by its code and by the reason in its
`Status` body. No answer is judged by one question, whether the server can have seen the request:
`Unreachable` says it certainly has not, `OutcomeUnknown` that it may have acted on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus

import aiohttp
import msgspec

from informers.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    OutcomeUnknown,
    ServerError,
    TooLargeResourceVersion,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)

# From k8s.io/apimachinery/pkg/apis/meta/v1: StatusReason and CauseType.
_REASONS: Mapping[str, type[ApiError]] = {
    "AlreadyExists": AlreadyExists,
    "Gone": Gone,
    "Expired": Gone,
}
_CODES: Mapping[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
}
_CAUSE_TOO_LARGE = "ResourceVersionTooLarge"
_TEXT_TOO_LARGE = "Too large resource version"  # what servers without the cause say, with 504

# The connection was not made, or the proxy refused to make it: no byte of the request has left.
_NOT_SENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
    aiohttp.ServerFingerprintMismatch,
)
# Everything else that the HTTP client can raise: disconnects, resets, time-outs, broken HTTP.
_PERHAPS_SENT = (aiohttp.ClientError, TimeoutError, OSError)


class StatusCause(msgspec.Struct, frozen=True):
    """One entry of `details.causes`."""

    reason: str = ""
    message: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """`details` of a `Status`."""

    causes: tuple[StatusCause, ...] | None = None
    retry_after_seconds: float = 0


class Status(msgspec.Struct, frozen=True):
    """The `Status` object (meta/v1) with which an API server explains a failure."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


_status_decoder = msgspec.json.Decoder(Status)


def read_status(data: bytes | msgspec.Raw) -> Status:
    """The `Status` in a body, an empty one if it holds something else (a proxy's page, say)."""
    try:
        status = _status_decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Status()
    return status if status.kind == "Status" else Status()


def error_for_response(request: str, code: int, retry_after: str | None, body: bytes) -> ApiError:
    """The error for an answer that is not a success, with `request` in its message if it explains nothing."""
    status = read_status(body)
    # Retry-After as a date would need a wall clock; API servers and the usual proxies send seconds.
    seconds = float(retry_after) if retry_after is not None and retry_after.strip().isdecimal() else None
    return _error(status, code, status.message or f"{request}: {_phrase(code)}", seconds)


def error_for_status(status: Status) -> ApiError:
    """The error for a `Status` inside a watch, whose HTTP code was a success."""
    code = status.code or HTTPStatus.INTERNAL_SERVER_ERROR.value
    return _error(status, code, status.message or f"the server ended the watch: {_phrase(code)}", None)


@contextmanager
def foreign_errors(request: str) -> Iterator[None]:
    """Map what the HTTP client raises to `Unreachable` and `OutcomeUnknown`."""
    try:
        yield
    except _NOT_SENT as error:
        raise Unreachable(f"{request}: {_describe(error)}") from error
    except _PERHAPS_SENT as error:
        raise OutcomeUnknown(f"{request}: {_describe(error)}") from error


def _error(status: Status, code: int, message: str, retry_after_seconds: float | None) -> ApiError:
    reason = status.reason
    if _is_too_large(status, code):
        return TooLargeResourceVersion(message, status=code, reason=reason)
    cls = _REASONS.get(reason) or _CODES.get(code)
    if cls is not None:
        return cls(message, status=code, reason=reason)
    if retry_after_seconds is None and status.details is not None:
        retry_after_seconds = status.details.retry_after_seconds or None
    if code == HTTPStatus.TOO_MANY_REQUESTS:
        return TooManyRequests(message, status=code, reason=reason, retry_after_seconds=retry_after_seconds)
    if code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ServerError(message, status=code, reason=reason, retry_after_seconds=retry_after_seconds)
    return ApiError(message, status=code, reason=reason)


def _is_too_large(status: Status, code: int) -> bool:
    causes = (status.details.causes if status.details else None) or ()
    if any(cause.reason == _CAUSE_TOO_LARGE for cause in causes):
        return True
    texts = [status.message, *(cause.message for cause in causes)]
    return code == HTTPStatus.GATEWAY_TIMEOUT and any(_TEXT_TOO_LARGE in text for text in texts)


def _phrase(code: int) -> str:
    try:
        return f"HTTP {code} {HTTPStatus(code).phrase}"
    except ValueError:
        return f"HTTP {code}"


def _describe(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
