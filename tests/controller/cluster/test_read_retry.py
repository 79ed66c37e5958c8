"""Live reads survive a server that is overloaded for a moment."""

from __future__ import annotations

import anyio
import pytest

from controller.cluster.read_retry import ATTEMPTS, retry_read
from informers.errors import ApiError, NotFound, ServerError, TooManyRequests
from tests.virtualtime import run_virtual


class Server:
    """Raises these errors, then answers."""

    def __init__(self, *errors: ApiError) -> None:
        self._errors = list(errors)
        self.requested_at: list[float] = []

    async def read(self) -> str:
        self.requested_at.append(anyio.current_time())
        if self._errors:
            raise self._errors.pop(0)
        return "answer"


def test_a_read_is_retried_after_server_errors_with_growing_pauses() -> None:
    server = Server(ServerError("busy"), ServerError("busy"))
    assert run_virtual(retry_read, server.read) == "answer"
    first, second, third = server.requested_at
    assert third - second > second - first > 0


def test_a_read_may_be_given_as_a_lambda() -> None:
    server = Server(ServerError("busy"))
    assert run_virtual(retry_read, lambda: server.read()) == "answer"  # noqa: PLW0108 - the case in question


def test_a_requested_pause_is_respected() -> None:
    server = Server(TooManyRequests("slowly", retry_after_seconds=3.0))
    assert run_virtual(retry_read, server.read) == "answer"
    assert server.requested_at[1] - server.requested_at[0] == pytest.approx(3.0)


def test_a_permanent_error_is_not_retried() -> None:
    server = Server(NotFound("gone"))
    with pytest.raises(NotFound):
        run_virtual(retry_read, server.read)
    assert len(server.requested_at) == 1


def test_the_error_of_the_last_attempt_is_raised() -> None:
    server = Server(*(ServerError(f"number {number}") for number in range(ATTEMPTS + 1)))
    with pytest.raises(ServerError, match=f"number {ATTEMPTS - 1}"):
        run_virtual(retry_read, server.read)
    assert len(server.requested_at) == ATTEMPTS
