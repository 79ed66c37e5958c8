"""The verbs on objects: they map HTTP requests to the in-memory server, and its results to response bytes.

Every write is atomic: after the body is read, nothing is awaited until the object is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus

import msgspec
from aiohttp import web

from simulation.apiserver.documents import Document, Record
from simulation.apiserver.dry_run import dry_run_server
from simulation.apiserver.kinds import EVENTS, NAMESPACES, WORKLOADS
from simulation.apiserver.refusals import Refusal, bad_request, expired, not_found
from simulation.apiserver.selectors import compile_selectors
from simulation.apiserver.server import ApiServer, Deletion
from simulation.embedded.admission import warnings
from simulation.embedded.bodies import JSON, read_object, read_options_body, read_patch
from simulation.embedded.http_refusals import method_not_allowed
from simulation.embedded.parameters import (
    IGNORE,
    WARN,
    DeleteOptions,
    ReadOptions,
    WriteOptions,
    delete_options,
    read_options,
    write_options,
)
from simulation.embedded.patching import Write, accepted_patches, write_of
from simulation.embedded.printing.tables import Rendering, negotiate
from simulation.embedded.served import CORE_EVENTS, EVICTION, STATUS, Target, as_core_event, verbs_of

_UNKNOWN_FIELDS = "strict decoding error: "


class ObjectHandler:
    """Handles all requests for objects except watches."""

    def __init__(self, server: ApiServer, now: Callable[[], datetime]) -> None:
        self._server = server
        self._now = now

    def __repr__(self) -> str:
        return f"<ObjectHandler {self._server!r}>"

    async def handle(self, request: web.Request, target: Target) -> web.Response:
        """Handle one request. Raises `Refusal`."""
        if target.subresource == STATUS and not target.kind.status:
            raise not_found(target.kind, target.name)
        verb = verb_of(request, target)
        all_namespaces = target.kind.namespaced and not target.namespace
        allowed = (*verbs_of(target.kind), "evict")
        if verb not in allowed or (all_namespaces and verb != "list"):
            raise method_not_allowed(request.method, str(target.kind))
        match verb:
            case "get":
                return self._object_response(
                    request, target, self._get(target), options=read_options(request.query)
                )
            case "list":
                return self._list(request, target)
            case "create":
                return await self._create(request, target)
            case "evict":
                return await self._evict(request, target)
            case "update":
                return await self._update(request, target)
            case "patch":
                return await self._patch(request, target)
            case "delete":
                return await self._delete(request, target)
            case _:
                return await self._delete_collection(request, target)

    # Reading.

    def _get(self, target: Target) -> Record:
        if target.kind is CORE_EVENTS:
            record = self._server.get(EVENTS, target.name, target.namespace)
            return Record(as_core_event(record.document))
        return self._server.get(target.kind, target.name, target.namespace)

    def _list(self, request: web.Request, target: Target) -> web.Response:
        options = read_options(request.query)
        records, metadata = self.page(target, options)
        rendering = self.rendering(request, target, options)
        body = rendering.render_list(
            (record.document for record in records), metadata, (record.data for record in records)
        )
        return json_response(body)

    def page(self, target: Target, options: ReadOptions) -> tuple[list[Record], Document]:
        """Return one page of a list, and the metadata of the list."""
        kind = EVENTS if target.kind is CORE_EVENTS else target.kind
        revision = str(self._server.store.revision)
        if options.exact and options.resource_version not in {"", "0", revision}:
            raise expired(f"The resourceVersion for the provided list is too old: {options.resource_version}")
        if target.kind is CORE_EVENTS:
            matches = compile_selectors(CORE_EVENTS, options.selectors)
            found = (as_core_event(each.document) for each in self._server.store.all(kind, target.namespace))
            return [Record(each) for each in found if matches(each)], {"resourceVersion": revision}
        page = self._server.list_page(
            kind,
            target.namespace,
            selectors=options.selectors,
            resource_version=options.resource_version,
            limit=options.limit,
            continue_token=options.continue_token,
        )
        metadata = {"resourceVersion": page.resource_version}
        if page.continue_token:
            metadata["continue"] = page.continue_token
        return list(page.records), metadata

    # Writing.

    async def _create(self, request: web.Request, target: Target) -> web.Response:
        options = write_options(request.query)
        body = await read_object(request, target.kind)
        server = self._server_for(dry_run=options.dry_run)

        def create(*, strict: bool) -> Record:
            return server.create(target.kind, target.namespace, body, strict=strict)

        return self._apply_write(request, target, options, create, HTTPStatus.CREATED)

    async def _update(self, request: web.Request, target: Target) -> web.Response:
        options = write_options(request.query)
        body = await read_object(request, target.kind)
        server = self._server_for(dry_run=options.dry_run)

        def update(*, strict: bool) -> Record:
            return server.update(
                target.kind,
                target.name,
                target.namespace,
                body,
                subresource=target.subresource,
                strict=strict,
            )

        return self._apply_write(request, target, options, update)

    async def _patch(self, request: web.Request, target: Target) -> web.Response:
        options = write_options(request.query)
        media_type, patch = await read_patch(request, accepted_patches(target.kind))
        server = self._server_for(dry_run=options.dry_run)
        return self._apply_write(request, target, options, write_of(server, target, media_type, patch))

    def _apply_write(
        self,
        request: web.Request,
        target: Target,
        options: WriteOptions,
        write: Write,
        status: HTTPStatus = HTTPStatus.OK,
    ) -> web.Response:
        """Apply a write. Unknown fields are refused, dropped with a warning, or dropped."""
        warning = ""
        try:
            record = write(strict=options.validation != IGNORE)
        except Refusal as refusal:
            warning = refusal.message.partition(_UNKNOWN_FIELDS)[2]
            if options.validation != WARN or not warning:
                raise
            record = write(strict=False)
        response = self._object_response(request, target, record, status)
        listed = [warning] if warning else []
        if target.kind is WORKLOADS and status == HTTPStatus.CREATED:
            listed += warnings(record.document, self._server.get(NAMESPACES, target.namespace).document)
        for text in listed:
            quoted = text.replace("\\", "\\\\").replace('"', '\\"')
            response.headers.add("Warning", f'299 - "{quoted}"')
        return response

    # Deleting.

    async def _evict(self, request: web.Request, target: Target) -> web.Response:
        """Delete the Pod. There are no disruption budgets here."""
        body = await read_object(request, target.kind)
        given = body.get("deleteOptions") or {}
        if not isinstance(given, dict):
            raise bad_request("deleteOptions is not an object")
        options = delete_options({}, given)
        self._remove(target, options)
        return json_response(_success({}), HTTPStatus.CREATED)

    async def _delete(self, request: web.Request, target: Target) -> web.Response:
        options = delete_options(request.query, await read_options_body(request))
        done = self._remove(target, options)
        if done.gone and not target.kind.returns_deleted:
            details = {"name": target.name, "kind": target.kind.plural, "uid": done.record.uid}
            group = {"group": target.kind.group} if target.kind.group else {}
            return json_response(_success({"details": {**group, **details}}))
        return self._object_response(request, target, done.record)

    async def _delete_collection(self, request: web.Request, target: Target) -> web.Response:
        options = delete_options(request.query, await read_options_body(request))
        reading = read_options(request.query)
        chosen, metadata = self.page(target, reading)
        removed = [
            self._remove(Target(target.kind, record.key.namespace, record.key.name), options).record
            for record in chosen
        ]
        rendering = self.rendering(request, target, reading)
        raws = (record.data for record in removed)
        return json_response(rendering.render_list((record.document for record in removed), metadata, raws))

    def _remove(self, target: Target, options: DeleteOptions) -> Deletion:
        return self._server_for(dry_run=options.dry_run).delete(
            target.kind,
            target.name,
            target.namespace,
            preconditions=options.preconditions,
            grace_seconds=options.grace_seconds,
        )

    # Shared helpers.

    def _server_for(self, *, dry_run: bool) -> ApiServer:
        return dry_run_server(self._server) if dry_run else self._server

    def rendering(self, request: web.Request, target: Target, options: ReadOptions) -> Rendering:
        """Return how to render objects of that kind for the client."""
        form = negotiate(request.headers.get("Accept", ""))
        return Rendering(target.kind, form, options.include_object, self._now)

    def _object_response(
        self,
        request: web.Request,
        target: Target,
        record: Record,
        status: HTTPStatus = HTTPStatus.OK,
        *,
        options: ReadOptions | None = None,
    ) -> web.Response:
        rendering = self.rendering(request, target, options or read_options({}))
        return json_response(rendering.render_object(record.document, record.data), status)


def verb_of(request: web.Request, target: Target) -> str:
    """Return the RBAC verb of a request, or `evict` for an eviction. Raises `Refusal` (405)."""
    match request.method, bool(target.name):
        case (("GET" | "HEAD"), True):
            verb = "get"
        case (("GET" | "HEAD"), False):
            verb = "list"
        case "POST", False:
            verb = "create"
        case "POST", True if target.subresource == EVICTION:
            return "evict"
        case "PUT", True:
            verb = "update"
        case "PATCH", True:
            verb = "patch"
        case "DELETE", True if not target.subresource:
            verb = "delete"
        case "DELETE", False:
            verb = "deletecollection"
        case _:
            raise method_not_allowed(request.method, request.path)
    if target.subresource == EVICTION:
        raise method_not_allowed(request.method, request.path)
    return verb


def json_response(
    body: bytes | Document, status: int = HTTPStatus.OK, *, content_type: str = JSON
) -> web.Response:
    """Return a JSON response."""
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return web.Response(body=data, status=status, headers={"Content-Type": content_type})


def _success(more: Document) -> Document:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", **more}
