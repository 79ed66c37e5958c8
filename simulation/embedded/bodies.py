"""Request bodies: JSON or YAML, with the types that later code relies on (`simulation.embedded.shapes`)."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml
from aiohttp import web

from informers.api import Json
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import Kind
from simulation.apiserver.refusals import bad_request
from simulation.embedded import shapes
from simulation.embedded.http_refusals import unsupported_media_type

JSON, YAML = "application/json", "application/yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


async def read_object(request: web.Request, kind: Kind) -> Document:
    """Return the object in the body. Raises `Refusal` (400, 415)."""
    document = _decoded(await request.read(), _media_type(request, (JSON, YAML)))
    if not isinstance(document, dict):
        raise bad_request("the body is not an object")
    check_types(document, kind)
    return document


async def read_options_body(request: web.Request) -> Document:
    """Return the options in the body of a delete, empty without a body."""
    data = await request.read()
    options = _decoded(data, _media_type(request, (JSON, YAML))) if data.strip() else {}
    if not isinstance(options, dict):
        raise bad_request("the body is not a DeleteOptions object")
    return options


async def read_patch(request: web.Request, accepted: tuple[str, ...]) -> tuple[str, Json | list[Json]]:
    """Return the media type of a patch, and the patch."""
    media_type = _media_type(request, accepted)
    patch = _decoded(await request.read(), JSON)
    if isinstance(patch, list) is not (media_type == JSON_PATCH) or not isinstance(patch, dict | list):
        raise bad_request(f"error decoding patch: the body is not a {media_type}")
    return media_type, patch


def check_types(document: Document, kind: Kind) -> None:
    """Refuse an object whose fields have other types than its kind defines (400)."""
    try:
        shapes.check(document, kind)
    except msgspec.ValidationError as error:
        raise bad_request(f"the body cannot be handled as a {kind.kind}: {error}") from error


def _media_type(request: web.Request, accepted: tuple[str, ...]) -> str:
    # For some deletes, kubectl sends a body without a content type.
    found = request.content_type
    if found == "application/octet-stream" and "Content-Type" not in request.headers:
        return accepted[0]
    if found not in accepted:
        raise unsupported_media_type(found, accepted)
    return found


def _decoded(data: bytes, media_type: str) -> Any:
    try:
        if media_type == YAML:
            # Through JSON, because YAML has dates, which an object cannot hold.
            return msgspec.json.decode(msgspec.json.encode(yaml.safe_load(data)))
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, yaml.YAMLError, TypeError) as error:
        raise bad_request(f"error decoding the body: {' '.join(str(error).split())}") from error
