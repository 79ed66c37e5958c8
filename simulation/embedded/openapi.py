"""The parts of OpenAPI v3 that kubectl reads.

`kubectl create` and `apply` check whether the server validates fields, which it does. `kubectl explain` reads
schemas: those of the custom kinds are served, those of the built-in kinds are empty.

Source: "OpenAPI v3" of the Kubernetes documentation. Version 2 is not served.
"""

from __future__ import annotations

import hashlib

import msgspec

from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import Kind
from simulation.embedded.served import SERVED, base_path, definition

INDEX = "/openapi/v3"

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_QUERY = ("dryRun", "fieldManager", "fieldValidation")
_VERBS = {"get": "get", "put": "update", "patch": "patch", "delete": "delete"}


def index() -> Document:
    """Return the URL of the document of each group and version, with a digest for client caches."""
    paths = {}
    for base in dict.fromkeys(base_path(kind) for kind in SERVED):
        digest = hashlib.sha256(msgspec.json.encode(document(base))).hexdigest().upper()
        paths[base.removeprefix("/")] = {"serverRelativeURL": f"{INDEX}{base}?hash={digest}"}
    return {"paths": paths}


def document(base: str) -> Document | None:
    """Return the document of one group and version, or `None` if it is not served."""
    kinds = [kind for kind in SERVED if base_path(kind) == base]
    if not kinds:
        return None
    paths: Document = {}
    schemas: Document = {_META: {"description": "Standard metadata of objects.", "type": "object"}}
    for kind in kinds:
        paths |= _paths(kind)
        schemas[_schema_name(kind)] = _schema(kind)
    info = {"title": "Embedded cluster", "version": "v0.1.0"}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _paths(kind: Kind) -> Document:
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    collection = f"{base_path(kind)}{scope}/{kind.plural}"
    return {
        collection: {"get": _operation(kind, "list"), "post": _operation(kind, "post")},
        f"{collection}/{{name}}": {method: _operation(kind, verb) for method, verb in _VERBS.items()},
    }


def _operation(kind: Kind, action: str) -> Document:
    writes = action not in {"get", "list"}
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in _QUERY]
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{_schema_name(kind)}"}}}
    return {
        "operationId": f"{action}{kind.kind}{kind.version}{kind.group.replace('.', '')}",
        "parameters": parameters if writes else [],
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(kind),
    }


def _schema(kind: Kind) -> Document:
    identity: Document = {
        "apiVersion": {"description": f"Always {kind.api_version}.", "type": "string"},
        "kind": {"description": f"Always {kind.kind}.", "type": "string"},
    }
    schema: Document = {"type": "object", "properties": identity}
    if kind.custom:
        schema = dict(definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    metadata = {
        "description": "Standard metadata of objects.",
        "allOf": [{"$ref": f"#/components/schemas/{_META}"}],
    }
    schema["properties"] = {**schema["properties"], "metadata": metadata}
    return {**schema, "x-kubernetes-group-version-kind": [_gvk(kind)]}


def _gvk(kind: Kind) -> Document:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _schema_name(kind: Kind) -> str:
    reversed_group = ".".join(reversed((kind.group or "core").split(".")))
    return f"{reversed_group}.{kind.version}.{kind.kind}"
