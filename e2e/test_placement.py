"""The main path on a real control plane: from a Workload to a seat, a claim and a running Pod.

The scenarios run on every provider: without kubelets, on kind, on an existing cluster. The controller has
only the shipped permissions, and a retry interval of an hour, so that an event causes every step that a test
observes.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from e2e.conftest import Start
from e2e.controlplane import WORKER_NAMESPACE, Cluster, Fleet, NodeShape
from e2e.harness.ledger_watch import witnessed_ledgers
from e2e.harness.program import running_controller
from e2e.harness.workloads import PODS, WORKLOADS, WorkloadClient, one_gpu_nodes, workload

pytest_plugins = ("e2e.controlplane.fixtures",)

LIMIT_OF_TWO = {"--max-seats-per-claim": "2"}
LIMIT_SENTENCE = "shared claims hold at most 2 workers"


def test_a_workload_gets_a_dedicated_claim_and_a_running_pod(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    (node,) = one_gpu_nodes(cluster, 1)
    start({})

    openrl.submit(workload("trainer"))
    status = openrl.await_phase("trainer", "Running")

    (claim,) = openrl.claims()
    (ledger,) = openrl.ledgers()
    (pod,) = openrl.pods()
    (seat,) = ledger["spec"]["seats"]
    assert status["claimName"] == claim["metadata"]["name"] == ledger["spec"]["claimName"]
    assert status["assignmentID"] == seat["assignmentID"]
    assert (status["nodeName"], status["deviceCount"], status["memoryPerDevice"]) == (node, 1, "20Gi")
    assert claim["metadata"]["ownerReferences"][0]["uid"] == ledger["metadata"]["uid"]
    assert pod["metadata"]["name"] == status["podName"] == "orw-trainer"
    env = {e["name"]: e["value"] for e in pod["spec"]["containers"][0]["env"]}
    assert env == {
        "OPEN_RL_TIME_SLICE_GROUP": claim["metadata"]["name"],
        "OPEN_RL_CLAIM_LEDGER": ledger["metadata"]["name"],
        "OPEN_RL_ASSIGNMENT_ID": seat["assignmentID"],
    }
    assert "reason" not in status
    assert [(c["type"], c["status"], c["reason"]) for c in status["conditions"]] == [
        ("Placed", "True", "Placed")
    ]


def test_a_second_worker_joins_an_allocated_claim(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    one_gpu_nodes(cluster, 2)
    start({})
    openrl.submit(workload("first"))
    first = openrl.await_phase("first", "Running")

    openrl.submit(workload("second"))
    second = openrl.await_phase("second", "Running")

    assert second["claimName"] == first["claimName"]
    assert openrl.seats() == {first["claimName"]: ["first", "second"]}
    assert len(openrl.claims()) == 1


def test_the_limit_holds_at_every_revision_when_twelve_workers_arrive_at_once(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    one_gpu_nodes(cluster, 3)
    start(LIMIT_OF_TWO)
    names = [f"worker-{n:02}" for n in range(12)]

    with witnessed_ledgers(cluster) as witness:
        openrl.submit(*(workload(name) for name in names))
        openrl.await_that(
            lambda: len(openrl.in_phase("Running")) == 6 and len(openrl.in_phase("Pending")) == 6,
            "not six running and six waiting",
            timeout_seconds=30,
        )

    assert witness.most_seats == 2
    running = openrl.in_phase("Running")
    shared = Counter(status["claimName"] for name, status in openrl.statuses().items() if name in running)
    assert sorted(shared.values()) == [2, 2, 2]


def test_two_workers_racing_for_the_last_two_seats_get_one_each_and_create_no_claim(
    cluster: Cluster, openrl: WorkloadClient, start: Start, tmp_path: Path
) -> None:
    one_gpu_nodes(cluster, 2)
    # A limit of one leads to two claims of one worker each. Then two controllers race at a limit of two.
    alone = start({"--max-seats-per-claim": "1"})
    openrl.submit(workload("first"), workload("second"))
    openrl.await_phases(["first", "second"], "Running")
    assert alone.stop() == 0
    claims = {claim["metadata"]["name"] for claim in openrl.claims()}
    assert len(claims) == 2

    with ExitStack() as stack, witnessed_ledgers(cluster) as witness:
        for number in range(2):
            log = tmp_path / f"racer-{number}.log"
            stack.enter_context(running_controller(cluster, log, LIMIT_OF_TWO))
        openrl.submit(workload("third"), workload("fourth"))
        openrl.await_phases(["third", "fourth"], "Running")

    assert {status["claimName"] for status in openrl.statuses().values()} == claims
    assert {claim["metadata"]["name"] for claim in openrl.claims()} == claims
    assert sorted(len(seats) for seats in openrl.seats().values()) == [2, 2]
    assert witness.most_seats == 2
    assert len(witness.names) == 2, "no claim was created while there were free seats"


def test_a_wait_reason_mentions_the_limit_only_for_a_shared_worker(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    one_gpu_nodes(cluster, 1)
    cluster.create_nodes(Fleet(nodes=1, shape=NodeShape(gpus=2, gpu_memory="40Gi"), name_prefix="pair"))
    start(LIMIT_OF_TWO)
    openrl.submit(workload("pair-holder", devices=2, memory="30Gi"))
    openrl.await_phase("pair-holder", "Running")
    openrl.submit(*(workload(name, memory="60Gi") for name in ("first", "second")))
    openrl.await_phases(["first", "second"], "Running")

    openrl.submit(
        workload("shareable", memory="60Gi"),
        workload("lora", memory="60Gi", shared=False),
        workload("two-gpus", memory="30Gi", devices=2),
    )
    reasons = {
        name: openrl.await_pending(name, "WaitingForCapacity") for name in ("shareable", "lora", "two-gpus")
    }

    assert LIMIT_SENTENCE in reasons["shareable"]["reason"]
    for name in ("lora", "two-gpus"):
        text = reasons[name]["reason"] + reasons[name]["conditions"][0]["message"]
        assert "shared claims hold" not in text


def test_a_freed_seat_reaches_a_waiter_within_a_second(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    one_gpu_nodes(cluster, 1)
    start(LIMIT_OF_TWO)
    openrl.submit(workload("first"), workload("second"))
    openrl.await_phases(["first", "second"], "Running")
    openrl.submit(workload("waiter"))
    openrl.await_pending("waiter", "WaitingForCapacity")
    (shared,) = {status["claimName"] for status in openrl.statuses().values() if status["phase"] == "Running"}

    openrl.delete("second")
    openrl.await_that(
        lambda: "second" not in openrl.seats().get(shared, []), "the seat is not freed", timeout_seconds=20
    )
    freed = time.monotonic()
    openrl.await_that(
        lambda: "waiter" in openrl.seats()[shared], "no worker gets the seat", timeout_seconds=20
    )

    # A generous bound, far below the retry interval; it does not measure speed.
    assert time.monotonic() - freed < 1
    openrl.await_phase("waiter", "Running")
    assert openrl.seats() == {shared: ["first", "waiter"]}, "the waiter's own claim is released"


def test_deleting_a_workload_releases_seat_pod_claim_and_ledger(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    one_gpu_nodes(cluster, 1)
    start({})
    openrl.submit(workload("first"), workload("second"))
    openrl.await_phases(["first", "second"], "Running")

    openrl.delete("first")
    openrl.await_that(lambda: len(openrl.pods()) == 1, "the Pod is not deleted", timeout_seconds=20)
    openrl.await_that(
        lambda: list(openrl.seats().values()) == [["second"]], "the seat is not released", timeout_seconds=20
    )
    assert len(openrl.claims()) == 1, "the claim exists as long as it has a seat"
    openrl.delete("second")

    openrl.await_gone()


def test_an_exclusive_worker_never_shares(cluster: Cluster, openrl: WorkloadClient, start: Start) -> None:
    one_gpu_nodes(cluster, 2)
    start({})
    openrl.submit(workload("lora", shared=False))
    openrl.await_phase("lora", "Running")
    openrl.submit(workload("first"), workload("second"))
    openrl.await_phases(["first", "second"], "Running")

    openrl.submit(workload("late-lora", shared=False))
    openrl.await_pending("late-lora", "WaitingForCapacity")

    by_claim = sorted(sorted(names) for names in openrl.seats().values())
    assert by_claim == [["first", "second"], ["late-lora"], ["lora"]]


def test_a_two_gpu_worker_gets_two_devices_on_one_node(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    one_gpu_nodes(cluster, 2)
    (pair,) = cluster.create_nodes(Fleet(nodes=1, shape=NodeShape(gpus=2), name_prefix="pair"))
    start({})

    openrl.submit(workload("pair-worker", devices=2))
    status = openrl.await_phase("pair-worker", "Running")

    (claim,) = openrl.claims()
    results = claim["status"]["allocation"]["devices"]["results"]
    assert len({(r["pool"], r["device"]) for r in results}) == 2
    assert {r["request"] for r in results} == {"gpu/t2x80"}
    assert (status["nodeName"], status["deviceCount"]) == (pair, 2)


def test_the_placement_of_a_worker_is_recorded_in_events(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    one_gpu_nodes(cluster, 1)
    start(LIMIT_OF_TWO)
    openrl.submit(workload("first"), workload("second"))
    openrl.await_phases(["first", "second"], "Running")
    openrl.submit(workload("third"))
    openrl.await_pending("third", "WaitingForCapacity")
    openrl.delete("first")
    openrl.await_phase("third", "Running")

    def recorded() -> bool:
        events = cluster.kubectl("get", "events", "-n", WORKER_NAMESPACE, "-o", "json")
        reasons = {
            event["reason"]
            for event in json.loads(events)["items"]
            if event["involvedObject"]["name"] == "third"
        }
        return {"CreatedClaim", "WaitingForCapacity", "SharedOnUnschedulable", "Placed"} <= reasons

    openrl.await_that(recorded, "the events of the waiter are missing", timeout_seconds=20)


def test_a_stopped_controller_exits_with_zero_and_does_not_affect_workers(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    one_gpu_nodes(cluster, 1)
    controller = start({})
    openrl.submit(workload("trainer"))
    before = openrl.await_phase("trainer", "Running")
    (pod,) = openrl.pods()

    assert controller.stop() == 0
    start({})
    openrl.await_that(
        lambda: cluster.api.find(f"{WORKLOADS}/trainer"), "the Workload is gone", timeout_seconds=5
    )

    assert openrl.status("trainer") == before
    assert cluster.api.get(f"{PODS}/orw-trainer")["metadata"]["uid"] == pod["metadata"]["uid"]
