"""Selection of the cluster for a test session.

`E2E_KUBECONFIG` selects an existing cluster, and `E2E_PROVIDER=kind` a new kind cluster. The default is a
local control plane without kubelets. Tests do not depend on the provider.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path

from e2e.controlplane.cluster import Cluster
from e2e.controlplane.errors import InvalidArgument
from e2e.controlplane.external import ExternalCluster, NodeSetup
from e2e.controlplane.local import ControlPlane, Options
from e2e.controlplane.processes.binaries import ensure_binaries
from e2e.kind.cluster import prepared_kind
from e2e.kind.settings import KindSettings

KUBECONFIG_VARIABLE = "E2E_KUBECONFIG"
FURNISH_VARIABLE = "E2E_FURNISH"
WORKER_IMAGE_VARIABLE = "E2E_WORKER_IMAGE"
PROVIDER_VARIABLE = "E2E_PROVIDER"

Opener = Callable[[], Cluster]
"""Creates a cluster, which removes itself as a context manager."""


class Provider(StrEnum):
    """The source of the cluster."""

    LOCAL = "local"
    KIND = "kind"
    EXISTING = "existing"


def selected_provider(environment: Mapping[str, str]) -> Provider:
    """Return the provider that the environment selects. An empty variable means unset."""
    named = environment.get(PROVIDER_VARIABLE, "")
    if environment.get(KUBECONFIG_VARIABLE):
        if named:
            raise InvalidArgument(
                f"{PROVIDER_VARIABLE}={named}: {KUBECONFIG_VARIABLE} is set as well; unset one of them"
            )
        return Provider.EXISTING
    if named not in {"", Provider.LOCAL, Provider.KIND}:
        raise InvalidArgument(f"{PROVIDER_VARIABLE}={named}: local or kind is allowed")
    return Provider(named or Provider.LOCAL)


@contextmanager
def prepared(environment: Mapping[str, str], options: Options | None = None) -> Iterator[Opener]:
    """Prepare the parts of a cluster for the duration of the block. The first build takes minutes."""
    match selected_provider(environment):
        case Provider.EXISTING:
            yield partial(_existing, environment)
        case Provider.KIND:
            with prepared_kind(KindSettings.from_environment(environment)) as opener:
                yield opener
        case Provider.LOCAL:
            options = options or Options()
            binaries = options.binaries or ensure_binaries(options.progress)
            yield partial(ControlPlane.start, replace(options, binaries=binaries))


@contextmanager
def open_cluster(environment: Mapping[str, str], options: Options | None = None) -> Iterator[Cluster]:
    """Yield the cluster that the environment selects."""
    with prepared(environment, options) as opener, opener() as cluster:
        yield cluster


def _existing(environment: Mapping[str, str]) -> Cluster:
    setup = environment.get(FURNISH_VARIABLE, "") or NodeSetup.NONE
    if setup not in set(NodeSetup):
        raise InvalidArgument(f"{FURNISH_VARIABLE}={setup}: true, false or labels is allowed")
    return ExternalCluster(
        Path(environment[KUBECONFIG_VARIABLE]),
        node_setup=NodeSetup(setup),
        worker_image=environment.get(WORKER_IMAGE_VARIABLE, ""),
    )
