"""Who makes the cluster that a test session runs against.

`E2E_KUBECONFIG` names a cluster that exists, `E2E_PROVIDER=kind` has one made of containers; otherwise a
control plane without kubelets is started. A provider is one more opener; tests do not change.
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
"""Makes the cluster; leaving it as a context removes it again."""


class Provider(StrEnum):
    """Who makes the cluster."""

    LOCAL = "local"
    KIND = "kind"
    EXISTING = "existing"


def chosen(environment: Mapping[str, str]) -> Provider:
    """The provider that the environment asks for; an empty variable means unset."""
    named = environment.get(PROVIDER_VARIABLE, "")
    if environment.get(KUBECONFIG_VARIABLE):
        if named:
            raise InvalidArgument(
                f"{PROVIDER_VARIABLE}={named}: {KUBECONFIG_VARIABLE} is set as well; unset one of them"
            )
        return Provider.EXISTING
    if named not in {"", Provider.LOCAL, Provider.KIND}:
        raise InvalidArgument(f"{PROVIDER_VARIABLE}={named}: local or kind is expected")
    return Provider(named or Provider.LOCAL)


@contextmanager
def prepared(environment: Mapping[str, str], options: Options | None = None) -> Iterator[Opener]:
    """Have ready what a cluster is made of while the block runs: the first time, that takes minutes."""
    match chosen(environment):
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
    """Yield the cluster that the environment asks for."""
    with prepared(environment, options) as opener, opener() as cluster:
        yield cluster


def _existing(environment: Mapping[str, str]) -> Cluster:
    furnish = environment.get(FURNISH_VARIABLE, "") or NodeSetup.NONE
    if furnish not in set(NodeSetup):
        raise InvalidArgument(f"{FURNISH_VARIABLE}={furnish}: true, false or labels is expected")
    return ExternalCluster(
        Path(environment[KUBECONFIG_VARIABLE]),
        furnishing=NodeSetup(furnish),
        worker_image=environment.get(WORKER_IMAGE_VARIABLE, ""),
    )
