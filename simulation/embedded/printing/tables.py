"""Objects in the form that a client accepts: complete, as Table rows, or metadata only.

Source: "Receiving resources as Tables" of the Kubernetes documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from enum import Enum
from typing import Any

import msgspec

from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import Kind
from simulation.embedded.http_refusals import not_acceptable
from simulation.embedded.printing.columns import layout_of

_META = "meta.k8s.io/v1"


class Form(Enum):
    """The form in which objects are sent."""

    OBJECT = "Object"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"


def negotiate(accept: str) -> Form:
    """Return the first accepted form that is supported. Raises `Refusal` (406)."""
    if not accept.strip():
        return Form.OBJECT
    for entry in accept.split(","):
        media_type, *parameters = (part.strip() for part in entry.split(";"))
        if media_type not in {"application/json", "application/*", "*/*"}:
            continue
        given = dict(part.split("=", 1) for part in parameters if "=" in part)
        expected = given.get("as", "").removesuffix("List")
        if not expected:
            return Form.OBJECT
        if (
            given.get("g") == "meta.k8s.io"
            and given.get("v") == "v1"
            and expected in {"Table", Form.METADATA.value}
        ):
            return Form(expected)
    raise not_acceptable(accept)


class Rendering:
    """Renders the objects of one response. `include` is how much of each object a Table row holds."""

    def __init__(self, kind: Kind, form: Form, include: str, now: Callable[[], datetime]) -> None:
        self._kind = kind
        self._form = form
        self._include = include
        self._now = now
        self._columns_sent = False

    def __repr__(self) -> str:
        return f"<Rendering {self._kind} as {self._form.value}>"

    def render_object(self, document: Document, data: bytes | None = None) -> bytes:
        """Render one object; `data` is its JSON if available. A watch sends columns in its first event."""
        match self._form:
            case Form.OBJECT:
                return data if data is not None else msgspec.json.encode(document)
            case Form.TABLE:
                version = document["metadata"].get("resourceVersion", "")
                return msgspec.json.encode(self._table([document], {"resourceVersion": version}))
            case Form.METADATA:
                return msgspec.json.encode(_metadata_of(document))

    def render_list(self, documents: Iterable[Document], metadata: Document, raws: Iterable[bytes]) -> bytes:
        """Render a list; `raws` is the JSON of the same objects."""
        match self._form:
            case Form.OBJECT:
                items = [msgspec.Raw(raw) for raw in raws]
                kind, api_version = f"{self._kind.kind}List", self._kind.api_version
                answer = {"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items}
                return msgspec.json.encode(answer)
            case Form.TABLE:
                return msgspec.json.encode(self._table(documents, metadata))
            case Form.METADATA:
                answer = {"kind": "PartialObjectMetadataList", "apiVersion": _META, "metadata": metadata}
                return msgspec.json.encode({**answer, "items": [_metadata_of(each) for each in documents]})

    def _table(self, documents: Iterable[Document], metadata: Document) -> Document:
        layout = layout_of(self._kind)
        now = self._now()
        rows = [{"cells": layout.cells(each, now), **self._included(each)} for each in documents]
        columns = None if self._columns_sent else layout.columns
        self._columns_sent = True
        return {
            "kind": "Table",
            "apiVersion": _META,
            "metadata": metadata,
            "columnDefinitions": columns,
            "rows": rows,
        }

    def _included(self, document: Document) -> dict[str, Any]:
        match self._include:
            case "None":
                return {}
            case "Object":
                return {"object": document}
            case _:
                return {"object": _metadata_of(document)}


def _metadata_of(document: Document) -> Document:
    return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": document["metadata"]}
