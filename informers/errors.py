"""What can go wrong between us and an API server, by what the caller has to do about it.

Foreign exceptions are mapped to these in one place, the adapter that implements `informers.api.Api`.
Three questions decide the class: was the request refused for good, may it be sent again, and is it
known whether it took effect. `OutcomeUnknown` is the one that must never be taken for a failed write.
"""

from __future__ import annotations


class ApiError(Exception):
    """A request to the API server did not succeed; `status` is the HTTP code where there was an answer."""

    retryable = False

    def __init__(self, message: str, *, status: int | None = None, reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason


class BadRequest(ApiError):
    """400: the server could not read the request."""


class Unauthorized(ApiError):
    """401: the credentials were refused, after one retry with credentials read again."""

    retryable = True


class Forbidden(ApiError):
    """403: no right to do this, or a quota, a Pod security level or a webhook said no."""


class NotFound(ApiError):
    """404: the object, or the whole resource, does not exist."""


class AlreadyExists(ApiError):
    """409 with reason `AlreadyExists`: a create met an object of that name."""


class Conflict(ApiError):
    """409 for any other reason: a precondition (version or UID) no longer holds. Read again, decide again."""

    retryable = True


class Gone(ApiError):
    """410 (`Gone`, `Expired`): the asked-for resourceVersion or continue token is too old. List again."""

    retryable = True


class TooLargeResourceVersion(ApiError):
    """The server has not reached the asked-for resourceVersion (another replica, or a restored etcd)."""

    retryable = True


class Invalid(ApiError):
    """422: the object broke a schema or validation rule."""


class TooManyRequests(ApiError):
    """429: the server asks for patience, `retry_after_seconds` where it says how much."""

    retryable = True

    def __init__(
        self,
        message: str,
        *,
        status: int | None = 429,
        reason: str = "",
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message, status=status, reason=reason)
        self.retry_after_seconds = retry_after_seconds


class ServerError(ApiError):
    """5xx: the server failed. A write may have taken effect: read the state back before sending it again."""

    retryable = True

    def __init__(
        self,
        message: str,
        *,
        status: int | None = 500,
        reason: str = "",
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message, status=status, reason=reason)
        self.retry_after_seconds = retry_after_seconds


class Unreachable(ApiError):
    """No connection could be made: the request was certainly not seen by the server."""

    retryable = True


class NotLeading(ApiError):
    """The write was kept back on our side, since the lease may be someone else's by now."""


class OutcomeUnknown(ApiError):
    """The request was sent and no answer came (time-out, connection lost): it may have taken effect."""

    retryable = True


class Undecodable(ApiError):
    """An answer, or one object in it, is not what the resource's decoder accepts."""

    def __init__(self, message: str, *, key: tuple[str, str] | None = None) -> None:
        super().__init__(message)
        self.key = key


class ConfigurationError(Exception):
    """The settings of the connection cannot be used. One line: where, what was found, what is allowed."""
