"""`metadata`: what the server sets, what clients may change, and when a generation begins.

Source: `BeforeCreate`, `BeforeUpdate` and `ValidateObjectMetaAccessorUpdate` of the Kubernetes API machinery.
"""

from __future__ import annotations

from typing import Any

from simulation.apiserver import refusals
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import Kind

_OMITTED_IF_EMPTY = ("labels", "annotations", "finalizers", "ownerReferences")
_SET_ON_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds")
_SET_BY_SERVER = ("uid", "creationTimestamp", "generation", "selfLink", "managedFields", *_SET_ON_DELETION)
_GENERATED_NAME_MAX = 58


def new_metadata(
    given: Document, *, namespace: str, uid: str, moment: str, counts_generation: bool
) -> Document:
    """The metadata of a new object, from what its creator gave."""
    if given.get("resourceVersion"):
        raise refusals.set_on_create()
    kept = {name: value for name, value in given.items() if name not in _SET_BY_SERVER}
    kept.pop("resourceVersion", None)
    if not kept.get("name") and kept.get("generateName"):
        kept["name"] = f"{kept['generateName'][:_GENERATED_NAME_MAX]}{uid.partition('-')[0][-5:]}"
    if namespace:
        kept["namespace"] = namespace
    kept |= {"uid": uid, "creationTimestamp": moment}
    if counts_generation:
        kept["generation"] = 1
    return _without_empty(kept)


def check_version(kind: Kind, old: Record, metadata: Document) -> None:
    """Refuse what was decided from another version: 409; 422 without a version where a kind wants one."""
    version = metadata.get("resourceVersion")
    if version and version != old.version:
        raise refusals.conflict(kind, old.key.name)
    if not version and not kind.unconditional_update:
        fault = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
        raise refusals.invalid(kind, old.key.name, [fault])


def check_uid(kind: Kind, old: Record, metadata: Document) -> None:
    """Refuse the replacement of another object than that of the UID: 409."""
    uid = metadata.get("uid", old.uid)
    if uid != old.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old.uid}"
        raise refusals.conflict(kind, old.key.name, why)


def carry_over(old: Record, document: Document) -> list[str]:
    """Complete the metadata of a changed object with what only the server sets; returns what is wrong."""
    metadata: Document = document["metadata"]
    metadata["resourceVersion"] = old.version
    metadata["creationTimestamp"] = old.metadata["creationTimestamp"]
    faults = []
    if metadata.setdefault("uid", old.uid) != old.uid:
        faults.append("metadata.uid: Invalid value: field is immutable")
    if old.deleting and _gains(old.metadata, metadata, "finalizers"):
        text = "no new finalizers can be added if the object is being deleted"
        faults.append(f"metadata.finalizers: Forbidden: {text}")
    if "generation" in old.metadata:
        metadata["generation"] = old.metadata["generation"]
    for field in _SET_ON_DELETION:
        if field in old.metadata:
            # A real server takes another time for one that is ending, but not its withdrawal.
            metadata.setdefault(field, old.metadata[field])
        elif field in metadata:
            faults.append(f"metadata.{field}: Invalid value: field is immutable")
    document["metadata"] = _without_empty(metadata)
    return faults


def spec_changed(kind: Kind, old: Document, new: Document) -> bool:
    """Whether anything changed that a generation stands for: all but metadata and a separate status."""
    aside = ("metadata", "status") if kind.status else ("metadata",)
    return _without(old, aside) != _without(new, aside)


def _without(document: Document, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


def _gains(old: Document, new: Document, field: str) -> bool:
    known = old.get(field) or ()
    return any(item not in known for item in new.get(field) or ())


def _without_empty(metadata: Document) -> Document:
    return {name: value for name, value in metadata.items() if value or name not in _OMITTED_IF_EMPTY}
