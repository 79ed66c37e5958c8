"""Tests of the probes and of the event loop monitor."""

import io
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from aiohttp import ClientSession

from controller.config.flags import InvalidSetting, Settings, resolve
from controller.config.values import BindAddress
from controller.runtime import logs
from controller.runtime.health import LoopMonitor, health_application
from controller.runtime.http_server import serve
from tests.virtualtime import block, run_virtual

LOCAL = BindAddress("127.0.0.1", 0)


class Checks:
    """A liveness and a readiness check with settable results."""

    def __init__(self) -> None:
        self.loop: str | None = None
        self.caches: str | None = None

    @asynccontextmanager
    async def served(self) -> AsyncIterator["Client"]:
        app = health_application(
            liveness={"event-loop": lambda: self.loop}, readiness={"caches": lambda: self.caches}
        )
        settings = Settings(health_probe_bind_address=LOCAL)
        async with serve(app, settings, "health_probe_bind_address") as address, ClientSession() as session:
            yield Client(session, f"http://{address}")


class Client:
    """An HTTP client that acts like the kubelet."""

    def __init__(self, session: ClientSession, base: str) -> None:
        self._session = session
        self._base = base

    async def get(self, path: str) -> tuple[int, str]:
        async with self._session.get(self._base + path) as response:
            assert response.content_type == "text/plain"
            return response.status, await response.text()


@pytest.fixture
def log(process_logging: None) -> io.StringIO:  # noqa: ARG001 - for its clean-up
    stream = io.StringIO()
    logs.configure(Settings(), stream)
    return stream


@pytest.mark.anyio
async def test_passing_checks_return_ok() -> None:
    async with Checks().served() as client:
        assert await client.get("/healthz") == (200, "ok")
        assert await client.get("/readyz") == (200, "ok")
        assert await client.get("/healthz/event-loop") == (200, "ok")
        assert await client.get("/readyz?verbose") == (200, "[+]ping ok\n[+]caches ok\nreadyz check passed\n")


@pytest.mark.anyio
async def test_a_failing_check_fails_only_its_own_probe_and_withholds_the_reason() -> None:
    checks = Checks()
    checks.caches = "pods are not synced"
    async with checks.served() as client:
        assert await client.get("/healthz") == (200, "ok")
        listing = "[+]ping ok\n[-]caches failed: reason withheld\nreadyz check failed\n"
        assert await client.get("/readyz") == (500, listing)
        assert await client.get("/readyz?verbose") == (500, listing)
        assert await client.get("/readyz/caches") == (500, "failed: pods are not synced\n")
        assert await client.get("/readyz/ping") == (200, "ok")
        checks.caches = None
        assert await client.get("/readyz") == (200, "ok")


@pytest.mark.anyio
async def test_excluded_checks_do_not_count() -> None:
    checks = Checks()
    checks.caches = "no"
    async with checks.served() as client:
        assert await client.get("/readyz?exclude=caches") == (200, "ok")
        assert await client.get("/readyz?verbose&exclude=caches&exclude=cache") == (
            200,
            '[+]ping ok\n[+]caches excluded: ok\nwarn: no check is named "cache"\nreadyz check passed\n',
        )


@pytest.mark.anyio
async def test_unknown_paths_are_not_found() -> None:
    async with Checks().served() as client:
        for path in ("/healthz/nope", "/readyz/event-loop", "/", "/metrics"):
            status, _ = await client.get(path)
            assert status == 404


@pytest.mark.anyio
async def test_a_failure_and_its_recovery_are_logged_once(log: io.StringIO) -> None:
    checks = Checks()
    async with checks.served() as client:
        for reason in (None, "1 of 3", "2 of 3", None, None):
            checks.caches = reason
            await client.get("/readyz")
    records = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(record["level"], record["msg"]) for record in records] == [
        ("warning", "Probe failed"),
        ("info", "Probe recovered"),
    ]
    assert records[0]["checks"] == {"caches": "1 of 3"}


@pytest.mark.anyio
async def test_a_port_in_use_is_an_error_of_the_given_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        settings = resolve({"--health-probe-bind-address": address}, {})
        with pytest.raises(InvalidSetting) as refusal:
            async with serve(
                health_application(liveness={}, readiness={}), settings, "health_probe_bind_address"
            ):
                pytest.fail("the server started")
    assert str(refusal.value) == (
        f'--health-probe-bind-address: "{address}" is not allowed: '
        "it must be a free address of this host (Address already in use)"
    )


@pytest.mark.anyio
async def test_an_empty_host_includes_ipv4_and_the_port_is_released_afterwards() -> None:
    settings = Settings(health_probe_bind_address=BindAddress("", 0))
    app = health_application(liveness={}, readiness={})
    async with serve(app, settings, "health_probe_bind_address") as address, ClientSession() as session:
        assert address is not None
        response = await session.get(f"http://127.0.0.1:{address.port}/healthz")
        assert response.status == 200
    with socket.create_server(("127.0.0.1", address.port)):
        pass


@pytest.mark.anyio
async def test_a_disabled_address_starts_no_server() -> None:
    settings = Settings(health_probe_bind_address=None)
    async with serve(
        health_application(liveness={}, readiness={}), settings, "health_probe_bind_address"
    ) as address:
        assert address is None


def test_the_loop_monitor_fails_while_the_loop_is_blocked_and_measures_the_lag() -> None:
    async def scenario() -> None:
        monitor = LoopMonitor(interval_seconds=1.0, tolerance_seconds=10.0)
        assert monitor.check() is not None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(monitor.run)
            await anyio.sleep(60.5)
            assert monitor.check() is None
            assert monitor.lag_seconds().sum == 0.0
            block(12.0)
            assert monitor.check() == "the event loop is 11.5 s late"
            await anyio.sleep(1.0)
            assert monitor.check() is None
            assert monitor.lag_seconds().sum == 11.5
            assert monitor.lag_seconds().counts[-1] == 1
            tasks.cancel_scope.cancel()

    run_virtual(scenario)


def test_the_loop_monitor_fails_after_its_task_ended() -> None:
    async def scenario() -> None:
        monitor = LoopMonitor(interval_seconds=1.0, tolerance_seconds=10.0)
        await monitor.step()
        await anyio.sleep(9.0)
        assert monitor.check() is None
        await anyio.sleep(2.0)
        assert monitor.check() == "the event loop is 11.0 s late"

    run_virtual(scenario)
