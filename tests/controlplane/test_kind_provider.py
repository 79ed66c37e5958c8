"""Tests of E2E_PROVIDER=kind: its requirements are found or named in one line."""

from pathlib import Path

import pytest

from e2e.controlplane.errors import InvalidArgument, MissingTool
from e2e.controlplane.provider import open_cluster
from e2e.kind.settings import KindSettings
from tests.controlplane.fakes import write_program


def kit(folder: Path) -> Path:
    """Create a folder that looks like a kit for kind clusters."""
    folder.mkdir()
    write_program(folder / "cluster", "")
    return folder


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"E2E_PROVIDER": "minikube"}, "E2E_PROVIDER=minikube: local or kind is allowed"),
        ({"E2E_PROVIDER": "kind", "E2E_KUBECONFIG": "/k"}, "E2E_KUBECONFIG is set as well"),
        ({"E2E_PROVIDER": "kind", "KIND_KIT": "/nowhere"}, "KIND_KIT: /nowhere: a folder"),
        (
            {"E2E_PROVIDER": "kind", "KIND_KIT": "none"},
            "KIND_GPU_DRIVER_IMAGE and KIND_WORKER_IMAGE must name",
        ),
    ],
)
def test_an_unavailable_provider_is_one_line(environment: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument) as caught, open_cluster(environment):
        pass
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_named_kit_provides_the_worker_image(tmp_path: Path) -> None:
    folder = kit(tmp_path / "kit")

    settings = KindSettings.from_environment({"KIND_KIT": str(folder), "KIND_CONTROLLER_IMAGE": ""})

    assert (settings.kit, settings.worker_image) == (folder, "openrl/worker:test")


def test_kind_without_docker_names_the_missing_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(tmp_path / "kind", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    images = {"KIND_GPU_DRIVER_IMAGE": "driver:1", "KIND_WORKER_IMAGE": "worker:1"}
    environment = {"E2E_PROVIDER": "kind", "KIND_KIT": "none", **images}

    with pytest.raises(MissingTool, match="need a Docker daemon"), open_cluster(environment):
        pass
