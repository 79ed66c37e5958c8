"""The verbs of the API server. Each one is a single step on documents.

`simulation.apiserver.client` adds time and failures for clients; the simulated cluster components call the
verbs directly. Source of the semantics: "API concepts" of the Kubernetes documentation and the generic
registry of `k8s.io/apiserver`. The parity cases compare them with a real server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from informers.api import ObjectKey, PatchType, Preconditions, Selectors
from simulation.apiserver import refusals
from simulation.apiserver.admission.chain import Admission, AdmissionRequest
from simulation.apiserver.documents import Document, Record, as_document, format_time, without_nulls
from simulation.apiserver.kinds import NAMESPACES, PODS, Kind
from simulation.apiserver.listing import Listing, ListPage
from simulation.apiserver.metadata import carry_over, check_uid, check_version, new_metadata, spec_changed
from simulation.apiserver.patches import json_patched, merge_patched
from simulation.apiserver.replicas import Replicas
from simulation.apiserver.store import Change, Store
from simulation.apiserver.strategies import strategy_of

_NO_SELECTORS = Selectors()
_UNCHECKED = Preconditions()
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@dataclass(frozen=True)
class Deletion:
    """The result of a delete: `record` is the terminating object, or its last state if it is `gone`."""

    record: Record
    gone: bool


class ApiServer:
    """One API server. Raises `Refusal` for requests that it refuses."""

    def __init__(
        self,
        *,
        now: Callable[[], datetime],
        new_uid: Callable[[], str],
        namespaces: Iterable[str] = ("default",),
    ) -> None:
        self.store = Store()
        self.replicas = Replicas()
        self.admission = Admission()
        self.is_dry_run = False
        """Whether writes have no effect (`simulation.apiserver.dry_run`)."""
        self._listing = Listing(self.store, self.replicas)
        self._now = now
        self._new_uid = new_uid
        for name in namespaces:
            self.create(NAMESPACES, "", {"metadata": {"name": name}})

    def __repr__(self) -> str:
        return f"<ApiServer {self.store!r}>"

    # Reading.

    def get(self, kind: Kind, name: str, namespace: str = "") -> Record:
        """Return the object. Raises 404 if it does not exist."""
        record = self.store.get(kind, ObjectKey(namespace, name))
        if record is None:
            raise refusals.not_found(kind, name)
        return record

    def list_page(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        selectors: Selectors = _NO_SELECTORS,
        resource_version: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> ListPage:
        """Return one page. Raises 410 for an expired token, 504 for a version that is not reached yet."""
        if continue_token:
            return self._listing.next_page(continue_token, limit)
        return self._listing.first_page(kind, namespace, selectors, resource_version, limit)

    # Writing.

    def create(self, kind: Kind, namespace: str, body: Mapping[str, Any], *, strict: bool = False) -> Record:
        """Create an object.

        Raises 409 if it exists, 404 without the namespace, 403 if that is terminating, 422 or 400 if invalid,
        and what admission answers if it refuses the object.
        """
        document = without_nulls(as_document(body))
        _check_address(kind, document, namespace)
        document["metadata"] = new_metadata(
            document.get("metadata") or {},
            namespace=namespace,
            uid=self._new_uid(),
            timestamp=format_time(self._now()),
            counts_generation=kind.generation,
        )
        name = document["metadata"].get("name", "")
        if kind.namespaced:
            self._check_namespace(kind, name, namespace)
        strategy = strategy_of(kind)
        strategy.default(document, strict=strict)
        request = AdmissionRequest(kind, document, self.is_dry_run)
        if self.admission.change(request):
            strategy.default(document)
        strategy.prepare_for_create(document)
        errors = [*_validate_name(name), *strategy.validate_create(document)]
        if errors:
            raise refusals.invalid(kind, name, errors)
        self.admission.check(request)
        if self.store.get(kind, ObjectKey(namespace, name)) is not None:
            raise refusals.already_exists(kind, name)
        return self.store.put(kind, document)

    def update(
        self,
        kind: Kind,
        name: str,
        namespace: str,
        body: Mapping[str, Any],
        *,
        subresource: str = "",
        strict: bool = False,
    ) -> Record:
        """Replace an object or its status. Unknown fields are dropped, or refused if `strict`."""
        old = self.get(kind, name, namespace)
        document = without_nulls(as_document(body))
        _check_address(kind, document, namespace, name)
        check_uid(kind, old, document["metadata"])
        return self._write(kind, old, document, subresource, strict=strict)

    def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        subresource: str = "",
        patch_type: PatchType = PatchType.MERGE,
        strict: bool = False,
    ) -> Record:
        """Patch an object or its status."""
        old = self.get(kind, name, namespace)
        patch = as_document({"patch": body})["patch"]
        if isinstance(patch, list) is not (patch_type is PatchType.JSON):
            raise refusals.bad_request(f"error decoding patch: the body is not a {patch_type.value}")
        patched = json_patched if patch_type is PatchType.JSON else merge_patched
        document = without_nulls(patched(old.copy(), patch))
        _check_address(kind, document, namespace, name)
        return self._write(kind, old, document, subresource, strict=strict)

    def edit(
        self,
        kind: Kind,
        key: ObjectKey,
        change: Callable[[Document], None],
        *,
        subresource: str = "",
        strict: bool = False,
    ) -> Record:
        """Change an object in one step, like a client that retries after each conflict."""
        old = self.get(kind, key.name, key.namespace)
        document = old.copy()
        change(document)
        return self._write(kind, old, document, subresource, strict=strict)

    def bind(self, key: ObjectKey, uid: str, node: str, conditions: Sequence[Document]) -> Record:
        """Bind a Pod to a node (`binding` subresource).

        Raises 409 if the Pod was replaced, is bound already, or is being deleted.
        """
        old = self.get(PODS, key.name, key.namespace)
        if old.uid != uid or old.deleting or old.document["spec"].get("nodeName"):
            raise refusals.conflict(PODS, key.name, f"pod {key.name} cannot be assigned to a node")
        document = old.copy()
        document["spec"]["nodeName"] = node
        document["status"].pop("nominatedNodeName", None)
        document["status"]["conditions"] = list(conditions)
        return self.store.put(PODS, document)

    def finalize(self, namespace: Record) -> None:
        """Remove the spec finalizer of an empty namespace (the `finalize` subresource)."""
        document = namespace.copy()
        document["spec"]["finalizers"] = []
        if _ends_deletion(document["metadata"]):
            self.store.remove(NAMESPACES, namespace.key)
        elif document != namespace.document:  # a metadata finalizer still blocks its removal
            self.store.put(NAMESPACES, document)

    def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str = "",
        *,
        preconditions: Preconditions = _UNCHECKED,
        grace_seconds: int | None = None,
    ) -> Deletion:
        """Delete an object or start its deletion. Raises 409 if a precondition does not hold."""
        old = self.get(kind, name, namespace)
        _check_preconditions(kind, old, preconditions)
        strategy = strategy_of(kind)
        strategy.check_deletion(name)
        requested = grace_seconds if strategy.graceful else None
        grace = strategy.grace_seconds(old.document) if requested is None else requested
        waits_seconds = old.metadata.get("deletionGracePeriodSeconds", 0) if old.deleting else None
        finalizers = bool(old.metadata.get("finalizers")) or strategy.blocks_removal(old.document)
        if waits_seconds is not None and waits_seconds <= grace and (grace > 0 or finalizers):
            return Deletion(old, gone=False)
        if finalizers or strategy.graceful:
            old = self._mark_deleting(kind, old, grace)
        if finalizers or grace > 0:
            return Deletion(old, gone=False)
        return Deletion(self.store.remove(kind, old.key), gone=True)

    def _check_namespace(self, kind: Kind, name: str, namespace: str) -> None:
        found = self.store.get(NAMESPACES, ObjectKey("", namespace))
        if found is None:
            raise refusals.namespace_not_found(namespace)
        if found.deleting:
            raise refusals.namespace_terminating(kind, name, namespace)

    # Changing existing objects.

    def _write(
        self, kind: Kind, old: Record, document: Document, subresource: str, *, strict: bool = False
    ) -> Record:
        check_version(kind, old, document["metadata"])
        strategy = strategy_of(kind)
        if subresource == "status" and kind.status:
            candidate = document
            document = old.copy()
            document["status"] = candidate.get("status") or {}
            if not kind.custom and not isinstance(document["status"], dict):
                raise refusals.bad_request(f"json: {kind.kind}.status is not an object")
            errors = list(strategy.validate_status_update(old.document, document))
            if not kind.custom and candidate["metadata"].get("uid", old.uid) != old.uid:
                errors.append("metadata.uid: Invalid value: field is immutable")
        elif subresource:
            raise refusals.not_found(kind, old.key.name)
        else:
            if kind.status:
                _keep_status(old, document)
            strategy.keep_immutable_fields(old.document, document)
            errors = carry_over(old, document)
            strategy.default(document, strict=strict)
            errors += [*strategy.validate_update(old.document, document)]
        if errors:
            raise refusals.invalid(kind, old.key.name, errors)
        if kind.generation and spec_changed(kind, old.document, document):
            document["metadata"]["generation"] += 1
        if document == old.document:
            return old
        if _ends_deletion(document["metadata"]) and not strategy.blocks_removal(document):
            self.store.remove(kind, old.key)
            return Record(document)
        return self.store.put(kind, document)

    def _mark_deleting(self, kind: Kind, old: Record, grace_seconds: int) -> Record:
        document = old.copy()
        metadata = document["metadata"]
        metadata["deletionTimestamp"] = format_time(self._now() + timedelta(seconds=grace_seconds))
        metadata["deletionGracePeriodSeconds"] = grace_seconds
        if kind.generation and not old.deleting:
            metadata["generation"] += 1
        strategy_of(kind).begin_deletion(document)
        return self.store.put(kind, document)

    # For tests.

    def documents(self, kind: Kind, namespace: str = "") -> list[Document]:
        """Return copies of all objects of a kind, ordered by key."""
        return [record.copy() for record in self.store.all(kind, namespace)]

    def document(self, kind: Kind, name: str, namespace: str = "") -> Document | None:
        """Return a copy of an object, or `None`."""
        record = self.store.get(kind, ObjectKey(namespace, name))
        return None if record is None else record.copy()

    def history(self, kind: Kind | None = None) -> list[Change]:
        """Return all changes since the last compaction, of one kind or of all."""
        changes = self.store.changes_after(self.store.compacted)
        return [change for change in changes if kind in {None, change.kind}]


def _check_address(kind: Kind, document: Document, namespace: str, name: str = "") -> None:
    """Refuse a body that names a different object than the request."""
    metadata = document.setdefault("metadata", {})
    for field, expected in (("kind", kind.kind), ("apiVersion", kind.api_version)):
        found = document.setdefault(field, expected)
        if found != expected and kind.custom:
            raise refusals.invalid(kind, name, [f"{field}: Invalid value: {found!r}: must be {expected}"])
        if found != expected:
            raise refusals.bad_request(f"{found!r} in the body where {expected} is expected")
    if kind.namespaced and metadata.setdefault("namespace", namespace) != namespace:
        text = "the namespace of the provided object does not match the namespace sent on the request"
        raise refusals.bad_request(text)
    if name and metadata.setdefault("name", name) != name:
        raise refusals.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
        )


def _check_preconditions(kind: Kind, record: Record, expected: Preconditions) -> None:
    for what, requested, found in (
        ("UID", expected.uid, record.uid),
        ("ResourceVersion", expected.resource_version, record.version),
    ):
        if requested is not None and requested != found:
            why = f"{what} in precondition: {requested}, {what} in object meta: {found}"
            raise refusals.conflict(kind, record.key.name, f"Precondition failed: {why}")


def _validate_name(name: str) -> Iterable[str]:
    if not name:
        yield "metadata.name: Required value: name or generateName is required"
    elif not _NAME.fullmatch(name):
        yield f"metadata.name: Invalid value: {name!r}: a lowercase RFC 1123 subdomain is needed"


def _keep_status(old: Record, document: Document) -> None:
    if "status" in old.document:
        document["status"] = old.copy()["status"]
    else:
        document.pop("status", None)


def _ends_deletion(metadata: Document) -> bool:
    deleting = "deletionTimestamp" in metadata
    return deleting and not metadata.get("finalizers") and not metadata.get("deletionGracePeriodSeconds")
