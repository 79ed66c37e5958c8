"""Each kind of request failure and its error class."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import anyio
import pytest

from informers import errors
from informers.client.transport import KubeApi, Timeouts
from informers.errors import (
    ApiError,
    Gone,
    OutcomeUnknown,
    ServerError,
    TooLargeResourceVersion,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from tests.informers.client.conftest import Connect
from tests.informers.client.objects import THINGS, listing, thing
from tests.informers.client.server import (
    ScriptedServer,
    failure,
    read_request,
    reply,
    reset,
    serve_raw,
    silence,
    status,
)

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", errors.BadRequest),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        (410, "Expired", Gone),
        (410, "Gone", Gone),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ServerError),
        (503, "ServiceUnavailable", ServerError),
        (504, "Timeout", ServerError),
        (405, "MethodNotAllowed", ApiError),
        (302, "", ApiError),
    ],
)
async def test_each_code_has_its_class_and_the_servers_message(
    api: KubeApi, server: ScriptedServer, code: int, reason: str, expected: type[ApiError]
) -> None:
    server.answers(failure(code, reason, "because"))
    with pytest.raises(ApiError) as caught:
        await api.patch(THINGS, "a", {}, "ns")
    error = caught.value
    assert type(error) is expected
    assert (error.message, error.status, error.reason) == ("because", code, reason)


async def test_a_response_without_a_status_names_the_failed_request(
    api: KubeApi, server: ScriptedServer
) -> None:
    server.answers(reply(b"<html>bad gateway</html>", 502, content_type="text/html"))
    with pytest.raises(ServerError) as caught:
        await api.get(THINGS, "a", "ns")
    assert str(caught.value) == ("GET /apis/example.io/v1/namespaces/ns/things/a: HTTP 502 Bad Gateway")


@pytest.mark.parametrize(
    "body",
    [
        status(504, "Timeout", "Too large resource version: 9, current: 5"),
        status(504, "Timeout", "late", causes=[{"message": "Too large resource version"}]),
        status(504, "Timeout", "late", causes=[{"reason": "ResourceVersionTooLarge"}]),
    ],
)
async def test_l4_a_too_large_version_is_distinguished_from_a_timeout(
    api: KubeApi, server: ScriptedServer, body: dict[str, object]
) -> None:
    server.answers(reply(body, 504))
    with pytest.raises(TooLargeResourceVersion):
        await api.list_page(THINGS, resource_version="9")


@pytest.mark.parametrize("code", [429, 503, 500])
async def test_w7_retry_after_is_passed_on(api: KubeApi, server: ScriptedServer, code: int) -> None:
    for answer, seconds in (
        (reply(status(code), code, {"Retry-After": "7"}), 7),
        (failure(code, retryAfterSeconds=3), 3),
        (failure(code), None),
        (reply(b"", code, {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}), None),
    ):
        server.answers(answer)
        with pytest.raises((TooManyRequests, ServerError)) as caught:
            await api.create(THINGS, {}, "ns")
        error = caught.value
        assert isinstance(error, TooManyRequests | ServerError)
        assert error.retry_after_seconds == seconds


async def test_w15_a_401_is_retried_once(api: KubeApi, server: ScriptedServer) -> None:
    server.answers(failure(401, "Unauthorized"), reply(thing()))
    assert (await api.create(THINGS, {}, "ns")).metadata.name == "a"
    server.answers(failure(401, "Unauthorized", "who?"))
    with pytest.raises(Unauthorized, match=r"who\?"):
        await api.list_page(THINGS)
    assert len(server.received) == 4


async def test_a_refused_connection_means_the_request_was_not_sent(connect_to: Connect) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    async with connect_to(url) as api:
        with pytest.raises(Unreachable, match="Cannot connect to host"):
            await api.create(THINGS, {}, "ns")


@pytest.fixture
def full_backlog() -> Iterator[str]:
    """A port that never accepts: the kernel drops the handshake because the backlog is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


async def test_a_connect_timeout_means_the_request_was_not_sent(
    connect_briefly: Connect, full_backlog: str
) -> None:
    async with connect_briefly(full_backlog) as api:
        with pytest.raises(Unreachable, match="timeout"):
            await api.create(THINGS, {}, "ns")


async def test_a6_a_pool_timeout_means_the_request_was_not_sent(
    connect_briefly: Connect, server: ScriptedServer
) -> None:
    server.answers(silence)
    async with connect_briefly(server.url, connections=1) as api, anyio.create_task_group() as tasks:

        async def occupy() -> None:
            with pytest.raises(OutcomeUnknown):
                await api.get(THINGS, "a", "ns")

        tasks.start_soon(occupy)
        await wait_for_requests(server, 1)
        with pytest.raises(Unreachable):
            await api.create(THINGS, {}, "ns")
    assert [request.method for request in server.received] == ["GET"]


async def wait_for_requests(server: ScriptedServer, count: int) -> None:
    with anyio.fail_after(10):
        while len(server.received) < count:
            await anyio.lowlevel.checkpoint()


async def test_a5_a_hanging_server_leaves_the_outcome_unknown(
    connect_briefly: Connect, server: ScriptedServer
) -> None:
    server.answers(silence)
    async with connect_briefly(server.url) as api:
        for call in (
            api.get(THINGS, "a", "ns"),
            api.list_page(THINGS),
            api.create(THINGS, {}, "ns"),
            api.patch(THINGS, "a", {}, "ns"),
            api.update(THINGS, "a", {}, "ns"),
            api.delete(THINGS, "a", "ns"),
        ):
            with anyio.fail_after(2), pytest.raises(OutcomeUnknown):
                await call
        assert api.statistics().session.requests == 0
    assert len(server.received) == 6


async def test_a5_an_endless_body_is_bounded_too(connect_briefly: Connect) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK + b"Content-Length: 100\r\n\r\n{")
        await asyncio.Event().wait()

    async with serve_raw(talk) as url, connect_briefly(url) as api:
        with pytest.raises(OutcomeUnknown):
            await api.list_page(THINGS)


@pytest.mark.parametrize("break_mode", ["close", "reset", "half"])
async def test_a_write_whose_connection_breaks_is_sent_once(connect_to: Connect, break_mode: str) -> None:
    requests: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A first answer makes the connection a reused one, on which HTTP clients resend.
        while head := await read_request(reader):
            requests.append(head)
            if head.startswith(b"GET"):
                body = b'{"metadata":{"name":"a"}}'
                writer.write(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                continue
            if break_mode == "half":
                writer.write(OK + b"Content-Length: 100\r\n\r\n{")
                await writer.drain()
            if break_mode == "reset":
                reset(writer)
            return

    async with serve_raw(talk) as url, connect_to(url) as api:
        for write in (
            api.create(THINGS, {}, "ns"),
            api.patch(THINGS, "a", {}, "ns"),
            api.update(THINGS, "a", {}, "ns"),
            api.delete(THINGS, "a", "ns"),
        ):
            await api.get(THINGS, "a", "ns")
            with pytest.raises(OutcomeUnknown):
                await write
    assert [head.split()[0] for head in requests] == [
        b"GET", b"POST", b"GET", b"PATCH", b"GET", b"PUT", b"GET", b"DELETE",
    ]  # fmt: skip


async def test_a_read_on_a_connection_that_was_closed_meanwhile_is_sent_again(connect_to: Connect) -> None:
    connections = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        answered = False
        while await read_request(reader):
            if answered:
                return
            answered = True
            body = b'{"metadata":{"name":"a"}}'
            writer.write(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async with serve_raw(talk) as url, connect_to(url) as api:
        await api.get(THINGS, "a", "ns")
        await api.get(THINGS, "a", "ns")
    assert connections == 2


async def test_malformed_http_is_an_unknown_outcome(connect_to: Connect) -> None:
    for answer in (b"SSH-2.0-OpenSSH\r\n\r\n", OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"):

        async def talk(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: bytes = answer
        ) -> None:
            await read_request(reader)
            writer.write(answer)
            await writer.drain()

        async with serve_raw(talk) as url, connect_to(url) as api:
            with pytest.raises(OutcomeUnknown):
                await api.create(THINGS, {}, "ns")


async def test_cancelling_a_call_cancels_it(api: KubeApi, server: ScriptedServer) -> None:
    server.answers(silence)
    with anyio.move_on_after(0.1) as scope:
        await api.get(THINGS, "a", "ns")
    assert scope.cancelled_caught
    assert api.statistics().session.requests == 0
    server.answers(reply(listing()))
    await api.list_page(THINGS)


def test_timeouts_that_would_blur_unreachable_and_unknown_are_rejected() -> None:
    with pytest.raises(ValueError, match="connect_seconds"):
        Timeouts(request_seconds=5, connect_seconds=5)
