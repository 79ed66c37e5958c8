"""The stage of the demo on a real control plane: what a failure says of the controller."""

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
    """A control plane that was started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def furnish(self, _fleet: object) -> None:
        """Nothing has to be there."""

    def install(self) -> None:
        """Nor this."""


@pytest.mark.parametrize("error", [DemoFailed("8 run: not within 60 s"), NotReady("etcd: not within 5 s")])
def test_whatever_fails_the_controllers_last_words_stand_above_it(
    error: DemoFailed | ControlPlaneError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "controller.log").write_text("".join(f"line {number}\n" for number in range(20)))
    monkeypatch.setattr(ControlPlane, "start", lambda _options: nullcontext(Plane(tmp_path)))
    monkeypatch.setattr(stage, "running_controller", lambda *_: nullcontext())
    monkeypatch.setattr(stage, "witnessed_ledgers", lambda _: nullcontext())

    with pytest.raises(type(error)) as caught, stage.set_up(PLAN, lambda _line: None):
        raise error

    assert caught.value.__notes__ == [f"controller: line {number}" for number in range(10, 20)]
