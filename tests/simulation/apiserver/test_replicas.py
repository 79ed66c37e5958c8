"""API server replicas whose watch caches lag."""

from __future__ import annotations

from random import Random

import anyio
import pytest

from informers.api import Selectors
from simulation.apiserver.kinds import LEDGERS
from simulation.apiserver.refusals import Refusal
from simulation.apiserver.server import ApiServer
from simulation.apiserver.watches import Watches
from tests.simulation.servers import lone_server

pytestmark = pytest.mark.anyio

NAMESPACE = "default"


def create(server: ApiServer, name: str) -> str:
    body = {"metadata": {"name": name}, "spec": {"claimName": "c"}}
    return server.create(LEDGERS, NAMESPACE, body).version


@pytest.fixture
async def lagging() -> tuple[ApiServer, Watches]:
    """A server with one replica that lags by ten seconds."""
    server = lone_server()
    server.replicas.lag(1, Random(1), lambda: 10.0)
    return server, Watches(server.store, server.replicas)


async def test_a_consistent_list_is_current_and_a_cached_list_lags(
    lagging: tuple[ApiServer, Watches],
) -> None:
    server, _ = lagging
    first = create(server, "a")
    await anyio.sleep(10)
    create(server, "b")
    server.delete(LEDGERS, "a", NAMESPACE)

    assert [r.key.name for r in server.list_page(LEDGERS).records] == ["b"]
    page = server.list_page(LEDGERS, resource_version=first)
    assert [r.key.name for r in page.records] == ["a"]
    assert page.resource_version == first
    await anyio.sleep(10)
    assert [r.key.name for r in server.list_page(LEDGERS, resource_version=first).records] == ["b"]
    assert server.replicas.stale_lists_total == 1


async def test_a_version_that_a_replica_has_not_seen_is_too_large(lagging: tuple[ApiServer, Watches]) -> None:
    server, _ = lagging
    version = create(server, "a")

    with pytest.raises(Refusal, match="Too large resource version"):
        server.list_page(LEDGERS, resource_version=version)


async def test_a_watch_delivers_changes_when_its_replica_has_them(lagging: tuple[ApiServer, Watches]) -> None:
    server, watches = lagging
    version = str(server.store.revision)
    create(server, "a")
    watch = watches.open("client", LEDGERS, NAMESPACE, Selectors(), version)

    assert await watch.read(9.9) is None
    assert await watch.read(10.1) is not None
    assert anyio.current_time() == 10


async def test_the_revision_of_a_replica_only_grows() -> None:
    lags = iter((5.0, 1.0, 0.0))
    server = lone_server()
    server.replicas.lag(1, Random(1), lambda: next(lags))
    watches = Watches(server.store, server.replicas)
    replica = server.replicas.choose()
    assert replica is not None
    revisions = [int(create(server, name)) for name in "abc"]

    assert [replica.due_seconds(revision) for revision in revisions] == [5.0, 5.0, 5.0]
    assert replica.revision(4.9, revisions[-1]) == revisions[0] - 1
    assert replica.revision(5.0, revisions[-1]) == revisions[-1]
    assert watches.revision_seen(replica) == revisions[0] - 1


async def test_bookmarks_can_be_disabled() -> None:
    server = lone_server()
    watches = Watches(server.store)
    watches.bookmarks = False
    watch = watches.open("client", LEDGERS, NAMESPACE, Selectors(), str(server.store.revision))

    assert await watch.read(200.0) is None


async def test_an_expired_version_can_be_refused_with_a_status() -> None:
    server = lone_server()
    watches = Watches(server.store)
    watches.refuses_expired = lambda: True
    version = str(server.store.revision)
    create(server, "a")
    server.store.compact()

    with pytest.raises(Refusal, match="Expired"):
        watches.open("client", LEDGERS, NAMESPACE, Selectors(), version)
