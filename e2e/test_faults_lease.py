"""Leaders that freeze, lose their lease or stop: two controllers never write in the same term.

Like replicas, the controllers share one user. One has the user's static token, the other a token of its own,
and the API server's audit log records which one sent a request. A write is within its controller's term if
the server received it after the write with which that controller took the lease, and before another
controller took it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
import yaml

from e2e.controlplane import (
    CONTROLLER_NAMESPACE,
    CONTROLLER_USER,
    WORKER_NAMESPACE,
    Cluster,
    Fleet,
    NodeShape,
    wait_until,
)
from e2e.controlplane.processes.identity import CONTROLLER_SERVICE_ACCOUNT
from e2e.controlplane.waiting import pause_briefly
from e2e.harness.faults import (
    ControllerWrite,
    controller_with_errors,
    controller_writes,
    frozen,
    require_local,
)
from e2e.harness.invariants import await_settled
from e2e.harness.program import ControllerProcess
from e2e.harness.workloads import WorkloadClient
from e2e.test_storms import CREATES, DELETES, FLAGS, LIMIT, Storm

pytest_plugins = ("e2e.controlplane.fixtures",)

LEASE_SECONDS, RENEW_SECONDS, RETRY_SECONDS = 6, 4, 1
ELECTION = {
    "--leader-elect": "true",
    "--leader-elect-lease-duration": f"{LEASE_SECONDS}s",
    "--leader-elect-renew-deadline": f"{RENEW_SECONDS}s",
    "--leader-elect-retry-period": f"{RETRY_SECONDS}s",
}
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{WORKER_NAMESPACE}/leases/placement.openrl.io"
RBAC = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{WORKER_NAMESPACE}"
TOKENS = f"/api/v1/namespaces/{CONTROLLER_NAMESPACE}/serviceaccounts/{CONTROLLER_SERVICE_ACCOUNT}/token"
TOKEN_SECONDS = 3600


@pytest.fixture(autouse=True)
def lease_permissions(cluster: Cluster) -> Iterator[None]:
    """Grant access to the lease. With a kubeconfig, it is in the workers' namespace."""
    name = {"name": "leader-lease"}
    rule = {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "create", "patch"],
    }
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", **name}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": CONTROLLER_USER}
    cluster.api.create(f"{RBAC}/roles", {"metadata": name, "rules": [rule]})
    cluster.api.create(
        f"{RBAC}/rolebindings", {"metadata": name, "roleRef": reference, "subjects": [subject]}
    )
    yield
    cluster.api.delete(f"{RBAC}/rolebindings/leader-lease")
    cluster.api.delete(f"{RBAC}/roles/leader-lease")


@pytest.fixture
def storm(cluster: Cluster, openrl: WorkloadClient) -> Storm:
    """Return a storm on a fleet with capacity for all of its workers."""
    cluster.api.delete(LEASE)
    cluster.create_nodes(Fleet(nodes=8, shape=NodeShape(gpus=4)))
    return Storm(openrl, Random(7))


@contextmanager
def candidate(cluster: Cluster, folder: Path, name: str, *, own_token: bool) -> Iterator[ControllerProcess]:
    """Run a controller with leader election, with the static token or a token of its own."""
    flags = {**FLAGS, **ELECTION}
    if own_token:
        document = yaml.safe_load(cluster.controller_kubeconfig.read_text())
        document["users"][0]["user"] = {"token": new_token(cluster)}
        kubeconfig = folder / f"{name}.kubeconfig"
        kubeconfig.touch(0o600)
        kubeconfig.write_text(yaml.safe_dump(document))
        flags["--kubeconfig"] = str(kubeconfig)
    with controller_with_errors(cluster, folder / f"{name}.log", flags) as controller:
        yield controller


def new_token(cluster: Cluster) -> str:
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    return str(cluster.api.create(TOKENS, request)["status"]["token"])


def holder(cluster: Cluster) -> str:
    lease = cluster.api.find(LEASE) or {}
    return str(lease.get("spec", {}).get("holderIdentity") or "")


def await_new_holder(cluster: Cluster, old: str) -> str:
    def changed() -> str | None:
        now = holder(cluster)
        return now if now and now != old else None

    return wait_until(changed, "no other controller takes the lease", timeout_seconds=30)


def outside_own_term(
    writes: Sequence[ControllerWrite], takeovers: Sequence[tuple[str, str]]
) -> list[ControllerWrite]:
    """Return the writes sent while another controller held the lease; `takeovers` are (time, credential)."""
    found = []
    for write in writes:
        if write.of_the_lease or write.resource == "events":
            continue
        terms = [credential for at, credential in takeovers if at <= write.received]
        if not terms or terms[-1] != write.credential:
            found.append(write)
    return found


def takeovers(writes: Sequence[ControllerWrite]) -> list[tuple[str, str]]:
    """Return times and credentials of successful lease writes by another controller than the last one."""
    found: list[tuple[str, str]] = []
    for write in writes:
        took = write.of_the_lease and write.code in {200, 201}
        if took and (not found or found[-1][1] != write.credential):
            found.append((write.received, write.credential))
    return found


def assert_two_terms(writes: Sequence[ControllerWrite]) -> None:
    """Check that one controller led, then another one, and neither wrote outside its term."""
    terms = takeovers(writes)
    assert len(terms) == 2, terms
    assert outside_own_term(writes, terms) == []


def advance(storm: Storm, steps: int) -> None:
    for _ in range(steps):
        storm.step()


# It resumes during its reconciles, with responses to process, before the elector runs.
@pytest.mark.timeout(180)
def test_a_leader_frozen_past_its_lease_writes_nothing_when_it_resumes(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, storm: Storm
) -> None:
    plane = require_local(cluster)
    mark = plane.audit.mark()
    with candidate(cluster, tmp_path, "first", own_token=False) as first:
        first.await_logged("Started reconciling")
        with candidate(cluster, tmp_path, "second", own_token=True) as second:
            advance(storm, CREATES // 2)
            old = holder(cluster)
            with frozen(first):
                await_new_holder(cluster, old)
                second.await_logged("Started reconciling")
                advance(storm, CREATES // 2)
            assert first.process.wait(20) == 1, "a leader that lost its lease exits with status 1"
            await_settled(openrl, limit=LIMIT, running=CREATES - DELETES, waiting=0)
    assert "no renewal succeeded for" in first.log
    assert_two_terms(controller_writes(plane.audit, mark))


@pytest.mark.timeout(180)
def test_a_leader_whose_lease_is_taken_stops_and_the_new_holder_continues(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, storm: Storm
) -> None:
    plane = require_local(cluster)
    mark = plane.audit.mark()
    with candidate(cluster, tmp_path, "first", own_token=False) as first:
        first.await_logged("Started reconciling")
        advance(storm, CREATES // 2)
        with candidate(cluster, tmp_path, "second", own_token=True) as second:
            pause_briefly(2 * RETRY_SECONDS)
            # An administrator edits the lease to make another replica the leader.
            cluster.api.patch(LEASE, {"spec": {"holderIdentity": "another", "leaseDurationSeconds": 1}})
            assert first.process.wait(20) == 1
            second.await_logged("Started reconciling")
            advance(storm, CREATES // 2)
            await_settled(openrl, limit=LIMIT, running=CREATES - DELETES, waiting=0)
    assert_two_terms(controller_writes(plane.audit, mark))


@pytest.mark.timeout(180)
def test_x1_e15_a_stopped_leader_releases_its_lease_last_and_a_standby_continues_at_once(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, storm: Storm
) -> None:
    plane = require_local(cluster)
    mark = plane.audit.mark()
    with candidate(cluster, tmp_path, "first", own_token=False) as first:
        first.await_logged("Started reconciling")
        with candidate(cluster, tmp_path, "second", own_token=True) as second:
            advance(storm, CREATES // 2)
            assert first.stop() == 0
            second.await_logged("Started reconciling")
            advance(storm, CREATES // 2)
            await_settled(openrl, limit=LIMIT, running=CREATES - DELETES, waiting=0)
    writes = controller_writes(plane.audit, mark)
    of_first = [write for write in writes if not write.credential and write.resource != "events"]
    assert of_first[-1].of_the_lease, of_first[-1]
    assert_two_terms(writes)
