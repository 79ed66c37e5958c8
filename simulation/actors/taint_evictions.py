"""The two controllers that delete the Pods of a node or device with an untolerated `NoExecute` taint.

Both set the condition `DisruptionTarget` first, then delete. A toleration with `tolerationSeconds` counts as
one for good, because the taints of a run do not last as long. Sources: `pkg/controller/tainteviction` and
`pkg/controller/devicetainteviction` of `k8s.io/kubernetes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from random import Random

from controller.api import convert, core
from informers.api import ObjectKey, WatchEventType
from placement.tolerations import untolerated
from placement.types import DeviceID, Taint, TaintEffect
from simulation.actors.base import Actor, ActorContext, condition
from simulation.actors.devices import allocation_results, read_inventory
from simulation.actors.fitting import FINAL_PHASES
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import CLAIMS, DEVICE_TAINT_RULES, NODES, PODS, SLICES
from simulation.apiserver.refusals import Refusal
from simulation.apiserver.store import Change


class _TaintEviction(Actor):
    """Deletes Pods, with the reason of the controller."""

    reason = ""
    message = ""

    def _evict(self, pod: Record) -> None:
        """Evict the Pod after a delay, if the taint is still there."""
        key, uid = pod.key, pod.uid
        seconds = self._context.delays.eviction_seconds
        self._schedule(seconds, f"evict {uid}", key, lambda: self._evict_now(key, uid))

    def _evict_now(self, key: ObjectKey, uid: str) -> None:
        pod = self._get(PODS, key, uid)
        if pod is None or not _is_evictable(pod) or not self._is_expelled(pod):
            return

        def change(document: Document) -> None:
            status = document["status"]
            status["conditions"] = condition(
                status,
                "DisruptionTarget",
                "True",
                timestamp=self._timestamp(),
                reason=self.reason,
                message=self.message,
            )

        self._context.server.edit(PODS, key, change, subresource="status")
        with suppress(Refusal):
            self._context.server.delete(PODS, key.name, key.namespace)

    def _is_expelled(self, pod: Record) -> bool:
        """Return whether an untolerated taint expels the Pod now."""
        raise NotImplementedError

    def _evict_all(self) -> None:
        for pod in self._context.server.store.all(PODS):
            if _is_evictable(pod) and self._is_expelled(pod):
                self._evict(pod)

    def _resync(self) -> None:
        self._evict_all()


class NodeTaintEviction(_TaintEviction):
    """Evicts from nodes, as the taint manager of kube-controller-manager does."""

    name = "node-taints"
    reason = "DeletionByTaintManager"
    message = "Taint manager: deleting due to NoExecute taint"

    def _on_change(self, change: Change) -> None:
        if change.type is WatchEventType.DELETED:
            return
        if change.kind is NODES and _expelling(change.record):
            self._evict_all()
        elif change.kind is PODS and _is_evictable(change.record) and self._is_expelled(change.record):
            self._evict(change.record)

    def _is_expelled(self, pod: Record) -> bool:
        node = self._get(NODES, ObjectKey("", pod.document["spec"]["nodeName"]))
        tolerations = convert.template_tolerations(pod.document["spec"].get("tolerations") or [])
        return node is not None and untolerated(_expelling(node), tolerations)


class DeviceTaintEviction(_TaintEviction):
    """Evicts from devices: their taints are in ResourceSlices and DeviceTaintRules."""

    name = "device-taints"
    reason = "DeletionByDeviceTaintManager"
    message = "Device Taint manager: deleting due to NoExecute taint"

    def __init__(self, context: ActorContext, rng: Random) -> None:
        super().__init__(context, rng)
        self._tainted: dict[DeviceID, tuple[Taint, ...]] | None = None

    def _deliver(self, change: Change) -> None:
        if change.kind in {SLICES, DEVICE_TAINT_RULES}:
            self._tainted = None
        super()._deliver(change)

    def _on_change(self, change: Change) -> None:
        if change.kind in {SLICES, DEVICE_TAINT_RULES, CLAIMS} and self._tainted_devices():
            self._evict_all()
        elif change.kind is PODS and _is_evictable(change.record) and self._is_expelled(change.record):
            self._evict(change.record)

    def _is_expelled(self, pod: Record) -> bool:
        tainted = self._tainted_devices()
        entries = pod.document["spec"].get("resourceClaims") or ()
        for entry in entries if tainted else ():
            claim = self._get(CLAIMS, ObjectKey(pod.key.namespace, entry.get("resourceClaimName", "")))
            if claim is not None and _is_reserved_for(claim, pod.uid):
                for result in allocation_results(claim.document):
                    device = DeviceID(result["driver"], result["pool"], result["device"])
                    tolerations = convert.template_tolerations(result.get("tolerations") or [])
                    if untolerated(tainted.get(device, ()), tolerations):
                        return True
        return False

    def _tainted_devices(self) -> dict[DeviceID, tuple[Taint, ...]]:
        if self._tainted is None:
            store = self._context.server.store
            inventory = read_inventory(store.all(SLICES), store.all(DEVICE_TAINT_RULES))
            self._tainted = {
                device.identity: taints
                for devices in inventory.devices.values()
                for device in devices
                if (taints := tuple(_no_execute(device.taints)))
            }
        return self._tainted


def _no_execute(taints: Iterable[Taint]) -> Iterator[Taint]:
    return (taint for taint in taints if taint.effect is TaintEffect.NO_EXECUTE)


def _expelling(node: Record) -> tuple[Taint, ...]:
    return tuple(_no_execute(convert.taints(core.NODES.decode(node.data).spec.taints)))


def _is_evictable(pod: Record) -> bool:
    bound = pod.document["spec"].get("nodeName")
    return bool(bound) and not pod.deleting and pod.document["status"].get("phase") not in FINAL_PHASES


def _is_reserved_for(claim: Record, pod_uid: str) -> bool:
    consumers = (claim.document.get("status") or {}).get("reservedFor") or ()
    return any(consumer["uid"] == pod_uid for consumer in consumers)
