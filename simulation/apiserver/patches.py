"""JSON merge patch (RFC 7386) and JSON patch (RFC 6902), as far as API servers support them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simulation.apiserver.documents import Document
from simulation.apiserver.refusals import bad_request, unprocessable


def merge_patched(target: Any, patch: Any) -> Any:
    """Return `target` with `patch` merged in: null deletes, objects merge, other values replace."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patched(merged.get(key), value)
    return merged


def json_patched(target: Document, operations: Sequence[Any]) -> Document:
    """Apply all operations to `target` in place and return it.

    Raises:
        Refusal: 400 for an invalid patch; 422 for an operation that fails, such as a failed `test`.
    """
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise bad_request("error decoding patch: an operation needs a path")
        _apply(target, operation)
    return target


def _apply(target: Document, operation: Document) -> None:
    name, path = operation.get("op"), operation["path"]
    parent, last = _locate(target, path)
    match name:
        case "test":
            found = parent.get(last) if isinstance(parent, dict) else _read(parent, last, path)
            if found != operation.get("value"):
                raise unprocessable(f"testing value {path} failed")
        case "add":
            _add(parent, last, operation.get("value"), path)
        case "replace":
            if isinstance(parent, list):
                _read(parent, last, path)
            # The patch library of real servers adds an absent member here, unlike the RFC.
            parent[_index(parent, last)] = operation.get("value")
        case "remove":
            _read(parent, last, path)
            del parent[_index(parent, last)]
        case _:
            raise unprocessable(f"unexpected kind: {name}")


def _locate(target: Any, path: str) -> tuple[Any, str]:
    """Return the container of the value that a JSON pointer (RFC 6901) names, and its key there."""
    if not path.startswith("/"):
        raise bad_request(f"error decoding patch: {path!r} is not a JSON pointer")
    *parents, last = (part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/"))
    for part in parents:
        target = _read(target, part, path)
    if not isinstance(target, dict | list):
        raise unprocessable(f"{path}: the parent is not an object or list")
    return target, last


def _read(parent: Any, key: str, path: str) -> Any:
    try:
        return parent[_index(parent, key)]
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise unprocessable(f"{path}: no such member") from error


def _add(parent: Any, key: str, value: Any, path: str) -> None:
    if isinstance(parent, dict):
        parent[key] = value
        return
    index = len(parent) if key == "-" else int(key) if key.isdecimal() else -1
    if not 0 <= index <= len(parent):
        raise unprocessable(f"{path}: index out of bounds")
    parent.insert(index, value)


def _index(parent: Any, key: str) -> Any:
    return int(key) if isinstance(parent, list) else key
