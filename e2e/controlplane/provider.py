"""Who makes the cluster that a test session runs against.

`E2E_KUBECONFIG` names a cluster that exists; otherwise a control plane is started. Another provider (kind,
say) is one more function that yields a `Cluster`; tests do not change.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from e2e.controlplane.cluster import Cluster
from e2e.controlplane.errors import InvalidArgument
from e2e.controlplane.external import ExternalCluster
from e2e.controlplane.local import ControlPlane, Options

KUBECONFIG_VARIABLE = "E2E_KUBECONFIG"
FURNISH_VARIABLE = "E2E_FURNISH"


@contextmanager
def open_cluster(environment: Mapping[str, str], options: Options | None = None) -> Iterator[Cluster]:
    """Yield the cluster that the environment asks for; an empty variable means unset."""
    cluster: Cluster
    if kubeconfig := environment.get(KUBECONFIG_VARIABLE):
        cluster = ExternalCluster(Path(kubeconfig), may_furnish=_boolean(environment, FURNISH_VARIABLE))
    else:
        cluster = ControlPlane.start(options)
    with cluster:
        yield cluster


def uses_existing_cluster(environment: Mapping[str, str]) -> bool:
    return bool(environment.get(KUBECONFIG_VARIABLE))


def _boolean(environment: Mapping[str, str], name: str) -> bool:
    value = environment.get(name, "")
    if value not in {"", "true", "false"}:
        raise InvalidArgument(f"{name}={value}: true or false is expected")
    return value == "true"
