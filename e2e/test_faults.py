"""API servers that die, lag and forget, and networks that break, each in the middle of a storm.

Whatever happens, nothing is lost (the cluster settles, and no invariant is broken) and no storm of lists
follows: the API servers' audit logs are counted. A watch that can go on from where it was asks for no list;
one whose history is gone asks for exactly one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from e2e.controlplane import Cluster, Fleet, NodeShape, wait_until
from e2e.controlplane.local import APISERVER
from e2e.controlplane.waiting import pause_briefly
from e2e.harness.faults import (
    LISTED_RESOURCES,
    compact,
    controller_with_errors,
    etcd_port_of,
    lists,
    local,
    port_of,
    redirected_kubeconfig,
    restart,
    second_server,
)
from e2e.harness.invariants import await_settled
from e2e.harness.program import ControllerProcess
from e2e.harness.proxy import Proxy, proxied
from e2e.harness.workloads import WorkloadClient
from e2e.test_storms import CREATES, DELETES, FLAGS, LIMIT, Storm

pytest_plugins = ("e2e.controlplane.fixtures",)

HALF = CREATES // 2
ONCE = dict.fromkeys(LISTED_RESOURCES, 1)


@pytest.fixture
def storm(cluster: Cluster, openrl: WorkloadClient) -> Storm:
    """A storm for a fleet on which everybody who comes finds a place."""
    cluster.furnish(Fleet(nodes=8, shape=NodeShape(gpus=4)))
    return Storm(openrl, Random(7))


@contextmanager
def controlled_through(
    cluster: Cluster, port: int, folder: Path, flags: Mapping[str, str] = FLAGS
) -> Iterator[ControllerProcess]:
    """A controller that works, and reaches its API server at `port`."""
    kubeconfig = redirected_kubeconfig(cluster.controller_kubeconfig, port, folder / f"via-{port}.kubeconfig")
    settings = {**flags, "--kubeconfig": str(kubeconfig)}
    with controller_with_errors(cluster, folder / "controller.log", settings) as controller:
        controller.await_logged("Started reconciling")
        yield controller


def weather(storm: Storm, steps: int) -> None:
    for _ in range(steps):
        storm.step()


def await_calm(openrl: WorkloadClient) -> None:
    await_settled(openrl, limit=LIMIT, running=CREATES - DELETES, waiting=0)


@pytest.mark.timeout(180)
def test_an_api_server_killed_in_a_storm_costs_one_list_per_kind_at_most(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, storm: Storm
) -> None:
    plane = local(cluster)
    with controlled_through(cluster, port_of(plane), tmp_path):
        mark = plane.audit.mark()
        weather(storm, HALF)
        plane.component(APISERVER).kill()
        restart(plane)
        weather(storm, HALF)
        await_calm(openrl)
    asked = lists(plane.audit, mark)
    assert max(asked.values(), default=0) <= 1, asked


@pytest.mark.timeout(180)
def test_a_watch_that_was_paused_over_a_compaction_costs_one_list_per_kind(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, storm: Storm
) -> None:
    plane = local(cluster)
    # Without a cache of its own the server hands on what etcd says: that the revision was compacted.
    with (
        second_server(plane, "--watch-cache=false") as second,
        proxied(second.port) as proxy,
        controlled_through(cluster, proxy.port, tmp_path) as controller,
    ):
        weather(storm, HALF)
        mark = second.audit.mark()
        proxy.cut(refuse=True)
        weather(storm, HALF)
        compact(plane)
        proxy.heal()
        wait_until(
            lambda: set(lists(second.audit, mark)) == LISTED_RESOURCES,
            "not every kind is listed again",
            timeout_seconds=30,
        )
        await_calm(openrl)
        assert "The resourceVersion for the provided watch is too old" in controller.log
        assert lists(second.audit, mark) == ONCE


SILENCE_SECONDS = 6


def fall_silent(proxy: Proxy) -> None:
    proxy.silence()
    pause_briefly(SILENCE_SECONDS)
    proxy.heal()


def cut_twice(proxy: Proxy) -> None:
    # After three watches in a row that brought nothing a list is due, by design.
    for _ in range(2):
        proxy.cut()
        pause_briefly(1)


def refuse(proxy: Proxy) -> None:
    proxy.cut(refuse=True)
    pause_briefly(3)
    proxy.heal()


def be_slow(proxy: Proxy) -> None:
    proxy.delay(0.2)


def truncate(proxy: Proxy) -> None:
    proxy.truncate(after_bytes=500)
    pause_briefly(1)
    proxy.truncate(after_bytes=1)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("misbehave", [fall_silent, cut_twice, refuse, be_slow, truncate])
def test_a_network_that_breaks_in_a_storm_costs_no_list(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, storm: Storm, misbehave: Callable[[Proxy], None]
) -> None:
    plane = local(cluster)
    with proxied(port_of(plane)) as proxy, controlled_through(cluster, proxy.port, tmp_path):
        mark = plane.audit.mark()
        weather(storm, HALF)
        misbehave(proxy)
        weather(storm, HALF)
        await_calm(openrl)
        assert not lists(plane.audit, mark)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_connections_that_are_half_open_for_good_are_given_up_without_a_list(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, storm: Storm
) -> None:
    plane = local(cluster)
    with proxied(port_of(plane)) as proxy, controlled_through(cluster, proxy.port, tmp_path):
        mark = plane.audit.mark()
        weather(storm, HALF)
        proxy.hold()
        weather(storm, HALF)
        pause_briefly(75)  # a watch counts as broken after 70 s of silence
        await_calm(openrl)
        assert not lists(plane.audit, mark)


@pytest.mark.timeout(180)
def test_a_second_api_server_takes_over_from_one_that_was_killed(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, storm: Storm
) -> None:
    plane = local(cluster)
    with (
        second_server(plane) as second,
        proxied(port_of(plane)) as proxy,
        controlled_through(cluster, proxy.port, tmp_path),
    ):
        weather(storm, HALF)
        proxy.target = second.port
        plane.component(APISERVER).kill()
        proxy.cut()
        storm._openrl = WorkloadClient(second.api)
        weather(storm, HALF)
        # Its cache was there before the storm began, so that it knows what came since.
        assert not lists(second.audit, 0)
        restart(plane)
        await_calm(openrl)
        assert max(lists(second.audit, 0).values(), default=0) <= 1


@pytest.mark.timeout(180)
def test_a_server_that_lags_is_waited_for(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, storm: Storm
) -> None:
    plane = local(cluster)
    with (
        proxied(etcd_port_of(plane)) as link,
        second_server(plane, etcd_port=link.port) as second,
        proxied(port_of(plane)) as proxy,
        controlled_through(cluster, proxy.port, tmp_path),
    ):
        weather(storm, HALF)
        link.silence()
        weather(storm, HALF)
        # The controller comes from the future of this server, which for a while hears nothing of etcd.
        proxy.target = second.port
        proxy.cut()
        pause_briefly(SILENCE_SECONDS)
        link.heal()
        await_calm(openrl)
        wait_until(
            lambda: second.audit.count(verb="watch", resource="workloads") > 0,
            "the controller does not watch the second server",
            timeout_seconds=30,
        )
        assert not lists(second.audit, 0)
