"""Discovery: groups, versions and kinds, in the unaggregated and the aggregated form.

Source: "API discovery" of the Kubernetes documentation; `apidiscovery.k8s.io/v2`.
"""

from __future__ import annotations

from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import PODS, Kind
from simulation.embedded.served import EVICTION, SERVED, names_of, verbs_of

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
STATUS_VERBS = ["get", "patch", "update"]


def groups() -> list[str]:
    """Return the named groups, in kubectl's order of preference."""
    return list(dict.fromkeys(kind.group for kind in SERVED if kind.group))


def legacy_versions(address: str) -> Document:
    """Return `/api`."""
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def group_list() -> Document:
    """Return `/apis`."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(group) for group in groups()]}


def group(name: str) -> Document | None:
    """Return `/apis/<group>`."""
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name)} if name in groups() else None


def resource_list(group_name: str, version: str) -> Document | None:
    """Return `/api/v1` or `/apis/<group>/<version>`."""
    kinds = [kind for kind in SERVED if (kind.group, kind.version) == (group_name, version)]
    if not kinds:
        return None
    resources = [item for kind in kinds for item in _resources(kind)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": kinds[0].api_version,
        "resources": resources,
    }


def aggregated(*, named: bool) -> Document:
    """Return all of `/apis` if `named`, else all of `/api`, as one document."""
    items = [_aggregated_group(name) for name in (groups() if named else [""])]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _group(name: str) -> Document:
    version = next(kind.version for kind in SERVED if kind.group == name)
    described = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [described], "preferredVersion": described}


def _resources(kind: Kind) -> list[Document]:
    names = names_of(kind)
    main: Document = {
        "name": kind.plural,
        "singularName": names.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(verbs_of(kind)),
    }
    if names.short:
        main["shortNames"] = list(names.short)
    if names.categories:
        main["categories"] = list(names.categories)
    below = {"singularName": "", "namespaced": kind.namespaced}
    found = [main]
    if kind.status:
        found.append({"name": f"{kind.plural}/status", **below, "kind": kind.kind, "verbs": STATUS_VERBS})
    if kind is PODS:
        eviction = {"group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"]}
        found.append({"name": f"{kind.plural}/{EVICTION}", **below, **eviction})
    return found


def _aggregated_group(name: str) -> Document:
    kinds = [kind for kind in SERVED if kind.group == name]
    resources = [_aggregated_resource(kind) for kind in kinds]
    version = {"version": kinds[0].version, "resources": resources, "freshness": "Current"}
    return {"metadata": {"name": name} if name else {}, "versions": [version]}


def _aggregated_resource(kind: Kind) -> Document:
    main, *below = _resources(kind)
    return {
        "resource": main["name"],
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": main["singularName"],
        "verbs": main["verbs"],
        **{name: main[name] for name in ("shortNames", "categories") if name in main},
        **({"subresources": [_aggregated_subresource(kind, item) for item in below]} if below else {}),
    }


def _aggregated_subresource(kind: Kind, item: Document) -> Document:
    return {
        "subresource": item["name"].partition("/")[2],
        "responseKind": {
            "group": item.get("group", kind.group),
            "version": item.get("version", kind.version),
            "kind": item["kind"],
        },
        "verbs": item["verbs"],
    }
