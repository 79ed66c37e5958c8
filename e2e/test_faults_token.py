"""A token that is replaced while the controller runs, and is then revoked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import yaml

from e2e.controlplane import CONTROLLER_NAMESPACE, Api, Cluster, Fleet, NodeShape, Object, wait_until
from e2e.controlplane.processes.identity import CONTROLLER_SERVICE_ACCOUNT
from e2e.harness.faults import (
    controller_with_errors,
    controller_writes,
    list_counts,
    port_of,
    redirected_kubeconfig,
    require_local,
)
from e2e.harness.invariants import await_settled
from e2e.harness.proxy import proxied
from e2e.harness.workloads import WorkloadClient
from e2e.test_storms import CREATES, DELETES, FLAGS, LIMIT, Storm

pytest_plugins = ("e2e.controlplane.fixtures",)

SECRETS = f"/api/v1/namespaces/{CONTROLLER_NAMESPACE}/secrets"
TOKENS = f"/api/v1/namespaces/{CONTROLLER_NAMESPACE}/serviceaccounts/{CONTROLLER_SERVICE_ACCOUNT}/token"
UNAUTHORIZED = 401


@pytest.fixture
def anchor(cluster: Cluster) -> Iterator[Object]:
    """Create a Secret to bind a token to. Deleting the Secret revokes the token."""
    yield cluster.api.create(SECRETS, {"metadata": {"name": "anchor"}})
    cluster.api.delete(f"{SECRETS}/anchor")


def new_token(api: Api, *, bound_to: Object | None = None) -> tuple[str, str]:
    """Return a token of the controller's ServiceAccount, and its ID in the audit log."""
    spec: Object = {"expirationSeconds": 3600}
    if bound_to is not None:
        metadata = bound_to["metadata"]
        spec["boundObjectRef"] = {
            "kind": "Secret",
            "apiVersion": "v1",
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    token = str(api.create(TOKENS, request)["status"]["token"])
    review = api.create(
        "/apis/authentication.k8s.io/v1/tokenreviews",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}},
    )
    (token_id,) = review["status"]["user"]["extra"]["authentication.kubernetes.io/credential-id"]
    return token, str(token_id)


@pytest.mark.timeout(180)
def test_a_rotated_token_is_used_once_the_old_one_is_refused(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, anchor: Object
) -> None:
    plane = require_local(cluster)
    cluster.create_nodes(Fleet(nodes=8, shape=NodeShape(gpus=4)))
    storm = Storm(openrl, Random(7))
    old, old_id = new_token(cluster.api, bound_to=anchor)
    new, new_id = new_token(cluster.api)
    token_file = tmp_path / "token"
    token_file.write_text(f"{old}\n")
    with proxied(port_of(plane)) as proxy:
        kubeconfig = redirected_kubeconfig(cluster.controller_kubeconfig, proxy.port, tmp_path / "kubeconfig")
        document = yaml.safe_load(kubeconfig.read_text())
        document["users"][0]["user"] = {"tokenFile": str(token_file)}
        kubeconfig.write_text(yaml.safe_dump(document))
        flags = {**FLAGS, "--kubeconfig": str(kubeconfig)}
        with controller_with_errors(cluster, tmp_path / "controller.log", flags) as controller:
            controller.await_logged("Started reconciling")
            mark = plane.audit.mark()
            for _ in range(CREATES // 2):
                storm.step()
            token_file.write_text(f"{new}\n")
            cluster.api.delete(f"{SECRETS}/anchor")
            _await_refused(cluster.api, old)
            refused_from = plane.audit.mark()
            # Open watches keep the credentials that they were opened with, so they must be opened again.
            proxy.cut()
            for _ in range(CREATES // 2):
                storm.step()
            await_settled(openrl, limit=LIMIT, running=CREATES - DELETES, waiting=0)
    before = {write.credential for write in controller_writes(plane.audit, mark)}
    after = {write.credential for write in controller_writes(plane.audit, refused_from)}
    assert old_id in before
    assert after == {new_id}
    assert not list_counts(plane.audit, mark)


def _await_refused(api: Api, token: str) -> None:
    """Wait until the API server refuses the token, which it caches for a few seconds."""
    with Api(replace(api._access, token=token)) as holder:
        wait_until(
            lambda: holder.send("GET", "/apis")[0] == UNAUTHORIZED,
            "the old token is still accepted",
            timeout_seconds=60,
        )
