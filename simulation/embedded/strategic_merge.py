"""Strategic merge patches, which kubectl sends for built-in kinds: list items merge by key.

Source: "Update API objects in place using kubectl patch" of the Kubernetes documentation, and the
`patchMergeKey` tags of `k8s.io/api/core/v1`. Custom kinds have none, so servers refuse such a patch for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from simulation.apiserver.refusals import bad_request

_KEYS = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "ports": "containerPort",
    "resourceClaims": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""The merge key of each list. Lists that are not here are replaced."""

_SETS = ("finalizers",)
"""Lists of strings that are merged."""

_DIRECTIVE = "$patch"
_ORDER = "$setElementOrder/"
_DELETE_WORDS = "$deleteFromPrimitiveList/"
_RETAIN = "$retainKeys"


def strategic_merged(target: Any, patch: dict[str, Any]) -> Any:
    """Return `target` with `patch` merged in. Raises `Refusal` (400) for an invalid directive."""
    match patch.get(_DIRECTIVE, "merge"):
        case "merge":
            pass
        case "replace":
            return {key: value for key, value in patch.items() if key != _DIRECTIVE}
        case "delete":
            return {}
        case other:
            raise bad_request(f"error decoding patch: unknown patch type: {other}")
    merged = _retained(target, patch)
    for key, words in _named(patch, _DELETE_WORDS):
        merged[key] = [item for item in merged.get(key) or () if item not in words]
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif not key.startswith("$"):
            merged[key] = _merged_field(key, merged.get(key), value)
    for key, order in _named(patch, _ORDER):
        if key in merged:
            merged[key] = _ordered(merged[key], order, _KEYS.get(key))
    return merged


def _retained(target: Any, patch: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the target that the patch keeps: all, unless it has a directive."""
    known = dict(target) if isinstance(target, dict) else {}
    kept = patch.get(_RETAIN, known)
    return {key: value for key, value in known.items() if key in kept}


def _named(patch: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield the directives that begin with `prefix`, by the field to which they apply."""
    return ((key.removeprefix(prefix), value) for key, value in patch.items() if key.startswith(prefix))


def _merged_field(name: str, current: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return strategic_merged(current, value)
    if isinstance(value, list) and name in _SETS:
        known = list(current or ())
        return [*known, *(item for item in value if item not in known)]
    if isinstance(value, list) and name in _KEYS and all(isinstance(item, dict) for item in value):
        return _merged_items(list(current or ()), value, _KEYS[name])
    return value


def _merged_items(current: list[Any], changes: list[dict[str, Any]], key: str) -> list[Any]:
    if any(change == {_DIRECTIVE: "replace"} for change in changes):
        return [change for change in changes if _DIRECTIVE not in change]
    items = list(current)
    for change in changes:
        if key not in change:
            raise bad_request(
                f"error decoding patch: map: {change} does not contain declared merge key: {key}"
            )
        place = next((i for i, item in enumerate(items) if item.get(key) == change[key]), None)
        if change.get(_DIRECTIVE) == "delete":
            items = [item for item in items if item.get(key) != change[key]]
        elif place is None:
            items.append(strategic_merged({}, change))
        else:
            items[place] = strategic_merged(items[place], change)
    return items


def _ordered(items: list[Any], order: list[Any], key: str | None) -> list[Any]:
    """Return the items in the given order. An unlisted item stays behind the listed ones before it."""
    expected = [item.get(key) if key and isinstance(item, dict) else item for item in order]

    def place(item: Any) -> int:
        found = item.get(key) if key and isinstance(item, dict) else item
        return expected.index(found) if found in expected else len(expected)

    return sorted(items, key=place)
