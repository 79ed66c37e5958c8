"""Reads past the cache survive a busy server; writes are none of its business."""

from __future__ import annotations

import anyio
import pytest

from controller.cluster.retry import ATTEMPTS, retry_read
from informers.errors import ApiError, NotFound, ServerError, TooManyRequests
from tests.virtualtime import run_virtual


class Server:
    """Answers with errors first."""

    def __init__(self, *errors: ApiError) -> None:
        self._errors = list(errors)
        self.asked_at: list[float] = []

    async def read(self) -> str:
        self.asked_at.append(anyio.current_time())
        if self._errors:
            raise self._errors.pop(0)
        return "answer"


def test_a_read_is_sent_again_after_a_server_error_with_growing_pauses() -> None:
    server = Server(ServerError("busy"), ServerError("busy"))
    assert run_virtual(retry_read, server.read) == "answer"
    first, second, third = server.asked_at
    assert third - second > second - first > 0


def test_a_read_may_be_given_as_a_lambda() -> None:
    server = Server(ServerError("busy"))
    assert run_virtual(retry_read, lambda: server.read()) == "answer"  # noqa: PLW0108 - the case in question


def test_the_pause_that_the_server_asks_for_is_kept() -> None:
    server = Server(TooManyRequests("slowly", retry_after_seconds=3.0))
    assert run_virtual(retry_read, server.read) == "answer"
    assert server.asked_at[1] - server.asked_at[0] == pytest.approx(3.0)


def test_an_answer_that_nothing_can_change_is_not_asked_for_again() -> None:
    server = Server(NotFound("gone"))
    with pytest.raises(NotFound):
        run_virtual(retry_read, server.read)
    assert len(server.asked_at) == 1


def test_the_last_error_is_raised_as_it_came() -> None:
    server = Server(*(ServerError(f"number {number}") for number in range(ATTEMPTS + 1)))
    with pytest.raises(ServerError, match=f"number {ATTEMPTS - 1}"):
        run_virtual(retry_read, server.read)
    assert len(server.asked_at) == ATTEMPTS
