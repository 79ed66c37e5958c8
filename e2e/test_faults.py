"""API servers that crash, lag or lose history, and broken networks, during a storm of creates and deletes.

In every case, the cluster settles without violations, and there is no storm of list requests, as the audit
logs of the API servers show. A watch that can resume needs no list; a watch whose history is compacted needs
exactly one.
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
    list_counts,
    port_of,
    redirected_kubeconfig,
    require_local,
    restart_apiserver,
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
    """Return a storm on a fleet with capacity for all of its workers."""
    cluster.create_nodes(Fleet(nodes=8, shape=NodeShape(gpus=4)))
    return Storm(openrl, Random(7))


@contextmanager
def controller_through(
    cluster: Cluster, port: int, folder: Path, flags: Mapping[str, str] = FLAGS
) -> Iterator[ControllerProcess]:
    """Run a reconciling controller that connects to its API server through `port`."""
    kubeconfig = redirected_kubeconfig(cluster.controller_kubeconfig, port, folder / f"via-{port}.kubeconfig")
    settings = {**flags, "--kubeconfig": str(kubeconfig)}
    with controller_with_errors(cluster, folder / "controller.log", settings) as controller:
        controller.await_logged("Started reconciling")
        yield controller


def advance(storm: Storm, steps: int) -> None:
    for _ in range(steps):
        storm.step()


def await_all_running(openrl: WorkloadClient) -> None:
    await_settled(openrl, limit=LIMIT, running=CREATES - DELETES, waiting=0)


@pytest.mark.timeout(180)
def test_an_api_server_killed_in_a_storm_causes_at_most_one_list_per_kind(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, storm: Storm
) -> None:
    plane = require_local(cluster)
    with controller_through(cluster, port_of(plane), tmp_path):
        mark = plane.audit.mark()
        advance(storm, HALF)
        plane.component(APISERVER).kill()
        restart_apiserver(plane)
        advance(storm, HALF)
        await_all_running(openrl)
    list_requests = list_counts(plane.audit, mark)
    assert max(list_requests.values(), default=0) <= 1, list_requests


@pytest.mark.timeout(180)
def test_a_watch_paused_during_a_compaction_causes_one_list_per_kind(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, storm: Storm
) -> None:
    plane = require_local(cluster)
    # A server without its own watch cache passes on etcd's error: the revision is compacted.
    with (
        second_server(plane, "--watch-cache=false") as second,
        proxied(second.port) as proxy,
        controller_through(cluster, proxy.port, tmp_path) as controller,
    ):
        advance(storm, HALF)
        mark = second.audit.mark()
        proxy.cut(refuse=True)
        advance(storm, HALF)
        compact(plane)
        proxy.heal()
        wait_until(
            lambda: set(list_counts(second.audit, mark)) == LISTED_RESOURCES,
            "not every kind was listed again",
            timeout_seconds=30,
        )
        await_all_running(openrl)
        assert "The resourceVersion for the provided watch is too old" in controller.log
        assert list_counts(second.audit, mark) == ONCE


SILENCE_SECONDS = 6


def silence_for_a_while(proxy: Proxy) -> None:
    proxy.silence()
    pause_briefly(SILENCE_SECONDS)
    proxy.heal()


def cut_twice(proxy: Proxy) -> None:
    # By design, three watches in a row without events lead to a list.
    for _ in range(2):
        proxy.cut()
        pause_briefly(1)


def refuse(proxy: Proxy) -> None:
    proxy.cut(refuse=True)
    pause_briefly(3)
    proxy.heal()


def slow_down(proxy: Proxy) -> None:
    proxy.delay(0.2)


def truncate(proxy: Proxy) -> None:
    proxy.truncate(after_bytes=500)
    pause_briefly(1)
    proxy.truncate(after_bytes=1)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("disturb", [silence_for_a_while, cut_twice, refuse, slow_down, truncate])
def test_a_broken_network_in_a_storm_causes_no_list(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, storm: Storm, disturb: Callable[[Proxy], None]
) -> None:
    plane = require_local(cluster)
    with proxied(port_of(plane)) as proxy, controller_through(cluster, proxy.port, tmp_path):
        mark = plane.audit.mark()
        advance(storm, HALF)
        disturb(proxy)
        advance(storm, HALF)
        await_all_running(openrl)
        assert not list_counts(plane.audit, mark)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_half_open_connections_are_replaced_without_a_list(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, storm: Storm
) -> None:
    plane = require_local(cluster)
    with proxied(port_of(plane)) as proxy, controller_through(cluster, proxy.port, tmp_path):
        mark = plane.audit.mark()
        advance(storm, HALF)
        proxy.hold()
        advance(storm, HALF)
        pause_briefly(75)  # a watch counts as broken after 70 s without bytes
        await_all_running(openrl)
        assert not list_counts(plane.audit, mark)


@pytest.mark.timeout(180)
def test_a_second_api_server_replaces_a_killed_one(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, storm: Storm
) -> None:
    plane = require_local(cluster)
    with (
        second_server(plane) as second,
        proxied(port_of(plane)) as proxy,
        controller_through(cluster, proxy.port, tmp_path),
    ):
        advance(storm, HALF)
        proxy.target = second.port
        plane.component(APISERVER).kill()
        proxy.cut()
        storm._openrl = WorkloadClient(second.api)
        advance(storm, HALF)
        # Its watch cache was filled before the storm, so it can serve the changes since then.
        assert not list_counts(second.audit, 0)
        restart_apiserver(plane)
        await_all_running(openrl)
        assert max(list_counts(second.audit, 0).values(), default=0) <= 1


@pytest.mark.timeout(180)
def test_the_controller_waits_for_a_lagging_api_server(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, storm: Storm
) -> None:
    plane = require_local(cluster)
    with (
        proxied(etcd_port_of(plane)) as link,
        second_server(plane, etcd_port=link.port) as second,
        proxied(port_of(plane)) as proxy,
        controller_through(cluster, proxy.port, tmp_path),
    ):
        advance(storm, HALF)
        link.silence()
        advance(storm, HALF)
        # The controller has a newer version than this server, which gets no updates from etcd for a while.
        proxy.target = second.port
        proxy.cut()
        pause_briefly(SILENCE_SECONDS)
        link.heal()
        await_all_running(openrl)
        wait_until(
            lambda: second.audit.count(verb="watch", resource="workloads") > 0,
            "the controller does not watch the second server",
            timeout_seconds=30,
        )
        assert not list_counts(second.audit, 0)
