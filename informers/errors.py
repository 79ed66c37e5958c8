"""Errors of API requests, classified by what the caller has to do about them.

Foreign exceptions are mapped to these classes in one place, the adapter that implements `informers.api.Api`.
Three questions select the class: was the request refused permanently, may it be sent again, and is it
known whether it took effect. `OutcomeUnknown` must never be treated as a failed write.
"""

from __future__ import annotations

from typing import ClassVar


class ApiError(Exception):
    """A request to the API server failed; `status` is the HTTP code if there was a response."""

    retryable: ClassVar[bool] = False
    default_status: ClassVar[int | None] = None

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        reason: str = "",
        retry_after_seconds: float | None = None,
        fields: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = self.default_status if status is None else status
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds
        """The server's `Retry-After`, sent with 429 and 5xx only."""
        self.fields = fields
        """The fields that the causes of the `Status` name. A policy's cause names none."""


class RetryableError(ApiError):
    """A request that may succeed if it is sent again."""

    retryable = True


class BadRequest(ApiError):
    """400: the server could not parse the request."""


class Unauthorized(RetryableError):
    """401: the credentials were rejected, even after one retry with reloaded credentials."""


class Forbidden(ApiError):
    """403: denied by RBAC, a quota, a Pod security level or a webhook."""


class NotFound(ApiError):
    """404: the object, or the whole resource, does not exist."""


class AlreadyExists(ApiError):
    """409 with reason `AlreadyExists`: an object with the requested name already exists."""


class Conflict(RetryableError):
    """409 for any other reason: a precondition (version or UID) no longer holds. Read and decide again."""


class Gone(RetryableError):
    """410 (`Gone`, `Expired`): the requested resourceVersion or continue token is too old. List again."""


class TooLargeResourceVersion(RetryableError):
    """The server has not reached the requested resourceVersion (another replica, or a restored etcd)."""


class Invalid(ApiError):
    """422: the object violates a schema or validation rule."""


class TooManyRequests(RetryableError):
    """429: the server is overloaded; wait `retry_after_seconds` if set."""

    default_status = 429


class ServerError(RetryableError):
    """5xx: the server failed. A write may have taken effect: read the object before sending it again."""

    default_status = 500


class Unreachable(RetryableError):
    """No connection was established: the server has certainly not received the request."""


class NotLeading(ApiError):
    """The write was withheld on our side, because another process may hold the lease."""


class OutcomeUnknown(RetryableError):
    """The request was sent, but no response arrived (timeout, lost connection): it may have taken effect."""


class Undecodable(ApiError):
    """A response, or one object in it, was rejected by the resource's decoder."""


class ConfigurationError(Exception):
    """The connection settings are unusable. One line: the place, the value found, the values allowed."""
