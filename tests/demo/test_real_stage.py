"""The stage of the demo on a real control plane: an error includes the end of the controller's log."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from e2e.controlplane import ControlPlane, ControlPlaneError
from e2e.controlplane.errors import NotReady
from e2e.demo import stage
from simulation.demo.plan import DemoPlan
from simulation.demo.stage import DemoFailed

PLAN = DemoPlan.checked(nodes=2, gpus=2, gpu_memory=2**33, limit=2, workers=None, seed=0)


class Plane:
    """A started control plane."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create_nodes(self, _fleet: object) -> None:
        """Do nothing."""

    def install(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    "error", [DemoFailed("not within 60 s: fft-1 running"), NotReady("etcd: not within 5 s")]
)
def test_every_failure_has_the_end_of_the_controllers_log_as_notes(
    error: DemoFailed | ControlPlaneError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "controller.log").write_text("".join(f"line {number}\n" for number in range(20)))
    monkeypatch.setattr(ControlPlane, "start", lambda _options: nullcontext(Plane(tmp_path)))
    monkeypatch.setattr(stage, "running_controller", lambda *_: nullcontext())
    monkeypatch.setattr(stage, "witnessed_ledgers", lambda _: nullcontext())

    with pytest.raises(type(error)) as caught, stage.real_stage(PLAN, lambda _line: None):
        raise error

    assert caught.value.__notes__ == [f"controller: line {number}" for number in range(10, 20)]
