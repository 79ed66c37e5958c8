"""Tests of E2E_KUBECONFIG, which selects an existing cluster."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.controlplane.errors import InvalidArgument, KubectlFailed, MissingTool, Unsupported
from e2e.controlplane.external import ExternalCluster
from e2e.controlplane.fleet import NODES, Fleet
from e2e.controlplane.provider import open_cluster
from e2e.controlplane.waiting import wait_until
from tests.controlplane.fakes import TIMEOUT_SECONDS, FakeApiServer, write_program


@pytest.fixture
def kubeconfig(tmp_path: Path, api_server: FakeApiServer) -> Path:
    path = tmp_path / "kubeconfig"
    document = {
        "clusters": [{"name": "c", "cluster": {"server": api_server.url}}],
        "users": [{"name": "admin", "user": {"token": "admin"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "admin"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def test_an_existing_cluster_starts_nothing(kubeconfig: Path, run_root: Path) -> None:
    with open_cluster({"E2E_KUBECONFIG": str(kubeconfig)}) as cluster:
        assert isinstance(cluster, ExternalCluster)
        assert cluster.admin_kubeconfig == kubeconfig
        assert cluster.api.items(NODES) == []
    assert not any(run_root.iterdir())


def test_an_existing_cluster_gets_nodes_only_on_request(kubeconfig: Path) -> None:
    with (
        open_cluster({"E2E_KUBECONFIG": str(kubeconfig), "E2E_FURNISH": "false"}) as cluster,
        pytest.raises(Unsupported, match="E2E_FURNISH=true"),
    ):
        cluster.create_nodes(Fleet(nodes=1))
    with open_cluster({"E2E_KUBECONFIG": str(kubeconfig), "E2E_FURNISH": "true"}) as cluster:
        assert cluster.create_nodes(Fleet(nodes=1)) == ["gpu-node-0"]


def test_an_invalid_variable_is_refused(kubeconfig: Path) -> None:
    environment = {"E2E_KUBECONFIG": str(kubeconfig), "E2E_FURNISH": "yes"}
    with pytest.raises(InvalidArgument, match="true, false or labels is allowed"), open_cluster(environment):
        pass


def test_unsupported_operations_of_an_existing_cluster_are_named(kubeconfig: Path) -> None:
    with open_cluster({"E2E_KUBECONFIG": str(kubeconfig)}) as cluster:
        with pytest.raises(Unsupported, match="audit log"):
            _ = cluster.audit
        with pytest.raises(Unsupported, match="kube-scheduler"), cluster.paused("kube-scheduler"):
            pass
        with pytest.raises(Unsupported, match="etcd"):
            cluster.restart("etcd")


def test_the_controllers_kubeconfig_contains_a_service_account_token(
    kubeconfig: Path,
    api_server: FakeApiServer,
    tmp_path: Path,
    run_root: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    account = "/api/v1/namespaces/open-rl-scheduler/serviceaccounts/open-rl-scheduler"
    api_server.answers[f"{account}/token"] = (201, b'{"status": {"token": "minted"}}')
    show = f"print(open({str(kubeconfig)!r}).read())"
    monkeypatch.setenv("PATH", str(write_program(tmp_path / "bin" / "kubectl", show).parent))
    with open_cluster({"E2E_KUBECONFIG": str(kubeconfig)}) as cluster:
        document = yaml.safe_load(cluster.controller_kubeconfig.read_text(encoding="utf-8"))
        assert document["users"][0]["user"] == {"token": "minted"}
        assert document["clusters"][0]["cluster"]["server"] == api_server.url
    assert not any(run_root.iterdir())


def with_kubectl(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(write_program(folder / "bin" / "kubectl", body).parent))


def test_a_failing_kubectl_is_quoted_in_one_line(
    kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_kubectl(tmp_path, "import sys\nsys.exit('error: no\\nsuch thing')", monkeypatch)
    refusal = pytest.raises(KubectlFailed, match=r"^kubectl get x: error: no such thing$")
    with open_cluster({"E2E_KUBECONFIG": str(kubeconfig)}) as cluster, refusal:
        cluster.kubectl("get", "x")


def test_a_missing_kubectl_is_named(
    kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with open_cluster({"E2E_KUBECONFIG": str(kubeconfig)}) as cluster, pytest.raises(MissingTool):
        cluster.kubectl("version")


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WORKLOADS = "/apis/openrl.io/v1alpha1/workloads"


def definition(**conditions: str) -> dict[str, Any]:
    versions = [{"name": "v1alpha1", "served": True}, {"name": "v1alpha0", "served": False}]
    listed = [{"type": kind, "status": status} for kind, status in conditions.items()]
    return {
        "spec": {"group": "openrl.io", "names": {"plural": "workloads"}, "versions": versions},
        "status": {"conditions": listed},
    }


@pytest.fixture
def manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of manifests; applying it reports a CustomResourceDefinition and another object."""
    applied = "customresourcedefinition.apiextensions.k8s.io/workloads.openrl.io\\nnamespace/x"
    with_kubectl(tmp_path, f"print('{applied}')", monkeypatch)
    (tmp_path / "kustomization.yaml").touch()
    return tmp_path


def test_install_waits_until_the_new_resources_are_served(
    kubeconfig: Path, api_server: FakeApiServer, manifests: Path
) -> None:
    """An established resource answers 429 until its storage is ready."""
    api_server.objects[f"{CRDS}/workloads.openrl.io"] = definition()
    api_server.answers[WORKLOADS] = (429, b"{}")
    steps: list[Callable[[], object]] = [
        lambda: api_server.objects.update({f"{CRDS}/workloads.openrl.io": definition(Established="True")}),
        lambda: api_server.answers.pop(WORKLOADS),
    ]
    with open_cluster({"E2E_KUBECONFIG": str(kubeconfig)}) as cluster:
        install = threading.Thread(target=cluster.install, args=(manifests,))
        install.start()
        for step in steps:
            await_next_request(api_server)
            assert install.is_alive()
            step()
        install.join(TIMEOUT_SECONDS)
        assert not install.is_alive()


def await_next_request(server: FakeApiServer) -> None:
    """Wait for two more requests. The second shows the effect of the first."""
    target = server.requests + 2
    wait_until(lambda: server.requests >= target, "no request", timeout_seconds=TIMEOUT_SECONDS)


def test_a_resource_with_taken_names_fails_at_once(
    kubeconfig: Path, api_server: FakeApiServer, manifests: Path
) -> None:
    api_server.objects[f"{CRDS}/workloads.openrl.io"] = definition(NamesAccepted="False")
    refusal = pytest.raises(InvalidArgument, match=r"workloads\.openrl\.io: its names are taken")
    with open_cluster({"E2E_KUBECONFIG": str(kubeconfig)}) as cluster, refusal:
        cluster.install(manifests)


def test_a_folder_without_a_kustomization_is_refused(kubeconfig: Path, tmp_path: Path) -> None:
    refusal = pytest.raises(InvalidArgument, match="nothing to install")
    with open_cluster({"E2E_KUBECONFIG": str(kubeconfig)}) as cluster, refusal:
        cluster.install(tmp_path)


def test_the_nodes_of_an_existing_cluster_are_labeled_on_request(kubeconfig: Path) -> None:
    environment = {"E2E_KUBECONFIG": str(kubeconfig)}
    with open_cluster({**environment, "E2E_FURNISH": "true"}) as cluster:
        cluster.create_nodes(Fleet(nodes=2))
    with (
        open_cluster({**environment, "E2E_FURNISH": "labels"}) as cluster,
        pytest.raises(Unsupported, match="3 nodes are needed, 2 are free"),
    ):
        cluster.create_nodes(Fleet(nodes=3))
