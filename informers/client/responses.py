"""Maps HTTP codes, `Status` objects and exceptions of the HTTP client to `informers.errors`.

This is the only place that does so. A response other than success is classified by its code and by the reason
in its `Status` body. Without a response, the class depends on whether the server may have received the
request: `Unreachable` means that it has not, `OutcomeUnknown` that it may have acted on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus

import aiohttp
import msgspec

from informers import errors
from informers.client.decoding import struct_decoder
from informers.errors import ApiError

# From k8s.io/apimachinery/pkg/apis/meta/v1: StatusReason and CauseType.
_REASONS: Mapping[str, type[ApiError]] = {
    "AlreadyExists": errors.AlreadyExists,
    "Gone": errors.Gone,
    "Expired": errors.Gone,
}
_CODES: Mapping[int, type[ApiError]] = {
    400: errors.BadRequest,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    410: errors.Gone,
    422: errors.Invalid,
}
_CAUSE_TOO_LARGE = "ResourceVersionTooLarge"
_TEXT_TOO_LARGE = "Too large resource version"  # from servers without the cause, with 504

# The connection was not established, or the proxy refused it: no byte of the request was sent.
_NOT_SENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
    aiohttp.ServerFingerprintMismatch,
)
# Everything else that the HTTP client raises: disconnects, resets, timeouts, malformed HTTP.
_PERHAPS_SENT = (aiohttp.ClientError, TimeoutError, OSError)


class StatusCause(msgspec.Struct, frozen=True):
    """One entry of `details.causes`."""

    reason: str = ""
    message: str = ""
    field: str = ""


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


_decode_status = struct_decoder(Status)


def read_status(data: bytes | msgspec.Raw) -> Status:
    """Return the `Status` in a body, an empty one for any other body (such as a proxy's error page)."""
    try:
        status = _decode_status(bytes(data))
    except ValueError:
        return Status()
    return status if status.kind == "Status" else Status()


def error_for_response(request: str, code: int, retry_after: str | None, body: bytes) -> ApiError:
    """Return the error for a response; its message names `request` if the body explains nothing."""
    status = read_status(body)
    # Retry-After as a date would need a wall clock; API servers and the usual proxies send seconds.
    seconds = float(retry_after) if retry_after is not None and retry_after.strip().isdecimal() else None
    return _error(status, code, status.message or f"{request}: {_phrase(code)}", seconds)


def error_for_status(status: Status) -> ApiError:
    """Return the error for a `Status` inside a watch, whose HTTP code was a success."""
    code = status.code or HTTPStatus.INTERNAL_SERVER_ERROR.value
    return _error(status, code, status.message or f"the server ended the watch: {_phrase(code)}", None)


@contextmanager
def mapped_errors(request: str, is_unsent: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Map exceptions of the HTTP client to `Unreachable` and `OutcomeUnknown`.

    `is_unsent` reports whether no byte was sent. The error of a proxy alone does not decide that.
    """
    try:
        yield
    except _NOT_SENT as error:
        raise errors.Unreachable(f"{request}: {_describe(error)}") from error
    except _PERHAPS_SENT as error:
        cls = errors.Unreachable if is_unsent() else errors.OutcomeUnknown
        raise cls(f"{request}: {_describe(error)}") from error


def _error(status: Status, code: int, message: str, retry_after_seconds: float | None) -> ApiError:
    cls = _error_class(status, code)
    causes = (status.details.causes if status.details else None) or ()
    fields = tuple(cause.field for cause in causes if cause.field)
    if cls not in {errors.TooManyRequests, errors.ServerError}:
        return cls(message, status=code, reason=status.reason, fields=fields)
    if retry_after_seconds is None and status.details is not None:
        retry_after_seconds = status.details.retry_after_seconds or None
    return cls(message, status=code, reason=status.reason, retry_after_seconds=retry_after_seconds)


def _error_class(status: Status, code: int) -> type[ApiError]:
    if _is_too_large(status, code):
        return errors.TooLargeResourceVersion
    cls = _REASONS.get(status.reason) or _CODES.get(code)
    if cls is not None:
        return cls
    if code == HTTPStatus.TOO_MANY_REQUESTS:
        return errors.TooManyRequests
    return errors.ServerError if code >= HTTPStatus.INTERNAL_SERVER_ERROR else ApiError


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
