"""Settings of kind from environment variables. An empty variable counts as unset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.controlplane.cluster import CHECKOUT
from e2e.controlplane.errors import InvalidArgument

KIT_VARIABLE = "KIND_KIT"
DEFAULT_KIT = CHECKOUT.parent / "shared" / "kind"
NO_KIT = "none"

KIT_WORKER_IMAGE = "openrl/worker:test"


@dataclass(frozen=True, kw_only=True)
class KindSettings:
    """How to create a cluster. Without a `kit`, use plain kind. Unnamed images are the kit's or are built."""

    kit: Path | None
    controller_image: str
    worker_image: str
    node_image: str
    gpu_driver_image: str
    config: Path | None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> KindSettings:
        kit = find_kit(environment)
        config = environment.get("KIND_CONFIG", "")
        settings = cls(
            kit=kit,
            controller_image=environment.get("KIND_CONTROLLER_IMAGE", ""),
            worker_image=environment.get("KIND_WORKER_IMAGE", "") or (KIT_WORKER_IMAGE if kit else ""),
            node_image=environment.get("KIND_NODE_IMAGE", ""),
            gpu_driver_image=environment.get("KIND_GPU_DRIVER_IMAGE", ""),
            config=Path(config) if config else None,
        )
        if not kit:
            settings._require_images()
        return settings

    def _require_images(self) -> None:
        required = {
            "KIND_GPU_DRIVER_IMAGE": self.gpu_driver_image,
            "KIND_WORKER_IMAGE": self.worker_image,
        }
        if missing := [name for name, value in required.items() if not value]:
            raise InvalidArgument(
                f"{' and '.join(missing)} must name an image: only a kit provides one"
                f" ({KIT_VARIABLE}, or {DEFAULT_KIT})"
            )


def find_kit(environment: Mapping[str, str]) -> Path | None:
    """Return the folder of the kit, or None. Raises `InvalidArgument` if it does not exist."""
    value = environment.get(KIT_VARIABLE, "")
    if value == NO_KIT:
        return None
    if value and not (Path(value) / "cluster").is_file():
        raise InvalidArgument(f"{KIT_VARIABLE}: {value}: a folder with the program `cluster`")
    if value:
        return Path(value).absolute()
    return DEFAULT_KIT if (DEFAULT_KIT / "cluster").is_file() else None
