"""`metadata`: the fields that the server sets, the changes that clients may make, and the generation.

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
    given: Document, *, namespace: str, uid: str, timestamp: str, counts_generation: bool
) -> Document:
    """Return the metadata of a new object, from the metadata of the create request."""
    if given.get("resourceVersion"):
        raise refusals.set_on_create()
    kept = {name: value for name, value in given.items() if name not in _SET_BY_SERVER}
    kept.pop("resourceVersion", None)
    if not kept.get("name") and kept.get("generateName"):
        kept["name"] = f"{kept['generateName'][:_GENERATED_NAME_MAX]}{uid.partition('-')[0][-5:]}"
    if namespace:
        kept["namespace"] = namespace
    kept |= {"uid": uid, "creationTimestamp": timestamp}
    if counts_generation:
        kept["generation"] = 1
    return _without_empty(kept)


def check_version(kind: Kind, old: Record, metadata: Document) -> None:
    """Refuse a stale resource version (409), or a missing one where the kind requires it (422)."""
    version = metadata.get("resourceVersion")
    if version and version != old.version:
        raise refusals.conflict(kind, old.key.name)
    if not version and not kind.unconditional_update:
        error = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
        raise refusals.invalid(kind, old.key.name, [error])


def check_uid(kind: Kind, old: Record, metadata: Document) -> None:
    """Refuse an update that names another UID (409)."""
    uid = metadata.get("uid", old.uid)
    if uid != old.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old.uid}"
        raise refusals.conflict(kind, old.key.name, why)


def carry_over(old: Record, document: Document) -> list[str]:
    """Copy the metadata that only the server sets to the changed object, and return validation errors."""
    metadata: Document = document["metadata"]
    metadata["resourceVersion"] = old.version
    metadata["creationTimestamp"] = old.metadata["creationTimestamp"]
    errors = []
    if metadata.setdefault("uid", old.uid) != old.uid:
        errors.append("metadata.uid: Invalid value: field is immutable")
    if old.deleting and _gains(old.metadata, metadata, "finalizers"):
        text = "no new finalizers can be added if the object is being deleted"
        errors.append(f"metadata.finalizers: Forbidden: {text}")
    if "generation" in old.metadata:
        metadata["generation"] = old.metadata["generation"]
    for field in _SET_ON_DELETION:
        if field in old.metadata:
            # A real server accepts another deletion time for a terminating object, but not its removal.
            metadata.setdefault(field, old.metadata[field])
        elif field in metadata:
            errors.append(f"metadata.{field}: Invalid value: field is immutable")
    document["metadata"] = _without_empty(metadata)
    return errors


def spec_changed(kind: Kind, old: Document, new: Document) -> bool:
    """Whether a change increments the generation: any change except to metadata or a status subresource."""
    aside = ("metadata", "status") if kind.status else ("metadata",)
    return _without(old, aside) != _without(new, aside)


def _without(document: Document, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


def _gains(old: Document, new: Document, field: str) -> bool:
    known = old.get(field) or ()
    return any(item not in known for item in new.get(field) or ())


def _without_empty(metadata: Document) -> Document:
    return {name: value for name, value in metadata.items() if value or name not in _OMITTED_IF_EMPTY}
