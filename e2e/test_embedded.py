"""kubectl output is the same for the embedded cluster and for a real one.

One script of commands runs on both, without a controller. The test compares columns, messages and exit
statuses, and masks values that differ between any two runs (ages, UIDs, versions, times).
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.controlplane import WORKER_NAMESPACE, Cluster, ControlPlane, Fleet, NodeShape, Object, Unsupported
from e2e.controlplane.cluster import CHECKOUT
from e2e.harness.embedded import EmbeddedKubernetes, embedded_kubernetes
from e2e.harness.program import running_controller

pytest_plugins = ("e2e.controlplane.fixtures",)

NAMESPACE = "openrl-system"
SAMPLES = CHECKOUT / "manifests" / "samples"
SHARED, EXCLUSIVE = SAMPLES / "fft-trainers-shared.yaml", SAMPLES / "lora-trainer-exclusive.yaml"
SECONDS = 30

_MASKS = (
    (re.compile(r"(?<![\w.-])\d+[smhd](\d+[smhd])?(?![\w.-])"), "AGE"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r'(resourceVersion: |Resource Version: +)"?\d+"?'), r"\1VERSION"),
    (re.compile(r" +"), " "),
)


@dataclass(frozen=True)
class Command:
    """One call of kubectl in the workers' namespace. If `compared`, its output must be equal too."""

    arguments: tuple[str, ...]
    stdin: str = ""
    compared: bool = True

    def __str__(self) -> str:
        return " ".join(("kubectl", *self.arguments)).replace(f"{CHECKOUT}/", "")


def command(line: str, *, stdin: object = None, compared: bool = True) -> Command:
    """Return a command as typed in a terminal. `stdin` is passed as JSON, because it may contain spaces."""
    return Command(tuple(line.split()), "" if stdin is None else json.dumps(stdin), compared)


POD: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "pod-a", "labels": {"app": "a"}},
    "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "main:1"}]},
}
LEDGER: Object = {
    "apiVersion": "openrl.io/v1alpha1",
    "kind": "ClaimLedger",
    "metadata": {"name": "ledger-a", "finalizers": ["example.com/hold"]},
    "spec": {"claimName": "claim-a"},
}
CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "claim-a"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
}
LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "lease-a"},
    "spec": {"holderIdentity": "another"},
}
EVENT = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "event-a"},
    "type": "Warning",
    "reason": "Unschedulable",
    "action": "Place",
    "note": "No capacity.",
    "regarding": {"kind": "Workload", "name": "fft-trainer-a", "namespace": NAMESPACE},
    "reportingController": "example.com/test",
    "reportingInstance": "test",
    "eventTime": "2026-01-01T00:00:00.000000Z",
}


def renamed(document: Object, **metadata: object) -> Object:
    return {**document, "metadata": {**document["metadata"], **metadata}}


def advised(**spec: object) -> Object:
    """Return a Workload, by default one without warnings."""
    template = {"spec": {"containers": [{"name": "worker", "image": "worker:1"}]}}
    accelerator = {"memory": "60Gi"}
    required = {"role": "trainer", "modelID": "model", "accelerator": accelerator, "template": template}
    return {
        "apiVersion": "openrl.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "advised"},
        "spec": {**required, **spec},
    }


ADVISED: tuple[Object, ...] = (
    {},
    {"accelerator": {"memory": "60Gi", "tpye": "GPU"}},
    {"accelerator": {"memory": "60Gi", "mode": "MultiGPU", "devices": 2}, "exclusive": False},
    {"accelerator": {"memory": "60Gi", "mode": "MultiGPU", "devices": 2}},
    {"accelerator": {"memory": "60Gi", "devcies": 2}, "exclusiv": False},
    {"accelerator": {"memory": 60}},
)

TEST = [{"op": "test", "path": "/spec/claimName", "value": "claim-b"}]

SCRIPT = (
    command("get owl"),
    # Create and apply.
    command(f"apply -f {SHARED}"),
    command(f"apply -f {SHARED}"),
    command(f"create -f {EXCLUSIVE}"),
    command(f"create -f {EXCLUSIVE}"),
    command("apply -f -", stdin=LEDGER),
    command("apply -f -", stdin=renamed(LEDGER, labels={"tier": "gold"})),
    command("create -f -", stdin=renamed(LEDGER, name="Ledger"), compared=False),
    command("create -f -", stdin={**LEDGER, "spec": {"claimName": 1}}, compared=False),
    command("create -f - --dry-run=server", stdin=renamed(LEDGER, name="ledger-dry")),
    command("apply -f -", stdin=POD),
    command("apply -f -", stdin={**POD, "spec": {**POD["spec"], "hostname": "a"}}, compared=False),
    command("apply -f -", stdin=renamed(POD, labels={"app": "a", "tier": "gold"})),
    command("create -f -", stdin={**POD, "colour": "red"}, compared=False),
    command("create -f -", stdin=CLAIM),
    command("create -f -", stdin=LEASE),
    command("create -f -", stdin=EVENT),
    # Warnings of the schema and of the admission policy.
    *(command("create -f - --dry-run=server", stdin=advised(**spec)) for spec in ADVISED),
    command("create -f - --dry-run=server -n default", stdin=advised()),
    command("create -f - --dry-run=server --validate=ignore", stdin=advised(**ADVISED[1])),
    # Read.
    command("get owl"),
    command("get owl,ocl -o wide"),
    command("get owl fft-trainer-a"),
    command("get owl nobody"),
    command("get nothings"),
    command("get owl -l tier=gold"),
    command("get ocl -l tier=gold --show-labels"),
    command("get owl --sort-by=.spec.ownerID -o name"),
    command("get owl lora-trainer -o yaml"),
    command("get owl -o jsonpath={.items[*].spec.ownerID}"),
    command("get owl -o custom-columns=WHO:.metadata.name,OWNER:.spec.ownerID"),
    command("get nodes"),
    command("get nodes -o wide"),
    command("get nodes -L openrl.io/enabled"),
    command("get pods -o wide"),
    command("get pods --field-selector=spec.nodeName="),
    command("get resourceclaims,leases -o wide"),
    command("get resourceslices,deviceclasses -o wide"),
    command("get ns default openrl-system"),
    command("get events -o wide"),
    command("events"),
    command("describe owl fft-trainer-a"),
    command("describe ocl ledger-a"),
    command("explain owl.spec"),
    command("explain owl.spec.accelerator.mode"),
    command("explain ocl.spec.seats --recursive"),
    command("api-resources --api-group=openrl.io -o wide"),
    command("api-resources --api-group=resource.k8s.io --namespaced=true --no-headers", compared=False),
    # Change.
    command("label owl lora-trainer tier=gold"),
    command("label owl lora-trainer tier=silver"),
    command("label owl lora-trainer tier-"),
    command("annotate owl lora-trainer note=a"),
    command('patch ocl ledger-a --type=merge -p {"spec":{"seats":[{"workload":"a"}]}}'),
    command(f"patch ocl ledger-a --type=json -p {json.dumps(TEST, separators=(',', ':'))}", compared=False),
    command('patch owl lora-trainer --type=merge -p {"spec":{"modelID":"other"}}'),
    command('patch pod pod-a -p {"spec":{"containers":[{"name":"main","image":"main:2"}]}}'),
    command("get pod pod-a -o jsonpath={.spec.containers[*].image}"),
    command("replace -f -", stdin={**LEDGER, "spec": {"claimName": "claim-b"}}, compared=False),
    command("cordon gpu-node-0"),
    command("cordon gpu-node-0"),
    command("get nodes"),
    command("uncordon gpu-node-0"),
    command("taint node gpu-node-1 key=value:NoSchedule"),
    command("get node gpu-node-1 -o jsonpath={.spec.taints}"),
    command("taint node gpu-node-1 key-"),
    command("label node gpu-node-1 pool=a"),
    # Delete.
    command("delete owl nobody"),
    command("delete ocl ledger-a --wait=false"),
    command("get ocl ledger-a -o jsonpath={.metadata.finalizers}"),
    command('patch ocl ledger-a --type=merge -p {"metadata":{"finalizers":[]}}'),
    command("wait --for=delete ocl/ledger-a --timeout=10s"),
    command("delete pod,lease,resourceclaim --all"),
    command("delete owl -l tier=gold"),
    command("delete owl --all"),
    command("get owl,ocl"),
)  # fmt: skip


def run(cluster: Cluster, call: Command) -> tuple[int, str]:
    """Return exit status and output of one command, with masks for values that differ between runs."""
    arguments = [f"--kubeconfig={cluster.admin_kubeconfig}", f"--namespace={NAMESPACE}", *call.arguments]
    answer = subprocess.run(
        [cluster.kubectl_path, *arguments],
        input=call.stdin,
        env=cluster.kubectl_environment(),
        capture_output=True,
        check=False,
        text=True,
        timeout=SECONDS,
    )
    text = answer.stdout + answer.stderr
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    lines = (line.rstrip() for line in text.splitlines())
    return answer.returncode, "\n".join(lines) if call.compared else ""


def run_all(cluster: Cluster, script: Sequence[Command]) -> list[str]:
    """Return the output of all commands in order, on a fleet of two nodes."""
    cluster.create_nodes(Fleet(nodes=2, shape=NodeShape(gpus=2)))
    output = []
    for call in script:
        status, text = run(cluster, call)
        output.append(f"$ {call}\n{text}\n({status})")
    return output


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[EmbeddedKubernetes]:
    with embedded_kubernetes(tmp_path) as cluster:
        yield cluster


def test_kubectl_prints_the_same_as_on_a_real_cluster(cluster: Cluster, embedded: EmbeddedKubernetes) -> None:
    if not isinstance(cluster, ControlPlane):
        raise Unsupported("the output is compared with that of the control plane that is built from source")
    # Events outlive the objects that they are about, so events of earlier tests may still exist.
    cluster.kubectl("delete", "events", "--all", "--namespace", WORKER_NAMESPACE)
    real = run_all(cluster, SCRIPT)

    assert run_all(embedded, SCRIPT) == real


RUNNING = "--for=jsonpath={.status.phase}=Running"


def test_kubectl_watches_workers_during_a_drain_and_waits_for_a_deletion(
    embedded: EmbeddedKubernetes, tmp_path: Path
) -> None:
    embedded.create_nodes(Fleet(nodes=2, shape=NodeShape(gpus=1)))
    with running_controller(embedded, tmp_path / "controller.log", {"--max-seats-per-claim": "2"}):
        embedded.kubectl("apply", "-f", str(SHARED))
        embedded.kubectl("wait", RUNNING, "owl", "--all", "--timeout=20s")
        first = embedded.kubectl("get", "owl", "fft-trainer-a", "-o", "jsonpath={.status.nodeName}")
        with watching(embedded, "get", "owl", "fft-trainer-a", "-w", "--output-watch-events") as seen:
            embedded.kubectl("drain", first)
            elsewhere = next(line for line in seen if "Running" in line and first not in line)
        embedded.kubectl("wait", RUNNING, "owl", "--all", "--timeout=20s")
        second = embedded.kubectl("get", "owl", "fft-trainer-a", "-o", "jsonpath={.status.nodeName}")
        story = embedded.kubectl("describe", "owl", "fft-trainer-a")
        embedded.kubectl("delete", "owl", "--all")  # returns once all finalizers are removed
        left = embedded.kubectl("get", "owl,ocl,pods,resourceclaims", "-o", "name")

    assert elsewhere.startswith("MODIFIED")
    assert {first, second} == {"gpu-node-0", "gpu-node-1"}
    assert re.search(rf"Normal +Placed .* Running on node {second} ", story)
    assert left == ""


@contextmanager
def watching(cluster: Cluster, *arguments: str) -> Iterator[Iterator[str]]:
    """Yield the lines of a kubectl command that does not end by itself."""
    command = [str(cluster.kubectl_path), f"--kubeconfig={cluster.admin_kubeconfig}", *arguments]
    process = subprocess.Popen(
        command, env=cluster.kubectl_environment(), stdout=subprocess.PIPE, text=True, bufsize=1
    )
    with process:
        try:
            assert process.stdout is not None
            yield iter(process.stdout)
        finally:
            process.kill()
