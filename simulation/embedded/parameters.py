"""Request parameters besides the path: query parameters, and the options in the body of a delete.

All values are validated before the request has an effect. Source: `metav1.ListOptions`, `PatchOptions`,
`DeleteOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from informers.api import Preconditions, Selectors
from simulation.apiserver.refusals import Refusal, bad_request
from simulation.embedded.http_refusals import invalid_option

DRY_RUN = "All"
IGNORE, WARN, STRICT = "Ignore", "Warn", "Strict"
MANAGER_LENGTH = 128
POLICIES = ("Background", "Foreground")
"""The propagation policies. For both, garbage collection deletes the dependents later."""


@dataclass(frozen=True)
class ReadOptions:
    """Options of a get, list or watch."""

    selectors: Selectors
    resource_version: str
    exact: bool
    limit: int
    continue_token: str
    watch: bool
    timeout_seconds: int
    """0 lets the server choose."""
    bookmarks: bool
    initial_events: bool
    include_object: str
    """How much of each object a Table row holds: `None`, `Metadata` or `Object`."""


@dataclass(frozen=True)
class WriteOptions:
    """Options of a create, update or patch. The field manager is validated but not recorded."""

    dry_run: bool
    validation: str


@dataclass(frozen=True)
class DeleteOptions:
    """Options of a delete. `grace_seconds` is None for the object's own grace period."""

    dry_run: bool
    grace_seconds: int | None
    preconditions: Preconditions


def read_options(query: Mapping[str, str]) -> ReadOptions:
    """Parse and validate options. Raises `Refusal` (400, 422)."""
    match = query.get("resourceVersionMatch", "")
    if match not in {"", "Exact", "NotOlderThan"}:
        raise invalid_option("resourceVersionMatch", match, '"Exact", "NotOlderThan"')
    return ReadOptions(
        selectors=Selectors(query.get("labelSelector", ""), query.get("fieldSelector", "")),
        resource_version=query.get("resourceVersion", ""),
        exact=match == "Exact",
        limit=_number(query, "limit"),
        continue_token=query.get("continue", ""),
        watch=_boolean(query, "watch"),
        timeout_seconds=_number(query, "timeoutSeconds"),
        bookmarks=_boolean(query, "allowWatchBookmarks"),
        initial_events=_boolean(query, "sendInitialEvents"),
        include_object=_one_of(query, "includeObject", ("Metadata", "None", "Object")),
    )


def write_options(query: Mapping[str, str]) -> WriteOptions:
    """Parse and validate options. Raises `Refusal` (422)."""
    manager = query.get("fieldManager", "")
    if len(manager) > MANAGER_LENGTH or not manager.isprintable():
        raise invalid_option("fieldManager", manager, f"up to {MANAGER_LENGTH} printable characters")
    return WriteOptions(
        dry_run=_dry_run(query.get("dryRun", "")),
        validation=_one_of(query, "fieldValidation", (WARN, IGNORE, STRICT)),
    )


class _Preconditions(msgspec.Struct, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class _DeleteBody(msgspec.Struct, rename="camel"):
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None
    preconditions: _Preconditions | None = None


def delete_options(query: Mapping[str, str], body: Mapping[str, Any]) -> DeleteOptions:
    """Parse options from the body, or from the query without a body. Raises `Refusal` (400, 422)."""
    given: dict[str, Any] = dict(body) or dict(query)
    if isinstance(given.get("dryRun"), str):
        given["dryRun"] = [given["dryRun"]]
    try:
        # In a query, numbers and booleans are strings.
        options = msgspec.convert(given, _DeleteBody, strict=bool(body))
    except msgspec.ValidationError as error:
        raise bad_request(f"the body cannot be handled as DeleteOptions: {error}") from error
    if options.orphan_dependents or (options.propagation_policy or POLICIES[0]) not in POLICIES:
        raise invalid_option("propagationPolicy", "Orphan", ", ".join(f'"{each}"' for each in POLICIES))
    expected = options.preconditions or _Preconditions()
    return DeleteOptions(
        dry_run=_dry_run(",".join(options.dry_run or ())),
        grace_seconds=None if options.grace_period_seconds is None else max(0, options.grace_period_seconds),
        preconditions=Preconditions(expected.uid, expected.resource_version),
    )


def _dry_run(value: str) -> bool:
    if value not in {"", DRY_RUN}:
        raise invalid_option("dryRun", value, f'"{DRY_RUN}"')
    return bool(value)


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "") or "0"
    if not text.isdecimal():
        raise _invalid_parameter(name, text, "a whole number")
    return int(text)


def _boolean(query: Mapping[str, str], name: str) -> bool:
    text = query.get(name, "false").lower()
    if text not in {"", "1", "true", "0", "false"}:
        raise _invalid_parameter(name, text, "true or false")
    return text in {"", "1", "true"}


def _one_of(query: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    """Return the value of a parameter, by default the first allowed one."""
    value = query.get(name, "") or allowed[0]
    if value not in allowed:
        raise invalid_option(name, value, ", ".join(f'"{each}"' for each in allowed))
    return value


def _invalid_parameter(name: str, text: str, allowed: str) -> Refusal:
    return bad_request(f'{name}: Invalid value: "{text}": {allowed} is expected')
