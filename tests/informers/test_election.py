# ruff: noqa: N802, S311
"""Leader election against one lease on an in-memory server, E1 to E18, on virtual time."""

from __future__ import annotations

import logging
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any, cast

import anyio
import anyio.lowlevel
import msgspec
import pytest

from informers.api import Api, Resource
from informers.election import ElectionSettings, LeaderElector, LeadershipLost
from informers.errors import (
    AlreadyExists,
    Conflict,
    NotFound,
    OutcomeUnknown,
    ServerError,
    Unauthorized,
    Undecodable,
    Unreachable,
)
from informers.lease import LEASES, Lease
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend, block, run_virtual

pytestmark = pytest.mark.anyio

SETTINGS = ElectionSettings()  # 15, 10 and 2 s
FAULTS = [
    Unreachable("refused"),
    OutcomeUnknown("reset"),
    TimeoutError("slow"),
    Unauthorized("expired", status=401),
    ServerError("down"),
    Undecodable("bad JSON"),
    KeyError("a bug in the client"),
]


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


class LeaseServer:
    """One lease with the server's rules of version and merge patch; keeps all its states and requests.

    A request is handled by the server's own task, as on a network: cancelling the caller does not undo it.
    """

    def __init__(self) -> None:
        self.tasks: anyio.abc.TaskGroup
        self.object: dict[str, Any] | None = None
        self.version = 0
        self.requests: list[tuple[float, str]] = []
        self.history: list[tuple[float, dict[str, Any]]] = []

    @property
    def spec(self) -> dict[str, Any]:
        assert self.object is not None
        return cast("dict[str, Any]", self.object["spec"])

    @property
    def holder(self) -> str:
        return str(self.spec.get("holderIdentity") or "")

    def commit(self, obj: dict[str, Any]) -> bytes:
        if obj != self.object:
            self.version += 1
            obj["metadata"]["resourceVersion"] = str(self.version)
            self.history.append((anyio.current_time(), obj["spec"]))
        self.object = obj
        return msgspec.json.encode(obj)

    def get(self) -> bytes:
        if self.object is None:
            raise NotFound("no lease", status=404)
        return msgspec.json.encode(self.object)

    def create(self, body: dict[str, Any]) -> bytes:
        if self.object is not None:
            raise AlreadyExists("lease exists", status=409)
        metadata = {**body["metadata"], "namespace": "ns", "uid": f"uid-{self.version}"}
        return self.commit({**body, "metadata": metadata})

    def patch(self, body: dict[str, Any]) -> bytes:
        if self.object is None:
            raise NotFound("no lease", status=404)
        if body["metadata"]["resourceVersion"] != self.object["metadata"]["resourceVersion"]:
            raise Conflict("the lease has changed", status=409)
        merged = {**self.spec, **body["spec"]}
        spec = {key: value for key, value in merged.items() if value is not None}
        return self.commit({**self.object, "metadata": dict(self.object["metadata"]), "spec": spec})

    def take(self, holder: str | None) -> None:
        """Write another holder by hand."""
        assert self.object is not None
        self.patch({"metadata": self.object["metadata"], "spec": {"holderIdentity": holder}})

    def touch(self) -> None:
        """Write a label: a new version of the same record."""
        assert self.object is not None
        labels = {"touched": str(self.version)}
        self.commit({**self.object, "metadata": {**self.object["metadata"], "labels": labels}})


class Client:
    """One way to the server; `before` and `after` are what happens to a request around its effect."""

    def __init__(self, server: LeaseServer) -> None:
        self.server = server
        self.before: Callable[[str], Awaitable[object]] = _nothing
        self.after: Callable[[str], Awaitable[object]] = _nothing

    async def _send(self, verb: str, handle: Callable[[], bytes]) -> Lease:
        self.server.requests.append((anyio.current_time(), verb))
        answered = anyio.Event()
        outcome: list[bytes | Exception] = []

        async def serve() -> None:
            try:
                await self.before(verb)
                answer = handle()
                await self.after(verb)
                outcome.append(answer)
            except Exception as error:  # noqa: BLE001 - goes to the caller
                outcome.append(error)
            answered.set()

        self.server.tasks.start_soon(serve)
        await answered.wait()
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return LEASES.decode(outcome[0])

    async def get(self, _resource: Resource[Lease], name: str, namespace: str = "") -> Lease:
        assert (name, namespace) == ("controller", "ns")
        return await self._send("get", self.server.get)

    async def create(self, _resource: Resource[Lease], body: dict[str, Any], _namespace: str = "") -> Lease:
        return await self._send("create", lambda: self.server.create(body))

    async def patch(
        self, _resource: Resource[Lease], _name: str, body: dict[str, Any], _namespace: str = ""
    ) -> Lease:
        return await self._send("patch", lambda: self.server.patch(body))


async def _nothing(_verb: str) -> None:
    await anyio.lowlevel.checkpoint()


async def hang(_verb: str) -> None:
    await anyio.sleep_forever()


def failing(error: Exception) -> Callable[[str], Awaitable[object]]:
    async def fail(_verb: str) -> None:
        await anyio.lowlevel.checkpoint()
        raise error

    return fail


@asynccontextmanager
async def lease_server() -> AsyncIterator[LeaseServer]:
    server = LeaseServer()
    async with anyio.create_task_group() as tasks:
        server.tasks = tasks
        yield server
        tasks.cancel_scope.cancel()


def make_elector(
    client: Client,
    host: str = "a",
    *,
    suffix: str = "1",
    settings: ElectionSettings = SETTINGS,
    wall_offset: timedelta = timedelta(0),
    seed: int = 1,
) -> LeaderElector:
    start = datetime(2026, 1, 1, tzinfo=UTC) + wall_offset
    return LeaderElector(
        cast("Api", client),
        name="controller",
        namespace="ns",
        host=host,
        unique_suffix=lambda: suffix,
        wall_clock=lambda: start + timedelta(seconds=anyio.current_time()),
        rng=random.Random(seed),
        settings=settings,
    )


class Process:
    """An elector with its way to the server and work that notes when it starts and ends."""

    def __init__(
        self,
        server: LeaseServer,
        host: str = "a",
        *,
        wall_offset: timedelta = timedelta(0),
        seed: int = 1,
    ) -> None:
        self.client = Client(server)
        self.elector = make_elector(self.client, host, wall_offset=wall_offset, seed=seed)
        self.scope = anyio.CancelScope()
        self.started: list[float] = []
        self.ended: list[float] = []
        self.result: Exception | None = None
        self.finished = anyio.Event()
        self.cleanup_seconds = 0.0
        self.work: Callable[[], Awaitable[object]] = anyio.sleep_forever

    async def lead(self) -> None:
        self.started.append(anyio.current_time())
        try:
            await self.work()
        finally:
            if self.cleanup_seconds:
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(self.cleanup_seconds)
            self.ended.append(anyio.current_time())

    async def run(self) -> None:
        with self.scope:
            try:
                await self.elector.run(self.lead)
            except Exception as error:  # noqa: BLE001 - the tests look at it
                self.result = error
        self.finished.set()

    def start(self) -> Process:
        self.client.server.tasks.start_soon(self.run)
        return self


async def leader(server: LeaseServer, host: str = "a") -> Process:
    process = Process(server, host).start()
    await anyio.sleep(0.5)
    assert process.elector.leading
    return process


# Settings and identity -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        (10, 10, 2),
        (10, 15, 2),
        (15, 2.4, 2),
        (15, 10, 0),
        (15, 10, -1),
        (float("nan"), 10, 2),
        (float("inf"), 10, 2),
    ],
)
def test_E2_senseless_times_are_refused_with_one_plain_message(settings: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match=r"lease duration > renew deadline > 1\.2 x retry period > 0, got"):
        make_elector(Client(LeaseServer()), settings=ElectionSettings(*settings))


async def test_E2_a_lease_of_part_seconds_is_written_rounded_up() -> None:
    async with lease_server() as server:
        elector = make_elector(Client(server), settings=ElectionSettings(2.5, 1.5, 0.5))
        await elector.run(_done)
        first = server.history[0][1]
        assert first["leaseDurationSeconds"] == 3


async def _done() -> None:
    await anyio.lowlevel.checkpoint()


async def test_E11_one_name_in_two_processes_is_two_identities() -> None:
    async with lease_server() as server:
        first = await leader(server)
        twin = Process(server)
        twin.elector = make_elector(twin.client, "a", suffix="2")
        twin.start()
        await anyio.sleep(60)
        assert (first.elector.identity, twin.elector.identity) == ("a_1", "a_2")
        assert first.elector.leading
        assert not twin.started


# Expiry ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hours", [-1, 1])
async def test_E1_a_wrong_wall_clock_neither_takes_nor_keeps_a_lease(hours: int) -> None:
    async with lease_server() as server:
        first = await leader(server)
        second = Process(server, "b", wall_offset=timedelta(hours=hours)).start()
        await anyio.sleep(100)
        assert not second.started
        first.client.before = hang
        await anyio.sleep(30)
        assert second.elector.leading
        last_renewal = max(at for at, spec in server.history if spec.get("holderIdentity") == "a_1")
        assert last_renewal + 15 <= second.started[0] <= last_renewal + 15 + 2.5 + 2.4


async def test_E1_a_change_of_labels_is_no_sign_of_life() -> None:
    async with lease_server() as server:
        first = await leader(server)
        second = Process(server, "b").start()
        await anyio.sleep(10)
        first.client.before = hang
        for _ in range(30):
            server.touch()
            await anyio.sleep(1)
        assert second.elector.leading


async def test_E1_a_leader_whose_wall_clock_stands_still_still_shows_that_it_lives() -> None:
    async with lease_server() as server:
        first = Process(server)
        first.elector._wall_clock = lambda: datetime(2026, 1, 1, tzinfo=UTC)
        first.start()
        await anyio.sleep(1)
        second = Process(server, "b").start()
        await anyio.sleep(100)
        assert first.elector.leading
        assert not second.started


async def test_E1_the_duration_that_the_holder_wrote_counts() -> None:
    async with lease_server() as server:
        server.create(
            {"metadata": {"name": "controller"}, "spec": {"holderIdentity": "x", "leaseDurationSeconds": 40}}
        )
        process = Process(server).start()
        await anyio.sleep(60)
        assert 40 <= process.started[0] <= 42.5


async def test_times_in_the_record_come_from_the_injected_clock_in_utc() -> None:
    async with lease_server() as server:
        process = Process(server)
        new_york = timezone(timedelta(hours=-5))
        process.elector._wall_clock = lambda: datetime(2026, 1, 1, 20, 0, 0, 42, tzinfo=new_york)
        process.start()
        await anyio.sleep(1)
        assert server.spec["acquireTime"] == server.spec["renewTime"] == "2026-01-02T01:00:00.000042Z"


# Failures --------------------------------------------------------------------------------------------


async def test_E3_requests_that_hang_are_cut_off_and_the_work_stops_at_the_renew_deadline() -> None:
    async with lease_server() as server:
        process = await leader(server)
        await anyio.sleep(5.5)
        last = server.history[-1][0]
        process.client.before = hang
        await process.finished.wait()
        assert process.ended[0] == pytest.approx(last + 10)
        assert isinstance(process.result, LeadershipLost)
        assert str(process.result) == "no renewal succeeded for 10 s"
        # Each attempt is given up after half the renew deadline, and the next one made.
        tried = [at for at, _ in server.requests if at > last]
        assert tried == pytest.approx([last + 2, last + 9])


async def test_E3_an_attempt_has_at_least_a_second() -> None:
    async with lease_server() as server:
        client = Client(server)

        async def slow(_verb: str) -> None:
            await anyio.sleep(0.45)

        client.before = slow
        elector = make_elector(client, settings=ElectionSettings(3, 1.5, 0.5))
        with anyio.move_on_after(10):
            await elector.run(anyio.sleep_forever)
        assert elector.statistics().terms_total == 1


@pytest.mark.parametrize("error", FAULTS, ids=lambda error: type(error).__name__)
async def test_E4_every_failure_is_a_failed_attempt_of_a_standby(error: Exception) -> None:
    async with lease_server() as server:
        process = Process(server)
        process.client.before = failing(error)
        process.start()
        await anyio.sleep(60)
        assert not process.finished.is_set()
        assert process.elector.statistics().failed_attempts_total > 20
        process.client.before = _nothing
        await anyio.sleep(3)
        assert process.elector.leading


@pytest.mark.parametrize("error", FAULTS, ids=lambda error: type(error).__name__)
async def test_E4_a_leader_survives_failures_shorter_than_the_renew_deadline(error: Exception) -> None:
    async with lease_server() as server:
        process = await leader(server)
        for _ in range(10):
            process.client.before = failing(error)
            await anyio.sleep(7)
            process.client.before = _nothing
            await anyio.sleep(3)
        assert process.elector.leading
        assert process.elector.statistics().failed_attempts_total >= 20


async def test_E4_a_renewal_that_took_effect_unanswered_does_not_confuse_the_next() -> None:
    async with lease_server() as server:
        process = await leader(server)
        process.client.after = failing(OutcomeUnknown("reset"))
        await anyio.sleep(2)
        process.client.after = _nothing
        await anyio.sleep(60)
        assert process.elector.leading
        assert process.elector.statistics().slowpath_total == 1
        assert server.spec["leaseTransitions"] == 0


async def test_E4_a_claim_that_took_effect_unanswered_is_found_and_used() -> None:
    async with lease_server() as server:
        process = Process(server)
        process.client.after = failing(OutcomeUnknown("reset"))
        process.start()
        await anyio.sleep(1)
        assert not process.started
        process.client.after = _nothing
        await anyio.sleep(3)
        assert process.elector.leading


# Loss ------------------------------------------------------------------------------------------------


async def test_E5_the_work_has_stopped_before_another_can_take_the_lease() -> None:
    async with lease_server() as server:
        first = await leader(server)
        second = Process(server, "b").start()
        await anyio.sleep(20)
        first.client.before = hang
        await anyio.sleep(60)
        assert isinstance(first.result, LeadershipLost)
        assert second.started[0] - first.ended[0] >= 15 - 10
        assert second.started[0] - first.ended[0] <= 15 - 10 + 2 * 2.4


async def test_E5_a_lease_that_someone_else_holds_stops_the_work_at_once() -> None:
    async with lease_server() as server:
        process = await leader(server)
        server.take("x")
        await process.finished.wait()
        assert process.ended[0] <= 2.5
        assert str(process.result) == "the lease is held by x"
        assert server.holder == "x"


async def test_E5_a_lease_that_someone_emptied_stops_the_work_too() -> None:
    async with lease_server() as server:
        process = await leader(server)
        server.take(None)
        await process.finished.wait()
        assert str(process.result) == "the lease is held by nobody"


async def test_E5_an_error_of_work_that_is_being_stopped_is_kept_as_the_cause() -> None:
    async def fail_when_stopped() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise RuntimeError("in clean-up")

    async with lease_server() as server:
        process = Process(server)
        process.work = fail_when_stopped
        process.start()
        await anyio.sleep(1)
        process.client.before = hang
        await process.finished.wait()
        assert isinstance(process.result, LeadershipLost)
        assert isinstance(process.result.__cause__, RuntimeError)


async def test_E5_a_loser_can_run_again_and_lead_again() -> None:
    async with lease_server() as server:
        process = await leader(server)
        process.client.before = hang
        await process.finished.wait()
        process.client.before = _nothing
        process.start()
        await anyio.sleep(3)
        assert process.elector.leading
        assert len(process.started) == 2
        assert server.spec["leaseTransitions"] == 0


async def test_E6_the_work_is_called_and_stopped_once_a_term() -> None:
    async with lease_server() as server:
        process = await leader(server)
        await anyio.sleep(100)
        process.scope.cancel()
        await process.finished.wait()
        assert (len(process.started), len(process.ended)) == (1, 1)


async def test_E7_work_that_returns_ends_leadership_and_releases() -> None:
    async with lease_server() as server:
        elector = make_elector(Client(server))
        await elector.run(_done)
        assert not elector.leading
        assert server.holder == ""


async def test_E7_work_that_fails_ends_leadership_and_releases_and_its_error_comes_out_bare() -> None:
    async def fail() -> None:
        await anyio.sleep(5)
        raise KeyError("bug")

    async with lease_server() as server:
        elector = make_elector(Client(server))
        with pytest.raises(KeyError, match="bug"):
            await elector.run(fail)
        assert server.holder == ""


async def test_renewals_that_end_by_a_stray_cancellation_end_the_work() -> None:
    async with lease_server() as server:
        process = await leader(server)

        async def stray() -> str | None:
            await anyio.lowlevel.checkpoint()
            raise anyio.get_cancelled_exc_class()

        process.elector._renew = stray  # type: ignore[method-assign]
        await process.finished.wait()
        assert isinstance(process.result, LeadershipLost)
        assert process.ended


# Release ---------------------------------------------------------------------------------------------


async def test_E8_a_clean_stop_renews_while_the_work_drains_and_releases_after_it() -> None:
    async with lease_server() as server:
        process = await leader(server)
        second = Process(server, "b").start()
        process.cleanup_seconds = 40
        await anyio.sleep(10)
        stopped_at = anyio.current_time()
        process.scope.cancel()
        await anyio.sleep(30)
        assert process.elector.may_write()
        await process.finished.wait()
        assert process.ended[0] == stopped_at + 40
        renewals = [at for at, spec in server.history if spec.get("holderIdentity") == "a_1"]
        assert max(later - earlier for earlier, later in pairwise(renewals)) <= 2.1
        released_at = next(at for at, spec in server.history if "holderIdentity" not in spec)
        assert released_at >= process.ended[0]
        await anyio.sleep(3)
        assert second.started[0] >= released_at
        assert process.result is None


async def test_E8_a_conflict_on_release_is_read_again() -> None:
    async with lease_server() as server:
        process = await leader(server)
        touched: list[str] = []

        async def touch_once(verb: str) -> None:
            await anyio.lowlevel.checkpoint()
            if verb == "patch" and not touched:
                touched.append(verb)
                server.touch()

        process.client.before = touch_once
        process.scope.cancel()
        await process.finished.wait()
        assert touched
        assert server.holder == ""


async def test_E8_a_lease_that_is_no_longer_ours_is_not_released() -> None:
    async with lease_server() as server:
        process = await leader(server)
        server.take("x")
        process.scope.cancel()
        await process.finished.wait()
        assert server.holder == "x"


@pytest.mark.parametrize("fault", [hang, failing(Unreachable("refused")), failing(KeyError("a bug"))])
async def test_E8_release_is_bounded_by_the_renew_deadline(
    fault: Callable[[str], Awaitable[object]], caplog: pytest.LogCaptureFixture
) -> None:
    async with lease_server() as server:
        process = await leader(server)
        stopped_at = anyio.current_time()
        process.client.before = fault
        process.scope.cancel()
        await process.finished.wait()
        assert anyio.current_time() <= stopped_at + 10.001
        assert process.result is None
        assert "could not release ns/controller" in caplog.text


async def test_E9_release_empties_the_holder_and_the_successor_needs_about_one_retry_period() -> None:
    async with lease_server() as server:
        process = await leader(server)
        second = Process(server, "b").start()
        await anyio.sleep(20)
        process.scope.cancel()
        await process.finished.wait()
        released_at, spec = server.history[-1]
        assert "holderIdentity" not in spec
        assert spec["leaseDurationSeconds"] == 1
        await anyio.sleep(3)
        assert second.started[0] - released_at <= 2.4


async def test_E16_a_standby_that_is_stopped_never_leads() -> None:
    async with lease_server() as server:
        await leader(server)
        second = Process(server, "b").start()
        await anyio.sleep(10)
        requests = len(server.requests)
        second.scope.cancel()
        await second.finished.wait()
        assert not second.started
        assert len(server.requests) == requests


async def test_E16_a_standby_stopped_in_the_middle_of_its_claim_leaves_no_lease_behind() -> None:
    async with lease_server() as server:
        process = Process(server)

        async def slow(verb: str) -> None:
            await anyio.sleep(3 if verb == "create" else 0)

        process.client.after = slow
        process.start()
        await anyio.sleep(1)
        process.scope.cancel()
        await process.finished.wait()
        assert not process.started
        assert server.holder == ""


# Other -----------------------------------------------------------------------------------------------


async def test_E12_candidates_try_with_jitter() -> None:
    async with lease_server() as server:
        await leader(server)
        server.requests.clear()
        Process(server, "b", seed=7).start()
        await anyio.sleep(100)
        tried = [at for at, verb in server.requests if verb == "get"]
        gaps = [later - earlier for earlier, later in pairwise(tried)]
        assert all(2 <= gap <= 2.4 for gap in gaps)
        assert len({round(gap, 6) for gap in gaps}) == len(gaps)


async def test_E12_a_lease_deleted_by_hand_is_made_again_by_its_leader() -> None:
    async with lease_server() as server:
        first = await leader(server)
        second = Process(server, "b").start()
        for _ in range(20):
            await anyio.sleep(3.3)
            server.object = None
        await anyio.sleep(3)
        assert first.elector.leading
        assert server.holder == "a_1"
        assert not second.started


async def test_E13_writes_are_allowed_only_inside_the_renew_deadline() -> None:
    async with lease_server() as server:
        process = Process(server)
        assert not process.elector.may_write()
        process.cleanup_seconds = 60
        process.start()
        await anyio.sleep(5)
        assert process.elector.may_write()
        process.client.before = hang
        last = server.history[-1][0]
        await anyio.sleep(last + 9.9 - anyio.current_time())
        assert process.elector.may_write()
        await anyio.sleep(0.2)
        assert process.elector.leading  # The work is still cleaning up,
        assert not process.elector.may_write()  # but may not write.


async def test_E13_a_claim_answered_after_its_time_is_not_acted_upon() -> None:
    async with lease_server() as server:
        client = Client(server)

        async def slow(_verb: str) -> None:
            await anyio.sleep(0.9)

        client.after = slow
        elector = make_elector(client, settings=ElectionSettings(2, 0.8, 0.5))
        with anyio.move_on_after(20):
            await elector.run(anyio.sleep_forever)
        assert elector.statistics().terms_total == 0


async def test_E14_transitions_count_takeovers_only() -> None:
    async with lease_server() as server:
        first = await leader(server)
        await anyio.sleep(30)
        assert server.spec["leaseTransitions"] == 0
        acquired = server.spec["acquireTime"]
        second = Process(server, "b").start()
        await anyio.sleep(3)
        assert server.spec["acquireTime"] == acquired
        first.scope.cancel()
        await first.finished.wait()
        await anyio.sleep(30)
        assert second.elector.leading
        assert server.spec["leaseTransitions"] == 1
        assert server.spec["acquireTime"] > acquired
        for field in ("acquireTime", "renewTime"):
            assert re.fullmatch(r"2026-01-01T00:\d\d:\d\d\.\d{6}Z", server.spec[field])


async def test_E14_a_takeover_keeps_what_others_wrote_to_the_lease() -> None:
    async with lease_server() as server:
        server.create({"metadata": {"name": "controller", "labels": {"app": "x"}}, "spec": {"strategy": "s"}})
        await leader(server)
        assert server.object is not None
        assert server.object["metadata"]["labels"] == {"app": "x"}
        assert server.spec["strategy"] == "s"


async def test_E17_a_block_past_the_renew_deadline_ends_leadership() -> None:
    async with lease_server() as server:
        first = await leader(server)
        second = Process(server, "b").start()
        await anyio.sleep(5)
        block(12)
        assert not first.elector.may_write()
        await anyio.sleep(0.01)
        assert first.ended
        assert isinstance(first.result, LeadershipLost)
        assert not second.started


async def test_E18_liveness_fails_when_work_outlives_the_lease() -> None:
    async with lease_server() as server:
        process = Process(server)
        assert process.elector.healthy(0)
        process.cleanup_seconds = 100
        process.start()
        await anyio.sleep(1)
        process.client.before = hang
        await anyio.sleep(15.5)
        assert process.elector.healthy(20)
        assert not process.elector.healthy(0)
        await anyio.sleep(20)
        assert not process.elector.healthy(20)
        await process.finished.wait()
        assert process.elector.healthy(0)


async def test_statistics_and_repr_tell_the_role(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with lease_server() as server:
        process = Process(server)
        assert repr(process.elector) == "<LeaderElector ns/controller a_1 standby>"
        assert process.elector.statistics().seconds_since_renewal == float("inf")
        process.start()
        await anyio.sleep(3)
        assert repr(process.elector) == "<LeaderElector ns/controller a_1 leader>"
        statistics = process.elector.statistics()
        assert (statistics.leading, statistics.holder, statistics.terms_total) == (True, "a_1", 1)
        assert statistics.seconds_since_renewal == pytest.approx(1)
        assert caplog.messages == [
            "a_1: ns/controller is held by a_1",
            "a_1: became the leader of ns/controller",
        ]


# Chance ----------------------------------------------------------------------------------------------


class Chaos:
    """Two processes that contend for one lease for two minutes, with a network that does what it likes."""

    def __init__(self, seed: int, seen: Counter[str]) -> None:
        self.rng = random.Random(seed)
        self.seen = seen
        self.inside: str | None = None
        # Swarm: each round has its own mix of faults, some none of a kind.
        self.slow, self.dead, self.refused, self.lost, self.touched, self.paused = (
            self.rng.choice((0.0, 0.05, 0.3)) for _ in range(6)
        )

    async def before(self, _verb: str) -> None:
        await self.delay()
        if self.rng.random() < self.refused:
            raise ServerError("refused")

    async def after(self, _verb: str) -> None:
        if self.rng.random() < self.lost:
            raise OutcomeUnknown("lost")
        await self.delay()

    async def delay(self) -> None:
        dice = self.rng.random()
        if dice < self.dead:
            await anyio.sleep(self.rng.uniform(5, 40))
        elif dice < self.dead + self.slow:
            await anyio.sleep(self.rng.uniform(0, 5))

    @contextmanager
    def guarded(self, name: str) -> Iterator[None]:
        assert self.inside is None, f"{name} entered while {self.inside} was inside"
        self.inside = name
        self.seen["terms"] += 1
        try:
            yield
        finally:
            self.inside = None

    async def work(self, elector: LeaderElector) -> None:
        with self.guarded(elector.identity):
            for _ in range(self.rng.choice((5, 1000, 1000))):
                await anyio.sleep(1)
                if not elector.may_write():
                    self.seen["writes withheld"] += 1

    async def process(self, elector: LeaderElector) -> None:
        while True:
            with anyio.move_on_after(self.rng.uniform(20, 200)) as stopped:
                try:
                    await elector.run(lambda: self.work(elector))
                except LeadershipLost:
                    self.seen["losses"] += 1
            self.seen["clean stops"] += stopped.cancelled_caught
            self.seen["slow paths"] += elector.statistics().slowpath_total
            await anyio.sleep(self.rng.uniform(0, 5))

    async def run(self) -> None:
        async with lease_server() as server:
            for host in "ab":
                client = Client(server)
                client.before, client.after = self.before, self.after
                server.tasks.start_soon(
                    self.process, make_elector(client, host, seed=self.rng.randrange(999))
                )
            for _ in range(24):
                await anyio.sleep(5)
                if server.object is not None and self.rng.random() < self.touched:
                    server.touch()
                if self.rng.random() < self.paused:
                    block(self.rng.uniform(1, 12))
            holders = [spec.get("holderIdentity") for _, spec in server.history]
            self.seen["takeovers"] += sum(
                earlier != later for earlier, later in pairwise(filter(None, holders))
            )


@pytest.mark.timeout(240)
def test_E10_never_two_in_the_guarded_section_in_a_thousand_rounds_of_faults() -> None:
    logging.disable(logging.CRITICAL)
    seen: Counter[str] = Counter()
    try:
        for seed in range(1000):
            run_virtual(Chaos(seed, seen).run)
    finally:
        logging.disable(logging.NOTSET)
    assert seen["terms"] > 1000
    assert seen["takeovers"] > 1000
    assert seen["losses"] > 100
    assert seen["clean stops"] > 100
    assert seen["slow paths"] > 100
