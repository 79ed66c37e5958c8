"""The three types of patches, and the types that each kind accepts."""

from __future__ import annotations

from typing import Protocol

from informers.api import Json, ObjectKey, PatchType
from simulation.apiserver.documents import Document, Record, without_nulls
from simulation.apiserver.dry_run import dry_run_server
from simulation.apiserver.kinds import Kind
from simulation.apiserver.refusals import bad_request
from simulation.apiserver.server import ApiServer
from simulation.embedded.bodies import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, check_types
from simulation.embedded.served import Target
from simulation.embedded.strategic_merge import strategic_merged

_FIXED = ("name", "namespace")


class Write(Protocol):
    """One write, called once, with unknown fields refused or dropped."""

    def __call__(self, *, strict: bool) -> Record:
        """Write and return the stored object. Raises `Refusal`."""


def accepted_patches(kind: Kind) -> tuple[str, ...]:
    """Return the accepted patch media types of a kind. Only built-in kinds have merge keys for lists."""
    return (JSON_PATCH, MERGE_PATCH) if kind.custom else (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH)


def write_of(server: ApiServer, target: Target, media_type: str, patch: Json | list[Json]) -> Write:
    """Return the write that applies a patch."""
    if media_type == STRATEGIC_PATCH and isinstance(patch, dict):
        return _strategic(server, target, patch)
    patch_type = PatchType.JSON if media_type == JSON_PATCH else PatchType.MERGE

    def write(*, strict: bool) -> Record:
        def apply_to(some: ApiServer) -> Record:
            return some.patch(
                target.kind,
                target.name,
                target.namespace,
                patch,
                subresource=target.subresource,
                patch_type=patch_type,
                strict=strict,
            )

        # The types can only be checked after the patch has been applied.
        try:
            left = apply_to(dry_run_server(server)).document
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise bad_request(f"the patched object is not a valid {target.kind.kind}: {error}") from error
        check_types(left, target.kind)
        return apply_to(server)

    return write


def _strategic(server: ApiServer, target: Target, patch: Document) -> Write:
    key = ObjectKey(target.namespace, target.name)

    def change(document: Document) -> None:
        merged: Document = without_nulls(strategic_merged(document, patch))
        check_types(merged, target.kind)
        for name in _FIXED:
            if merged.get("metadata", {}).get(name) != document["metadata"].get(name):
                raise bad_request(f"metadata.{name}: Invalid value: field is immutable")
        document.clear()
        document.update(merged)

    def write(*, strict: bool) -> Record:
        return server.edit(target.kind, key, change, subresource=target.subresource, strict=strict)

    return write
