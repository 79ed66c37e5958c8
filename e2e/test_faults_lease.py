"""Leaders that freeze, lose their lease to a thief, and hand over: no two ever write at a time.

Controllers share one user, as replicas do; the one has the user's static token and the other a token of its
own, which the API server's audit log tells apart. What counts is what the server received: a write of a
controller is inside its term if it came after the write by which that controller took the lease and before
the next one took it.
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
from e2e.harness.faults import ControllerWrite, controller_with_errors, frozen, local, written
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
def rights_on_the_lease(cluster: Cluster) -> Iterator[None]:
    """With a kubeconfig the lease lives in the workers' namespace, where the shipped rights do not reach."""
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
    """A storm for a fleet on which everybody who comes finds a place."""
    cluster.api.delete(LEASE)
    cluster.furnish(Fleet(nodes=8, shape=NodeShape(gpus=4)))
    return Storm(openrl, Random(7))


@contextmanager
def candidate(cluster: Cluster, folder: Path, name: str, *, own_token: bool) -> Iterator[ControllerProcess]:
    """A controller that stands for election, by the static token or by one of its own."""
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

    return wait_until(changed, "nobody takes the lease over", timeout_seconds=30)


def outside_their_term(
    writes: Sequence[ControllerWrite], takeovers: Sequence[tuple[str, str]]
) -> list[ControllerWrite]:
    """The writes that came while another one held the lease; `takeovers` are (time, credential), in order."""
    found = []
    for write in writes:
        if write.of_the_lease or write.resource == "events":
            continue
        terms = [credential for at, credential in takeovers if at <= write.received]
        if not terms or terms[-1] != write.credential:
            found.append(write)
    return found


def takeovers(writes: Sequence[ControllerWrite]) -> list[tuple[str, str]]:
    """When somebody else than the last one wrote the lease with success."""
    found: list[tuple[str, str]] = []
    for write in writes:
        took = write.of_the_lease and write.code in {200, 201}
        if took and (not found or found[-1][1] != write.credential):
            found.append((write.received, write.credential))
    return found


def assert_two_terms(writes: Sequence[ControllerWrite]) -> None:
    """One led, then another one, and neither wrote a thing outside of its term."""
    terms = takeovers(writes)
    assert len(terms) == 2, terms
    assert outside_their_term(writes, terms) == []


def weather(storm: Storm, steps: int) -> None:
    for _ in range(steps):
        storm.step()


# It wakes in the middle of its work, with answers to go on from, before the elector has had its turn.
@pytest.mark.timeout(180)
def test_a_leader_that_was_frozen_past_its_lease_writes_nothing_when_it_wakes(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, storm: Storm
) -> None:
    plane = local(cluster)
    mark = plane.audit.mark()
    with candidate(cluster, tmp_path, "first", own_token=False) as first:
        first.await_logged("Started reconciling")
        with candidate(cluster, tmp_path, "second", own_token=True) as second:
            weather(storm, CREATES // 2)
            old = holder(cluster)
            with frozen(first):
                await_new_holder(cluster, old)
                second.await_logged("Started reconciling")
                weather(storm, CREATES // 2)
            assert first.process.wait(20) == 1, "a leader that lost its lease ends"
            await_settled(openrl, limit=LIMIT, running=CREATES - DELETES, waiting=0)
    assert "no renewal succeeded for" in first.log
    assert_two_terms(written(plane.audit, mark))


@pytest.mark.timeout(180)
def test_a_stolen_lease_stops_its_holder_and_the_thief_works_alone(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, storm: Storm
) -> None:
    plane = local(cluster)
    mark = plane.audit.mark()
    with candidate(cluster, tmp_path, "first", own_token=False) as first:
        first.await_logged("Started reconciling")
        weather(storm, CREATES // 2)
        with candidate(cluster, tmp_path, "second", own_token=True) as second:
            pause_briefly(2 * RETRY_SECONDS)
            # By hand, as an administrator would who wants another one to lead.
            cluster.api.patch(LEASE, {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 1}})
            assert first.process.wait(20) == 1
            second.await_logged("Started reconciling")
            weather(storm, CREATES // 2)
            await_settled(openrl, limit=LIMIT, running=CREATES - DELETES, waiting=0)
    assert_two_terms(written(plane.audit, mark))


@pytest.mark.timeout(180)
def test_x1_e15_a_leader_that_is_stopped_releases_last_and_a_warm_standby_goes_on_at_once(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, storm: Storm
) -> None:
    plane = local(cluster)
    mark = plane.audit.mark()
    with candidate(cluster, tmp_path, "first", own_token=False) as first:
        first.await_logged("Started reconciling")
        with candidate(cluster, tmp_path, "second", own_token=True) as second:
            weather(storm, CREATES // 2)
            assert first.stop() == 0
            second.await_logged("Started reconciling")
            weather(storm, CREATES // 2)
            await_settled(openrl, limit=LIMIT, running=CREATES - DELETES, waiting=0)
    writes = written(plane.audit, mark)
    of_first = [write for write in writes if not write.credential and write.resource != "events"]
    assert of_first[-1].of_the_lease, of_first[-1]
    assert_two_terms(writes)
