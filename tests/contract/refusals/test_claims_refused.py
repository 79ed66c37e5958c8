"""not the Pod, but the ResourceClaim or the ClaimLedger is refused."""

from __future__ import annotations

import anyio
import pytest

from controller.config.flags import Settings
from informers.errors import ApiError, Invalid, ServerError
from simulation.apiserver.kinds import CLAIMS, LEDGERS, Kind
from simulation.chaos.scripted import Faults, Refuse
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import row

pytestmark = pytest.mark.anyio

POLICY = Invalid("denied request: a cost centre is missing", status=422, reason="Invalid")
OUTAGE = ServerError("webhook failed: a cost centre is missing", status=500, reason="InternalError")


@pytest.mark.parametrize("error", [POLICY, OUTAGE], ids=["policy", "outage"])
@pytest.mark.parametrize("kind", [CLAIMS, LEDGERS], ids=["claim", "ledger"])
async def test_the_status_says_why_nothing_happens(
    cluster: SimulatedCluster, kind: Kind, error: ApiError
) -> None:
    """Whatever is refused and however: within a minute the status has a phase and the server's words."""
    faults = Faults()
    faults.add(Refuse(lambda: error), verb="create", kind=kind, times=None)
    async with simulated_controller(cluster, Settings(leader_elect=False), interceptor=faults):
        cluster.fleet.add_nodes(1)
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(60)
        phase, _, _, reason = row(cluster, "worker")
        assert phase == "Pending"
        assert "a cost centre is missing" in reason
